"""Make rows of the tables (`harness.tables`) from verdicts, rewards and losses, and sum them up as a run goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, define, frozen

from ...core.candidate import Candidate, TimingReport
from ...core.outcome import Outcome, Stage
from ...core.recipe.learner import OnStep, TrainingStep
from ...core.task import Task
from ...core.verdict import Reward, Verdict
from ..display import Progress
from ..tables import TABLES, Row


@frozen(kw_only=True)
class Attempt:
    """One sample for one task: where it stands in a run, and the source that was extracted ("" = none).

    `finished`: whether the answer came to its end before the limit of tokens, null where that is not known.
    """

    cell: str
    seed: int
    phase: str
    round: int | None
    slot: int
    task: Task
    sample: int
    source: str
    finished: bool | None = None


def _place(attempt: Attempt) -> dict[str, Any]:
    return {
        "cell": attempt.cell,
        "seed": attempt.seed,
        "phase": attempt.phase,
        "round": attempt.round,
        "slot": attempt.slot,
        "task": attempt.task.task_id,
        "level": attempt.task.level,
        "family": attempt.task.family,
        "sample": attempt.sample,
    }


def failure_message(verdict: Verdict) -> str | None:
    """The message of the stage that decided, null where there is none."""
    for result in verdict.stages:
        if result.stage is verdict.reached:
            return result.message or None
    return None


def stage_seconds(verdict: Verdict) -> dict[str, float | None]:
    """Seconds by stage, as columns; null for a stage that was not attempted."""
    seconds = {result.stage: result.seconds for result in verdict.stages if result.attempted}
    return {f"{stage.value}_s": seconds.get(stage) for stage in Stage}


def _judgement(verdict: Verdict) -> dict[str, Any]:
    return {
        "candidate": verdict.candidate,
        "backend": verdict.backend,
        "reached": verdict.reached.value,
        "outcome": verdict.outcome.code,
        "message": failure_message(verdict),
        "valid": verdict.valid,
        "compiled": verdict.compiled,
        "correct": verdict.correct,
        "torch_operators": verdict.torch_operators,
        "declared": verdict.declared,
        "speedup": verdict.speedup,
        "estimated_speedup": verdict.estimated_speedup,
    }


def candidate_row(attempt: Attempt, verdict: Verdict, audit: Verdict | None, reward: Reward, selected: bool) -> Row:
    """A sampled candidate with what the training verifier made of it, and the audit where it was asked."""
    return {
        **_place(attempt),
        **_judgement(verdict),
        **_audit_columns(audit),
        "reward_correctness": reward.correctness,
        "reward_performance": reward.performance,
        "reward": reward.total,
        "selected": selected,
        **stage_seconds(verdict),
    }


def _audit_columns(audit: Verdict | None) -> dict[str, Any]:
    if audit is None:
        return dict.fromkeys(("audit_reached", "audit_outcome", "audit_valid", "audit_compiled", "audit_correct"))
    return {
        "audit_reached": audit.reached.value,
        "audit_outcome": audit.outcome.code,
        "audit_valid": audit.valid,
        "audit_compiled": audit.compiled,
        "audit_correct": audit.correct,
    }


def stage_rows(attempt: Attempt, verifier: str, verdict: Verdict) -> list[Row]:
    return [
        {
            **_place(attempt),
            "verifier": verifier,
            "stage": result.stage.value,
            "stage_index": index,
            "outcome": result.outcome.code,
            "passed": result.passed,
            "message": result.message or None,
            "stage_s": result.seconds,
        }
        for index, result in enumerate(verdict.stages)
        if result.attempted
    ]


def timing_rows(attempt: Attempt, verifier: str, timing: TimingReport | None) -> list[Row]:
    """Every trial of candidate and reference, and of the control and the reference's other figures where there are."""
    if timing is None:
        return []
    subjects = [("candidate", timing.candidate_us), ("reference", timing.reference_us), ("control", timing.control_us)]
    if timing.reference is not None:
        subjects += [("reference_tf32", timing.reference.tf32_us), ("reference_compiled", timing.reference.compiled_us)]
    return [
        {
            **_place(attempt),
            "verifier": verifier,
            "subject": subject,
            "simulated": timing.simulated,
            "calibrated": timing.calibrated,
            "trial": trial,
            "runtime_us": runtime_us,
        }
        for subject, runtimes in subjects
        for trial, runtime_us in enumerate(runtimes)
    ]


def training_rows(cell: str, seed: int, phase: str, round_index: int | None, losses: Sequence[float]) -> list[Row]:
    """The loss by step of one fine-tuning run."""
    return [
        {"cell": cell, "seed": seed, "phase": phase, "round": round_index, "step": step, "loss": float(loss)}
        for step, loss in enumerate(losses)
    ]


def evaluation_row(attempt: Attempt, verdict: Verdict | str | None, accepted: bool | None = None) -> Row:
    """A held-out sample with the audit's verdict; nulls where the audit was not asked, or had none but this message.

    Where the text of an answer is refused that was cut, that is its outcome: what it lacks may have been to come.
    `accepted`: whether the verifier that the model was trained by would have accepted it.
    """
    if isinstance(verdict, Verdict):
        told = {"finished": attempt.finished, "accepted": accepted, "verify_s": verdict.seconds}
        row = {**_place(attempt), **_judgement(verdict), **told}
        return row | ({"outcome": Outcome.CUT.code} if attempt.finished is False and not verdict.valid else {})
    sha256 = Candidate(task_id=attempt.task.task_id, source=attempt.source).sha256
    nulls = dict.fromkeys(TABLES["evaluation"].columns)
    return {**nulls, **_place(attempt), "candidate": sha256, "message": verdict, "finished": attempt.finished}


def round_row(
    cell: str,
    seed: int,
    round_index: int,
    level2_share: float,
    attempts: Sequence[Attempt],
    verdicts: Sequence[Verdict],
    audits: Mapping[int, Verdict],
    rewards: Sequence[Reward],
    chosen: Sequence[int],
) -> dict[str, Any]:
    """A round's summary, without its seconds; `audits` are those of some attempts, by their positions.

    Accuracies are null where the round had no task of the level.
    """

    def accuracy(level: int, judged: Mapping[int, Verdict]) -> float | None:
        marks = [verdict.correct for index, verdict in judged.items() if attempts[index].task.level == level]
        return sum(marks) / len(marks) if marks else None

    def num_tasks(level: int) -> int:
        return len({attempt.slot for attempt in attempts if attempt.task.level == level})

    by_position = dict(enumerate(verdicts))
    return {
        "cell": cell,
        "seed": seed,
        "round": round_index,
        "level2_share": level2_share,
        "num_level1_tasks": num_tasks(1),
        "num_level2_tasks": num_tasks(2),
        "num_candidates": len(attempts),
        "num_selected": len(chosen),
        "mean_reward": sum(reward.total for reward in rewards) / len(rewards),
        "level1_accuracy": accuracy(1, by_position),
        "level2_accuracy": accuracy(2, by_position),
        "level1_audit_accuracy": accuracy(1, audits),
        "level2_audit_accuracy": accuracy(2, audits),
    }


SFT = "sft"
"""The name under which the supervised start, which all cells of a seed share, appears in the tables."""


@define
class Seconds:
    """Seconds spent on the three kinds of work, as recorded when each unit was first done."""

    sample: float = 0.0
    verify: float = 0.0
    train: float = 0.0


@frozen(kw_only=True)
class CellResult:
    """A finished cell: rows by table, the final adapter's folder (null: the base model), and what it took."""

    rows: dict[str, list[Row]]
    seconds: Seconds
    wall_s: float
    adapter: Path | None = None


@define
class Journal:
    """Collects the rows of one cell as it runs."""

    cell: str
    seed: int
    rows: dict[str, list[Row]] = Factory(dict)
    seconds: Seconds = Factory(Seconds)

    def add(self, table: str, *rows: Row) -> None:
        self.rows.setdefault(table, []).extend(rows)


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
