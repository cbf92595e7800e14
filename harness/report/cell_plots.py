"""Plot the grid, a row a cell, at equal samples and at equal seconds, what each cell cost, and the funnel.

A cell is shown by what is on in it, a dot for each extension, so that its name need not be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from ...core.recipe.extensions import LETTERS, Extensions
from ..analysis.findings import Analysis, CellFacts, Estimate, FunnelStage
from ..analysis.number_format import Form, written
from ..study.rows import SFT
from .theme import BLUE, FAINT, GREY, INK, MUTED, ORANGE, PAPER, Layout, Spec, amount, draw

Facts = Sequence[tuple[str, CellFacts]]
Rates = Mapping[str, Estimate]
"""Estimates by cell."""

_ROW = 21


def grid_plot(analysis: Analysis) -> Markup:
    """The correct rate of each cell with its interval; on a wide page by level as well."""
    facts = _with_start(analysis)

    def spec(layout: Layout) -> Spec:
        parts = [_dots(facts), _rates(facts, {name: fact.correct for name, fact in facts}, "Correct, %", 120, room=86)]
        if not layout.narrow:
            spent = {found.cell: found.correct for found in analysis.budget.cells}
            start = {name: fact.correct for name, fact in facts if name == SFT}
            parts += [_rates(facts, {**start, **spent}, "Equal seconds, %", 100)] if spent else []
            parts.append(_rates(facts, {name: fact.correct_level1 for name, fact in facts}, "Level 1, %", 100))
            parts.append(_rates(facts, {name: fact.correct_level2 for name, fact in facts}, "Level 2, %", 100))
        return {"hconcat": parts, "spacing": 14}

    return draw("The share of held-out samples that are correct in each cell, with its 95% interval", spec)


def _with_start(analysis: Analysis) -> list[tuple[str, CellFacts]]:
    start = [(SFT, analysis.start)] if analysis.start else []
    return [*start, *((fact.cell, fact) for fact in analysis.cells)]


def _dots(facts: Facts) -> Spec:
    """A dot for each extension of a cell, filled where it is on."""
    rows = [
        {"cell": name, "letter": letter.upper(), "on": on}
        for name, fact in facts
        if name != SFT
        for letter, on in zip(LETTERS, Extensions.parse(fact.cell).flags, strict=True)
    ]
    return {
        "width": 68,
        "height": {"step": _ROW},
        "data": {"values": rows},
        "mark": {"type": "circle", "size": 56, "opacity": 1, "aria": False},
        "encoding": {
            "y": _row_axis(facts, shown=True),
            "x": {
                "field": "letter",
                "type": "ordinal",
                "sort": [letter.upper() for letter in LETTERS],
                "axis": {"orient": "top", "title": None, "labelAngle": 0, "labelColor": INK},
            },
            "color": {"condition": {"test": "datum.on", "value": INK}, "value": FAINT},
        },
    }


def _row_axis(facts: Facts, *, shown: bool) -> Spec:
    names = [name for name, _ in facts]
    axis = {"title": None, "labelColor": INK} if shown else None
    return {"field": "cell", "type": "nominal", "sort": names, "scale": {"domain": names}, "axis": axis}


def _percent(share: float) -> str:
    return written(share, Form.PERCENT)


def _seconds(value: float) -> str:
    return written(value, Form.SECONDS)


def _rates(facts: Facts, rates: Rates, title: str, width: int, room: int = 0) -> Spec:
    """Rates of cells as points with intervals; `room` is for the numbers beside them."""
    rows, start = [], None
    for name, _ in facts:
        rate = rates.get(name, Estimate(count=0))
        if rate.value is None or rate.low is None or rate.high is None:
            continue
        text = f"{_percent(rate.value)} [{_percent(rate.low)}, {_percent(rate.high)}]"
        rows.append(
            {
                "cell": name,
                "value": rate.value * 100,
                "low": rate.low * 100,
                "high": rate.high * 100,
                "text": text,
                "words": f"{name}, {title}: {text}",
            }
        )
        start = rate.value * 100 if name == SFT else start
    scale = {"domain": [0, 100], "range": [0, width]}
    axis = {"orient": "top", "title": None, "values": [0, 50, 100]}
    y = _row_axis(facts, shown=False)
    layers: list[Spec] = []
    if start is not None:
        layers.append(
            {
                "data": {"values": [{"start": start}]},
                "mark": {"type": "rule", "color": GREY, "strokeDash": [3, 3], "aria": False},
                "encoding": {"x": amount("start", scale)},
            }
        )
    layers += [
        {
            "mark": {"type": "rule", "strokeWidth": 2, "color": BLUE, "aria": False},
            "encoding": {"y": y, "x": amount("low", scale, axis=axis), "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 52, "color": BLUE},
            "encoding": {"y": y, "x": amount("value", scale), "description": {"field": "words"}},
        },
    ]
    if room:
        layers.append(
            {
                "mark": {"type": "text", "align": "right", "color": MUTED, "aria": False},
                "encoding": {"y": y, "x": {"value": width + room}, "text": {"field": "text"}},
            }
        )
    return {
        "title": {"text": title, "fontWeight": 400, "color": MUTED, "fontSize": 12},
        "width": width + room,
        "height": {"step": _ROW},
        "data": {"values": rows},
        "layer": layers,
    }


_PHASES = (("sample", BLUE), ("train", GREY), ("verify", ORANGE))


def cost_plot(analysis: Analysis) -> Markup | None:
    """Seconds of each cell by what they went into; null where no cell took any."""
    facts = [*_with_start(analysis), *((fact.cell, fact) for fact in analysis.controls)]
    rows, totals = [], []
    for name, fact in facts:
        spent = {"sample": fact.sample_seconds, "train": fact.train_seconds, "verify": fact.verify_seconds}
        total, left = sum(spent.values()), 0.0
        for phase, _ in _PHASES:
            words = f"{name}, {phase}: {_seconds(spent[phase])} s"
            rows.append({"cell": name, "phase": phase, "low": left, "high": left + spent[phase], "words": words})
            left += spent[phase]
        totals.append({"cell": name, "total": total, "text": f"{_seconds(total)} s"})
    longest = max((row["total"] for row in totals), default=0.0)
    if not longest:
        return None

    def spec(layout: Layout) -> Spec:
        width = 280 if layout.narrow else 640
        scale = {"domain": [0, longest], "nice": False, "range": [0, width - 64]}
        y = _row_axis(facts, shown=True)
        return {
            "width": width,
            "height": {"step": _ROW},
            "layer": [
                {
                    "data": {"values": rows},
                    "mark": {"type": "bar", "height": 11, "stroke": PAPER, "strokeWidth": 1},
                    "encoding": {
                        "y": y,
                        "x": amount("low", scale, axis=None),
                        "x2": {"field": "high"},
                        "color": {
                            "field": "phase",
                            "type": "nominal",
                            "scale": {"domain": [p for p, _ in _PHASES], "range": [c for _, c in _PHASES]},
                            "legend": None,
                        },
                        "description": {"field": "words"},
                    },
                },
                {
                    "data": {"values": totals},
                    "mark": {"type": "text", "align": "left", "dx": 6, "color": MUTED, "aria": False},
                    "encoding": {"y": y, "x": amount("total", scale), "text": {"field": "text"}},
                },
            ],
        }

    return draw("Seconds of each cell spent on sampling, training and verifying", spec)


_FUNNEL_ROW = 24


def funnel_plot(stages: Sequence[FunnelStage]) -> Markup | None:
    """Candidates and seconds by stage, for cells without and with staging; null without a candidate."""
    most = max((stage.num_attempted for stage in stages), default=0)
    longest = max((stage.seconds for stage in stages), default=0.0)
    if not most:
        return None

    def spec(layout: Layout) -> Spec:
        width = layout.width - 60 if layout.narrow else 325
        rows = []
        for staged in (False, True):
            own = [stage for stage in stages if stage.staged == staged]
            if own:
                kind = "Staged" if staged else "Every stage attempted"
                rows += [
                    _bars(f"{kind}: candidates", _counts(own), most, width, shown=True),
                    _bars(f"{kind}: seconds", _stage_seconds(own), longest, width, shown=layout.narrow),
                ]
        return {"concat": rows, "columns": 1 if layout.narrow else 2, "spacing": {"row": 20, "column": 16}}

    return draw("Candidates that reached and failed each stage of the training verifier, and seconds spent", spec)


def _counts(own: Sequence[FunnelStage]) -> list[Spec]:
    return [
        {
            "stage": stage.stage.value,
            "part": stage.num_attempted - stage.num_failed,
            "whole": stage.num_attempted,
            "text": f"{stage.num_attempted:,}" + (f", {stage.num_failed:,} failed" if stage.num_failed else ""),
        }
        for stage in own
    ]


def _stage_seconds(own: Sequence[FunnelStage]) -> list[Spec]:
    return [
        {
            "stage": stage.stage.value,
            "part": stage.seconds - stage.saved_seconds,
            "whole": stage.seconds,
            "text": f"{written(stage.seconds, Form.SECONDS)} s"
            + (f", {written(stage.saved_seconds, Form.SECONDS)} s after a failure" if stage.saved_seconds else ""),
        }
        for stage in own
    ]


def _bars(title: str, rows: list[Spec], longest: float, width: int, *, shown: bool) -> Spec:
    room = 150
    scale = {"domain": [0, longest or 1.0], "nice": False, "range": [0, width - room]}
    words = [{**row, "zero": 0, "words": f"{title}, {row['stage']}: {row['text']}"} for row in rows]
    y = {
        "field": "stage",
        "type": "nominal",
        "sort": [row["stage"] for row in rows],
        "axis": {"title": None, "labelColor": INK} if shown else None,
    }

    def bar(low: str, high: str, colour: str) -> Spec:
        return {
            "mark": {"type": "bar", "height": 12, "color": colour, "stroke": PAPER, "strokeWidth": 1, "aria": False},
            "encoding": {"x": amount(low, scale, axis=None), "x2": {"field": high}},
        }

    return {
        "title": title,
        "width": width,
        "height": {"step": _FUNNEL_ROW},
        "data": {"values": words},
        "encoding": {"y": y},
        "layer": [
            bar("zero", "part", BLUE),
            bar("part", "whole", ORANGE),
            {
                "mark": {"type": "text", "align": "left", "dx": 6, "color": MUTED},
                "encoding": {
                    "x": amount("whole", scale),
                    "text": {"field": "text"},
                    "description": {"field": "words"},
                },
            },
        ],
    }
