"""A published folder as a run again, so that seeds can be added to it: its tables, cell by cell.

Nothing else is left of the run that it came from. The starts are gone, and the cells of a seed are compared as having
one, so only seeds are taken of which every cell is there; of the others all run anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from ...core.serialisation import to_plain
from ..errors import UsageError
from ..tables import TABLES
from ..work import write_atomically
from .carry import Carried
from .provenance import read_invocations, write_provenance
from .store import Results, require_folder

_AS_THEY_ARE = ("run.json", "config.toml")
_OF_THE_MACHINE = ("all_versions",)


def is_published(folder: Path) -> bool:
    """Whether a folder is a published one: merged tables, and no cells of their own."""
    return (folder / "cells.parquet").exists() and not (folder / "cells").exists()


def restore(folder: Path, results: Results) -> Carried:
    """Put the whole seeds of a published folder into a results folder, new or begun; what is there already stays.

    Raises DriftError where the results are another run's, UsageError where no seed is whole.
    """
    require_folder(results.root)
    published = Results(root=folder)
    recorded = published.recorded()
    if recorded is None:
        raise UsageError(f"{folder}: no run.json, so nobody knows what run it was")
    results.require_same({key: value for key, value in recorded.items() if key not in _OF_THE_MACHINE})
    tables = {name: published.read(name) for name in TABLES}
    places = _whole_seeds(tables["cells"])
    if not places:
        raise UsageError(f"{folder}: of no seed are all cells complete")
    results.root.mkdir(parents=True, exist_ok=True)
    for name in _AS_THEY_ARE:
        if (folder / name).exists() and not (results.root / name).exists():
            write_atomically(results.root / name, (folder / name).read_bytes())
    results.plan(places)
    num_new = sum(results.put_cell(*place, _share(tables, *place)) for place in places)
    for number, invocation in enumerate(read_invocations(published)):
        path = results.root / "invocations" / f"{invocation.started_at.replace(':', '')[:17]}-published-{number}.json"
        write_atomically(path, json.dumps(to_plain(invocation), indent=2).encode())
    results.merge_cells()
    write_provenance(results)
    num_bytes = sum((folder / f"{name}.parquet").stat().st_size for name in TABLES)
    return Carried(num_cells=num_new, num_starts=0, num_bytes=num_bytes, num_parts=len(TABLES))


def _whole_seeds(cells: pl.DataFrame) -> list[tuple[str, int]]:
    """The complete cells of the seeds that lack none of the cells that any seed has."""
    complete = cells.filter(pl.col("status") == "complete").select("cell", "seed").unique()
    num_cells = cells["cell"].n_unique()
    whole = complete.group_by("seed").len().filter(pl.col("len") == num_cells)["seed"]
    return sorted(complete.filter(pl.col("seed").is_in(whole.to_list())).iter_rows())


def _share(tables: dict[str, pl.DataFrame], cell: str, seed: int) -> dict[str, pl.DataFrame]:
    """One cell's rows of the tables, with the sources that they mention."""
    is_ours = (pl.col("cell") == cell) & (pl.col("seed") == seed)
    shares = {name: frame.filter(is_ours) for name, frame in tables.items() if "cell" in frame.columns}
    mentioned = pl.concat([shares[name]["candidate"] for name in ("candidates", "evaluation")]).unique()
    return {**shares, "sources": tables["sources"].filter(pl.col("candidate").is_in(mentioned.to_list()))}
