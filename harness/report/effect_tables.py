"""Tables of effects, of the controls' differences, of the noise sweep and of the timing's own noise.

Effects are shown at equal samples, at equal verification seconds, and on the cost.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core.statistics import factorial
from ..analysis.comparisons import COMPARED
from ..analysis.findings import METRICS, Analysis
from ..analysis.number_format import Form
from .sheet import METRIC_TITLES, Cell, Part, Prose, Section, Sheet, Table, effect_entry, term_name, words

Effects = Mapping[str, factorial.Analysis | None]

_READING = (
    "points [95% interval] p = Holm's, adjusted for the fifteen effects of its column; * the interval excludes 0, "
    "** and so does Holm's p at 0.05"
)
_OF_THESE_RUNS = "points, of the runs that were made: without several whole seeds nothing is tested"
_CONFOUNDED = "'with' = confounded with, - with more than three others"


def estimable(effects: Effects) -> bool:
    """Whether any effect can be told from the others."""
    return any(effect.estimable for found in effects.values() if found is not None for effect in found.effects)


def effects(analysis: Analysis, sheet: Sheet) -> tuple[Section, ...]:
    """Main effects and all interactions on every rate, twice: at equal samples and at equal verification seconds."""
    title = "Main effects and interactions"
    if not estimable(analysis.effects):
        num_cells = len(analysis.cells)
        grid_size = f"{num_cells} cell{'s' if num_cells != 1 else ''} of the grid"
        line = f"{grid_size} cannot tell one extension from another: the grid is too small. Run --grid full, or half."
        return (Prose(name="effects", title=title, lines=(line,)),)
    found: list[Section] = [
        _table("effects", f"{title}, at equal samples", analysis.effects, "effects", sheet),
    ]
    if analysis.budget.seconds is not None and estimable(analysis.budget.effects):
        at = f"when each run had spent {sheet.figure('budget.seconds', Form.SECONDS).text} s verifying"
        found.append(
            _table(
                "effects-seconds",
                f"{title}, at equal verification seconds",
                analysis.budget.effects,
                "budget.effects",
                sheet,
                f"{at}, ",
            )
        )
    return tuple(found)


def _table(name: str, title: str, by_metric: Effects, path: str, sheet: Sheet, at: str = "") -> Table:
    present = [(metric, found) for metric in METRICS if (found := by_metric[metric]) is not None]
    confounded = any(effect.confounded_with for _, found in present for effect in found.effects)
    over = present[0][1].over
    drawn = "" if over == "nothing" else f"; intervals are over {over}"
    reading = _READING if "seeds" in over else _OF_THESE_RUNS
    return Table(
        name=name,
        title=title,
        caption=f"{at}{reading}{drawn}{f'; {_CONFOUNDED}' if confounded else ''}",
        columns=("effect", *(METRIC_TITLES[metric] for metric, _ in present)),
        rows=tuple(
            (
                words(term_name(term)),
                *(
                    effect_entry(found.effects[index], f"{path}.{metric}.effects.{index}", sheet)
                    for metric, found in present
                ),
            )
            for index, term in enumerate(factorial.TERMS)
        ),
    )


def detectable(analysis: Analysis, sheet: Sheet) -> Table | None:
    """The smallest effect that the run could have seen."""
    sources = [
        (f"{METRIC_TITLES[metric]}{label}", found, f"{path}.{metric}")
        for label, by_metric, path in (
            ("", analysis.effects, "effects"),
            (", equal seconds", analysis.budget.effects, "budget.effects"),
        )
        for metric in METRICS[:3]
        if (found := by_metric[metric]) is not None
    ]
    known = [effect for _, found, _ in sources for effect in found.effects]
    if all(effect.detectable is None for effect in known):
        return None
    return Table(
        name="detectable",
        title="Smallest detectable effect",
        caption="points: the size whose 95% interval would exclude 0 with a chance of 80%, given this run's noise",
        columns=("effect", *(title for title, _, _ in sources)),
        rows=tuple(
            (
                words(term_name(term)),
                *(sheet.number(f"{path}.effects.{index}.detectable", Form.SIZE) for _, _, path in sources),
            )
            for index, term in enumerate(factorial.TERMS)
        ),
    )


def pairs(analysis: Analysis, sheet: Sheet) -> Table | None:
    """The means behind the interaction plots."""
    if not analysis.pairs:
        return None
    entries: dict[str, dict[tuple[bool, bool], Cell]] = {}
    for index, mean in enumerate(analysis.pairs):
        row = entries.setdefault(mean.first + mean.second, {})
        row[mean.first_on, mean.second_on] = sheet.estimate(f"pairs.{index}.rate")
    levels = ((False, False), (True, False), (False, True), (True, True))
    return Table(
        name="pairs",
        title="Pairs of extensions",
        caption="percent correct [95% interval over tasks] over the cells with the first and the second on or off",
        columns=("pair", "both off", "first on", "second on", "both on"),
        rows=tuple(
            (words(f"{pair[0].upper()}, {pair[1].upper()}"), *(row.get(level, words("-")) for level in levels))
            for pair, row in entries.items()
        ),
    )


def costs(analysis: Analysis, sheet: Sheet) -> Table | None:
    """What each extension does to the seconds of verifying one candidate."""
    found = analysis.cost_effects
    if found is None or not any(effect.estimable for effect in found.effects):
        return None
    spread = (
        ", from one seed, so without an interval"
        if found.over == "nothing"
        else f" [95% interval, over {found.over}] p = Holm's"
    )
    return Table(
        name="cost-effects",
        title="Effects on the cost of verifying",
        caption=f"times the training verifier's seconds a candidate{spread}; 1.00 = no difference",
        columns=("effect", "times the seconds"),
        rows=tuple(
            (
                words(term_name(term)),
                effect_entry(found.effects[index], f"cost_effects.effects.{index}", sheet, Form.FACTOR),
            )
            for index, term in enumerate(factorial.TERMS)
        ),
    )


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
