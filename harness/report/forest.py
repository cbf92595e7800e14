"""Forest plots: estimates with their intervals on one scale that holds zero, a row each, panels side by side.

A filled point is one whose interval excludes zero. The first panel also writes the numbers; on a phone every panel has
the page's width, so there each does.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from markupsafe import Markup

from .theme import BLUE, INK, MUTED, PAPER, Layout, Spec, draw, typeset

_ROW = 22
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


@frozen(kw_only=True)
class Panel:
    """Marks under one title."""

    title: str
    marks: tuple[Mark, ...]


def forest_plot(label: str, panels: Sequence[Panel], unit: float = 100.0, limit: float | None = None) -> Markup | None:
    """The panels in one drawing, values times `unit`; null where nothing is known.

    `limit` cuts the scale, in the values' own unit: an interval from two runs may be wider than any possible effect.
    """
    marks = [mark for panel in panels for mark in panel.marks]
    ends = [abs(end) for mark in marks for end in (mark.value, mark.low, mark.high) if end is not None]
    if not ends:
        return None
    reach = max(0.01, min(max(ends), limit or max(ends)) * 1.06) * unit
    known = [panel for panel in panels if any(mark.value is not None for mark in panel.marks)]

    def spec(layout: Layout) -> Spec:
        rest = (layout.width - _FIRST - 100 - 18 * (len(known) - 1)) // max(1, len(known) - 1)
        widths = [layout.width - 85] * len(known) if layout.narrow else [_FIRST if len(known) > 1 else 560, *[rest] * 9]
        drawn = [
            _panel(panel, reach, width, unit, labelled=layout.narrow or index == 0, last=layout.width)
            for index, (panel, width) in enumerate(zip(known, widths, strict=False))
        ]
        return {"vconcat" if layout.narrow else "hconcat": drawn}

    return draw(label, spec)


def _panel(panel: Panel, reach: float, width: int, unit: float, *, labelled: bool, last: int) -> Spec:
    rows = [
        {
            "label": mark.label,
            "value": None if mark.value is None else mark.value * unit,
            "low": None if mark.low is None else max(-reach, min(reach, mark.low * unit)),
            "high": None if mark.high is None else max(-reach, min(reach, mark.high * unit)),
            "conclusive": mark.conclusive,
            "text": typeset(mark.text),
            "words": f"{mark.label}, {panel.title}: {typeset(mark.text)}",
        }
        for mark in panel.marks
    ]
    plot_width = width - (_LABELS if labelled else 0)
    scale = {"domain": [-reach, reach], "nice": False, "range": [0, plot_width]}
    x = {"field": "value", "type": "quantitative", "scale": scale}
    y_axis = {"title": None, "labelColor": INK, "labelLimit": last} if labelled else None
    y = {"field": "label", "type": "nominal", "sort": [mark.label for mark in panel.marks], "axis": y_axis}
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
        "title": panel.title,
        "width": width,
        "height": {"step": _ROW},
        "data": {"values": rows},
        "layer": layers,
    }
