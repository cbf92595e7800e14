"""Tables of what is beside the grid: differences of the controls, the noise sweep, and how noisy the timing was."""

from __future__ import annotations

from ..analysis.comparisons import COMPARED
from ..analysis.findings import Analysis
from ..analysis.number_format import Form
from .figures import Cell, Part, Sheet, words
from .tables import METRIC_TITLES, Table


def comparisons(analysis: Analysis, sheet: Sheet) -> Table | None:
    """Each control minus its counterpart."""
    if not analysis.comparisons:
        return None
    rows: dict[tuple[str, str], dict[str, Cell]] = {}
    for index, found in enumerate(analysis.comparisons):
        row = rows.setdefault((found.cell, found.counterpart), {})
        row[found.metric] = sheet.estimate(f"comparisons.{index}.difference", Form.POINTS)
        row.setdefault("seeds", sheet.number(f"comparisons.{index}.num_seeds"))
        row.setdefault("over", words(found.over))
    return Table(
        name="comparisons",
        title="Controls against their counterparts",
        caption="the first cell minus the second, in points [95% interval, over what the last column says]; these "
        "differences are not adjusted for one another",
        columns=("difference", *(METRIC_TITLES[metric] for metric in COMPARED), "seeds", "interval over"),
        rows=tuple(
            (
                words(f"{cell} minus {counterpart}"),
                *(row.get(name, words("-")) for name in (*COMPARED, "seeds", "over")),
            )
            for (cell, counterpart), row in rows.items()
        ),
    )


def sweep(analysis: Analysis, sheet: Sheet) -> Table | None:
    """The noise sweep: training with timing of different noise."""
    if not analysis.noise_sweep:
        return None
    rows: dict[str, list[Cell]] = {}
    ends: dict[str, tuple[Cell, Cell]] = {}
    for index, setting in enumerate(analysis.noise_sweep):
        path = f"noise_sweep.{index}"
        if setting.cell not in rows:
            injected: list[Part] = (
                [] if setting.cv is None else [" of CV ", sheet.figure(f"{path}.cv", Form.PERCENT), "%"]
            )
            rows[setting.cell] = [words(setting.cell), Cell(parts=(setting.noise, *injected))]
            over = setting.over if setting.counterpart else "-"
            ends[setting.cell] = (sheet.number(f"{path}.num_seeds"), words(over))
        rows[setting.cell] += [sheet.estimate(f"{path}.rate"), sheet.estimate(f"{path}.difference", Form.POINTS)]
    columns = [(METRIC_TITLES[metric], f"{METRIC_TITLES[metric]}, difference") for metric in COMPARED]
    return Table(
        name="noise-sweep",
        title="Noise sweep",
        caption="percent of samples [95% interval over tasks], and the difference to calibrated timing in points [95% "
        "interval, over what the last column says], not adjusted for one another; every row is a training of its own, "
        "so differences hold the chance of two trainings",
        columns=("cell", "timing noise", *(title for pair in columns for title in pair), "seeds", "interval over"),
        rows=tuple((*row, *ends[cell]) for cell, row in rows.items()),
    )


def timing(analysis: Analysis, sheet: Sheet) -> Table | None:
    """How far measurements of one thing scatter under each protocol."""
    if not analysis.timing_noise:
        return None
    return Table(
        name="timing",
        title="Timing noise",
        caption="coefficient of variation in percent [95% interval over tasks]: over repeated measurements of one "
        "reference, and over the trials of one measurement",
        columns=("protocol", "timing", "tasks", "measurements", "between measurements", "within one"),
        rows=tuple(
            (
                words("calibrated" if found.calibrated else "single"),
                words("simulated" if found.simulated else "measured"),
                sheet.number(f"timing_noise.{index}.num_tasks"),
                sheet.number(f"timing_noise.{index}.num_measurements"),
                sheet.estimate(f"timing_noise.{index}.between", Form.FINE_PERCENT),
                sheet.estimate(f"timing_noise.{index}.within", Form.FINE_PERCENT),
            )
            for index, found in enumerate(analysis.timing_noise)
        ),
    )
