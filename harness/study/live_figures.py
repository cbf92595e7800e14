"""Live figures of a run as it goes on: what `harness.metrics` logs of a step, a round and an evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ...core.outcome import Stage
from ...core.recipe.learner import OnStep, TrainingStep
from ...core.verdict import Reward, Verdict
from ..display import Progress
from .rows import Seconds


def tell_steps(progress: Progress, phase: str, num_before: int = 0) -> OnStep:
    """Return a callback that tells each step of a fine-tuning; steps are counted on from `num_before`."""

    def tell(step: TrainingStep) -> None:
        progress.advance(step.num_done)
        values = {"loss": step.loss, "learning_rate": step.learning_rate, "gradient_norm": step.gradient_norm}
        progress.metrics(phase, num_before + step.num_done, values)

    return tell


def verdict_figures(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Return rates, and how many candidates each stage up to the full run rejected."""
    if not verdicts:
        return {}
    rejected = Counter(verdict.reached for verdict in verdicts if not verdict.correct)
    stages = [stage for stage in Stage if stage is not Stage.TIMING]
    num = len(verdicts)
    return {
        "valid": sum(verdict.valid for verdict in verdicts) / num,
        "compiled": sum(verdict.compiled for verdict in verdicts) / num,
        "correct": sum(verdict.correct for verdict in verdicts) / num,
        **{f"rejected_{stage.value}": float(rejected[stage]) for stage in stages},
    }


def round_figures(
    verdicts: Sequence[Verdict],
    rewards: Sequence[Reward],
    learned: Mapping[str, float | None],
    level2_share: float,
    spent: Seconds,
) -> dict[str, float]:
    """Return the figures of a round; `learned` are the columns about its learning, null for what there was none of."""
    return {
        "reward": sum(reward.total for reward in rewards) / len(rewards),
        **{name: value for name, value in learned.items() if value is not None},
        "level2_share": level2_share,
        **verdict_figures(verdicts),
        "sample_s": spent.sample,
        "verify_s": spent.verify,
        "train_s": spent.train,
    }
