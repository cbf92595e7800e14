"""A results folder: what made it, the tables of each finished cell, and the merged tables.

    run.json                   configuration, policy and versions, compared on every later run
    planned.json               the cells that commands were to run, with their seeds
    cells/CELL/seedK/*.parquet one cell's tables; the folder appears whole when the cell has ended
    *.parquet                  all cells, merged
    work                       content-addressed work and evidence; safe to delete once finished

A folder holds one configuration. Running another one into it would mix two experiments, so it is refused with the
fields that differ.
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import polars as pl
from attrs import frozen

from ...core.config import Config, identity, merge
from ...core.recipe.extensions import CellSpec
from ...core.serialisation import canonical_json, differences, fingerprint
from ..errors import DriftError, UsageError
from ..legacy import translate_run
from ..settings import require_results
from ..tables import TABLES, DamagedTableError, Row, check_table, read_table, write_table
from ..work import WorkStore, sweep_partials, write_atomically
from .rows import SFT, CellResult, Seconds
from .training_data import identify_training

_PACKAGES = ("tritonrl", "torch", "triton", "transformers", "peft", "polars", "numpy")
_RESULT_CHANGING = ("tritonrl", "torch", "triton", "transformers", "peft")
"""The packages whose version can change a result, and so may not change within a folder."""


def package_versions() -> dict[str, str | None]:
    """Versions of the packages that a result rests on, and of Python; null for one that is not installed."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


@frozen(kw_only=True)
class RunIdentity:
    """What a results folder is about: everything shared by its cells that can change a result."""

    config: Config
    policy: str
    backend: str
    start: str | None = None
    """The identity of the state that training started from, where one was given."""

    def plain(self) -> dict[str, Any]:
        """As plain data, without what only describes the machine."""
        versions = package_versions()
        return {
            "config": identity(self.config),
            "policy": self.policy,
            "backend": self.backend,
            "versions": {package: versions[package] for package in _RESULT_CHANGING},
            **({} if self.start is None else {"start": self.start}),
            **self.training(),
        }

    def training(self) -> dict[str, str]:
        """What the configuration's names of data stand for, by content."""
        return identify_training(self.config)

    def notes(self) -> dict[str, Any]:
        """What is recorded beside the identity and not compared."""
        return {}

    def cell_fingerprint(self, cell: str, seed: int) -> str:
        return fingerprint({"run": self.plain(), "cell": cell, "seed": seed})


def timing_label(config: Config) -> str:
    """How runtimes were obtained, in the words that every table and report uses."""
    return {"none": "no timing", "simulated": "simulated timing", "measured": "measured"}[config.verifier.timing]


@frozen(kw_only=True)
class Results:
    """A results folder."""

    root: Path

    @property
    def work(self) -> WorkStore:
        """The folder's content-addressed work."""
        return WorkStore(root=self.root / "work")

    @property
    def evidence_path(self) -> Path:
        """The file of the verifier's evidence store."""
        return self.root / "work" / "evidence.sqlite"

    def recorded(self) -> dict[str, Any] | None:
        """What `run.json` says, null where the folder is new; raises DriftError for one that cannot be read."""
        path = self.root / "run.json"
        if not path.exists():
            return None
        try:
            plain: dict[str, Any] = json.loads(path.read_text())
        except ValueError as error:
            raise DriftError(f"{path}: {error}") from error
        return translate_run(plain)

    def config(self) -> Config:
        """The configuration that made this folder."""
        return merge(self.require_run()["config"])

    def require_run(self) -> dict[str, Any]:
        """What `run.json` says of an ablation; raises UsageError where there is none, or an exam."""
        require_results(self.root)
        recorded = self.recorded() or {}
        if "exam" in recorded:
            raise UsageError(f"{self.root}: an exam's folder (read it with `tritonrl eval --read {self.root}`)")
        return recorded

    def require_same(self, wanted: Mapping[str, Any], told: Mapping[str, str] | None = None) -> None:
        """Raise DriftError, with the fields that differ, where this folder was made by another run, or is an exam's.

        `wanted` is all of a run's identity, or a part; `told` has a line in words for fields that are fingerprints.
        """
        recorded = self.recorded()
        if recorded is None:
            return
        if ("exam" in recorded) != ("exam" in wanted):
            theirs = "an exam's" if "exam" in recorded else "an ablation's"
            raise DriftError(f"{self.root}: {theirs} folder; use another --out")
        then, now = _data_names(recorded.get("config", {})), _data_names(wanted.get("config", {}))
        same = {name for name in then if then[name] and then[name] == now[name]}
        said = {name: f"{name}: {now[name]} has changed since" for name in same} | dict(told or {})
        changed = differences({key: recorded.get(key) for key in wanted}, dict(wanted))
        if changed:
            listed = "\n".join(f"  {said.get(line.partition(':')[0], line)}" for line in changed)
            raise DriftError(f"{self.root} was made by another run; use another --out, or restore:\n{listed}")

    def claim(self, run: RunIdentity) -> None:
        """Record what makes this folder; raises DriftError where something else made it."""
        plain = json.loads(canonical_json(run.plain()))
        with self.work.locked("run"):
            self.require_same(plain)
            if self.recorded() is None:
                notes = {**run.notes(), "timing_mode": timing_label(run.config)}
                record = {**plain, **notes, "fingerprint": fingerprint(plain)}
                text = json.dumps({**record, "all_versions": package_versions()}, indent=2, sort_keys=True)
                write_atomically(self.root / "run.json", text.encode())

    def claimed_cell(self, cell: str, seed: int) -> AbstractContextManager[bool]:
        """The right to run a cell, for as long as the context lasts; false where another process has it."""
        return self.work.claimed(f"cell {cell} seed {seed}")

    def forget_failures(self, places: Iterable[tuple[str, int]]) -> None:
        """Let the cells that failed be run again, but for those that another process is running."""
        for cell, seed in places:
            if self.cell_status(cell, seed) == "failed":
                with self.claimed_cell(cell, seed) as ours:
                    if ours:
                        shutil.rmtree(self.cell_folder(cell, seed), ignore_errors=True)

    def cell_folder(self, cell: str, seed: int) -> Path:
        return self.root / "cells" / cell / f"seed{seed}"

    def cell_status(self, cell: str, seed: int) -> str | None:
        """ "complete", "failed", or null where the cell has not finished."""
        path = self.cell_folder(cell, seed) / "cells.parquet"
        try:
            status: str = read_table(TABLES["cells"], path)["status"][0]
        except FileNotFoundError:  # also where another process has just taken it away
            return None
        return status

    def write_cell(self, run: RunIdentity, cell: str, seed: int, result: CellResult) -> None:
        self._write(run, cell, seed, result, None)

    def write_failure(self, run: RunIdentity, cell: str, seed: int, message: str) -> None:
        """Record that a cell failed, and why."""
        self._write(run, cell, seed, CellResult(rows={}, seconds=Seconds(), wall_s=0.0), message)

    def _write(self, run: RunIdentity, cell: str, seed: int, result: CellResult, message: str | None) -> None:
        rows = {**result.rows, "cells": [_cell_row(run, cell, seed, result, message, self.root)]}
        frames = {name: table.frame(rows.get(name, [])).unique(maintain_order=True) for name, table in TABLES.items()}
        self.put_cell(cell, seed, frames)

    def put_cell(self, cell: str, seed: int, frames: Mapping[str, pl.DataFrame]) -> bool:
        """Put a cell's tables in place, all at once, unless the cell is complete here; whether they were new."""
        folder, beside = self.cell_folder(cell, seed), self.root / "cells" / f".{cell}-{seed}"
        # workers of a cluster share the starts: the first to finish one writes it, and none reads half a cell
        with self.work.locked("tables"):
            if self.cell_status(cell, seed) == "complete":
                return False
            shutil.rmtree(beside, ignore_errors=True)
            for name, frame in frames.items():
                write_table(TABLES[name], frame, beside / f"{name}.parquet")
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            beside.rename(folder)
        return True

    def sweep(self) -> None:
        """Remove what killed runs left of unfinished tables."""
        sweep_partials(self.root)

    def merge_cells(self) -> None:
        """Write the merged tables from all cells that have finished or failed, unless they are up to date."""
        if not (places := self.places()) or self._is_merged(places):
            return  # without a lock: whoever only reads may not be allowed to write
        with self.work.locked("tables"):
            places = self.places()
            if self._is_merged(places):
                return
            if (damage := self._find_damage()) is not None:
                print(f"tritonrl: {damage}; merged anew from the cells' own tables", file=sys.stderr)
            # the table of cells last: where it is up to date the others are
            for name, table in sorted(TABLES.items(), key=lambda item: item[0] == "cells"):
                frames = [read_table(table, self.cell_folder(*place) / f"{name}.parquet") for place in sorted(places)]
                merged = pl.concat([table.frame([]), *frames])
                if table.key[:2] != ("cell", "seed"):
                    # of the other tables each cell has its own rows, in the order of the key
                    merged = merged.unique(maintain_order=True).sort(table.key, maintain_order=True)
                write_table(table, merged, self.root / f"{name}.parquet")

    def _is_merged(self, places: set[tuple[str, int]]) -> bool:
        """Whether the merged tables are whole and of these cells, and none has been written since."""
        paths = [self.root / f"{name}.parquet" for name in TABLES]
        if not all(path.exists() for path in paths):
            return False
        if self._find_damage() is not None:
            return False
        since = (self.root / "cells.parquet").stat().st_mtime_ns
        merged = read_table(TABLES["cells"], self.root / "cells.parquet")
        ended = [self.cell_folder(*place) / "cells.parquet" for place in places]
        return set(merged["cell", "seed"].iter_rows()) == places and all(_modified(path) <= since for path in ended)

    def _find_damage(self) -> DamagedTableError | None:
        """What is wrong with a merged table; looked for all through that of cells, and at the others' ends."""
        try:
            for path in (self.root / f"{name}.parquet" for name in TABLES if name != "cells"):
                if path.exists():
                    check_table(path)
            if (path := self.root / "cells.parquet").exists():
                read_table(TABLES["cells"], path)
        except DamagedTableError as error:
            return error
        return None

    def plan(self, order: Iterable[tuple[str, int]]) -> None:
        """Record that these cells are to be run here, beside those that were to be already."""
        with self.work.locked("run"):
            known = self.planned()
            wanted = sorted({*known, *order})
            if wanted != sorted(known):
                write_atomically(self.root / "planned.json", json.dumps(wanted, indent=0).encode())

    def planned(self) -> set[tuple[str, int]]:
        """The cells that some command was to run here, each with its seed."""
        path = self.root / "planned.json"
        return {(str(cell), int(seed)) for cell, seed in json.loads(path.read_text())} if path.exists() else set()

    def adapter_folder(self, cell: str, seed: int) -> Path | None:
        """The final adapter of a complete cell; null for the base model, and for a cell that is not complete."""
        if self.cell_status(cell, seed) != "complete":
            return None
        adapter = read_table(TABLES["cells"], self.cell_folder(cell, seed) / "cells.parquet")["adapter"][0]
        return None if adapter is None else self.root / adapter

    def places(self) -> set[tuple[str, int]]:
        """The cells whose tables are here, each with its seed."""
        # a folder whose name starts with a dot is half a cell
        found = (path.parent for path in self.root.glob("cells/[!.]*/seed*/cells.parquet"))
        return {(folder.parent.name, int(folder.name.removeprefix("seed"))) for folder in found}

    def read(self, name: str) -> pl.DataFrame:
        """A merged table, up to date."""
        self.merge_cells()
        path = self.root / f"{name}.parquet"
        if not path.exists():
            self.require_run()
            raise UsageError(f"{path}: not found (run `tritonrl ablate --out {self.root}` first)")
        return read_table(TABLES[name], path)


def require_folder(path: Path) -> None:
    """Raise UsageError for a path that is there and is no folder."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path}: a file, not a folder")


def _data_names(config: Mapping[str, Any]) -> dict[str, str | None]:
    """How a configuration names what a run's identity has by content."""
    return {"files": config.get("sft", {}).get("data"), "against": config.get("against")}


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # another process has just taken it away, to run the cell again
        return 0


def _cell_row(
    run: RunIdentity, cell: str, seed: int, result: CellResult, message: str | None, adapter_root: Path
) -> Row:
    spec = None if cell == SFT else CellSpec.parse(cell)
    on = (None,) * 4 if spec is None else spec.extensions.flags
    names = ("multi_input", "staged", "curriculum", "timing")
    return {
        "cell": cell,
        **dict(zip(names, on, strict=True)),
        "variation": None if spec is None or spec.variation is None else spec.variation.value,
        "seed": seed,
        "fingerprint": run.cell_fingerprint(cell, seed),
        "status": "complete" if message is None else "failed",
        "message": message,
        "adapter": None if result.adapter is None else result.adapter.relative_to(adapter_root).as_posix(),
        "backend": run.backend,
        "timing_mode": timing_label(run.config),
        "versions": canonical_json(package_versions()),
        "wall_s": result.wall_s,
        "sample_s": result.seconds.sample,
        "verify_s": result.seconds.verify,
        "train_s": result.seconds.train,
    }


def is_published(folder: Path) -> bool:
    """Whether a folder is a published one, of a study or of compared runs: merged tables, and no cells of their own."""
    has_tables = any((folder / name).exists() for name in ("cells.parquet", "exams.parquet"))
    return has_tables and not (folder / "cells").exists()
