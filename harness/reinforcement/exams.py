"""Exams of a run's start and end: the same held-out tasks and random streams, at several temperatures.

Differences are paired by task, and their intervals are bootstrapped over tasks. An exam's folder is one of
`tritonrl eval`, so that its answers can be read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import polars as pl
from attrs import evolve, frozen

from ...core.config import Config
from ...core.statistics.intervals import bootstrap_interval, pass_at_k
from ..display import Progress
from ..evaluation.asked import Criterion, TaskSelection
from ..evaluation.evaluation import Evaluation, EvaluationIdentity, fingerprint_adapter, identify_selection
from ..study.pipeline import CellContext, Model
from ..study.store import Results

LARGEST_K = 10
START, END = "start", "end"
EXAM_NAME = re.compile(rf"seed(\d+)-({START}|{END})-([\d.]+)")
"""An exam's folder: seed, what is examined, temperature."""


@frozen(kw_only=True)
class ExamPlan:
    """What a start and an end are examined by."""

    suite: str
    limit: int | None
    samples: int
    temperatures: tuple[float, ...]

    def config(self, config: Config, temperature: float) -> Config:
        changed = evolve(config.evaluation, samples_per_task=self.samples, temperature=temperature)
        return evolve(config, evaluation=changed)

    @property
    def questions(self) -> TaskSelection:
        return TaskSelection(suite=self.suite, limit=self.limit)


@frozen(kw_only=True)
class Change:
    """A figure of a group of tasks before and after, in shares, with 95% intervals over tasks."""

    temperature: float
    group: str
    figure: str
    num_tasks: int
    start: float
    end: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        return self.end - self.start

    @property
    def points(self) -> str:
        """The difference with its interval in percentage points."""
        return f"{100 * self.difference:+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"


def name_exam(seed: int, examined: str, temperature: float) -> str:
    """Return an exam's name within its run, which `EXAM_NAME` reads."""
    return f"seed{seed}-{examined}-{temperature:g}"


def take_exam(
    open_context: Callable[[], CellContext],
    plan: ExamPlan,
    temperature: float,
    model: Callable[[], Model],
    out: Path,
    config: Config,
    progress: Progress,
) -> pl.DataFrame:
    """Examine a model at a temperature into a folder, or read what is finished there; returns the table."""
    folder, asked = model().folder, plan.config(config, temperature)
    identity = EvaluationIdentity(
        config=asked,
        policy="",
        backend="",
        tasks=identify_selection(config, plan.questions),
        criterion=Criterion.BOTH,
        adapter=fingerprint_adapter(folder),
    )
    exam = Evaluation(
        results=Results(root=out),
        identity=identity,
        questions=plan.questions,
        open_context=lambda: nullcontext(evolve(open_context(), config=asked)),
        progress=progress,
        adapter=folder,
    )
    return exam.run().frame


def compare(start: pl.DataFrame, end: pl.DataFrame, temperature: float) -> tuple[Change, ...]:
    """Compare two tables of one exam by all tasks, by level and by family: pass@1, and pass@10 or of what there is."""
    groups = [("all", pl.lit(True))]
    groups += [(f"level {level}", pl.col("level") == level) for level in sorted(start["level"].unique())]
    groups += [(str(family), pl.col("family") == family) for family in sorted(start["family"].unique())]
    changes = []
    for name, condition in groups:
        before, after = (_rights(frame.filter(condition)) for frame in (start, end))
        num_samples = min((num for num, _ in before.values()), default=0)
        for k in dict.fromkeys((1, min(LARGEST_K, num_samples))):
            changes.append(_change(before, after, k, temperature, name))
    return tuple(changes)


def _rights(frame: pl.DataFrame) -> dict[int, tuple[int, int]]:
    """Samples and right ones of each task by its place; an answer without a verdict is not right."""
    found = frame.group_by("slot").agg(pl.len(), pl.col("correct").fill_null(False).sum())
    return {slot: (num, right) for slot, num, right in found.iter_rows()}


def _change(
    before: dict[int, tuple[int, int]], after: dict[int, tuple[int, int]], k: int, temperature: float, group: str
) -> Change:
    places = sorted(before.keys() & after.keys())
    pairs = [(pass_at_k(*before[place], k) or 0.0, pass_at_k(*after[place], k) or 0.0) for place in places]
    interval = bootstrap_interval([new - old for old, new in pairs], 0)
    assert interval is not None
    return Change(
        temperature=temperature,
        group=group,
        figure=f"pass@{k}",
        num_tasks=len(pairs),
        start=sum(old for old, _ in pairs) / len(pairs),
        end=sum(new for _, new in pairs) / len(pairs),
        low=interval.low,
        high=interval.high,
    )


def render_changes(changes: tuple[Change, ...]) -> list[str]:
    """Return plain lines for a person: all tasks and levels; families are in the JSON and on the page."""
    lines = [f"{'temperature':>11} {'tasks':10} {'num':>5} {'figure':>8} {'start':>7} {'end':>7}  difference"]
    for change in changes:
        if change.group == "all" or change.group.startswith("level "):
            place = f"{change.temperature:11g} {change.group:10} {change.num_tasks:5} {change.figure:>8}"
            lines.append(f"{place} {change.start:7.1%} {change.end:7.1%}  {change.points} points")
    return lines
