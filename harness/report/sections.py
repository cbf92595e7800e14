"""Collect the parts of a report in the order in which they are read, and render them as Markdown, JSON or rich text.

A part is a table or prose. `name` is the part's anchor on the page, where plots stand beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.recipe.extensions import LETTERS
from ...core.serialisation import to_plain
from ...core.statistics import factorial
from ..analysis.conclusions import describe_gain, training_gain
from ..analysis.findings import Analysis
from ..analysis.number_format import Form, written
from . import cell_tables, effect_tables
from .sheet import Prose, Section, Sheet, Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable


def sections(analysis: Analysis) -> tuple[Section, ...]:
    """The report; parts about what was not run are left out."""
    sheet = Sheet(plain=to_plain(analysis))
    found = (
        _run(analysis),
        _questions(analysis),
        cell_tables.grid(analysis, sheet),
        *effect_tables.effects(analysis, sheet),
        effect_tables.detectable(analysis, sheet),
        effect_tables.pairs(analysis, sheet),
        effect_tables.costs(analysis, sheet),
        cell_tables.budget(analysis, sheet),
        cell_tables.controls(analysis, sheet),
        effect_tables.comparisons(analysis, sheet),
        effect_tables.sweep(analysis, sheet),
        effect_tables.timing(analysis, sheet),
        cell_tables.disagreements(analysis, sheet),
        cell_tables.funnel(analysis, sheet),
        cell_tables.curriculum(analysis, sheet),
        cell_tables.training(analysis, sheet),
        cell_tables.held_out(analysis, sheet),
        cell_tables.learning(analysis, sheet),
        cell_tables.seconds(analysis, sheet),
        Prose(name="care", title="Read with care", lines=analysis.remarks),
    )
    return tuple(section for section in found if section is not None)


def _run(analysis: Analysis) -> Prose:
    lines = [
        f"{describe_runs(analysis)}; policy {analysis.policy}, results by backend {analysis.backend}, timing: "
        f"{analysis.timing}.",
        describe_training(analysis),
        describe_work(analysis),
        describe_versions(analysis),
    ]
    return Prose(name="run", title="Run", lines=tuple(line for line in lines if line))


def describe_runs(analysis: Analysis) -> str:
    """How many runs the report is about."""
    failed = f", {analysis.num_failed} failed" if analysis.num_failed else ""
    seeds = f"{analysis.num_seeds} seed{'s' if analysis.num_seeds != 1 else ''}"
    return f"{analysis.num_complete} cell runs complete ({analysis.num_complete_in_grid} of the grid){failed}, {seeds}"


def describe_training(analysis: Analysis) -> str:
    """How much each run trained and was judged by, in a sentence; empty where the configuration is not known."""
    if analysis.config is None:
        return ""
    sft, rl, held_out = analysis.config.sft, analysis.config.rl, analysis.config.evaluation
    begun = f"Each learned from {sft.num_pairs:,} pairs, then" if sft.num_pairs else "From one given state each learned"
    drawn = f"from the best {rl.keep} of" if rl.algorithm == "best-of-n" else f"by {rl.algorithm} from"
    return (
        f"{begun} in {rl.rounds} rounds of {rl.tasks_per_round} tasks {drawn} {rl.samples_per_task} samples; it is "
        f"judged on {held_out.level1_tasks} + "
        f"{held_out.level2_tasks} held-out tasks of Level 1 and 2, {held_out.samples_per_task} samples of each at a "
        f"temperature of {held_out.temperature:g}."
    )


def describe_work(analysis: Analysis) -> str:
    """What the run took, in a sentence; empty where no record of it is left."""
    totals = analysis.totals
    if not totals.invocations:
        return ""
    many = f"{totals.invocations} command{'s' if totals.invocations != 1 else ''}"
    gpus = sorted({gpu for found in analysis.invocations for gpu in found.machine.gpus})
    held = f" and {totals.gpu_hours:.2f} GPU-hours ({', '.join(gpus)})" if gpus else " without a GPU"
    return f"{many}, {totals.wall_hours:.2f} hours of wall time{held}."


def describe_versions(analysis: Analysis) -> str:
    """The packages that the run used, with their versions."""
    return ", ".join(f"{name} {number}" for name, number in sorted(analysis.versions.items()) if number)


def _questions(analysis: Analysis) -> Prose:
    return Prose(
        name="questions",
        title="Research questions",
        lines=tuple(f"{answer.question} {answer.answer}" for answer in analysis.answers),
    )


def as_markdown(analysis: Analysis) -> str:
    parts = ["# tritonrl ablation"]
    for section in sections(analysis):
        parts.append(f"## {section.title}")
        if isinstance(section, Prose):
            parts.append("\n".join(f"- {line}" for line in section.lines) or "Nothing to say.")
        else:
            parts += [f"{section.caption[:1].upper()}{section.caption[1:]}.", markdown_table(section)]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """A table as Markdown; what would end a cell, or be read as emphasis, is written so that it does not."""
    lines = [table.columns, ("---", *("---:" for _ in table.columns[1:]))]
    lines += [tuple(cell.text.replace("|", "/") for cell in row) for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_json(analysis: Analysis) -> str:
    return json.dumps(to_plain(analysis), indent=2, allow_nan=False)


def print_report(analysis: Analysis, console: Console) -> None:
    """Draw the report with rich; a table that is wider than the console is drawn in parts."""
    from rich.padding import Padding
    from rich.text import Text

    for section in sections(analysis):
        console.print(Text(f"\n{section.title}", style="bold"))
        if isinstance(section, Prose):
            for line in section.lines:
                console.print(Padding(Text(line), (0, 0, 0, 2)))
            continue
        console.print(Text(section.caption, style="dim"))
        for number, columns in enumerate(fitting_columns(section, console.width)):
            if number:
                console.print()
            console.print(_drawn_table(section, columns))


def fitting_columns(table: Table, width: int) -> list[list[int]]:
    """Return the columns of each part in which a table is drawn, the first column before each.

    A part is as many columns as stand side by side in `width` characters without a line broken, and one at least.
    """
    texts = [[column, *[row[index].text for row in table.rows]] for index, column in enumerate(table.columns)]
    widths = [max(map(len, column)) for column in texts]
    parts: list[list[int]] = [[0]]
    used = widths[0]
    for index in range(1, len(widths)):
        used += _GAP + widths[index]
        if used > width and len(parts[-1]) > 1:
            parts.append([0])
            used = widths[0] + _GAP + widths[index]
        parts[-1].append(index)
    return parts


_GAP = 2
"""Between the columns that rich draws."""


def _drawn_table(table: Table, columns: Sequence[int]) -> RichTable:
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="cyan")
    for index in columns:
        # names are cut, and what else is longer than the console is wrapped
        drawn.add_column(Text(table.columns[index]), justify="right" if index else "left", no_wrap=not index)
    for row in table.rows:
        drawn.add_row(*[Text(row[index].text) for index in columns])
    return drawn


NAMES = {"m": "multi-input testing", "s": "staged evaluation", "c": "the curriculum", "t": "calibrated timing"}


def headline(analysis: Analysis) -> str:
    """Which extensions changed the rate of correct kernels by more than noise explains, and what training did at all.

    An extension is said to have changed it only where Holm's p over all effects allows it.
    """
    found = analysis.effects.get("correct")
    if found is None:
        return "No cell is complete, so nothing can be said of the extensions yet."
    known = [effect for effect in map(found.effect, LETTERS) if effect.estimable]
    if not known:
        return "The cells that were run cannot tell one extension from another."
    if "seeds" not in found.over:
        which = "One seed" if found.num_seeds == 1 else "Seeds that are not whole"
        return f"{which} cannot tell what an extension does from the chance of a training run: run at least three."
    beside = f"{_sensitivity(known)}{_training(analysis)}"
    told = sorted((effect for effect in known if effect.confirmed), key=lambda effect: -(effect.estimate or 0.0))
    if told:
        first = f"{_listed([_change(effect) for effect in told])}."
        others = [NAMES[effect.name] for effect in known if not effect.confirmed]
        rest = f" For {_listed(others)} no effect is shown." if others else ""
        return f"{first[0].upper()}{first[1:]}{rest}{beside}"
    which = "None of the four extensions" if len(known) == len(LETTERS) else "No extension that could be told apart"
    return f"{which} changed the rate of correct kernels by more than chance explains.{beside}"


def _sensitivity(known: Sequence[factorial.Effect]) -> str:
    sizes = [effect.detectable for effect in known if effect.detectable is not None]
    if not sizes:
        return ""
    return f" Main effects below about {written(max(sizes), Form.SIZE)} points were likely to be missed."


def _training(analysis: Analysis) -> str:
    gain = training_gain(analysis.comparisons)
    if gain is None:
        return ""
    told = describe_gain(gain)
    return f" {told[0].upper()}{told[1:]}."


def _change(effect: factorial.Effect) -> str:
    verb = "raised" if (effect.estimate or 0.0) > 0 else "lowered"
    low, high = written(effect.low, Form.POINTS), written(effect.high, Form.POINTS)
    size = written(abs(effect.estimate or 0.0), Form.SIZE)
    return f"{NAMES[effect.name]} {verb} the rate of correct kernels by {size} points (95% interval {low} to {high})"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
