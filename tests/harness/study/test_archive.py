"""A run that goes on on another machine: what is carried is enough, whole or refused, and no more than needed."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tritonrl.core.config import merge
from tritonrl.harness.display import Progress
from tritonrl.harness.errors import DriftError, UsageError
from tritonrl.harness.study.archive import describe, pack, unpack
from tritonrl.harness.study.grid import GridOutcome, lost_starts, order_cells, parse_grid, run_grid
from tritonrl.harness.study.pipeline import CellContext
from tritonrl.harness.study.store import Results

from ..context_stub import TeacherLearner, equal_but_for_times, solutions, stub_context, tiny_config

GRID, SEEDS = "none,m,msct", 2


class Reinforced(TeacherLearner):
    """A learner that trains no start."""

    def finetune(self, adapter: Path | None, *arguments: Any) -> list[float]:
        if adapter is None:
            raise RuntimeError("a start was trained again")
        return super().finetune(adapter, *arguments)


def run(results: Results, grid: str = GRID, seeds: int = SEEDS, starts: bool = True) -> GridOutcome:
    """Run cells of the grid with stand-ins in a folder that is planned for all of it."""
    config = tiny_config()
    learner = (TeacherLearner if starts else Reinforced)(answers=solutions(config, range(SEEDS)))
    results.plan(order_cells(parse_grid(GRID), range(SEEDS)))
    return run_grid(
        results, config, parse_grid(grid), range(seeds), lambda: stub_context(results, config, learner), Progress()
    )


def test_a_run_goes_on_elsewhere(tmp_path: Path) -> None:
    """Of a run that was cut off, the rest runs elsewhere from the same starts, and gives what one run gives."""
    here, there = Results(root=tmp_path / "here"), Results(root=tmp_path / "there")
    run(here, grid="none")
    packed = pack(here, tmp_path / "parts", part_bytes=4096)
    assert (packed.num_cells, packed.num_starts) == (4, 2)
    assert packed.num_parts == len(list((tmp_path / "parts").iterdir())) > 1
    assert max(path.stat().st_size for path in (tmp_path / "parts").iterdir()) == 4096
    unpacked = unpack(tmp_path / "parts", there)
    assert describe(unpacked) == describe(packed)
    assert set(there.read("cells")["cell"]) == {"sft", "none"}
    outcome = run(there, starts=False)
    assert (outcome.num_complete, outcome.num_cached) == (8, 4)
    run(Results(root=tmp_path / "whole"))
    assert equal_but_for_times(there.root, tmp_path / "whole")


def test_finished_cells_need_no_work(tmp_path: Path) -> None:
    """Cells that have ended are found by their tables alone: without the work folder nothing runs again."""
    results = Results(root=tmp_path)
    run(results)
    shutil.rmtree(tmp_path / "work")
    for path in tmp_path.glob("*.parquet"):
        path.unlink()

    def refuse() -> CellContext:
        raise AssertionError("everything is finished")

    outcome = run_grid(results, tiny_config(), parse_grid(GRID), range(SEEDS), refuse, Progress())
    assert (outcome.num_complete, outcome.num_cached) == (8, 8)
    assert results.read("cells").height == 8


def test_starts_of_whole_seeds_stay(tmp_path: Path) -> None:
    """The start of a seed of which nothing is left is not carried, that of a seed with cells left is."""
    results = Results(root=tmp_path / "run")
    run(results, seeds=1)
    run(results, grid="none")
    assert pack(results, tmp_path / "parts", 1 << 20).num_starts == 1
    run(results)
    assert pack(results, tmp_path / "parts", 1 << 20).num_starts == 0
    assert len(list((tmp_path / "parts").iterdir())) == 1


def test_starts_of_whole_seeds_are_carried_on_request(tmp_path: Path) -> None:
    """With its start, a finished run is extended elsewhere from the model that its cells had."""
    here, there = Results(root=tmp_path / "here"), Results(root=tmp_path / "there")
    run(here)
    assert pack(here, tmp_path / "parts", 1 << 20, with_starts=True).num_starts == 2
    unpack(tmp_path / "parts", there)
    assert lost_starts(there, parse_grid("t"), range(SEEDS)) == {}
    assert run(there, grid="none,t", starts=False).num_complete == 6


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """Neither is packed into a file, nor unpacked."""
    run(Results(root=tmp_path / "run"), grid="none", seeds=1)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="file: a file, not a folder"):
        pack(Results(root=tmp_path / "run"), file, 1 << 20)
    pack(Results(root=tmp_path / "run"), tmp_path / "parts", 1 << 20)
    with pytest.raises(UsageError, match="file: a file, not a folder"):
        unpack(tmp_path / "parts", Results(root=file))


def test_what_is_there_stays(tmp_path: Path) -> None:
    """Unpacking into a folder that has cells already adds the others, and changes none."""
    here, there = Results(root=tmp_path / "here"), Results(root=tmp_path / "there")
    run(here, grid="none", seeds=1)
    pack(here, tmp_path / "parts", 1 << 20)
    run(there, grid="none,m", seeds=1)
    path = there.cell_folder("none", 0) / "cells.parquet"
    before = path.read_bytes()
    unpacked = unpack(tmp_path / "parts", there)
    assert (unpacked.num_cells, unpacked.num_starts) == (0, 0)
    assert path.read_bytes() == before
    assert there.read("cells").height == 3


@pytest.mark.parametrize(("name", "kind"), [("../outside", tarfile.REGTYPE), ("link", tarfile.SYMTYPE)])
def test_what_is_no_file_of_a_run_is_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    """Neither a place beside the folder nor a link."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/hostname"
        archive.addfile(member)
    data, parts = held.getvalue(), tmp_path / "parts"
    parts.mkdir()
    (parts / f"archive-{hashlib.sha256(data).hexdigest()[:8]}-001-of-001.part").write_bytes(data)
    with pytest.raises(UsageError, match="no file of a run"):
        unpack(parts, Results(root=tmp_path / "there"))
    assert not [path for path in tmp_path.rglob("*") if path.name in ("outside", "link")]


def test_missing_and_spoilt_parts_are_refused(tmp_path: Path) -> None:
    """A part that is missing is named, one that has changed is found out, and nothing is unpacked."""
    here, there, parts = Results(root=tmp_path / "here"), Results(root=tmp_path / "there"), tmp_path / "parts"
    with pytest.raises(UsageError, match="no results here"):
        pack(here, parts, 4096)
    with pytest.raises(UsageError, match="no parts"):
        unpack(parts, there)
    run(here, grid="none", seeds=1)
    number = pack(here, parts, 4096).num_parts
    first, second, *_ = sorted(parts.iterdir())
    data = first.read_bytes()
    first.unlink()
    with pytest.raises(UsageError, match=f"of {number} parts there is no 1$"):
        unpack(parts, there)
    first.write_bytes(data)
    second.write_bytes(b"x" * second.stat().st_size)
    with pytest.raises(UsageError, match="not as they were written"):
        unpack(parts, there)
    (parts / first.name.replace("archive-", "archive-00000000-", 1).replace(first.name[8:17], "", 1)).write_bytes(data)
    with pytest.raises(UsageError, match="several packs"):
        unpack(parts, there)
    assert not there.places()


def test_another_run_is_refused(tmp_path: Path) -> None:
    """What another configuration made is not mixed into a folder."""
    here, there = Results(root=tmp_path / "here"), Results(root=tmp_path / "there")
    run(here, grid="none", seeds=1)
    pack(here, tmp_path / "parts", 1 << 20)
    config = merge({"rl": {"keep": 2}}, tiny_config())
    run_grid(there, config, parse_grid("m"), range(1), lambda: stub_context(there, config), Progress())
    with pytest.raises(DriftError, match="another run"):
        unpack(tmp_path / "parts", there)
    assert there.places() == {("sft", 0), ("m", 0)}


def test_parts_are_a_tar_archive(tmp_path: Path) -> None:
    """The parts, one after the other, are what `tar` reads."""
    results = Results(root=tmp_path / "run")
    run(results, grid="none", seeds=1)
    pack(results, tmp_path / "parts", 4096)
    (tmp_path / "by-tar").mkdir()
    command = f"cat {tmp_path}/parts/*.part | tar -x -C {tmp_path}/by-tar"
    subprocess.run(command, shell=True, check=True)
    assert Results(root=tmp_path / "by-tar").places() == {("sft", 0), ("none", 0)}
