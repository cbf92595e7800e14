"""The grid: which cells it names, what it plans, and how it runs, fails and resumes."""

from __future__ import annotations

import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from tritonrl.core.recipe.extensions import GRID_CELLS, NAMED_GRIDS, CellSpec
from tritonrl.harness.display import Progress
from tritonrl.harness.errors import DriftError, SandboxError, UsageError
from tritonrl.harness.plain_text import render_plan
from tritonrl.harness.settings import load_config
from tritonrl.harness.study.cell import run_cell
from tritonrl.harness.study.grid import (
    Planned,
    count_samples,
    count_updates,
    order_cells,
    parse_grid,
    plan_grid,
    run_grid,
)
from tritonrl.harness.study.pipeline import CellContext
from tritonrl.harness.study.rows import SFT
from tritonrl.harness.study.store import Results, RunIdentity

from ..context_stub import TeacherLearner, TextJudge, equal_but_for_times, solutions, stub_context, tiny_config

CELLS = parse_grid("none,msct")


def run(results: Results, learner: TeacherLearner | None = None, grid: str = "none,msct", seeds: int = 1) -> object:
    """Run a grid with stand-ins."""
    config = tiny_config()
    return run_grid(
        results, config, parse_grid(grid), range(seeds), lambda: stub_context(results, config, learner), Progress()
    )


def test_seeds_follow_one_another() -> None:
    """All cells of a seed come before those of the next, so that a run that is cut off leaves whole seeds."""
    order = order_cells(CELLS, range(2))
    assert order == [(SFT, 0), (SFT, 1), ("none", 0), ("msct", 0), ("none", 1), ("msct", 1)]


def test_named_grids_have_their_sizes() -> None:
    """Full has 16 cells, half 8, one-at-a-time, leave-one-out and noise 5 each, controls 2."""
    assert {name: len(cells) for name, cells in NAMED_GRIDS.items()} == {
        "full": 16,
        "half": 8,
        "one-at-a-time": 5,
        "leave-one-out": 5,
        "controls": 2,
        "staging": 2,
        "noise": 5,
    }
    assert parse_grid("full") == GRID_CELLS
    assert len(set(map(str, GRID_CELLS))) == 16
    assert all(cell.variation is None for cell in GRID_CELLS)


def test_half_grid_is_balanced() -> None:
    """In the half fraction each extension, and each pair of extensions, is on equally often."""
    flags = [cell.extensions.flags for cell in NAMED_GRIDS["half"]]
    assert all(sum(column) == 4 for column in zip(*flags, strict=True))
    for first in range(4):
        for second in range(first + 1, 4):
            assert sum(row[first] and row[second] for row in flags) == 2


def test_cells_are_parsed_in_any_order_and_once() -> None:
    """A list of cells keeps its order, normalises letters and drops repetitions."""
    assert [str(cell) for cell in parse_grid("cm,none,MC")] == ["mc", "none"]


def test_grids_are_joined_with_each_cell_once() -> None:
    """Grids and cells may be listed together; what several of them name runs once."""
    cells = parse_grid("full,controls,noise,t+cv15")
    assert cells[:16] == GRID_CELLS
    assert [str(cell) for cell in cells[16:]] == ["msct+uniform", "c+binary", "t+cv5", "t+cv15", "t+cv30"]


@pytest.mark.parametrize("text", ["fool", "m,x", "mm", "m,,s", "", "c+cv", "+"])
def test_wrong_grid_is_a_usage_error(text: str) -> None:
    """A grid that is no name and no list of cells is refused with the option's name."""
    with pytest.raises(UsageError, match="--grid"):
        parse_grid(text)


def test_two_cells_end_to_end(tmp_path: Path) -> None:
    """Two cells and their start give every table, one row for each sample drawn."""
    config, results = tiny_config(), Results(root=tmp_path)
    outcome = run(results)
    assert (outcome.num_complete, outcome.num_failed) == (3, 0)  # type: ignore[attr-defined]
    assert set(results.read("cells")["cell"]) == {SFT, "none", "msct"}
    assert results.read("candidates").height == 2 * 2 * 2 * 3
    assert results.read("evaluation").height == 3 * 2
    assert results.read("rounds").height == 4
    total = results.read("candidates").height + results.read("evaluation").height
    assert total == sum(count_samples(config, cell) for cell in (SFT, "none", "msct"))
    assert results.read("timings")["simulated"].all()


def test_shared_start_is_trained_once(tmp_path: Path) -> None:
    """All cells of a seed use one supervised start, and cells with equal selections share their updates."""
    learner = TeacherLearner(answers=solutions(tiny_config(), [0]))
    run(Results(root=tmp_path), learner, grid="none,t,s")
    # none and t differ by timing noise alone, and the stub's verdicts have none: everything is shared
    trained = Results(root=tmp_path).read("training").filter(pl.col("cell") == SFT)
    assert trained.height > 0
    assert learner.num_finetunings <= 1 + 2
    assert learner.num_samplings <= 4


def test_finished_grid_is_a_no_op(tmp_path: Path) -> None:
    """Running a finished grid again loads nothing and leaves the tables as they are."""
    results = Results(root=tmp_path)
    run(results)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.parquet")}

    def refuse() -> CellContext:
        raise AssertionError("a finished grid must not open the line")

    outcome = run_grid(results, tiny_config(), CELLS, range(1), refuse, Progress())
    assert outcome.num_cached == 3
    assert before == {path.name: path.read_bytes() for path in tmp_path.glob("*.parquet")}


def test_tables_are_merged_when_they_are_read(tmp_path: Path) -> None:
    """What has ended since the last merge is in the tables that a reader gets; one who only reads needs no lock."""
    results, config = Results(root=tmp_path), tiny_config()
    run(results, grid="none")
    line = stub_context(results, config)
    identity = RunIdentity(config=config, policy=line.learner.fingerprint, backend=line.judge.backend)
    results.write_cell(identity, "msct", 0, run_cell(line, CellSpec.parse("msct"), 0))
    assert pl.read_parquet(tmp_path / "cells.parquet").height == 2
    assert set(results.read("rounds")["cell"]) == {"none", "msct"}
    assert pl.read_parquet(tmp_path / "cells.parquet").height == 3
    whole = Results(root=tmp_path / "whole")
    run(whole)
    assert equal_but_for_times(results.root, whole.root)
    shutil.rmtree(tmp_path / "work")
    assert results.read("cells").height == 3
    assert not (tmp_path / "work").exists()


def test_same_seed_gives_the_same_tables(tmp_path: Path) -> None:
    """Two runs of one configuration differ in elapsed times alone, and another seed's tables differ."""
    run(Results(root=tmp_path / "a"))
    run(Results(root=tmp_path / "b"))
    assert equal_but_for_times(tmp_path / "a", tmp_path / "b")
    run(Results(root=tmp_path / "b"), seeds=2)
    assert not equal_but_for_times(tmp_path / "a", tmp_path / "b")


def test_failed_cell_is_recorded_and_others_go_on(tmp_path: Path) -> None:
    """A cell that raises has its message in `cells`; the rest complete, and a later run repairs it."""
    results = Results(root=tmp_path)
    # the second sampling is the first cell's first round; the first is the start's evaluation
    learner = TeacherLearner(answers=solutions(tiny_config(), [0]), failing_at=2)
    outcome = run(results, learner)
    assert outcome.num_failed == 1  # type: ignore[attr-defined]
    status = dict(results.read("cells").select("cell", "status").iter_rows())
    assert status == {SFT: "complete", "none": "failed", "msct": "complete"}
    assert "on fire" in results.read("cells").filter(pl.col("cell") == "none")["message"][0]
    run(results)
    run(Results(root=tmp_path / "fresh"))
    assert equal_but_for_times(tmp_path, tmp_path / "fresh")


def test_broken_infrastructure_ends_the_run(tmp_path: Path) -> None:
    """A broken sandbox is no cell's fault: it is raised, and no cell is recorded as failed."""

    class BrokenJudge(TextJudge):
        def verify_many(self, *args: object, **kwargs: object) -> list[object]:  # type: ignore[override]
            raise SandboxError("the zygote died")

    config, results = tiny_config(), Results(root=tmp_path)
    line = stub_context(results, config)
    broken = CellContext(
        config=config, learner=line.learner, judge=BrokenJudge(), work=results.work, progress=line.progress
    )
    with pytest.raises(SandboxError):
        run_grid(results, config, CELLS, range(1), lambda: broken, Progress())
    assert results.cell_status("none", 0) is None


def test_drift_is_refused_with_the_field(tmp_path: Path) -> None:
    """Another configuration in the same folder is refused before any work, naming old and new value."""
    results = Results(root=tmp_path)
    run(results)
    other = tiny_config(seed=1)
    with pytest.raises(DriftError, match=r"config\.seed: 0 -> 1"):
        run_grid(results, other, CELLS, range(1), lambda: stub_context(results, other), Progress())


def test_policy_drift_is_refused(tmp_path: Path) -> None:
    """Other weights under the same name are another experiment."""
    results = Results(root=tmp_path)
    run(results, grid="none")
    other = TeacherLearner(answers=solutions(tiny_config(), [0]), fingerprint="other")
    with pytest.raises(DriftError, match="policy: 'teacher' -> 'other'"):
        run(results, other)


def test_plan_tells_new_and_cached_and_refuses_stale(tmp_path: Path) -> None:
    """A dry run calls unfinished cells new, finished ones cached, and names what differs in another configuration."""
    config, results = tiny_config(), Results(root=tmp_path)
    assert {cell.state for cell in plan_grid(results, config, CELLS, range(1))} == {Planned.NEW}
    run(results, grid="none")
    states = {cell.cell: cell.state for cell in plan_grid(results, config, CELLS, range(1))}
    assert states == {SFT: Planned.CACHED, "none": Planned.CACHED, "msct": Planned.NEW}
    estimated = {cell.cell: cell.seconds for cell in plan_grid(results, config, CELLS, range(1))}
    assert estimated["none"] == 0.0
    assert estimated["msct"] is not None
    with pytest.raises(DriftError, match=r"config\.seed: 0 -> 5"):
        plan_grid(results, tiny_config(seed=5), CELLS, range(1))


def test_plan_counts_a_start_that_is_gone(tmp_path: Path) -> None:
    """A finished start without its adapter is to be trained again where a cell needs it, and nowhere else."""
    config, results = tiny_config(), Results(root=tmp_path)
    run(results, grid="none")
    shutil.rmtree(tmp_path / "work")
    start, none, msct = plan_grid(results, config, CELLS, range(1))
    assert (start.state, none.state, msct.state) == (Planned.AGAIN, Planned.CACHED, Planned.NEW)
    assert (start.num_samples, start.num_updates) == (0, count_updates(config, SFT))
    assert start.seconds == results.read("cells").filter(pl.col("cell") == SFT)["train_s"][0]
    assert {cell.state for cell in plan_grid(results, config, CELLS[:1], range(1))} == {Planned.CACHED}


@pytest.mark.parametrize("name", ["cells", "stages"])
@pytest.mark.parametrize("num_bytes", [0, 500])
def test_a_damaged_merged_table_is_merged_anew(
    name: str, num_bytes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finished run mends a merged table from the cells' own, and says so once."""
    results = Results(root=tmp_path)
    run(results, grid="none")
    before, path = results.read(name), tmp_path / f"{name}.parquet"
    path.write_bytes(path.read_bytes()[:num_bytes])
    run(results, grid="none")
    assert results.read(name).equals(before)
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert "merged anew" in line


def test_a_damaged_table_of_a_cell_is_named(tmp_path: Path) -> None:
    """Of a cell's own table there is no other copy: the error names the file."""
    results = Results(root=tmp_path)
    run(results, grid="none")
    path = results.cell_folder("none", 0) / "cells.parquet"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DriftError, match=re.escape(f"{path}: a damaged table")):
        run(results, grid="none")


def test_a_dry_run_of_the_published_ablation_lists_its_costs(tmp_path: Path) -> None:
    """Every cell with its samples and updates in columns that line up, their sums, and no time that nobody measured."""
    config = load_config("paper")
    planned = plan_grid(Results(root=tmp_path), config, parse_grid("full,controls,noise"), range(3))
    assert len(planned) == 3 * (1 + 16 + 2 + 3)
    assert {cell.num_updates for cell in planned if cell.cell == SFT} == {config.sft.num_pairs // config.sft.batch_size}
    *lines, total = render_plan(planned)
    assert len({len(line) for line in lines}) == 1
    assert f"{sum(cell.num_samples for cell in planned):,} samples" in total
    assert f"{sum(cell.num_updates for cell in planned):,} updates" in total
    assert "minutes" not in total


CHILD = """
import sys
from pathlib import Path
from tests.harness.context_stub import *
from tritonrl.harness.study.grid import parse_grid, run_grid
results, config = Results(root=Path(sys.argv[1])), tiny_config()
learner = TeacherLearner(answers=solutions(config, [0]), pause_s=0.05)
line = stub_context(results, config, learner)
print("ready", flush=True)
run_grid(results, config, parse_grid("none,m,msct"), range(1), lambda: line, Progress())
"""


def test_killed_run_resumes_to_the_same_tables(tmp_path: Path) -> None:
    """A run killed with SIGKILL at random moments and started again ends with an uninterrupted run's tables."""
    interrupted = tmp_path / "interrupted"
    rng = random.Random(os.urandom(8))
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(interrupted)],
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.8))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    run(Results(root=interrupted), grid="none,m,msct")
    run(Results(root=tmp_path / "whole"), grid="none,m,msct")
    assert equal_but_for_times(interrupted, tmp_path / "whole")
    assert not list(interrupted.rglob("*.partial"))
    assert CellSpec.parse("m") in parse_grid("none,m,msct")


def test_finished_grid_is_swept_too(tmp_path: Path) -> None:
    """What a run left that was killed while it merged the tables goes when the same command finds all cells done."""
    results = Results(root=tmp_path)
    run(results, grid="none")
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = tmp_path / f".candidates.parquet.{platform.node()}.{dead.pid}.partial"
    left.write_bytes(b"half a table")
    run(results, grid="none")
    assert not left.exists()


def test_workers_on_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Processes that run different cells into one folder at once give the tables of one process."""
    shared = tmp_path / "shared"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD.replace("none,m,msct", grid), str(shared)],
            cwd=Path(__file__).parents[3],
            stdout=subprocess.DEVNULL,
        )
        for grid in ("none", "m", "msct")
    ]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    run(Results(root=tmp_path / "alone"), grid="none,m,msct")
    assert equal_but_for_times(shared, tmp_path / "alone")
