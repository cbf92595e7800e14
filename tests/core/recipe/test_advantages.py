"""Advantages compare the answers of a group, and nothing else."""

from __future__ import annotations

import math
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.config import Algorithm
from tritonrl.core.recipe.advantages import compute_advantages, is_mixed, is_used, weigh_tokens

GRADIENTS: tuple[Algorithm, ...] = ("rloo", "grpo", "dr-grpo")
algorithms = st.sampled_from(GRADIENTS)
rewards = st.lists(st.integers(0, 100).map(lambda number: number / 100), min_size=1, max_size=12)


@given(algorithms, rewards)
def test_a_groups_advantages_sum_to_zero(algorithm: Algorithm, group: list[float]) -> None:
    """What some answers gain others lose."""
    assert math.fsum(compute_advantages(algorithm, group)) == pytest.approx(0.0, abs=1e-9)


@given(algorithms, rewards, st.integers(-50, 50))
def test_a_constant_in_the_reward_changes_nothing(algorithm: Algorithm, group: list[float], shift: int) -> None:
    """Rewards are compared within their group alone."""
    moved = compute_advantages(algorithm, [reward + shift for reward in group])
    assert moved == pytest.approx(compute_advantages(algorithm, group), abs=1e-6)


@given(algorithms, rewards, st.randoms())
def test_the_order_of_answers_changes_nothing(algorithm: Algorithm, group: list[float], random: object) -> None:
    """An answer's advantage goes with the answer."""
    order = list(range(len(group)))
    random.shuffle(order)  # type: ignore[attr-defined]
    expected = compute_advantages(algorithm, group)
    found = compute_advantages(algorithm, [group[index] for index in order])
    assert found == pytest.approx([expected[index] for index in order], abs=1e-9)


@given(algorithms, st.floats(-10, 10), st.integers(1, 10))
def test_equal_rewards_teach_nothing(algorithm: Algorithm, reward: float, num: int) -> None:
    """A group whose answers are worth the same has no advantage, not even one of rounding."""
    assert compute_advantages(algorithm, [reward] * num) == (0.0,) * num


@given(algorithms, rewards)
def test_a_better_answer_has_a_larger_advantage(algorithm: Algorithm, group: list[float]) -> None:
    """Advantages are in the order of rewards."""
    found = compute_advantages(algorithm, group)
    for one, other in permutations(range(len(group)), 2):
        if group[one] > group[other]:
            assert found[one] > found[other]


@given(rewards.filter(lambda group: len(group) > 1))
def test_leaving_one_out_is_the_mean_of_the_others(group: list[float]) -> None:
    """In `rloo` the baseline of an answer is what the others earned."""
    others = [(sum(group) - reward) / (len(group) - 1) for reward in group]
    expected = [reward - other for reward, other in zip(group, others, strict=True)]
    assert compute_advantages("rloo", group) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.floats(-3, 3), min_size=3, max_size=3), st.tuples(*[st.floats(0, 1)] * 3), st.integers(2, 4))
def test_the_mean_step_of_rloo_is_the_gradient_of_the_expected_reward(
    logits: list[float], worth: tuple[float, ...], num: int
) -> None:
    """Over all groups that a policy of three answers can draw; `dr-grpo` has (n - 1) / n of it."""
    shares = [math.exp(logit) for logit in logits]
    policy = [share / sum(shares) for share in shares]
    expected_reward = math.fsum(p * reward for p, reward in zip(policy, worth, strict=True))
    gradient = [p * (reward - expected_reward) for p, reward in zip(policy, worth, strict=True)]
    for algorithm, scale in (("rloo", 1.0), ("dr-grpo", (num - 1) / num)):
        found = [0.0] * 3
        for drawn in product(range(3), repeat=num):
            advantages = compute_advantages(algorithm, [worth[answer] for answer in drawn])  # type: ignore[arg-type]
            chance = math.prod(policy[answer] for answer in drawn) / num
            for answer, advantage in zip(drawn, advantages, strict=True):
                for place in range(3):
                    # of log-probabilities by logits
                    found[place] += chance * advantage * ((place == answer) - policy[place])
        assert found == pytest.approx([scale * value for value in gradient], abs=1e-9)


@given(algorithms, rewards, st.floats(0, 1))
def test_a_negative_advantage_counts_as_much_as_it_is_told(
    algorithm: Algorithm, group: list[float], weight: float
) -> None:
    """Those above 0 stay as they are."""
    whole = compute_advantages(algorithm, group)
    assert compute_advantages(algorithm, group, weight) == tuple(
        value if value > 0.0 else value * weight for value in whole
    )


@given(algorithms, rewards, st.floats(0, 1), st.floats(0, 1))
def test_what_is_held_weighs_more_by_the_same(
    algorithm: Algorithm, group: list[float], weight: float, held: float
) -> None:
    """Every answer of the group, whatever it is compared to."""
    apart = compute_advantages(algorithm, group, weight)
    assert compute_advantages(algorithm, group, weight, held) == pytest.approx([held + value for value in apart])


@given(rewards.filter(lambda group: len(set(group)) > 1), st.floats(0.1, 10))
def test_the_scale_of_rewards_is_divided_out_in_grpo_alone(group: list[float], scale: float) -> None:
    """Only `grpo` makes as much of small differences as of large ones."""
    scaled = [reward * scale for reward in group]
    assert compute_advantages("grpo", scaled) == pytest.approx(compute_advantages("grpo", group), rel=1e-6)
    expected = [scale * value for value in compute_advantages("dr-grpo", group)]
    assert compute_advantages("dr-grpo", scaled) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 50)), min_size=1, max_size=8))
def test_length_does_not_matter_but_in_grpo(answers: list[tuple[int, int]]) -> None:
    """A token of a long answer weighs what a token of a short one with the same advantage does."""
    advantages, lengths = [float(value) for value, _ in answers], [length for _, length in answers]
    for algorithm in ("rloo", "dr-grpo"):
        weights = weigh_tokens(algorithm, advantages, lengths, 50)
        scales = {round(w / a, 12) for w, a in zip(weights, advantages, strict=True) if a}
        assert len(scales) <= 1
    shares = [w * n for w, n in zip(weigh_tokens("grpo", advantages, lengths, 50), lengths, strict=True)]
    assert shares == pytest.approx([advantage / len(answers) for advantage in advantages])


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.booleans())
def test_groups_are_used_by_their_correctness(correct: list[bool], skip_solved: bool) -> None:
    """All-wrong groups never are, all-right ones where they may, mixed ones always."""
    assert is_mixed(correct) == (len(set(correct)) == 2)
    assert is_used(correct, skip_solved) == (is_mixed(correct) or (all(correct) and not skip_solved))


def test_best_of_n_has_no_advantages() -> None:
    """It selects, and is refused here."""
    with pytest.raises(ValueError, match="selects"):
        compute_advantages("best-of-n", [0.0, 1.0])
