"""Finished exams from their folders; the parts of one, taken on several GPUs, are read as one."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from attrs import frozen

from ...core.serialisation import differences
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
