"""Seeds are added to a published run, whose work is gone: whole ones stay, the rest runs anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tritonrl.harness.errors import DriftError, UsageError
from tritonrl.harness.report.publish import publish
from tritonrl.harness.study.archive import unpack
from tritonrl.harness.study.store import Results, is_published
from tritonrl.harness.tables import TABLES, read_table, write_table

from .test_archive import run


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published run, of whose second seed one cell is missing."""
    root = tmp_path_factory.mktemp("published")
    results = Results(root=root / "run")
    run(results)
    shutil.rmtree(results.cell_folder("m", 1))
    publish(results, root / "published")
    return root / "published"


def test_a_published_seed_is_not_run_again(published: Path, tmp_path: Path) -> None:
    """The whole seed is complete with the tables it had, the other's cells run, and both are what one run gives."""
    there = Results(root=tmp_path / "there")
    assert is_published(published)
    assert unpack(published, there).num_cells == 4
    assert unpack(published, there).num_cells == 0
    outcome = run(there)
    assert (outcome.num_complete, outcome.num_cached) == (8, 4)
    run(Results(root=tmp_path / "whole"))
    for name, table in TABLES.items():
        ours, theirs = (
            read_table(table, folder / f"{name}.parquet").drop(table.times)
            for folder in (there.root, tmp_path / "whole")
        )
        assert ours.height > 0
        # of the timings a published folder has each measurement once
        assert ours.equals(theirs, null_equal=True) or (name == "timings" and ours.height < theirs.height), name
    publish(there, tmp_path / "again")
    assert is_published(tmp_path / "again")


def test_what_cannot_be_added_to_is_refused(published: Path, tmp_path: Path) -> None:
    """Nothing is taken of a folder without a whole seed, without a run's identity, or of another run."""
    other = tmp_path / "other"
    shutil.copytree(published, other)
    (other / "run.json").unlink()
    with pytest.raises(UsageError, match=r"no run\.json"):
        unpack(other, Results(root=tmp_path / "a"))
    shutil.copy(published / "run.json", other)
    cells = read_table(TABLES["cells"], other / "cells.parquet")
    lacking = cells.filter((cells["seed"] == 1) | (cells["cell"] != "none"))
    write_table(TABLES["cells"], lacking, other / "cells.parquet")
    with pytest.raises(UsageError, match="of no seed"):
        unpack(other, Results(root=tmp_path / "b"))
    there = Results(root=tmp_path / "c")
    unpack(published, there)
    text = (there.root / "run.json").read_text()
    (there.root / "run.json").write_text(text.replace('"fingerprint": "', '"fingerprint": "0'))
    with pytest.raises(DriftError, match="fingerprint"):
        unpack(published, there)
