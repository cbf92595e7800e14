"""One cell of a results folder: its rounds, its losses, and every candidate with why it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ..errors import UsageError
from ..study.store import Results
from .sheet import sparkline

if TYPE_CHECKING:
    from rich.console import Console


def cell_view(results: Results, cell: str, seed: int) -> dict[str, Any]:
    """The cell's rows by table, as plain data; raises UsageError where the folder has no such cell."""
    chosen = (pl.col("cell") == cell) & (pl.col("seed") == seed)
    tables = ("cells", "rounds", "training", "candidates", "evaluation")
    view = {name: results.read(name).filter(chosen).to_dicts() for name in tables}
    if not view["cells"]:
        known = results.read("cells").sort("cell", "seed").select("cell", "seed").iter_rows()
        raise UsageError(
            f"{cell} seed {seed}: not in {results.root}; there are {', '.join(f'{c}:{s}' for c, s in known)}"
        )
    return view


def find_source(results: Results, prefix: str) -> str:
    """The source of the candidate whose hash starts with `prefix`."""
    found = results.read("sources").filter(pl.col("candidate").str.starts_with(prefix))
    if found.height != 1:
        raise UsageError(f"--source {prefix}: {found.height} candidates of {results.root} start with it")
    source: str = found["source"][0]
    return source


def print_view(view: dict[str, Any], console: Console) -> None:
    """Draw the cell with rich."""
    from rich.text import Text

    cell = view["cells"][0]
    state = f"{cell['cell']} seed {cell['seed']}: {cell['status']}, {cell['timing_mode']}, backend {cell['backend']}"
    console.print(Text(state, style="bold"))
    if cell["message"]:
        console.print(Text(cell["message"], style="red"))
    console.print(Text(f"loss    {sparkline([row['loss'] for row in view['training']])}"))
    console.print(Text(f"reward  {sparkline([row['mean_reward'] for row in view['rounds']])}"))
    for name, columns in _SHOWN.items():
        if view[name]:
            console.print(Text(f"\n{name}", style="italic"))
            is_narrow = console.width < _WIDE
            _print_rows(view[name], [one for one in columns if not (is_narrow and one in _LESS)], console)


_SHOWN = {
    "rounds": ("round", "level2_share", "num_candidates", "num_selected", "mean_reward", "level1_accuracy"),
    "candidates": ("round", "task", "sample", "candidate", "reward", "outcome", "audit_outcome", "selected"),
    "evaluation": ("task", "sample", "candidate", "estimated_speedup", "speedup", "outcome"),
}
"""The columns of each table; a message stands below its row."""
_WIDE = 120
_LESS = ("sample", "audit_outcome", "selected", "estimated_speedup")
"""Columns that a narrow console leaves out."""


def _print_rows(rows: list[dict[str, Any]], columns: list[str], console: Console) -> None:
    from rich.text import Text

    lines = [[_shown(column, row[column]) for column in columns] for row in rows]
    titles = [column.replace("_", " ") for column in columns]
    widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]

    def join(cells: list[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

    console.print(Text(join(titles), style="cyan"))
    for row, line in zip(rows, lines, strict=True):
        console.print(Text(join(line)))
        if row.get("message"):
            console.print(Text(f"    {row['message']}", no_wrap=True, overflow="ellipsis"))


def _shown(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if column == "candidate":
        return str(value)[:8]
    return f"{value:.2f}" if isinstance(value, float) else str(value)
