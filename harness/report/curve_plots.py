"""Plots with a panel a cell: learning curves, losses and curriculum paths, each before the baseline's.

Sixteen lines in one plot could not be told apart; a line before one that is the same in every panel can.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from markupsafe import Markup

from ...core.recipe.extensions import CellSpec
from ..analysis.findings import Analysis, Curve, Estimate
from ..study.rows import SFT
from .theme import BLUE, GREY, Layout, Spec, amount, draw

BASELINE = "none"
_INSIDE: Spec = {"labelBaseline": {"condition": {"test": "datum.value == 0", "value": "bottom"}, "value": "top"}}
"""Keeps an axis's labels beside the panel, so that panels with labels and without stand alike."""

_MAX_POINTS = 80
"""Of a line; longer ones are averaged in groups, as a pixel shows no more."""

Points = list[tuple[float, float]]
Bands = dict[str, list[tuple[float, float, float]]]
"""Of each line, the ends of its intervals: place, low, high."""


@frozen(kw_only=True)
class Style:
    """What a plot of curves shows: in words, how its numbers are written, and their factor."""

    label: str
    form: str
    unit: float = 1.0


def held_out_plot(analysis: Analysis) -> Markup | None:
    """The rate on held-out tasks by finished rounds; null where nothing was evaluated twice."""
    known = [(point.cell, float(point.num_rounds), point.correct) for point in analysis.held_out]
    label = "Percent of held-out samples that are correct by finished rounds, with 95% intervals, a panel a cell"
    return _estimates_plot(known, label, analysis)


def learning_plot(analysis: Analysis) -> Markup | None:
    """The audited rate of each round's candidates against the seconds spent on verifying; null without two rounds."""
    known = [(point.cell, point.seconds, point.correct) for point in analysis.learning]
    label = "Percent of a round's candidates that are correct against seconds spent on verifying, with 95% intervals"
    return _estimates_plot(known, f"{label}, a panel a cell", analysis)


def _estimates_plot(known: Sequence[tuple[str, float, Estimate]], label: str, analysis: Analysis) -> Markup | None:
    """Percentages with their intervals as bands, a panel a cell."""
    lines: dict[str, Points] = {}
    bands: Bands = {}
    for cell, place, found in known:
        if found.value is not None:
            lines.setdefault(cell, []).append((place, found.value))
            if found.low is not None and found.high is not None:
                bands.setdefault(cell, []).append((place, found.low, found.high))
    style = Style(label=label, form=".0f", unit=100.0)
    return curves_plot(_in_order(lines, analysis), lines.get(BASELINE, []), style, bands)


def rewards_plot(analysis: Analysis) -> Markup | None:
    lines = _lines(analysis.rewards)
    style = Style(label="Mean reward by round, a panel a cell", form=".2f")
    return curves_plot(_in_order(lines, analysis), lines.get(BASELINE, []), style)


def losses_plot(analysis: Analysis) -> Markup | None:
    """Loss by step of each cell's rounds; the start's many steps would leave no room for them."""
    lines = _lines([curve for curve in analysis.losses if curve.cell != SFT])
    style = Style(label="Loss by step, a panel a cell", form=".2f")
    return curves_plot(_in_order(lines, analysis), lines.get(BASELINE, []), style)


def curriculum_plot(analysis: Analysis) -> Markup | None:
    """Share of Level 2 tasks by round in the cells with a curriculum, before the fixed share."""
    lines = _lines([curve for curve in analysis.curriculum if CellSpec.parse(curve.cell).extensions.curriculum])
    fixed = _lines([curve for curve in analysis.curriculum if curve.cell == BASELINE])
    style = Style(label="Percent of Level 2 tasks by round, a panel a cell", form=".0f", unit=100.0)
    return curves_plot(_in_order(lines, analysis), fixed.get(BASELINE, []), style)


def _lines(curves: Sequence[Curve]) -> dict[str, Points]:
    return {curve.cell: thinned(curve.values) for curve in curves}


def _in_order(lines: dict[str, Points], analysis: Analysis) -> dict[str, Points]:
    start = [analysis.start.cell] if analysis.start else []
    order = [*start, *(fact.cell for fact in (*analysis.cells, *analysis.controls))]
    return {name: lines[name] for name in order if name in lines}


def thinned(values: Sequence[float | None]) -> Points:
    """A series as (place, value) pairs without its gaps; longer ones as means of `_MAX_POINTS` equal groups."""
    if len(values) <= _MAX_POINTS:
        return [(float(place), value) for place, value in enumerate(values) if value is not None]
    found = []
    for number in range(_MAX_POINTS):
        first, end = (len(values) * place // _MAX_POINTS for place in (number, number + 1))
        group = [value for value in values[first:end] if value is not None]
        if group:
            found.append(((first + end - 1) / 2, sum(group) / len(group)))
    return found


def curves_plot(lines: dict[str, Points], behind: Points, style: Style, bands: Bands | None = None) -> Markup | None:
    """A panel a line with its band, before the one behind; null where no line has two points."""
    bands = {name: band for name, band in (bands or {}).items() if name in lines}
    lines = {name: line for name, line in lines.items() if len(line) > 1}
    if not lines:
        return None
    every = [point for line in (*lines.values(), behind) for point in line]
    ends = [high for band in bands.values() for _, _, high in band]
    highest = max(max([*ends, *(value for _, value in every)]) * style.unit, 1e-9)
    last = max(max(place for place, _ in every), 1e-9)

    def spec(layout: Layout) -> Spec:
        columns, width = (2, 150) if layout.narrow else (4, 164)
        panels = [
            _panel(name, line, behind, bands.get(name, []), style, (last, highest), width, edge=number % columns == 0)
            for number, (name, line) in enumerate(lines.items())
        ]
        return {"concat": panels, "columns": columns, "bounds": "flush", "spacing": {"row": 34, "column": 10}}

    return draw(style.label, spec)


def _panel(
    name: str,
    line: Points,
    behind: Points,
    band: list[tuple[float, float, float]],
    style: Style,
    most: tuple[float, float],
    width: int,
    *,
    edge: bool,
) -> Spec:
    room = 34
    x = amount("x", {"domain": [0, most[0]], "nice": False, "range": [0, width - room]}, axis=None)
    axis = {"title": None, "values": [0, most[1]], "grid": True, "format": style.form, "labels": edge} | _INSIDE
    y = amount("y", {"domain": [0, most[1]], "nice": False}, axis=axis)

    def values(points: Points) -> list[Spec]:
        return [{"x": place, "y": value * style.unit} for place, value in points]

    end = {"x": line[-1][0], "y": line[-1][1] * style.unit, "text": format(line[-1][1] * style.unit, style.form)}
    words = f"{name}: from {format(line[0][1] * style.unit, style.form)} to {end['text']}"
    return {
        "title": {"text": name, "offset": 5},
        "width": width,
        "height": 56,
        "layer": [
            {
                "data": {
                    "values": [{"x": at, "y": low * style.unit, "high": high * style.unit} for at, low, high in band]
                },
                "mark": {"type": "area", "color": BLUE, "opacity": 0.18, "aria": False},
                "encoding": {"x": x, "y": y, "y2": {"field": "high"}},
            },
            {
                "data": {"values": values(behind)},
                "mark": {"type": "line", "color": GREY, "strokeWidth": 1.5, "aria": False},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": values(line)},
                "mark": {"type": "line", "color": BLUE, "strokeWidth": 2, "aria": False},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": [{**end, "words": words}]},
                "encoding": {"x": x, "y": y},
                "layer": [
                    {
                        "mark": {"type": "point", "filled": True, "size": 26, "color": BLUE},
                        "encoding": {"description": {"field": "words"}},
                    },
                    {
                        "mark": {"type": "text", "align": "left", "dx": 6, "aria": False},
                        "encoding": {"text": {"field": "text"}},
                    },
                ],
            },
        ],
    }
