"""The funnel: how many candidates reached and failed each stage, and the seconds spent there."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ..analysis.findings import FunnelStage
from ..analysis.number_format import Form, written
from .theme import BLUE, INK, MUTED, ORANGE, PAPER, Layout, Spec, draw

_ROW = 24


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
                    _bars(f"{kind}: seconds", _seconds(own), longest, width, shown=layout.narrow),
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


def _seconds(own: Sequence[FunnelStage]) -> list[Spec]:
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
            "encoding": {
                "x": {"field": low, "type": "quantitative", "scale": scale, "axis": None},
                "x2": {"field": high},
            },
        }

    return {
        "title": title,
        "width": width,
        "height": {"step": _ROW},
        "data": {"values": words},
        "encoding": {"y": y},
        "layer": [
            bar("zero", "part", BLUE),
            bar("part", "whole", ORANGE),
            {
                "mark": {"type": "text", "align": "left", "dx": 6, "color": MUTED},
                "encoding": {
                    "x": {"field": "whole", "type": "quantitative", "scale": scale},
                    "text": {"field": "text"},
                    "description": {"field": "words"},
                },
            },
        ],
    }
