"""What a report is made of: tables of entries that know their numbers, and prose."""

from __future__ import annotations

from attrs import frozen

from ...core.statistics import factorial
from ..analysis.number_format import Form
from .figures import Cell, Sheet, words


@frozen(kw_only=True)
class Table:
    """A titled table; the first entry of a row says what the row is about."""

    name: str
    title: str
    caption: str
    """What the numbers are, and how to read them."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@frozen(kw_only=True)
class Prose:
    """A titled list of sentences."""

    name: str
    title: str
    lines: tuple[str, ...]


Section = Table | Prose

METRIC_TITLES = {
    "correct": "correct",
    "correct_level1": "correct L1",
    "correct_level2": "correct L2",
    "valid": "valid",
    "compiled": "compiled",
}
"""The rates as column titles."""


def term_name(term: str) -> str:
    """A main effect or an interaction as tables write it, as M x S; or the mean, which an effect may be lost in."""
    return "the mean" if term == "mean" else " x ".join(term.upper())


def effect_entry(effect: factorial.Effect, path: str, sheet: Sheet, form: Form = Form.POINTS) -> Cell:
    """An effect with its interval and Holm's adjusted p; marked where it stands out and could be tested.

    "*": its interval excludes 0. "**": it still differs from 0 once all effects of its analysis are allowed for.
    """
    if effect.estimate is None:
        partners = effect.confounded_with
        return words(f"with {', '.join(map(term_name, partners))}" if 0 < len(partners) <= 3 else "-")
    if effect.low == effect.high == effect.estimate == 0.0:
        # an interval of no width is no certainty: every cell gave the same
        return Cell(parts=(sheet.figure(f"{path}.estimate", form), ", no variation"))
    entry = sheet.estimate(path, form, "estimate")
    if effect.p_adjusted is None:
        # with one seed: an interval over tasks alone excludes 0 too easily to be marked
        return entry
    mark = "**" if effect.confirmed else "*" if effect.conclusive else ""
    return Cell(parts=(*entry.parts, " p ", sheet.figure(f"{path}.p_adjusted", Form.P_VALUE)), mark=mark)
