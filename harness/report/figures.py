"""Numbers of a report: each is shown rounded, and knows its exact value and where in the analysis it stands.

A table names a number by its path in the analysis ("cells.3.correct.value") and never passes one, so it can show no
figure that the analysis does not hold; a reader of the page, or a test, finds the exact value beside the rounded one.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from ..analysis.number_format import Form, written


@frozen(kw_only=True)
class Figure:
    """A number of the analysis; null where nothing was measured."""

    at: str
    form: Form
    value: float | None

    @property
    def text(self) -> str:
        """The number as it is shown."""
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
        """The entry as plain text."""
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
        """The number at that path."""
        return Figure(at=path, form=form, value=self.look_up(path))

    def number(self, path: str, form: Form = Form.COUNT) -> Cell:
        """An entry with the number at that path."""
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
