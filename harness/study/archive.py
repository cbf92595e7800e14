"""Archives of a run for another machine (`tritonrl pack`, `tritonrl unpack`): tar, in parts that can be sent.

Packed are the folder's identity, its invocations, the tables of cells that have ended, and the supervised start of each
seed that has cells left to run; where it is asked for, of whole seeds too, since cells may be added to them. The start
is packed because training it anew on another machine gives another one in the last digits, and the cells of a seed are
compared as having one start. All else is left: cells that were cut off begin anew, from that start.

The parts are a plain tar archive cut up, so that `cat *.part | tar -x` reads them as well.

A published folder has the tables alone. Only seeds are taken of which every cell is there, as the start is gone; of the
others all run anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from attrs import frozen

from ...core.serialisation import to_plain
from ..errors import DriftError, UsageError
from ..tables import TABLES
from ..work import write_atomically
from .provenance import read_invocations, write_provenance
from .rows import SFT
from .store import Results, is_published, require_folder

_PART = re.compile(r"archive-([0-9a-f]{8})-(\d+)-of-(\d+)\.part")
_FILES = ("run.json", "config.toml", "planned.json")


@frozen(kw_only=True)
class Archived:
    """The contents of a pack, or the new part of them: cells with the supervised starts, adapters, and bytes in all."""

    num_cells: int
    num_starts: int
    num_bytes: int
    num_parts: int


def pack(results: Results, target: Path, part_bytes: int, with_starts: bool = False) -> Archived:
    """Write the parts into `target`, in place of an earlier pack's; `with_starts` packs those of whole seeds too.

    Raises UsageError where there is nothing yet.
    """
    results.require_run()
    require_folder(target)
    cells, starts = sorted(results.places()), _stored_starts(results)
    if not with_starts:
        over = _starts_of_whole_seeds(results)
        starts = [unit for unit in starts if unit / "adapter" not in over]
    paths = [results.root / name for name in _FILES if (results.root / name).exists()]
    paths += sorted((results.root / "invocations").glob("*.json"))
    for folder in (*(results.cell_folder(*place) for place in cells), *starts):
        paths += sorted(path for path in folder.rglob("*") if path.is_file())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in paths:
            archive.add(path, path.relative_to(results.root).as_posix(), recursive=False)
    data = buffer.getvalue()
    name = hashlib.sha256(data).hexdigest()[:8]
    pieces = [data[first : first + part_bytes] for first in range(0, len(data), part_bytes)]
    target.mkdir(parents=True, exist_ok=True)
    for path in _parts(target):
        path.unlink()
    for number, piece in enumerate(pieces, start=1):
        write_atomically(target / f"archive-{name}-{number:03}-of-{len(pieces):03}.part", piece)
    return Archived(num_cells=len(cells), num_starts=len(starts), num_bytes=len(data), num_parts=len(pieces))


def unpack(source: Path, results: Results) -> Archived:
    """Put the parts in `source`, or a published folder's whole seeds, into a results folder; what is there stays.

    Raises UsageError for parts that are missing or spoilt, DriftError where the folder is another run's.
    """
    require_folder(results.root)
    if is_published(source):
        return _restore(source, results)
    data, num_parts = _join(source)
    arrived = results.work.root / "unfinished" / ".unpacked"
    # nobody reads what has arrived in part, and cells and adapters are put into place whole
    with results.work.locked("unpacking"):
        shutil.rmtree(arrived, ignore_errors=True)
        arrived.mkdir(parents=True)
        try:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                _extract(archive, arrived)
            _require_same_run(arrived, results)
            cells, starts = _settle(arrived, results)
        except tarfile.TarError as error:
            raise UsageError(f"{source}: {error}") from error
        finally:
            shutil.rmtree(arrived, ignore_errors=True)
    results.merge_cells()
    write_provenance(results)
    return Archived(num_cells=cells, num_starts=starts, num_bytes=len(data), num_parts=num_parts)


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Write an archive's files into a folder; raises UsageError for anything else, or what lies outside of it.

    `extractall` says so by itself from Python 3.11.4 on, which is younger than Debian 12's.
    """
    for member in archive:
        path = folder / member.name
        if not path.resolve().is_relative_to(folder.resolve()) or not (member.isfile() or member.isdir()):
            raise UsageError(f"the pack has {member.name}, which is no file of a run")
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
        elif (held := archive.extractfile(member)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(held.read())


def _stored_starts(results: Results) -> list[Path]:
    """The supervised starts that are here, each a unit of work."""
    # of all adapters only a start's has the story of its data beside it
    return sorted(path.parent for path in results.root.glob("work/adapters/*/*/data.json"))


def _starts_of_whole_seeds(results: Results) -> set[Path | None]:
    """The adapters of the starts of seeds of which nothing is left to run."""
    planned = results.planned()
    left = {seed for cell, seed in planned if results.cell_status(cell, seed) != "complete"}
    return {results.adapter_folder(SFT, seed) for _, seed in planned if seed not in left}


def _parts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.part") if _PART.fullmatch(path.name))


def _join(source: Path) -> tuple[bytes, int]:
    """The archive that the parts in a folder make, and their number."""
    paths = _parts(source)
    found = [match for path in paths if (match := _PART.fullmatch(path.name))]
    packs = {(match[1], int(match[3])) for match in found}
    if len(packs) != 1:
        raise UsageError(f"{source}: {'parts of several packs' if packs else 'no parts of a pack'}")
    name, number = packs.pop()
    missing = sorted(set(range(1, number + 1)) - {int(match[2]) for match in found})
    if missing:
        raise UsageError(f"{source}: of {number} parts there is no {', '.join(map(str, missing))}")
    data = b"".join(path.read_bytes() for path in paths)
    if hashlib.sha256(data).hexdigest()[:8] != name:
        raise UsageError(f"{source}: the parts are not as they were written")
    return data, number


def _require_same_run(arrived: Path, results: Results) -> None:
    theirs, ours = Results(root=arrived).recorded(), results.recorded()
    if theirs is None:
        raise UsageError("the pack holds no results")
    if ours is not None and ours["fingerprint"] != theirs["fingerprint"]:
        raise DriftError(f"{results.root} was made by another run than what is unpacked; use another --out")


def _settle(arrived: Path, results: Results) -> tuple[int, int]:
    """Move all that is new into the folder; how many cells and starts were."""
    theirs = Results(root=arrived)
    results.plan(theirs.planned())
    cells = 0
    with results.work.locked("tables"):
        for place in theirs.places():
            folder = results.cell_folder(*place)
            if results.cell_status(*place) != "complete":
                cells += 1
                shutil.rmtree(folder, ignore_errors=True)
                _move(theirs.cell_folder(*place), folder)
                (folder / "cells.parquet").touch()  # since when the merged tables lack it
    starts = sum(_move(path, results.root / path.relative_to(arrived)) for path in _units(arrived))
    for path in (*(arrived / name for name in _FILES), *(arrived / "invocations").glob("*.json")):
        if path.exists():
            _move(path, results.root / path.relative_to(arrived))
    return cells, starts


def _units(arrived: Path) -> Iterator[Path]:
    yield from (path.parent for path in arrived.glob("work/adapters/*/*/value.json"))


def _move(path: Path, target: Path) -> bool:
    """Move to where nothing is yet; whether that was so."""
    if target.exists():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    return True


def describe(carried: Archived) -> str:
    size = f"{carried.num_bytes / 1e6:.1f} MB in {carried.num_parts} part{'s' * (carried.num_parts != 1)}"
    starts = f"{carried.num_starts} supervised start{'s' * (carried.num_starts != 1)}"
    return f"{carried.num_cells} ended cell{'s' * (carried.num_cells != 1)}, {starts}; {size}"


def _restore(folder: Path, results: Results) -> Archived:
    """Put the whole seeds of a published folder into a results folder, new or begun; what is there already stays.

    Raises DriftError where the results are another run's, UsageError where no seed is whole.
    """
    require_folder(results.root)
    published = Results(root=folder)
    recorded = published.recorded()
    if recorded is None:
        raise UsageError(f"{folder}: no run.json, so nobody knows what run it was")
    results.require_same({key: value for key, value in recorded.items() if key != "all_versions"})
    tables = {name: published.read(name) for name in TABLES}
    places = _whole_seeds(tables["cells"])
    if not places:
        raise UsageError(f"{folder}: of no seed are all cells complete")
    results.root.mkdir(parents=True, exist_ok=True)
    for name in ("run.json", "config.toml"):
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
    return Archived(num_cells=num_new, num_starts=0, num_bytes=num_bytes, num_parts=len(TABLES))


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
