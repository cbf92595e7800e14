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
    from rich.table import Table
    from rich.text import Text

    cell = view["cells"][0]
    state = f"{cell['cell']} seed {cell['seed']}: {cell['status']}, {cell['timing_mode']}, backend {cell['backend']}"
    console.print(Text(state, style="bold"))
    if cell["message"]:
        console.print(Text(cell["message"], style="red"))
    console.print(Text(f"loss    {sparkline([row['loss'] for row in view['training']])}"))
    console.print(Text(f"reward  {sparkline([row['mean_reward'] for row in view['rounds']])}"))
    for name, columns in _SHOWN.items():
        _print_rows(Table(box=None, header_style="cyan", title=name), view[name], columns, console)


_SHOWN = {
    "rounds": ("round", "level2_share", "num_candidates", "num_selected", "mean_reward", "level1_accuracy"),
    "candidates": ("round", "task", "sample", "candidate", "outcome", "audit_outcome", "reward", "selected", "message"),
    "evaluation": ("task", "sample", "candidate", "outcome", "estimated_speedup", "speedup", "message"),
}
"""The columns shown of each table."""


def _print_rows(table: Any, rows: list[dict[str, Any]], columns: tuple[str, ...], console: Console) -> None:
    from rich.text import Text

    if not rows:
        return
    for column in columns:
        table.add_column(column.replace("_", " "), no_wrap=column == "message", overflow="ellipsis")
    for row in rows:
        table.add_row(*[Text(_shown(column, row[column])) for column in columns])
    console.print(table)


def _shown(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if column == "candidate":
        return str(value)[:12]
    return f"{value:.2f}" if isinstance(value, float) else str(value)
