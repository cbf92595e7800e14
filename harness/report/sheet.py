"""Tables and prose of a report, whose numbers are shown rounded and know their exact value and path in the analysis.

A table names a number by its path in the analysis ("cells.3.correct.value") and never passes one, so it can show no
figure that the analysis does not hold; a reader of the page, or a test, finds the exact value beside the rounded one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from ...core.statistics import factorial
from ..analysis.number_format import Form, written


@frozen(kw_only=True)
class Figure:
    """A number of the analysis; null where nothing was measured."""

    at: str
    form: Form
    value: float | None

    @property
    def text(self) -> str:
        return written(self.value, self.form)


Part = str | Figure


@frozen(kw_only=True)
class Cell:
    """One entry of a table; `mark` is "*" or "**" beside a number that stands out, and empty otherwise."""

    parts: tuple[Part, ...]
    mark: str = ""
    drawn: bool = False
    """Whether it is a line drawn in characters, for which a page has a plot."""

    @property
    def text(self) -> str:
        shown = "".join(part if isinstance(part, str) else part.text for part in self.parts)
        return f"{shown} {self.mark}" if self.mark else shown


@frozen(kw_only=True)
class Sheet:
    """An analysis as plain data, from which tables take their numbers by path."""

    plain: Any

    def look_up(self, path: str) -> Any:
        """What stands at that path; raises KeyError or IndexError where nothing does."""
        found = self.plain
        for step in path.split("."):
            found = found[int(step)] if isinstance(found, list | tuple) else found[step]
        return found

    def figure(self, path: str, form: Form = Form.COUNT) -> Figure:
        return Figure(at=path, form=form, value=self.look_up(path))

    def number(self, path: str, form: Form = Form.COUNT) -> Cell:
        return Cell(parts=(self.figure(path, form),))

    def estimate(self, path: str, form: Form = Form.PERCENT, middle: str = "value") -> Cell:
        """An entry with the number named `middle` of the record at that path, and its `low` and `high` in brackets."""
        record = self.look_up(path)
        centre = self.figure(f"{path}.{middle}", form)
        if record[middle] is None or record["low"] is None or record["high"] is None:
            return Cell(parts=(centre,))
        low, high = (self.figure(f"{path}.{end}", form) for end in ("low", "high"))
        return Cell(parts=(centre, " [", low, ", ", high, "]"))

    def series(self, path: str, form: Form) -> Cell:
        """An entry with every number of the list at that path."""
        parts: list[Part] = []
        for index in range(len(self.look_up(path))):
            parts += [" ", self.figure(f"{path}.{index}", form)]
        return Cell(parts=tuple(parts[1:]))


def words(text: str) -> Cell:
    """An entry without a number of the analysis."""
    return Cell(parts=(text,))


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


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """A series as a line of bars between its smallest and largest value; null is a gap; longer ones are averaged."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if len(values) > width:
        groups = [values[len(values) * i // width : len(values) * (i + 1) // width] for i in range(width)]
        kept = [[value for value in group if value is not None] for group in groups]
        values = [sum(group) / len(group) if group else None for group in kept]
        known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    span = (high - low) or 1.0
    return "".join(
        " " if value is None else _BARS[min(int((value - low) / span * len(_BARS)), len(_BARS) - 1)] for value in values
    )
