"""Rewards: partial credit, and a bonus for speed that only correct candidates get; the best are selected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.config import Config, ConfigError, Goal, RewardConfig, VerifierConfig
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.recipe.advantages import select
from tritonrl.core.recipe.extensions import CellSpec, RewardSpec
from tritonrl.core.recipe.reward import combine, goal_of, performance_bonus, reward_of
from tritonrl.core.verdict import StageResult, Verdict

rewards = st.lists(st.sampled_from((0.0, 0.3, 0.5, 0.7, 0.85, 1.0)), max_size=12)
CONFIG = RewardConfig()
PARTIAL = RewardSpec(partial_credit=True)
speedups = st.one_of(st.none(), st.floats(0.0, 1e300))


def verdict(passed: tuple[bool, ...], speedup: float | None = None, estimated: float | None = None) -> Verdict:
    """A verdict whose stages passed or failed as given, in order."""
    outcomes = (Outcome.PASSED if ok else Outcome.RUN_FAILED for ok in (*passed, True)[:5])
    stages = tuple(StageResult(stage=stage, outcome=outcome) for stage, outcome in zip(Stage, outcomes, strict=True))
    return Verdict(task_id="t", candidate="c", backend="b", stages=stages, speedup=speedup, estimated_speedup=estimated)


verdicts = st.builds(verdict, st.tuples(*[st.booleans()] * 4), speedups, speedups)


@pytest.mark.parametrize(
    ("num_passed", "staged", "unstaged"), [(0, 0.0, 0.0), (1, 0.0, 0.0), (2, 0.3, 0.0), (3, 0.5, 0.0), (4, 0.7, 0.7)]
)
def test_credit_follows_the_funnel(num_passed: int, staged: float, unstaged: float) -> None:
    """Staged rewards rise with the stages passed; unstaged ones are all or nothing."""
    passed = tuple(place < num_passed for place in range(4))
    assert combine(verdict(passed, 100.0), PARTIAL, CONFIG).correctness == staged
    assert combine(verdict(passed, 100.0), RewardSpec(), CONFIG).correctness == unstaged
    assert (combine(verdict(passed, 100.0), PARTIAL, CONFIG).performance > 0) == (num_passed == 4)


@given(verdicts)
def test_staged_is_never_below_unstaged(given_verdict: Verdict) -> None:
    """Partial credit only adds, and both rewards lie in [0, 1]."""
    staged, unstaged = combine(given_verdict, PARTIAL, CONFIG).total, combine(given_verdict, RewardSpec(), CONFIG).total
    assert 0.0 <= unstaged <= staged <= 1.0
    assert not given_verdict.correct or staged == unstaged


@given(st.floats(0.0, 1e300), st.floats(0.0, 1e300), st.floats(0.01, 10.0), st.floats(1.001, 100.0))
def test_the_bonus_is_monotone_and_clipped(one: float, other: float, floor: float, ratio: float) -> None:
    """Faster is never worth less, and the bonus stays in [0, 0.3]."""
    config = RewardConfig(speedup_floor=floor, speedup_cap=floor * ratio)
    low, high = sorted((one, other))
    assert 0.0 <= performance_bonus(low, config) <= performance_bonus(high, config) <= 0.3
    assert performance_bonus(floor, config) == 0.0
    assert performance_bonus(floor * ratio, config) == 0.3


def test_each_doubling_is_worth_a_tenth_by_default() -> None:
    """The default bonus is 0.1 at parity, 0.2 at twice and 0.3 at four times the reference's speed."""
    assert [performance_bonus(s, CONFIG) for s in (1.0, 2.0, 4.0)] == pytest.approx([0.1, 0.2, 0.3])


def test_a_measurement_counts_before_an_estimate() -> None:
    """The simulated timing's estimate is used only where nothing was measured."""
    passed = (True,) * 4
    assert combine(verdict(passed, 1.0, 4.0), PARTIAL, CONFIG).performance == pytest.approx(0.1)
    assert combine(verdict(passed, None, 4.0), PARTIAL, CONFIG).performance == 0.3
    assert combine(verdict(passed), PARTIAL, CONFIG).performance == 0.0


RIGHT, WRONG = (True,) * 4, (True, True, True, False)
SPEED = RewardConfig(goal="speed", speedup_floor=0.125, speedup_cap=8.0)
CELLS = st.sampled_from([CellSpec.parse(name) for name in ("none", "s", "msct")])


@given(verdicts, CELLS)
def test_correctness_alone_is_one_value(given_verdict: Verdict, cell: CellSpec) -> None:
    """With that goal neither speed nor progress earns anything, in any cell."""
    total = reward_of(given_verdict, cell, CONFIG, "correctness").total
    assert total == (0.7 if given_verdict.correct else 0.0)


@given(st.floats(0.0, 1e300), st.floats(0.0, 1e300), CELLS)
def test_speed_orders_what_is_right(one: float, other: float, cell: CellSpec) -> None:
    """With the goal of speed a faster right kernel is never worth less, and each more than any wrong one."""
    low, high = (reward_of(verdict(RIGHT, s), cell, SPEED, "speed").total for s in sorted((one, other)))
    assert 0.5 <= low <= high <= 1.0
    assert reward_of(verdict(WRONG, high), cell, SPEED, "speed").total == 0.0


@given(st.floats(0.125, 4.0), st.floats(1.0, 2.0))
def test_speed_is_a_ratio(speedup: float, ratio: float) -> None:
    """Between floor and cap, so many times faster is worth the same from anywhere, the error of a timing little."""

    def total(s: float) -> float:
        return reward_of(verdict(RIGHT, s), CellSpec.parse("none"), SPEED, "speed").total

    assert total(speedup * ratio) - total(speedup) == pytest.approx(total(ratio) - total(1.0), abs=1e-9)
    assert total(1.01) - total(1.0) < 0.002


def test_speed_comes_after_correctness() -> None:
    """The first rounds of that goal are those of correctness; other goals are the same in all rounds."""
    config = RewardConfig(goal="speed", speed_after=2)
    assert [goal_of(config, number) for number in range(4)] == ["correctness", "correctness", "speed", "speed"]
    goals: tuple[Goal, ...] = ("graded", "correctness")
    for goal in goals:
        assert {goal_of(RewardConfig(goal=goal, speed_after=2), number) for number in range(4)} == {goal}


def test_speed_needs_a_timing() -> None:
    """A configuration that would reward a speed that nobody measures is refused."""
    with pytest.raises(ConfigError, match=r"reward\.goal: speed needs"):
        Config(reward=RewardConfig(goal="speed"))
    assert Config(reward=RewardConfig(goal="speed"), verifier=VerifierConfig(timing="simulated")).rl.timed


@given(rewards, st.integers(0, 12))
def test_the_best_are_chosen_and_never_a_zero(values: list[float], keep: int) -> None:
    """As many as asked for where there are, best first, and nothing left out beats what was chosen."""
    chosen = select(values, keep)
    positive = [index for index, value in enumerate(values) if value > 0]
    assert len(chosen) == min(keep, len(positive)) == len(set(chosen))
    assert [values[i] for i in chosen] == sorted((values[i] for i in positive), reverse=True)[:keep]


@given(st.lists(st.tuples(st.sampled_from((0.0, 0.3, 0.7)), st.sampled_from("abc")), max_size=10), st.integers(0, 5))
def test_a_source_is_chosen_once(candidates: list[tuple[float, str]], keep: int) -> None:
    """Duplicates count once, and do not take the place of another source."""
    values, sources = [value for value, _ in candidates], [source for _, source in candidates]
    chosen = select(values, keep, sources)
    distinct = {source for value, source in candidates if value > 0}
    assert len(chosen) == len({sources[i] for i in chosen}) == min(keep, len(distinct))


def test_ties_go_to_the_lowest_index() -> None:
    """Among equals the earlier sample is chosen."""
    assert select([0.3, 0.7, 0.7, 0.3, 0.7], 2) == (1, 2)
    assert select([0.7, 0.7, 0.5], 2, ["a", "a", "b"]) == (0, 2)


def test_wrong_arguments_are_refused() -> None:
    """A negative count or unequal lengths are programming errors."""
    with pytest.raises(ValueError, match="keep"):
        select([1.0], -1)
    with pytest.raises(ValueError, match="sources"):
        select([1.0], 1, [])
