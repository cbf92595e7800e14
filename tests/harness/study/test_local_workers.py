"""Workers on one machine: cells are shared out, run once, and taken over from the dead, as if one process ran all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from attrs import Factory, define
from tritonrl.harness.display import CellState, Progress
from tritonrl.harness.errors import TritonrlError
from tritonrl.harness.study.grid import GridOutcome, order_cells, parse_grid, run_grid
from tritonrl.harness.study.runner.local_workers import run_locally, worker_environment
from tritonrl.harness.study.store import Results

from ..context_stub import equal_but_for_times, stub_context, tiny_config

REPOSITORY = Path(__file__).parents[3]
GRID = "none,m,msct,c+binary"
WORKER = """
import os, signal, sys
from pathlib import Path
from tests.harness.context_stub import *
from tritonrl.harness.errors import SandboxError
from tritonrl.harness.study.grid import parse_grid, run_grid
from tritonrl.harness.study.runner.local_workers import Reporter
results, config, trouble = Results(root=Path(sys.argv[1])), tiny_config(), sys.argv[3]

class Learner(TeacherLearner):
    def sample(self, *arguments):
        try:
            if trouble != "none":
                (results.root / "trouble").open("x" if trouble.startswith("one") else "w").close()
                if trouble.endswith("killed"):
                    os.kill(os.getpid(), signal.SIGKILL)
                if trouble.endswith("fails"):
                    raise RuntimeError("the model is on fire")
                raise SandboxError("no sandbox left")
        except FileExistsError:
            pass
        return super().sample(*arguments)

progress = Reporter(sys.stdout)
line = stub_context(results, config, Learner(answers=solutions(config, [0]), pause_s=0.02), progress)
try:
    run_grid(results, config, parse_grid(sys.argv[2]), range(1), lambda: line, progress, retry_failed=False)
except SandboxError as error:
    sys.exit(str(error))
"""


@define
class Recording(Progress):
    """Keeps what it is told of cells."""

    events: list[tuple[str, CellState]] = Factory(list)

    def cell(self, cell: str, seed: int, state: CellState, message: str = "") -> None:
        self.events.append((cell, state))


def run(root: Path, trouble: str = "none", num_workers: int = 2, grid: str = GRID) -> tuple[GridOutcome, Recording]:
    """Run a grid of stand-ins in workers that get into trouble or not."""
    progress, command = Recording(), [sys.executable, "-c", WORKER, str(root), grid, trouble]
    results, order, here = Results(root=root), order_cells(parse_grid(grid), range(1)), os.getcwd()
    os.chdir(REPOSITORY)
    try:
        return run_locally(results, order, command, num_workers, (), progress), progress
    finally:
        os.chdir(here)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the same grid, run in one process without trouble."""
    results, config = Results(root=tmp_path_factory.mktemp("alone")), tiny_config()
    run_grid(results, config, parse_grid(GRID), range(1), lambda: stub_context(results, config), Progress())
    return results.root


def test_two_workers_give_the_tables_of_one(tmp_path: Path, alone: Path) -> None:
    """Every cell is run by exactly one worker, and the tables are those of one process."""
    outcome, progress = run(tmp_path)
    assert outcome == GridOutcome(num_complete=5, num_failed=0, num_cached=0)
    begun = Counter(cell for cell, state in progress.events if state is CellState.RUNNING)
    assert begun == {"sft": 1, "none": 1, "m": 1, "msct": 1, "c+binary": 1}
    assert equal_but_for_times(tmp_path, alone)


def test_a_killed_workers_cell_is_taken_over(tmp_path: Path, alone: Path) -> None:
    """Where a worker is killed within a cell, the other one runs that cell, and nothing is lost."""
    outcome, progress = run(tmp_path, "one killed")
    assert outcome == GridOutcome(num_complete=5, num_failed=0, num_cached=0)
    begun = Counter(cell for cell, state in progress.events if state is CellState.RUNNING)
    assert sorted(begun.values()) == [1, 1, 1, 1, 2]
    assert equal_but_for_times(tmp_path, alone)


def test_workers_that_all_break_end_the_run(tmp_path: Path) -> None:
    """Broken infrastructure ends every worker, and its last words are the error."""
    with pytest.raises(TritonrlError, match=r"5 cells were not finished: .*exit code 1: no sandbox left"):
        run(tmp_path, "all break")


def test_a_failing_cell_is_tried_once_in_a_run(tmp_path: Path, alone: Path) -> None:
    """What fails in one worker is a result that no other repeats; the next run tries it again."""
    outcome, progress = run(tmp_path, "one fails")
    assert outcome == GridOutcome(num_complete=4, num_failed=1, num_cached=0)
    assert Counter(state for _, state in progress.events)[CellState.FAILED] == 1
    assert Counter(state for _, state in progress.events)[CellState.RUNNING] == 5
    results, config = Results(root=tmp_path), tiny_config()
    again = run_grid(results, config, parse_grid(GRID), range(1), lambda: stub_context(results, config), Progress())
    assert again == GridOutcome(num_complete=5, num_failed=0, num_cached=4)
    assert equal_but_for_times(tmp_path, alone)


NOISY = """
import os, subprocess
from tritonrl.harness.study.runner.local_workers import Reporter, take_stdout
progress = Reporter(take_stdout())
print("printed")
os.write(1, b"written by a library\\n")
subprocess.run(["echo", "echoed"])
subprocess.Popen(["sleep", "20"], stderr=subprocess.DEVNULL)
progress.phase("sampling", 3)
"""


def test_the_parent_reads_events_alone(tmp_path: Path) -> None:
    """What libraries and children print goes to the log, and a child that outlives its worker holds no pipe."""
    with (tmp_path / "log").open("w") as log:
        done = subprocess.run([sys.executable, "-c", NOISY], stdout=subprocess.PIPE, stderr=log, text=True, timeout=18)
    assert json.loads(done.stdout) == {"phase": "sampling", "total": 3}
    assert sorted((tmp_path / "log").read_text().splitlines()) == ["echoed", "printed", "written by a library"]


def test_each_worker_sees_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs are dealt out in turn; without any, the environment names none."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    seen = [worker_environment(number, 3, ("2", "5"))["CUDA_VISIBLE_DEVICES"] for number in range(3)]
    assert seen == ["2", "5", "2"]
    plain = worker_environment(0, 2, ())
    assert "CUDA_VISIBLE_DEVICES" not in plain
    assert int(plain["OMP_NUM_THREADS"]) >= 1
    assert plain["OMP_WAIT_POLICY"] == "PASSIVE"


PARENT = """
import sys
from tests.harness.study.test_local_workers import *
(Path(sys.argv[1])).mkdir()
run(Path(sys.argv[1]), grid="none,m,s,c,t,ms,mc,mt", num_workers=2)
"""


def test_a_cut_run_continues_in_a_copy_elsewhere(tmp_path: Path) -> None:
    """A run whose every process is killed goes on from a copy of its folder, and ends as an uninterrupted one."""
    first, second = tmp_path / "first", tmp_path / "elsewhere" / "copy"
    child = subprocess.Popen([sys.executable, "-c", PARENT, str(first)], cwd=REPOSITORY, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not list(first.glob("cells/none/seed0/cells.parquet")) and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    shutil.copytree(first, second)
    shutil.rmtree(first)
    results, config = Results(root=second), tiny_config()
    cells = parse_grid("none,m,s,c,t,ms,mc,mt")
    outcome = run_grid(results, config, cells, range(1), lambda: stub_context(results, config), Progress())
    assert outcome.num_complete == 9
    assert outcome.num_cached >= 1
    whole = Results(root=tmp_path / "whole")
    run_grid(whole, config, cells, range(1), lambda: stub_context(whole, config), Progress())
    assert equal_but_for_times(second, whole.root)


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """Where the parent is killed, its workers stop at their next line and record no failure."""
    root = tmp_path / "out"
    child = subprocess.Popen([sys.executable, "-c", PARENT, str(root)], cwd=REPOSITORY)
    deadline = time.monotonic() + 60
    while not list(root.glob("cells/sft/seed0/cells.parquet")) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.kill()
    child.wait()
    workers = lambda: [p for p in _command_lines() if str(root) in p]  # noqa: E731
    while workers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not workers()
    statuses = {Results(root=root).cell_status(path.parent.name, 0) for path in root.glob("cells/*/seed0")}
    assert statuses == {"complete"}


def _command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found
