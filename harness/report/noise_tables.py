"""Tables of what is beside the grid: differences of the controls, the noise sweep, and how noisy the clock was."""

from __future__ import annotations

from ..analysis.comparisons import COMPARED
from ..analysis.findings import Analysis
from .figures import Cell, Form, Part, Sheet, words
from .tables import METRIC_TITLES, Table


def comparisons(analysis: Analysis, sheet: Sheet) -> Table | None:
    """Each control minus its counterpart."""
    if not analysis.comparisons:
        return None
    rows: dict[tuple[str, str], dict[str, Cell]] = {}
    for index, found in enumerate(analysis.comparisons):
        entry = sheet.estimate(f"comparisons.{index}.difference", Form.POINTS)
        rows.setdefault((found.cell, found.counterpart), {})[found.metric] = entry
    return Table(
        name="comparisons",
        title="Controls against their counterparts",
        caption="the first cell minus the second, in points [95% interval]; these differences are not adjusted for "
        "one another",
        columns=("difference", *(METRIC_TITLES[metric] for metric in COMPARED)),
        rows=tuple(
            (words(f"{cell} minus {counterpart}"), *(row.get(metric, words("-")) for metric in COMPARED))
            for (cell, counterpart), row in rows.items()
        ),
    )


def sweep(analysis: Analysis, sheet: Sheet) -> Table | None:
    """The noise sweep: the same run with timing of different noise."""
    if not analysis.noise_sweep:
        return None
    rows: dict[str, list[Cell]] = {}
    for index, setting in enumerate(analysis.noise_sweep):
        path = f"noise_sweep.{index}"
        if setting.cell not in rows:
            injected: list[Part] = (
                [] if setting.cv is None else [" of CV ", sheet.figure(f"{path}.cv", Form.PERCENT), "%"]
            )
            rows[setting.cell] = [words(setting.cell), Cell(parts=(setting.noise, *injected))]
        rows[setting.cell] += [sheet.estimate(f"{path}.rate"), sheet.estimate(f"{path}.difference", Form.POINTS)]
    columns = [(METRIC_TITLES[metric], f"{METRIC_TITLES[metric]}, difference") for metric in COMPARED]
    return Table(
        name="noise-sweep",
        title="Noise sweep",
        caption="percent of samples [95% interval over tasks], and the difference to calibrated timing in points "
        "[95% interval]",
        columns=("cell", "timing noise", *(title for pair in columns for title in pair)),
        rows=tuple(tuple(row) for row in rows.values()),
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
        columns=("protocol", "clock", "tasks", "measurements", "between measurements", "within one"),
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
