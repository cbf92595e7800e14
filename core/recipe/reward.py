"""Reward a verdict in [0, 1]: up to 0.7 for correctness and up to 0.3 for speed.

Correctness. With partial credit (extension S): by how far the candidate got; 0.0 where it does not compile (a source
that is only valid Python with a launch has shown nothing yet), 0.3 where it compiles, 0.5 where the tiny run passes as
well, 0.7 where every input of the full run passes. Without: 0.7 for a correct candidate and 0.0 for any other.

Speed. With s the speedup (reference time over candidate time), floor f and cap c of the configuration:

    bonus(s) = 0.3 * clip(log(s / f) / log(c / f), 0, 1)

for a correct candidate, and 0 for any other or where nothing was measured. A logarithm, because speedup is a ratio:
twice as fast should be worth the same from anywhere. Clipped above, because an implausible speedup is more often a
fault of the timing than a better kernel. The floor (0.5 by default) lies below parity, because few correct kernels beat
a tuned library at first, and best-of-N has to rank those too. With the cap at 4, each doubling is worth 0.1, and
parity 0.1. The measured speedup counts where there is one; else the estimate of simulated timing.

Two variations have another reward, for a correct candidate, and 0 for any other:

- uniform: correctness + alpha * speedup, with the speedup clipped at the cap. It is scaled to correctness 0.7 (less
  where alpha * cap would leave the range), so that means of rewards compare; selection looks at the order alone.
- binary: 0.7, however fast.

The configuration's goal goes before both. With `correctness` a right candidate earns 0.7 and any other nothing, so that
nothing need be timed. With `speed` a right one earns 0.5, and besides 0.5 * clip(log(s / f) / log(c / f), 0, 1): with
the floor at 1/8 and the cap at 8, each doubling is worth 0.083, and parity 0.25. A right candidate is worth more than
any wrong one, however slow it is. Two right ones differ by their logarithms, which the error of a timing enters with
its own small size (1% is worth 0.001); a learner that divides by a group's standard deviation would magnify it.

The noise sweep injects timing noise of a known size into a speedup. Each of the two runtimes is multiplied by a
log-normal factor of median 1 and the given coefficient of variation, drawn independently, as two noisy measurements
are. The draw depends on the seed alone and the size only scales it, so that with one seed the noise of 30% is that of
5%, larger: the runs of a sweep differ in nothing else.
"""

from __future__ import annotations

import math

from attrs import evolve

from ..config import Goal, RewardConfig
from ..verdict import Reward, Verdict
from .extensions import CellSpec, RewardSpec, Variation

COMPILED = 0.3
RUNS = 0.5
CORRECT = 0.7
BONUS = 0.3
HALF = 0.5


def goal_of(config: RewardConfig, round_index: int) -> Goal:
    """Return the goal of a round, counted from 0: that of speed comes after rounds of correctness."""
    is_early = config.goal == "speed" and round_index < config.speed_after
    return "correctness" if is_early else config.goal


def reward_of(verdict: Verdict, cell: CellSpec, config: RewardConfig, goal: Goal = "graded") -> Reward:
    if goal != "graded":
        return reward_by_goal(verdict, goal, config)
    if cell.variation is Variation.UNIFORM:
        return _uniform(verdict, config)
    if cell.variation is Variation.BINARY:
        return Reward(correctness=CORRECT if verdict.correct else 0.0)
    return combine(verdict, cell.reward, config)


def combine(verdict: Verdict, spec: RewardSpec, config: RewardConfig) -> Reward:
    """Returns the reward of a verdict."""
    if verdict.correct:
        return Reward(correctness=CORRECT, performance=performance_bonus(_known_speedup(verdict), config))
    if not spec.partial_credit:
        return Reward(correctness=0.0)
    if verdict.runs:
        return Reward(correctness=RUNS)
    return Reward(correctness=COMPILED if verdict.compiled else 0.0)


def reward_by_goal(verdict: Verdict, goal: Goal, config: RewardConfig) -> Reward:
    if not verdict.correct:
        return Reward(correctness=0.0)
    if goal == "correctness":
        return Reward(correctness=CORRECT)
    return Reward(correctness=HALF, performance=HALF * speed_share(_known_speedup(verdict), config))


def _known_speedup(verdict: Verdict) -> float | None:
    return verdict.speedup if verdict.speedup is not None else verdict.estimated_speedup


def _uniform(verdict: Verdict, config: RewardConfig) -> Reward:
    if not verdict.correct:
        return Reward(correctness=0.0)
    speedup = _known_speedup(verdict)
    usable = 0.0 if speedup is None or math.isnan(speedup) else min(max(speedup, 0.0), config.speedup_cap)
    most = config.uniform_alpha * config.speedup_cap
    scale = min(CORRECT, BONUS / most) if most > 0.0 else CORRECT
    return Reward(correctness=scale, performance=min(scale * config.uniform_alpha * usable, BONUS))


def performance_bonus(speedup: float | None, config: RewardConfig) -> float:
    """The bonus for a speedup, in [0, 0.3]; 0 for null and for anything that is no positive number."""
    return BONUS * speed_share(speedup, config)


def speed_share(speedup: float | None, config: RewardConfig) -> float:
    """Return where a speedup's logarithm lies between those of floor and cap, clipped to [0, 1]; 0 for no number."""
    if speedup is None or math.isnan(speedup) or speedup <= config.speedup_floor:
        return 0.0
    if speedup >= config.speedup_cap:
        return 1.0
    # differences of logarithms, because a quotient of extremes overflows
    share = (math.log(speedup) - math.log(config.speedup_floor)) / (
        math.log(config.speedup_cap) - math.log(config.speedup_floor)
    )
    return min(max(share, 0.0), 1.0)


def noise_factor(cv: float, seed: int) -> float:
    """Draw the factor of a speedup whose two runtimes are measured with coefficient of variation `cv`."""
    import numpy as np

    reference, candidate = np.random.default_rng(seed).standard_normal(2)
    return math.exp(math.sqrt(math.log1p(cv * cv)) * float(reference - candidate))


def with_noise(verdict: Verdict, factor: float) -> Verdict:
    """Multiply a verdict's speedups by a factor; what is null stays null, and nothing else changes."""

    def scaled(speedup: float | None) -> float | None:
        return None if speedup is None else speedup * factor

    return evolve(
        verdict,
        speedup=scaled(verdict.speedup),
        estimated_speedup=scaled(verdict.estimated_speedup),
        compiled_speedup=scaled(verdict.compiled_speedup),
    )
