"""Tables with a row a cell or a stage: held-out rates, the audit's view of training, the funnel, curves and seconds."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.findings import Analysis, CellFacts, HeldOutPoint, LearningPoint
from ..analysis.number_format import Form
from .sheet import Cell, Part, Sheet, Table, sparkline, words

Placed = tuple[str, CellFacts]
"""Facts of a cell with their path in the analysis."""


def grid(analysis: Analysis, sheet: Sheet) -> Table:
    """The held-out rates of the start and of the cells of the grid."""
    return _rates("grid", "Held-out tasks, judged by the audit verifier", placed_cells(analysis), analysis, sheet)


def controls(analysis: Analysis, sheet: Sheet) -> Table | None:
    """The same of the cells beside the grid."""
    placed = [(f"controls.{index}", fact) for index, fact in enumerate(analysis.controls)]
    return _rates("controls", "Cells beside the grid", placed, analysis, sheet) if placed else None


def placed_cells(analysis: Analysis) -> list[Placed]:
    """The start, where there is one, and the cells of the grid, each with its path."""
    start = [("start", analysis.start)] if analysis.start else []
    return [*start, *((f"cells.{index}", fact) for index, fact in enumerate(analysis.cells))]


def speed_columns(analysis: Analysis) -> tuple[tuple[str, str, Form], ...]:
    """What was timed, as (title, field, form); nothing where nothing was timed."""
    if analysis.timing == "no timing":
        return ()
    if any(fact.speedup.count for fact in (*analysis.cells, *analysis.controls)):
        return ("fast_1", "fast_1", Form.PERCENT), ("speedup", "speedup", Form.RATIO)
    title = f"estimated speedup ({analysis.timing})" if analysis.timing == "simulated timing" else "estimated speedup"
    return ("estimated fast_1", "estimated_fast_1", Form.PERCENT), (title, "estimated_speedup", Form.RATIO)


def _rates(name: str, title: str, placed: Sequence[Placed], analysis: Analysis, sheet: Sheet) -> Table:
    columns: list[tuple[str, str, Form]] = [
        ("correct L1", "correct_level1", Form.PERCENT),
        ("correct L2", "correct_level2", Form.PERCENT),
        *speed_columns(analysis),
        ("pass@1", "pass_at_1", Form.PERCENT),
    ]
    if analysis.samples_per_task > 1:
        columns.append((f"pass@{analysis.samples_per_task}", "pass_at_k", Form.PERCENT))
    columns += [("compiled", "compiled", Form.PERCENT), ("valid", "valid", Form.PERCENT)]
    return Table(
        name=name,
        title=title,
        caption="percent of samples [95% interval over tasks], the rate with each seed beside it"
        + ("; speedups are geometric means over correct samples" if speed_columns(analysis) else ""),
        columns=("cell", "correct", "by seed", *(column for column, _, _ in columns)),
        rows=tuple(
            (
                words(fact.cell if not fact.num_failed else f"{fact.cell} ({fact.num_failed} failed)"),
                sheet.estimate(f"{path}.correct"),
                sheet.series(f"{path}.correct_by_seed", Form.PERCENT),
                *(sheet.estimate(f"{path}.{field}", form) for _, field, form in columns),
            )
            for path, fact in placed
        ),
    )


def disagreements(analysis: Analysis, sheet: Sheet) -> Table:
    """Where the training verifier and the audit differ."""

    def entry(path: str) -> Cell:
        return Cell(parts=(*sheet.estimate(path).parts, " (", sheet.figure(f"{path}.count"), ")"))

    return Table(
        name="disagreements",
        title="Training verifier against the audit",
        caption="percent of audited candidates [95% interval over tasks] (of how many)",
        columns=("cell", "accepted, audit rejects", "audit accepts, rejected"),
        rows=tuple(
            (
                words(fact.cell),
                entry(f"cells.{index}.false_positives"),
                entry(f"cells.{index}.false_negatives"),
            )
            for index, fact in enumerate(analysis.cells)
        ),
    )


def budget(analysis: Analysis, sheet: Sheet) -> Table | None:
    """What each cell had reached when all had spent the same on verifying."""
    if analysis.budget.seconds is None:
        return None
    return Table(
        name="budget",
        title="The grid at equal verification seconds",
        caption=f"at the end of the round nearest to {sheet.figure('budget.seconds', Form.SECONDS).text} s of the "
        "training verifier, the most that every run spent: percent correct [95% interval over tasks]; rounds and "
        "seconds are means over seeds, 0 rounds is the start",
        columns=("cell", "correct", "rounds", "their seconds", "seconds of the whole run", "evaluations"),
        rows=tuple(
            (
                words(found.cell),
                sheet.estimate(f"budget.cells.{index}.correct"),
                sheet.number(f"budget.cells.{index}.num_rounds", Form.TENTHS),
                sheet.number(f"budget.cells.{index}.spent_seconds", Form.SECONDS),
                sheet.number(f"budget.cells.{index}.total_seconds", Form.SECONDS),
                sheet.number(f"budget.cells.{index}.num_evaluations"),
            )
            for index, found in enumerate(analysis.budget.cells)
        ),
    )


def funnel(analysis: Analysis, sheet: Sheet) -> Table:
    """Stage by stage, with and without staging."""
    return Table(
        name="funnel",
        title="Training verifier: candidates that reached and failed each stage",
        caption="all candidates of the grid's cells; seconds that staging would save are those spent after a failure",
        columns=("verifier", "stage", "reached", "failed", "seconds", "staging would save"),
        rows=tuple(
            (
                words("staged" if stage.staged else "exhaustive"),
                words(stage.stage.value),
                sheet.number(f"funnel.{index}.num_attempted"),
                sheet.number(f"funnel.{index}.num_failed"),
                sheet.number(f"funnel.{index}.seconds", Form.SECONDS),
                words("-") if stage.staged else sheet.number(f"funnel.{index}.saved_seconds", Form.SECONDS),
            )
            for index, stage in enumerate(analysis.funnel)
        ),
    )


def curriculum(analysis: Analysis, sheet: Sheet) -> Table:
    """The path of each cell's curriculum."""
    return Table(
        name="curriculum",
        title="Curriculum: share of Level 2 tasks by round",
        caption="a mean over seeds",
        columns=("cell", "share by round"),
        rows=tuple(
            (words(curve.cell), sheet.series(f"curriculum.{index}.values", Form.SHORT))
            for index, curve in enumerate(analysis.curriculum)
        ),
    )


def training(analysis: Analysis, sheet: Sheet) -> Table:
    """Losses and rewards of each cell; a reward is the cell's own training verifier's."""
    rewards = {curve.cell: index for index, curve in enumerate(analysis.rewards)}

    def row(index: int) -> tuple[Cell, ...]:
        curve = analysis.losses[index]
        place = rewards.get(curve.cell)
        last = len(curve.values) - 1
        return (
            words(curve.cell),
            Cell(parts=(sparkline(curve.values, 24),), drawn=True),
            sheet.number(f"losses.{index}.values.0", Form.LOSS),
            sheet.number(f"losses.{index}.values.{last}", Form.LOSS),
            Cell(parts=("" if place is None else sparkline(analysis.rewards[place].values),), drawn=True),
            words("") if place is None else sheet.series(f"rewards.{place}.values", Form.SHORT),
        )

    return Table(
        name="training",
        title="Training: loss by step, mean reward by round",
        caption="means over seeds; each cell's reward is that of its own training verifier",
        columns=("cell", "loss", "from", "to", "mean reward", "by round"),
        rows=tuple(row(index) for index, curve in enumerate(analysis.losses) if curve.values),
    )


def held_out(analysis: Analysis, sheet: Sheet) -> Table | None:
    """The rate on held-out tasks wherever the runs were evaluated."""
    if not analysis.held_out:
        return None

    def path(indices: Sequence[int]) -> Cell:
        parts: list[Part] = []
        for index in indices:
            rate = sheet.estimate(f"held_out.{index}.correct").parts
            parts += ["; ", *rate, " after ", sheet.figure(f"held_out.{index}.num_rounds")]
        return Cell(parts=tuple(parts[1:]))

    return Table(
        name="held-out",
        title="Learning: held-out tasks by finished rounds",
        caption="percent correct [95% interval over tasks] after so many rounds; after 0 it is the start",
        columns=("cell", "by rounds"),
        rows=tuple((words(cell), path(indices)) for cell, indices in _indices_by_cell(analysis.held_out).items()),
    )


def _indices_by_cell(points: Sequence[HeldOutPoint | LearningPoint]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        found.setdefault(point.cell, []).append(index)
    return found


def learning(analysis: Analysis, sheet: Sheet) -> Table | None:
    """How good each round's candidates were, by the audit, and what verifying had cost until then."""
    if not analysis.learning:
        return None
    rows = _indices_by_cell(analysis.learning)
    order = [fact.cell for _, fact in placed_cells(analysis)]

    def path(indices: Sequence[int]) -> Cell:
        parts: list[Part] = []
        for index in indices:
            rate, spent = f"learning.{index}.correct.value", f"learning.{index}.seconds"
            parts += ["  ", sheet.figure(rate, Form.PERCENT), " at ", sheet.figure(spent, Form.SECONDS), " s"]
        return Cell(parts=tuple(parts[1:]))

    return Table(
        name="learning",
        title="Learning: quality against verification seconds",
        caption="percent of a round's audited candidates that the audit finds correct, each level weighted alike, and "
        "the training verifier's seconds until then; every round has other training tasks, so a step is as likely "
        "theirs as the model's",
        columns=("cell", "by round"),
        rows=tuple(
            (words(cell), path(rows[cell]))
            for cell in sorted(rows, key=lambda cell: order.index(cell) if cell in order else len(order))
        ),
    )


def seconds(analysis: Analysis, sheet: Sheet) -> Table:
    """What each cell took, the compared seeds together."""
    placed = [
        *placed_cells(analysis),
        *((f"controls.{index}", fact) for index, fact in enumerate(analysis.controls)),
    ]
    fields = ("sample_seconds", "train_seconds", "verify_seconds", "wall_seconds")
    return Table(
        name="seconds",
        title="Cost of each cell",
        caption="seconds, the seeds together; shared work counts wherever it was used, so it may exceed the wall time",
        columns=("cell", "sampling", "training", "verifying", "wall"),
        rows=tuple(
            (words(fact.cell), *(sheet.number(f"{path}.{field}", Form.SECONDS) for field in fields))
            for path, fact in placed
        ),
    )
