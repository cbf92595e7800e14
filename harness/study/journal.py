"""The rows and the seconds of a cell, collected as it runs."""

from __future__ import annotations

from pathlib import Path

from attrs import Factory, define, frozen

from ..tables import Row

SFT = "sft"
"""The name under which the supervised start, which all cells of a seed share, appears in the tables."""


@define
class Seconds:
    """Seconds spent on the three kinds of work, as recorded when each unit was first done."""

    sample: float = 0.0
    verify: float = 0.0
    train: float = 0.0


@frozen(kw_only=True)
class CellResult:
    """A finished cell: rows by table, the final adapter's folder (null: the base model), and what it took."""

    rows: dict[str, list[Row]]
    seconds: Seconds
    wall_s: float
    adapter: Path | None = None


@define
class Journal:
    """Collects the rows of one cell as it runs."""

    cell: str
    seed: int
    rows: dict[str, list[Row]] = Factory(dict)
    seconds: Seconds = Factory(Seconds)

    def add(self, table: str, *rows: Row) -> None:
        self.rows.setdefault(table, []).extend(rows)
