"""What a report says, part by part, in the order in which it is read; every form draws these.

A part is a table or prose. `name` is the part's anchor on the page, where plots stand beside it.
"""

from __future__ import annotations

from ...core.serialisation import to_plain
from ..analysis.findings import Analysis
from . import cell_tables, effect_tables, noise_tables
from .figures import Sheet
from .tables import Prose, Section


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
        noise_tables.comparisons(analysis, sheet),
        noise_tables.sweep(analysis, sheet),
        noise_tables.timing(analysis, sheet),
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
    return (
        f"Each learned from {sft.num_pairs:,} pairs, then in {rl.rounds} rounds of {rl.tasks_per_round} tasks from the "
        f"best {rl.keep} of {rl.samples_per_task} samples; it is judged on {held_out.level1_tasks} + "
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
