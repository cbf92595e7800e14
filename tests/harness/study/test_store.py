"""Stored work and tables: whole or absent, typed, versioned, and comparable."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import threading
import time
from pathlib import Path

import polars as pl
import pytest
from tritonrl.harness.errors import DriftError
from tritonrl.harness.study.store import Results
from tritonrl.harness.tables import SCHEMA_VERSION, TABLES, read_table, write_table
from tritonrl.harness.work import WorkStore, sweep_partials, work_key, write_atomically

LOSS = {"cell": "none", "seed": 0, "phase": "rl", "round": 0, "step": 0, "loss": 1.0}


def test_work_is_done_once(tmp_path: Path) -> None:
    """The second request for a key returns the stored value, files and seconds, and does nothing."""
    store, calls = WorkStore(root=tmp_path), []

    def make(folder: Path) -> list[int]:
        calls.append(1)
        (folder / "weights").write_text("w")
        return [1, 2]

    first, second = store.once("kind", "k" * 64, make), store.once("kind", "k" * 64, make)
    assert first == second
    assert first.value == [1, 2]
    assert first.folder is not None
    assert (first.folder / "weights").read_text() == "w"
    assert len(calls) == 1


def test_failed_work_leaves_nothing(tmp_path: Path) -> None:
    """A unit that raises is neither stored nor left half done, and can be made later."""
    store = WorkStore(root=tmp_path)

    def fail(folder: Path) -> None:
        (folder / "half").write_text("h")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.once("kind", "key", fail)
    assert not store.has("kind", "key")
    assert not list(tmp_path.rglob("half"))
    assert store.once("kind", "key", lambda _: 3).value == 3


def _count(root: str) -> None:
    def make(folder: Path) -> int:
        with (Path(root) / "count").open("a") as stream:
            stream.write("x")
        return 0

    WorkStore(root=Path(root)).once("kind", "key", make)


def test_workers_that_meet_do_the_work_once(tmp_path: Path) -> None:
    """Several processes that want one key wait for the first instead of repeating its work."""
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_count, args=(str(tmp_path),)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / "count").read_text() == "x"


def test_key_depends_on_every_part() -> None:
    """A key changes with its kind and with any part, and not with the order of the parts."""
    keys = {work_key("a", x=1, y=2), work_key("b", x=1, y=2), work_key("a", x=1, y=3), work_key("a", x=1)}
    assert len(keys) == 4
    assert work_key("a", y=2, x=1) in keys


def test_partial_files_of_dead_processes_are_swept(tmp_path: Path) -> None:
    """Unfinished writes of dead processes disappear, and finished files stay."""
    import platform

    write_atomically(tmp_path / "whole", b"w")
    (tmp_path / f".t.{platform.node()}.4194999.partial").write_text("p")
    sweep_partials(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_partials_of_other_machines_are_swept_after_a_day(tmp_path: Path) -> None:
    """What another machine is writing, for hours perhaps, stays; what it left days ago goes, folders too."""
    for name in (".young.elsewhere.7.partial", ".old.elsewhere.7.partial"):
        (tmp_path / "unfinished" / name).mkdir(parents=True)
        (tmp_path / "unfinished" / name / "adapter").write_text("p")
        age_s = 5 * 3600.0 if "young" in name else 2 * 86_400.0
        os.utime(tmp_path / "unfinished" / name, (time.time() - age_s,) * 2)
    sweep_partials(tmp_path)
    assert [path.name for path in (tmp_path / "unfinished").iterdir()] == [".young.elsewhere.7.partial"]


def test_sweeping_bears_with_others_at_work(tmp_path: Path) -> None:
    """Folders that other processes make and take away meanwhile are no error."""
    (tmp_path / "unfinished").mkdir()
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            for name in (".a.elsewhere.7.partial", ".b.elsewhere.7.partial"):
                (tmp_path / "unfinished" / name / "adapter").mkdir(parents=True)
                shutil.rmtree(tmp_path / "unfinished" / name)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(400):
            sweep_partials(tmp_path)
    finally:
        is_over.set()
        worker.join()
    assert not list((tmp_path / "unfinished").iterdir())


def test_table_refuses_wrong_types_and_columns() -> None:
    """A row with text for a number, a missing column or an unknown one is an error, not a null."""
    table = TABLES["training"]
    with pytest.raises((TypeError, pl.exceptions.PolarsError)):
        table.frame([{**LOSS, "loss": "much"}])
    with pytest.raises(KeyError, match="loss"):
        table.frame([{key: value for key, value in LOSS.items() if key != "loss"}])
    with pytest.raises(KeyError, match="extra"):
        table.frame([{**LOSS, "extra": 1}])


def test_table_is_ordered_and_never_nan() -> None:
    """Rows are sorted by the table's key, and a value that is not a number is stored as null."""
    frame = TABLES["training"].frame([{**LOSS, "step": 2}, {**LOSS, "step": 1, "loss": float("nan")}])
    assert frame["step"].to_list() == [1, 2]
    assert frame["loss"].to_list() == [None, 1.0]


def test_table_file_carries_its_schema_version(tmp_path: Path) -> None:
    """The Parquet metadata has the version, and a file of another version is refused."""
    table, path = TABLES["training"], tmp_path / "t.parquet"
    write_table(table, table.frame([LOSS]), path)
    assert pl.read_parquet_metadata(path)["tritonrl.schema"] == SCHEMA_VERSION
    assert read_table(table, path).equals(table.frame([LOSS]))
    table.frame([LOSS]).write_parquet(path, metadata={"tritonrl.schema": "0"})
    with pytest.raises(DriftError, match="schema version '0'"):
        read_table(table, path)


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    """A file that is cut off, empty, or damaged within is drift that names it; a missing one stays a missing file."""
    table, path = TABLES["training"], tmp_path / "t.parquet"
    write_table(table, table.frame([{**LOSS, "step": step} for step in range(999)]), path)
    whole = path.read_bytes()
    for damaged in (whole[:500], b"", whole[:4] + bytes(1000) + whole[1004:]):
        path.write_bytes(damaged)
        with pytest.raises(DriftError, match=re.escape(f"{path}: a damaged table (")):
            read_table(table, path)
    with pytest.raises(FileNotFoundError):
        read_table(table, tmp_path / "none.parquet")


def test_time_columns_are_those_named_so() -> None:
    """Exactly the columns that end in _s are elapsed times; simulated runtimes in microseconds are not."""
    assert TABLES["rounds"].times == ("sample_s", "verify_s", "train_s")
    assert TABLES["timings"].times == ()


def test_unreadable_run_record_is_drift(tmp_path: Path) -> None:
    """A damaged run.json is reported as such and is not taken for a new folder."""
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(DriftError, match=r"run\.json"):
        Results(root=tmp_path).recorded()
