"""How the plots look: one palette, one type, and drawing a Vega-Lite specification as SVG.

Colours are CSS variables, so that one drawing serves light, dark and print; blue and orange are Okabe and Ito's, which
colour-blind readers can tell apart, and no plot tells things apart by colour alone. Each plot is drawn twice, for a
wide page and for a phone, and the style sheet shows one: a drawing that shrinks to a phone cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen
from markupsafe import Markup, escape

INK, MUTED, FAINT, RULE = "var(--ink)", "var(--muted)", "var(--faint)", "var(--rule)"
PAPER, BLUE, ORANGE, GREY = "var(--paper)", "var(--blue)", "var(--orange)", "var(--grey)"

Spec = dict[str, Any]

_VEGA_LITE = "6.4"
_FONT = "Arial"
"""Widths are measured in it; the style sheet sets the page's own."""

_CONFIG: Spec = {
    "background": None,
    "padding": 2,
    "font": _FONT,
    "view": {"stroke": None},
    "concat": {"spacing": 18},
    "axis": {
        "domain": False,
        "ticks": False,
        "gridColor": RULE,
        "labelColor": MUTED,
        "labelFontSize": 12,
        "labelFontWeight": "normal",
        "labelPadding": 6,
        "titleColor": MUTED,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "axisY": {"grid": False},
    "title": {
        "anchor": "start",
        "color": INK,
        "fontSize": 13,
        "fontWeight": 600,
        "offset": 8,
        "subtitleColor": MUTED,
        "subtitleFontSize": 12,
        "subtitlePadding": 3,
    },
    "text": {"color": INK, "fontSize": 12},
    "rule": {"color": INK},
    "line": {"strokeWidth": 2, "color": BLUE},
    "point": {"filled": True, "opacity": 1, "color": BLUE},
    "bar": {"color": BLUE},
}


@frozen(kw_only=True)
class Layout:
    """The room that a plot has: its width in pixels, and whether that is a phone's."""

    width: int
    narrow: bool


WIDE, NARROW = Layout(width=720, narrow=False), Layout(width=340, narrow=True)


def amount(field: str, scale: Spec | None, **more: Any) -> Spec:
    """The channel that shows a field's number on a scale."""
    return {"field": field, "type": "quantitative", "scale": scale, **more}


def typeset(text: str) -> str:
    """Text with real minus and times signs."""
    return re.sub(r"(?<![\w-])-(?=[\d.])", "−", text).replace(" x ", " × ")


def draw(label: str, spec_for: Callable[[Layout], Spec]) -> Markup:
    """The plot as SVG for a wide page and for a phone; `label` says to a screen reader what it shows."""
    drawings = [
        Markup('<div class="plot {}">{}</div>').format(name, _svg(spec_for(layout), label))
        for name, layout in (("wide", WIDE), ("narrow", NARROW))
    ]
    return Markup("").join(drawings)


def standalone(drawing: Markup, css: str) -> str:
    """The wide drawing of a plot as a file of its own, in the style sheet's light colours.

    The colours stand there as they are: most programs that show SVG know no variables of CSS, and draw nothing.
    """
    svg = re.search(r"<svg .*?</svg>", drawing, flags=re.DOTALL)
    if svg is None:
        raise ValueError("no drawing")
    light, _ = re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+):\s*([^;]+);", light))
    opening, end, rest = re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]].strip(), svg.group()).partition(">")
    paper = f'<rect width="100%" height="100%" fill="{colours["paper"].strip()}"/>'
    font = 'font-family="Arial, Helvetica, sans-serif" '
    return f"{opening.replace('<svg ', _SVG + font, 1)}{end}{paper}{rest}\n"


_SVG = '<svg xmlns="http://www.w3.org/2000/svg" '


def _svg(spec: Mapping[str, Any], label: str) -> Markup:
    import vl_convert

    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "config": _CONFIG, **spec}
    drawn: str = vl_convert.vegalite_to_svg(whole, vl_version=_VEGA_LITE, allowed_base_urls=[])
    return Markup(_slim(drawn).replace("<svg ", f'<svg role="group" aria-label="{escape(label)}" ', 1))


def _slim(svg: str) -> str:
    """The drawing without what no one sees: hidden labels, backgrounds, fonts, and places after the decimal point."""
    svg = re.sub(r'<text [^>]*opacity="0"[^>]*>[^<]*</text>', "", svg)
    svg = re.sub(r'<path class="(?:background|foreground)"[^>]*/>', "", svg)
    svg = re.sub(r' (?:xmlns(?::\w+)?|font-family|pointer-events|version|stroke-miterlimit)="[^"]*"', "", svg)
    svg = re.sub(r' aria-roledescription="[^"]*"| role="graphics-object"', "", svg)
    return re.sub(r' (?:d|transform|x2|y2|width|height|viewBox)="[^"]*"', _rounded, svg)


def _rounded(attribute: re.Match[str]) -> str:
    return re.sub(r"-?\d+\.\d+", lambda number: f"{float(number.group()):.1f}".removesuffix(".0"), attribute.group())
