"""Finished exams: read from their folders, the parts of one that was taken on several GPUs as one, and summed up.

A summary has rates and pass@k by level and by family, why families fail, and where two criteria disagree.
"""

from __future__ import annotations

import json
import operator
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from attrs import field, frozen

from ...core.outcome import Outcome
from ...core.serialisation import differences
from ...core.statistics.intervals import fast_p, pass_at_k
from ..datasets.kernelbench import Skipped
from ..errors import UsageError
from ..study.store import Results
from ..tables import TABLES, Table, read_table

EVALUATION = Table(
    name="evaluation",
    columns={
        **TABLES["evaluation"].columns,
        "suite_correct": pl.Boolean(),  # by the suite's own criterion, which our suites have not beside the audit
        "suite_sizes": pl.String(),  # declared, or small where the interpreter cannot run those
        "suite_excess": pl.Float64(),  # largest |error| / (1 + |expected|)
        "suite_message": pl.String(),
        "suite_s": pl.Float64(),
    },
    key=TABLES["evaluation"].key,
)
_TABLE, _SUITE = "evaluation.parquet", "suite.json"
_MESSAGE_WIDTH = 90
"""Of a message in a line for a person; JSON has its whole first line."""


@frozen(kw_only=True)
class EvaluationResult:
    """The table of a finished exam, and the tasks that could not be asked.

    `by_turn` is, in an exam of several turns, the share of samples that were right after each; the table has the last.
    """

    frame: pl.DataFrame
    skipped: tuple[Skipped, ...]
    by_turn: tuple[float, ...] = ()


def read_finished(folder: Path) -> EvaluationResult | None:
    """The exam of a folder, null where it has not finished."""
    if not (folder / _TABLE).exists() or not (folder / _SUITE).exists():
        return None
    told = _told(folder)
    return EvaluationResult(
        frame=read_table(EVALUATION, folder / _TABLE),
        skipped=tuple(Skipped(**entry) for entry in told["skipped"]),
        by_turn=tuple(told.get("by_turn", ())),
    )


def read_limit(folder: Path) -> int:
    """The tokens at which a finished exam's answers were cut."""
    limit: int = (Results(root=folder).recorded() or {})["config"]["policy"]["max_new_tokens"]
    return limit


def read_parts(folders: Sequence[Path]) -> EvaluationResult:
    """Exams that differ in nothing but their tasks as one.

    Raises UsageError where one has not finished, where two differ in more, and where two asked the same.
    """
    results: list[EvaluationResult] = []
    for folder in folders:
        found = read_finished(folder)
        if found is None:
            raise UsageError(f"--read {folder}: no finished exam there")
        changed = differences(_describe(folders[0]), _describe(folder))
        if changed:
            raise UsageError(f"--read {folder}: another exam than {folders[0]}: {'; '.join(changed)}")
        results.append(found)
    frame = pl.concat([result.frame for result in results]).sort("slot", "sample")
    if frame.select(EVALUATION.key).is_duplicated().any():
        raise UsageError(f"--read: {', '.join(map(str, folders))}: the same tasks in two of them")
    weights = [result.frame.height / frame.height for result in results]
    shares = zip(*(result.by_turn for result in results), strict=True)
    return EvaluationResult(
        frame=frame,
        skipped=tuple(dict.fromkeys(entry for result in results for entry in result.skipped)),
        by_turn=tuple(sum(map(operator.mul, weights, share)) for share in shares),
    )


def _describe(folder: Path) -> dict[str, Any]:
    """What decides an exam's result, but for which of the suite's tasks it asks."""
    recorded = Results(root=folder).recorded() or {}
    if "exam" not in recorded:
        raise UsageError(f"--read {folder}: no exam there")
    exam = {key: value for key, value in recorded["exam"].items() if key != "tasks"}
    shared = {key: recorded.get(key) for key in ("config", "policy", "backend", "versions")}
    return {**shared, "exam": exam, "suite": _told(folder)["suite"]}


def _told(folder: Path) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads((folder / _SUITE).read_text())
    return plain


@frozen(kw_only=True)
class FamilyFailures:
    """A family's samples that the audit judged, and of the wrong ones the most frequent outcome and its message.

    `num_outcome` counts the samples of that outcome. Where none is wrong, `outcome` and `message` are null.
    """

    level: int
    family: str
    num_samples: int
    num_correct: int
    outcome: str | None
    num_outcome: int
    message: str | None


@frozen(kw_only=True)
class Rates:
    """Shares of samples, and of tasks for pass@k; null where nothing was judged, or timed for `fast_1`."""

    group: str
    num_tasks: int
    num_samples: int
    valid: float | None
    compiled: float | None
    correct: float | None
    pass_at_k: float | None
    fast_1: float | None
    suite_correct: float | None
    suite_pass_at_k: float | None
    num_cut: int | None
    """Answers that were cut at the limit of tokens; null where that is not known of all."""


@frozen(kw_only=True)
class EvaluationSummary:
    """Rates by group; `k` is the number of samples of a task.

    `sizes` counts the samples that the suite's criterion judged by the sizes it used. `only_suite` counts those that it
    alone accepts, by the audit's outcome; `only_audit` those that the audit alone accepts.
    """

    k: int
    rates: tuple[Rates, ...]
    failures: tuple[FamilyFailures, ...]
    sizes: dict[str, int]
    only_suite: dict[str, int]
    only_audit: int
    declared: dict[str, int] = field(factory=dict)
    """Correct samples by what was seen at the declared sizes."""


def summarise(frame: pl.DataFrame) -> EvaluationSummary:
    k = int(frame.group_by("slot").len()["len"].min() or 0)  # type: ignore[arg-type]
    groups = [("all", frame)] if frame["level"].n_unique() > 1 else []
    for column, label in (("level", "level {}"), ("family", "{}")):
        for value in frame[column].unique(maintain_order=True).to_list():
            groups.append((label.format(value), frame.filter(pl.col(column) == value)))
    right, accepted = pl.col("correct"), pl.col("suite_correct")
    alone = frame.filter(accepted & ~right)["outcome"].value_counts(sort=True)
    judged = frame.filter(accepted.is_not_null())["suite_sizes"].value_counts(sort=True)
    return EvaluationSummary(
        k=k,
        rates=tuple(_rate(name, rows, k) for name, rows in groups),
        failures=count_failures(frame),
        sizes=dict(judged.iter_rows()),
        only_suite=dict(alone.iter_rows()),
        only_audit=frame.filter(right & ~accepted).height,
        declared=dict(Counter(text.partition(" (")[0] for text in frame.filter(right)["declared"].drop_nulls())),
    )


def _rate(group: str, rows: pl.DataFrame, k: int) -> Rates:
    judged = rows.drop_nulls("correct")
    is_timed = judged["speedup"].is_not_null().any()
    return Rates(
        group=group,
        num_tasks=rows["slot"].n_unique(),
        num_samples=rows.height,
        valid=_share(rows["valid"]),
        compiled=_share(rows["compiled"]),
        correct=_share(rows["correct"]),
        pass_at_k=_pass_at(rows, "correct", k),
        fast_1=fast_p(judged["correct"].to_list(), judged["speedup"].to_list(), 1.0) if is_timed else None,
        suite_correct=_share(rows["suite_correct"]),
        suite_pass_at_k=_pass_at(rows, "suite_correct", k),
        num_cut=None if rows["finished"].has_nulls() else int((~rows["finished"]).sum()),
    )


def _share(marks: pl.Series) -> float | None:
    known = marks.drop_nulls()
    return sum(known) / len(known) if len(known) else None


def _pass_at(rows: pl.DataFrame, column: str, k: int) -> float | None:
    known = rows.filter(pl.col(column).is_not_null()).group_by("slot").agg(pl.len(), pl.col(column).sum())
    chances = [pass_at_k(num, right, k) for _, num, right in known.iter_rows()]
    found = [chance for chance in chances if chance is not None]
    return sum(found) / len(found) if found else None


def render_evaluation(summary: EvaluationSummary, skipped: Sequence[tuple[str, str]], most_tokens: int) -> list[str]:
    """Plain lines for a person; `most_tokens` is the limit at which answers are cut."""
    by_suite = any(rates.suite_correct is not None for rates in summary.rates)
    last = f" {'suite: correct':>15} {f'pass@{summary.k}':>8}" if by_suite else ""
    lines = [
        f"{'':22} {'tasks':>6} {'samples':>8} {'valid':>6} {'compiled':>9} {'correct':>8} {f'pass@{summary.k}':>8}"
        f" {'fast_1':>7}{last}"
    ]
    for rates in summary.rates:
        own = f" {_percent(rates.suite_correct):>15} {_percent(rates.suite_pass_at_k):>8}" if by_suite else ""
        lines.append(
            f"{rates.group:22} {rates.num_tasks:6} {rates.num_samples:8} {_percent(rates.valid):>6}"
            f" {_percent(rates.compiled):>9} {_percent(rates.correct):>8} {_percent(rates.pass_at_k):>8}"
            f" {_percent(rates.fast_1):>7}{own}"
        )
    cut = [
        f"{rates.num_cut} of {rates.num_samples} at {rates.group.title()}"
        for rates in summary.rates
        if rates.num_cut and rates.group.startswith("level ")
    ]
    if cut:
        lines.append(f"cut at {most_tokens:,} tokens (policy.max_new_tokens): {', '.join(cut)}")
    lines += render_failures(summary.failures)
    if summary.declared:
        told = ", ".join(f"{number} {what}" for what, number in summary.declared.items())
        lines.append(f"correct samples at the declared sizes: {told}")
    if by_suite:
        lines += _render_disagreement(summary)
    if skipped:
        lines.append(f"{len(skipped)} tasks could not be asked:")
        lines += [f"  {name}: {reason}" for name, reason in skipped]
    return lines


def _render_disagreement(summary: EvaluationSummary) -> list[str]:
    lines = []
    if summary.sizes.get("small"):
        lines.append(f"the suite's criterion saw small sizes in {summary.sizes['small']} samples: no GPU here")
    if summary.only_suite:
        reasons = ", ".join(f"{count} {Outcome.from_code(code)}" for code, count in summary.only_suite.items())
        lines.append(f"accepted by the suite's criterion alone: {sum(summary.only_suite.values())} ({reasons})")
    if summary.only_audit:
        lines.append(f"accepted by the audit alone: {summary.only_audit}")
    return lines


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def count_failures(frame: pl.DataFrame) -> tuple[FamilyFailures, ...]:
    """The failures of every family in an exam's table: by level, and in a level the worst family first."""
    judged = frame.drop_nulls("correct")
    found = [_count(*place, rows) for place, rows in judged.group_by("level", "family", maintain_order=True)]  # type: ignore[call-arg]
    return tuple(sorted(found, key=lambda entry: (entry.level, entry.num_correct / entry.num_samples, entry.family)))


def _count(level: int, family: str, rows: pl.DataFrame) -> FamilyFailures:
    wrong = rows.filter(~pl.col("correct"))
    ((outcome, num_outcome),) = Counter(wrong["outcome"].to_list()).most_common(1) or [(None, 0)]
    messages = (told for code, told in wrong.select("outcome", "message").iter_rows() if code == outcome and told)
    lines = Counter(line for line in map(_first_line, messages) if line)
    return FamilyFailures(
        level=level,
        family=family,
        num_samples=rows.height,
        num_correct=rows.height - wrong.height,
        outcome=outcome,
        num_outcome=num_outcome,
        message=lines.most_common(1)[0][0] if lines else None,
    )


def _first_line(message: str) -> str:
    return message.strip().partition("\n")[0].rstrip()


def render_failures(failures: Sequence[FamilyFailures]) -> list[str]:
    """Plain lines for a person; none where nothing is wrong."""
    if all(entry.outcome is None for entry in failures):
        return []
    lines = ["", f"{'':22} {'level':>6} {'correct':>9}  most frequent failure"]
    for entry in failures:
        share = f"{entry.num_correct}/{entry.num_samples}"
        lines.append(f"{entry.family:22} {entry.level:6} {share:>9}  {_say(entry)}")
    return lines


def _say(entry: FamilyFailures) -> str:
    if entry.outcome is None:
        return "-"
    text = f"{entry.num_outcome}x {Outcome.from_code(entry.outcome)}"
    if entry.message is None:
        return text
    is_long = len(entry.message) > _MESSAGE_WIDTH
    return f"{text}: {entry.message[: _MESSAGE_WIDTH - 3]}..." if is_long else f"{text}: {entry.message}"
