"""Plots of the effects, the controls and the noise sweep, and of what each pair of extensions does together.

The lines of an interaction plot are means of cells; they are parallel where two extensions do not interact, and the
interaction's own interval stands above them. A forest plot has estimates with their intervals on one scale that holds
zero; a filled point is one whose interval excludes zero. The first panel also writes the numbers; on a phone every
panel has the page's width, so there each does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from markupsafe import Markup

from ...core.statistics import factorial
from ..analysis.findings import Analysis, Comparison, Estimate, NoiseSetting, PairMean
from ..analysis.number_format import Form, written
from .sheet import term_name
from .theme import BLUE, INK, MUTED, ORANGE, PAPER, Layout, Spec, amount, draw, typeset


def effects_plot(analysis: Analysis) -> Markup | None:
    """Effects on the correct rate at equal samples and at equal seconds, and by level; null where none can be told."""
    panels = {
        title: [_effect_mark(effect) for effect in found.effects]
        for title, found in (
            ("Equal samples", analysis.effects["correct"]),
            ("Equal seconds", analysis.budget.effects["correct"]),
            ("Level 1", analysis.effects["correct_level1"]),
            ("Level 2", analysis.effects["correct_level2"]),
        )
        if found is not None
    }
    return forest_plot("Effects on the rate of correct kernels in points, each with its 95% interval", panels)


def _effect_mark(effect: factorial.Effect) -> Mark:
    label, text = typeset(term_name(effect.name)), _interval_words(effect)
    return Mark(label=label, value=effect.estimate, low=effect.low, high=effect.high, text=text)


def _interval_words(effect: factorial.Effect) -> str:
    if effect.estimate is None:
        return "not separable"
    mark = "" if effect.p_adjusted is None else " **" if effect.confirmed else " *" if effect.conclusive else ""
    return _bracketed(effect.estimate, effect.low, effect.high) + mark


def _bracketed(value: float | None, low: float | None, high: float | None) -> str:
    middle = written(value, Form.POINTS)
    if low is None or high is None:
        return middle
    return f"{middle} [{written(low, Form.POINTS)}, {written(high, Form.POINTS)}]"


def comparisons_plot(found: Sequence[Comparison]) -> Markup | None:
    """Differences of the controls to their counterparts; null without any."""
    marks = tuple(_mark(f"{one.cell} − {one.counterpart}", one.difference) for one in found if one.metric == "correct")
    return forest_plot(
        "Correct rate of each control minus its counterpart's, in points, with 95% intervals",
        {"Difference in points": marks},
    )


def sweep_plot(found: Sequence[NoiseSetting]) -> Markup | None:
    """The noise sweep's differences to calibrated timing; null without any."""
    marks = tuple(
        _mark(one.noise if one.cv is None else f"CV {written(one.cv, Form.PERCENT)}%", one.difference)
        for one in found
        if one.metric == "correct" and one.difference.value is not None
    )
    return forest_plot(
        "Correct rate under each timing noise minus that under calibrated timing, in points, with 95% intervals",
        {"Difference to calibrated timing, in points": marks},
    )


def _mark(label: str, found: Estimate) -> Mark:
    text = _bracketed(found.value, found.low, found.high)
    return Mark(label=label, value=found.value, low=found.low, high=found.high, text=text)


def interactions_plot(analysis: Analysis) -> Markup | None:
    """One panel for each pair of extensions; null unless every pair can be told apart in the grid."""
    found = analysis.effects["correct"]
    names = [term for term in factorial.TERMS if len(term) == 2]
    if found is None or not all(found.effect(pair).estimable for pair in names):
        return None
    means = {pair: [mean for mean in analysis.pairs if mean.first + mean.second == pair] for pair in names}
    shares = [mean.rate.value * 100 for four in means.values() for mean in four if mean.rate.value is not None]
    margin = max((max(shares) - min(shares)) * 0.15, 1.0)
    domain = (min(shares) - margin, max(shares) + margin)

    def spec(layout: Layout) -> Spec:
        columns, width = (2, 118) if layout.narrow else (3, 196)
        panels = [_pair_panel(pair, means[pair], found.effect(pair), domain, width) for pair in names]
        for number, panel in enumerate(panels):
            if number % columns:
                panel["layer"][0]["encoding"]["y"]["axis"] = {"labels": False, "title": None, "tickCount": 4}
        return {"concat": panels, "columns": columns, "spacing": {"row": 18, "column": 14}}

    return draw("Mean correct rate of the cells with two extensions on or off, a panel for each pair", spec)


def _pair_panel(
    pair: str, means: Sequence[PairMean], effect: factorial.Effect, domain: tuple[float, float], width: int
) -> Spec:
    height, reach = 130, width - 44
    first, second = pair[0].upper(), pair[1].upper()
    rows = [
        {
            "first": f"{first} on" if mean.first_on else f"{first} off",
            "second": mean.second_on,
            "share": None if mean.rate.value is None else mean.rate.value * 100,
            "words": f"{first} {'on' if mean.first_on else 'off'}, {second} {'on' if mean.second_on else 'off'}: "
            f"{written(mean.rate.value, Form.PERCENT)}% correct",
        }
        for mean in means
    ]
    ends = {mean.second_on: (mean.rate.value or 0.0) * 100 for mean in means if mean.first_on}
    per_point = height / (domain[1] - domain[0])
    wanted = {on: (domain[1] - share) * per_point for on, share in ends.items()}
    labels = [
        {"text": f"{second} {'on' if on else 'off'}", "second": on, "y": place}
        for on, place in spread(wanted, 14, height).items()
    ]
    x = {
        "field": "first",
        "type": "ordinal",
        "sort": [f"{first} off", f"{first} on"],
        "scale": {"type": "point", "padding": 0.25, "range": [0, reach]},
        "axis": {"title": None, "labelAngle": 0, "grid": False},
    }
    y_axis = {"title": None, "grid": True, "tickCount": 4, "format": ".0f"}
    y = amount("share", {"domain": list(domain), "nice": False, "zero": False}, axis=y_axis)
    colour = {"condition": {"test": "datum.second", "value": ORANGE}, "value": BLUE}
    return {
        "title": {"text": typeset(term_name(pair)), "subtitle": typeset(_interval_words(effect))},
        "width": width,
        "height": height,
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 2, "aria": False},
                "encoding": {"x": x, "y": y, "color": colour, "detail": {"field": "second"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 48},
                # each layer has axes of its own: the lines' are drawn
                "encoding": {"x": x, "y": {**y, "axis": None}, "color": colour, "description": {"field": "words"}},
            },
            {
                "data": {"values": labels},
                "mark": {"type": "text", "align": "left", "aria": False},
                "encoding": {
                    "x": {"value": reach * 5 / 6 + 9},
                    "y": amount("y", None),
                    "text": {"field": "text"},
                    "color": colour,
                },
            },
        ],
        "resolve": {"scale": {"color": "independent", "y": "independent"}},
    }


def spread(wanted: Mapping[bool, float], apart: float, height: float) -> dict[bool, float]:
    """Places for labels near where they are wanted, in the same order and at least that far apart."""
    order = sorted(wanted, key=lambda key: wanted[key])
    placed: dict[bool, float] = {}
    last = -apart
    for key in order:
        last = placed[key] = max(wanted[key], last + apart)
    over = max(0.0, last - height)
    return {key: place - over for key, place in placed.items()}


_ROW = 22
_POINTS = 100.0
_FIRST = 250
"""Of the first of several panels, without the names of its rows, in pixels."""

_LABELS = 150
"""Room for the numbers beside a panel, in pixels."""


@frozen(kw_only=True)
class Mark:
    """One row of a panel; null where nothing could be estimated. `text` is what is written beside it."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    text: str

    @property
    def conclusive(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low is not None and self.high is not None and (self.low > 0.0 or self.high < 0.0)


def forest_plot(label: str, panels: Mapping[str, Sequence[Mark]]) -> Markup | None:
    """The marks of each panel, by its title, in one drawing, shares as points; null where nothing is known.

    Each panel has a scale of its own: the wide intervals of one would leave the others no room. None goes beyond 100
    points: an interval from two runs may be wider than any possible effect.
    """
    known = [(title, marks) for title, marks in panels.items() if any(mark.value is not None for mark in marks)]
    if not known:
        return None

    def spec(layout: Layout) -> Spec:
        rest = (layout.width - _FIRST - 100 - 18 * (len(known) - 1)) // max(1, len(known) - 1)
        widths = [layout.width - 85] * len(known) if layout.narrow else [_FIRST if len(known) > 1 else 560, *[rest] * 9]
        drawn = [
            _panel(*panel, width, labelled=layout.narrow or index == 0, last=layout.width)
            for index, (panel, width) in enumerate(zip(known, widths, strict=False))
        ]
        return {"vconcat" if layout.narrow else "hconcat": drawn}

    return draw(label, spec)


def _reach(marks: Sequence[Mark]) -> float:
    """How many points a panel's scale goes to both sides of zero."""
    ends = [abs(end) for mark in marks for end in (mark.value, mark.low, mark.high) if end is not None]
    return max(0.01, min(max(ends), 1.0) * 1.06) * _POINTS


def _panel(title: str, marks: Sequence[Mark], width: int, *, labelled: bool, last: int) -> Spec:
    reach = _reach(marks)
    rows = [
        {
            "label": mark.label,
            "value": None if mark.value is None else mark.value * _POINTS,
            "low": None if mark.low is None else max(-reach, min(reach, mark.low * _POINTS)),
            "high": None if mark.high is None else max(-reach, min(reach, mark.high * _POINTS)),
            "conclusive": mark.conclusive,
            "text": typeset(mark.text),
            "words": f"{mark.label}, {title}: {typeset(mark.text)}",
        }
        for mark in marks
    ]
    plot_width = width - (_LABELS if labelled else 0)
    scale = {"domain": [-reach, reach], "nice": False, "range": [0, plot_width]}
    x = amount("value", scale)
    y_axis = {"title": None, "labelColor": INK, "labelLimit": last} if labelled else None
    y = {"field": "label", "type": "nominal", "sort": [mark.label for mark in marks], "axis": y_axis}
    axis = {"tickCount": 3, "title": None, "format": "+.0f" if reach >= 3 else "+.1f"}
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "color": MUTED, "strokeWidth": 1, "aria": False},
            "encoding": {"x": {"datum": 0, "type": "quantitative", "scale": scale}},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 2, "color": BLUE, "aria": False},
            "encoding": {"y": y, "x": {**x, "field": "low", "axis": axis}, "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 56, "stroke": BLUE, "strokeWidth": 2},
            "encoding": {
                "x": x,
                "y": y,
                "fill": {"condition": {"test": "datum.conclusive", "value": BLUE}, "value": PAPER},
                "description": {"field": "words"},
            },
        },
    ]
    if labelled:
        layers.append(
            {
                "mark": {"type": "text", "align": "right", "aria": False},
                "encoding": {
                    "x": {"value": width},
                    "y": y,
                    "text": {"field": "text"},
                    "color": {"condition": {"test": "datum.conclusive", "value": INK}, "value": MUTED},
                },
            }
        )
    return {
        "title": title,
        "width": width,
        "height": {"step": _ROW},
        "data": {"values": rows},
        "layer": layers,
    }
