"""The report of a results folder: on the terminal, as Markdown, JSON or one HTML file.

All forms show the same analysis. Tables are first built as plain text cells and then drawn by rich or written as
Markdown, so no form can show a number that another lacks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from attrs import frozen

from ..core import factorial
from ..core.serialisation import to_plain
from .findings import METRICS, Analysis, CellFacts, Curve, Estimate

if TYPE_CHECKING:
    from rich.console import Console

_BARS = "▁▂▃▄▅▆▇█"


class ReportFormat(StrEnum):
    RICH = "rich"
    MARKDOWN = "markdown"
    JSON = "json"


@frozen(kw_only=True)
class Grid:
    """A titled table of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@frozen(kw_only=True)
class Paragraphs:
    """A titled list of sentences."""

    title: str
    lines: tuple[str, ...]


Section = Grid | Paragraphs


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """A series as a line of bars between its smallest and largest value; null is a gap; longer ones are averaged."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if len(values) > width:
        groups = [values[len(values) * i // width : len(values) * (i + 1) // width] for i in range(width)]
        kept = [[value for value in group if value is not None] for group in groups]
        values = [sum(group) / len(group) if group else None for group in kept]
        known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    span = (high - low) or 1.0
    return "".join(
        " " if value is None else _BARS[min(int((value - low) / span * len(_BARS)), len(_BARS) - 1)] for value in values
    )


def _percent(estimate: Estimate) -> str:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "-"
    return f"{estimate.value * 100:.0f} [{estimate.low * 100:.0f}, {estimate.high * 100:.0f}]"


def _ratio(estimate: Estimate) -> str:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "-"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def sections(analysis: Analysis) -> tuple[Section, ...]:
    """The report, part by part."""
    return (
        _summary(analysis),
        _cells(analysis),
        _effects(analysis),
        Paragraphs(
            title="Research questions",
            lines=tuple(f"{answer.question} {answer.answer}" for answer in analysis.answers),
        ),
        _funnel(analysis),
        _false_positives(analysis),
        _curriculum(analysis),
        _training(analysis),
        Paragraphs(title="Read with care", lines=analysis.remarks),
    )


def _summary(analysis: Analysis) -> Paragraphs:
    versions = ", ".join(f"{name} {number}" for name, number in sorted(analysis.versions.items()) if number)
    lines = [
        f"{analysis.num_complete} cell runs complete, {analysis.num_failed} failed, {analysis.num_seeds} seed(s); "
        f"policy {analysis.policy}, backend {analysis.backend}, {analysis.clock}.",
        versions,
    ]
    return Paragraphs(title="Run", lines=tuple(line for line in lines if line))


def _clocked(analysis: Analysis, text: str) -> str:
    return f"{text} ({analysis.clock})" if analysis.clock == "simulated clock" else text


def _cells(analysis: Analysis) -> Grid:
    measured = any(fact.speedup.count for fact in analysis.cells)
    speed = "speedup" if measured else _clocked(analysis, "estimated speedup")
    fast = "fast_1" if measured else "estimated fast_1"
    k = analysis.samples_per_task
    clocked = analysis.clock != "no clock"

    def timed(fact: CellFacts) -> tuple[str, str]:
        if measured:
            return _percent(fact.fast_1), _ratio(fact.speedup)
        return _percent(fact.estimated_fast_1), _ratio(fact.estimated_speedup)

    def row(fact: CellFacts) -> tuple[str, ...]:
        return (
            fact.cell if not fact.num_failed else f"{fact.cell} ({fact.num_failed} failed)",
            _percent(fact.valid),
            _percent(fact.compiled),
            _percent(fact.correct),
            _percent(fact.correct_level1),
            _percent(fact.correct_level2),
            _percent(fact.pass_at_1),
            *([_percent(fact.pass_at_k)] if k > 1 else []),
            *(timed(fact) if clocked else ()),
        )

    facts = [*([analysis.start] if analysis.start else []), *analysis.cells]
    return Grid(
        title="Held-out tasks, judged by the audit verifier: percent of samples [95% interval over tasks]",
        columns=(
            *("cell", "valid", "compiled", "correct", "correct L1", "correct L2", "pass@1"),
            *([f"pass@{k}"] if k > 1 else []),
            *((fast, speed) if clocked else ()),
        ),
        rows=tuple(row(fact) for fact in facts),
    )


def _effects(analysis: Analysis) -> Section:
    def cell(effect: factorial.Effect) -> str:
        if effect.estimate is None:
            partners = effect.confounded_with
            return f"with {', '.join(partners)}" if len(partners) <= 3 else "-"
        size = f"{effect.estimate * 100:+.1f}"
        if effect.low is None or effect.high is None:
            return size
        return f"{size} [{effect.low * 100:+.1f}, {effect.high * 100:+.1f}]{' *' if effect.conclusive else ''}"

    present = [metric for metric in METRICS if analysis.effects[metric] is not None]
    title = "Main effects and interactions, in points [95% interval]"
    if not any(effect.estimable for metric in present for effect in _found(analysis, metric)):
        num_cells = len(analysis.cells)
        grid_size = f"{num_cells} cell{'s' if num_cells != 1 else ''} of the grid"
        line = f"{grid_size} cannot tell one extension from another: the grid is too small. Run --grid full, or half."
        return Paragraphs(title=title, lines=(line,))
    rows = []
    for term in factorial.TERMS:
        found = [analysis.effects[metric] for metric in present]
        rows.append((" x ".join(term.upper()), *[cell(each.effect(term)) for each in found if each is not None]))
    return Grid(
        title=f"{title}; * = the interval excludes 0; 'with' = confounded with, - with more than three others",
        columns=("effect", *[metric.replace("_level", " L") for metric in present]),
        rows=tuple(rows),
    )


def _found(analysis: Analysis, metric: str) -> tuple[factorial.Effect, ...]:
    found = analysis.effects[metric]
    return () if found is None else found.effects


def _funnel(analysis: Analysis) -> Grid:
    rows = [
        (
            "staged" if stage.staged else "exhaustive",
            stage.stage.value,
            str(stage.num_attempted),
            str(stage.num_failed),
            f"{stage.seconds:.1f}",
            "-" if stage.staged else f"{stage.saved_seconds:.1f}",
        )
        for stage in analysis.funnel
    ]
    return Grid(
        title="Training verifier: candidates that reached and failed each stage",
        columns=("verifier", "stage", "reached", "failed", "seconds", "staging would save"),
        rows=tuple(rows),
    )


def _false_positives(analysis: Analysis) -> Grid:
    return Grid(
        title="Training verifier against the audit: percent of candidates [95% interval over tasks] (of how many)",
        columns=("cell", "accepted, audit rejects", "audit accepts, rejected"),
        rows=tuple(
            (
                fact.cell,
                f"{_percent(fact.false_positives)} ({fact.false_positives.count})",
                f"{_percent(fact.false_negatives)} ({fact.false_negatives.count})",
            )
            for fact in analysis.cells
        ),
    )


def _path(curve: Curve, digits: int = 2) -> str:
    return " ".join("-" if value is None else f"{value:.{digits}f}" for value in curve.values)


def _curriculum(analysis: Analysis) -> Grid:
    return Grid(
        title="Curriculum: share of Level 2 tasks by round",
        columns=("cell", "share by round"),
        rows=tuple((curve.cell, _path(curve)) for curve in analysis.curriculum),
    )


def _training(analysis: Analysis) -> Grid:
    rewards = {curve.cell: curve for curve in analysis.rewards}
    return Grid(
        title="Training: loss by step, mean reward by round",
        columns=("cell", "loss", "from", "to", "mean reward", "by round"),
        rows=tuple(
            (
                curve.cell,
                sparkline(curve.values),
                f"{curve.values[0]:.3f}" if curve.values and curve.values[0] is not None else "-",
                f"{curve.values[-1]:.3f}" if curve.values and curve.values[-1] is not None else "-",
                sparkline(rewards[curve.cell].values) if curve.cell in rewards else "",
                _path(rewards[curve.cell]) if curve.cell in rewards else "",
            )
            for curve in analysis.losses
        ),
    )


def as_markdown(analysis: Analysis) -> str:
    """The report as Markdown."""
    parts = ["# tritonrl ablation"]
    for section in sections(analysis):
        parts.append(f"## {section.title}")
        if isinstance(section, Paragraphs):
            parts.append("\n".join(f"- {line}" for line in section.lines) or "Nothing to say.")
            continue
        lines = [section.columns, tuple("---" for _ in section.columns), *section.rows]
        parts.append("\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines))
    return "\n\n".join(parts) + "\n"


def as_json(analysis: Analysis) -> str:
    """The analysis as one JSON object."""
    return json.dumps(to_plain(analysis), indent=2, allow_nan=False)


def print_report(analysis: Analysis, console: Console) -> None:
    """Draw the report with rich."""
    from rich.table import Table
    from rich.text import Text

    for section in sections(analysis):
        console.print(Text(f"\n{section.title}", style="bold"))
        if isinstance(section, Paragraphs):
            for line in section.lines:
                console.print(Text(f"  {line}"))
            continue
        table = Table(box=None, pad_edge=False, header_style="cyan")
        for index, column in enumerate(section.columns):
            table.add_column(Text(column), justify="left" if index == 0 else "right", no_wrap=index == 0)
        for row in section.rows:
            table.add_row(*[Text(cell) for cell in row])
        console.print(table)


def as_html(analysis: Analysis) -> str:
    """The report as one self-contained HTML page."""
    import io

    from rich.console import Console

    console = Console(record=True, width=190, file=io.StringIO(), force_terminal=True)
    print_report(analysis, console)
    return console.export_html(inline_styles=True)
