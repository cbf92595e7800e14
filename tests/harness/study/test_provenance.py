"""Where results came from: each run of a command on a folder leaves a record, a run that was cut short too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tritonrl.harness.study.provenance import provenance_text, read_invocations, recorded_invocation
from tritonrl.harness.study.store import Results
from tritonrl.harness.tables import TABLES, write_table

from .. import hand_made


def test_runs_add_up(tmp_path: Path) -> None:
    """Two runs on one folder have a record each, and the totals are their sums; GPUs held count for their time."""
    results = Results(root=tmp_path)
    for devices in ((), ("0", "1")):
        with recorded_invocation(results, "tritonrl ablate", 1, devices):
            pass
    first, second = read_invocations(results)
    assert first.ended
    assert second.ended
    assert {len(first.machine.gpus), len(second.machine.gpus)} == {0, 2}
    assert first.versions["torch"]
    totals = json.loads((tmp_path / "provenance.json").read_text())["totals"]
    assert totals["invocations"] == 2
    assert totals["wall_hours"] == pytest.approx((first.seconds + second.seconds) / 3600)
    assert totals["gpu_hours"] == pytest.approx(first.gpu_hours + second.gpu_hours)


def test_a_run_that_fails_is_recorded(tmp_path: Path) -> None:
    """The record is there from the start, and is closed where an error ends the run."""
    results = Results(root=tmp_path)

    def fail() -> None:
        with recorded_invocation(results, "tritonrl ablate", 2, ()):
            (begun,) = read_invocations(results)
            assert not begun.ended
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        fail()
    (record,) = read_invocations(results)
    assert record.ended
    assert record.num_workers == 2


def test_records_name_no_folder(tmp_path: Path) -> None:
    """The folder's path stands in no record, so that it can be published and continued elsewhere."""
    results = Results(root=tmp_path / "folder")
    with recorded_invocation(results, "tritonrl ablate --grid full", 1, ()):
        pass
    assert str(tmp_path) not in (results.root / "provenance.json").read_text()


def test_only_whole_cells_count_as_finished(tmp_path: Path) -> None:
    """A cell that another process is still writing, under a name that starts with a dot, is not finished."""
    results = Results(root=tmp_path)
    with recorded_invocation(results, "tritonrl ablate", 1, ()):
        for name in ("m/seed0", "s/seed1", ".t-0/seed0"):
            write_table(TABLES["cells"], hand_made.cells("m"), tmp_path / "cells" / name / "cells.parquet")
    (record,) = read_invocations(results)
    assert record.num_finished == 2


def test_a_published_folder_keeps_its_records(tmp_path: Path) -> None:
    """Where only `provenance.json` is left, the invocations are read from it."""
    ours, theirs = Results(root=tmp_path / "run"), Results(root=tmp_path / "published")
    with recorded_invocation(ours, "tritonrl ablate", 1, ("0",)):
        pass
    theirs.root.mkdir()
    (theirs.root / "provenance.json").write_text((ours.root / "provenance.json").read_text())
    assert read_invocations(theirs) == read_invocations(ours)
    assert len(read_invocations(theirs)) == 1
    assert provenance_text(theirs) == provenance_text(ours)
