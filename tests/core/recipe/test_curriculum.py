"""The curriculum's share of Level 2 tasks, as a state machine and as slots of a round."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tritonrl.core.config import CurriculumConfig, Schedule
from tritonrl.core.recipe.curriculum import (
    advance,
    count_successes,
    draw_families,
    draw_levels,
    start,
    weigh_families,
)

CONFIG = CurriculumConfig()


class CurriculumMachine(RuleBasedStateMachine):
    """Any sequence of accuracies keeps the share lawful."""

    @initialize(
        schedule=st.sampled_from(("step", "accuracy")),
        adaptive=st.booleans(),
        threshold=st.floats(0.0, 1.0),
        window=st.integers(1, 6),
    )
    def begin(self, schedule: Schedule, adaptive: bool, threshold: float, window: int) -> None:
        """Choose a configuration."""
        self.config = CurriculumConfig(schedule=schedule, threshold=threshold, window=window)
        self.adaptive = adaptive
        self.state = start(self.config, adaptive)

    @rule(accuracy=st.floats(0.0, 1.0))
    def play_round(self, accuracy: float) -> None:
        """A round with Level 1 tasks."""
        before = self.state
        self.state = advance(before, accuracy, self.config, self.adaptive)
        windowed = self.state.windowed_accuracy
        assert windowed is not None
        if self.adaptive and self.config.schedule == "step":
            assert self.state.level2_share >= before.level2_share
            if windowed <= self.config.threshold:
                assert self.state.level2_share == before.level2_share

    @rule()
    def play_round_without_level1(self) -> None:
        """A round without Level 1 tasks changes nothing."""
        assert advance(self.state, None, self.config, self.adaptive) == self.state

    @invariant()
    def share_is_lawful(self) -> None:
        """The share stays within its bounds, and the window within its length."""
        if self.adaptive:
            assert self.config.start_share <= self.state.level2_share <= self.config.end_share
        else:
            assert self.state.level2_share == self.config.fixed_share
        assert len(self.state.level1_accuracies) <= self.config.window


TestCurriculumMachine = CurriculumMachine.TestCase


def test_the_step_schedule_reaches_the_end_in_eight_steps() -> None:
    """From 0.1 by 0.05 to 0.5, exactly, with a first step after the first good round."""
    state, shares = start(CONFIG, True), []
    for _ in range(10):
        state = advance(state, 0.8, CONFIG, True)
        shares.append(state.level2_share)
    assert shares == [0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.5, 0.5]


def test_accuracy_at_the_threshold_does_not_pass_it() -> None:
    """The threshold has to be exceeded, by the windowed mean and not by one round."""
    assert advance(start(CONFIG, True), 0.4, CONFIG, True).level2_share == 0.1
    state = advance(advance(start(CONFIG, True), 0.0, CONFIG, True), 0.7, CONFIG, True)
    assert state.level2_share == 0.1


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_the_accuracy_schedule_rises_with_accuracy(one: float, other: float) -> None:
    """A more accurate policy never gets a smaller share, and the ends are exact."""
    config = CurriculumConfig(schedule="accuracy")
    low, high = (advance(start(config, True), value, config, True).level2_share for value in sorted((one, other)))
    assert low <= high
    assert advance(start(config, True), 0.4, config, True).level2_share == 0.1
    assert advance(start(config, True), 1.0, config, True).level2_share == 0.5
    assert advance(start(config, True), 0.7, config, True).level2_share == pytest.approx(0.3)


shares = st.floats(0.0, 1.0)
seeds = st.integers(0, 2**63 - 1)


@given(shares, shares, st.integers(0, 40), seeds)
def test_a_larger_share_contains_the_smaller_ones_slots(one: float, other: float, num_tasks: int, seed: int) -> None:
    """With one seed, raising the share only turns Level 1 slots into Level 2 slots."""
    low, high = (draw_levels(share, num_tasks, seed) for share in sorted((one, other)))
    assert len(low) == num_tasks
    assert all(small <= large for small, large in zip(low, high, strict=True))


@given(shares, st.integers(0, 40), seeds)
def test_the_number_of_level2_slots_is_the_share_rounded(share: float, num_tasks: int, seed: int) -> None:
    """The count is never a whole task off, and the same seed draws the same slots."""
    levels = draw_levels(share, num_tasks, seed)
    assert abs(levels.count(2) - share * num_tasks) < 1.0 + 1e-6
    assert levels == draw_levels(share, num_tasks, seed)


def test_rounding_is_right_on_average() -> None:
    """A share that is no whole number of tasks is met over many rounds, and one that is always."""
    counts = [draw_levels(0.15, 10, seed).count(2) for seed in range(2000)]
    assert sum(counts) / len(counts) == pytest.approx(1.5, abs=0.05)
    assert {draw_levels(0.3, 10, seed).count(2) for seed in range(200)} == {3}


NAMES = ("a", "b", "c", "d", "e")
answers = st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=60)


@given(st.lists(answers, max_size=5), st.floats(0.01, 1.0))
def test_weights_lie_between_the_floor_and_one(rounds: list[list[tuple[str, bool]]], floor: float) -> None:
    """Whatever was right, no family is lost, and one that was never drawn weighs most."""
    state = start(CONFIG, False)
    for played in rounds:
        state = count_successes(state, played)
    weights = weigh_families(state, (*NAMES, "never drawn"), floor)
    assert all(floor <= weight <= 1.0 for weight in weights)
    assert weights[-1] == 1.0
    assert state.level2_share == start(CONFIG, False).level2_share


def test_what_is_half_right_weighs_most_and_old_answers_are_forgotten() -> None:
    """p (1 - p) of the answers so far; what was mastered long ago and fails now weighs more again."""
    state = count_successes(
        start(CONFIG, False), [("a", True)] * 50 + [("b", True)] * 25 + [("b", False)] * 25 + [("c", False)] * 50
    )
    a, b, c = weigh_families(state, ("a", "b", "c"), 0.1)
    assert b == pytest.approx(1.0)
    assert a == c == 0.1
    for _ in range(12):
        state = count_successes(state, [("a", False)] * 4 + [("a", True)] * 4)
    assert weigh_families(state, ("a",), 0.1)[0] > 0.9


@given(st.lists(st.integers(1, 2), max_size=40), answers, st.floats(0.05, 1.0), st.integers(0, 2**63 - 1))
def test_slots_are_shared_out_by_weight(
    levels: list[int], played: list[tuple[str, bool]], floor: float, seed: int
) -> None:
    """Each family of a level gets its part of the level's slots, a fraction more or less, and the seed decides them."""
    state = count_successes(start(CONFIG, False), played)
    families = {1: NAMES[:3], 2: NAMES[3:]}
    chosen = draw_families(state, families, levels, floor, seed)
    assert chosen == draw_families(state, families, levels, floor, seed)
    for level, names in families.items():
        own = Counter(name for name, other in zip(chosen, levels, strict=True) if other == level)
        assert set(own) <= set(names)
        weights = weigh_families(state, names, floor)
        for name, weight in zip(names, weights, strict=True):
            assert abs(own[name] - own.total() * weight / sum(weights)) < 1.0 + 1e-6
