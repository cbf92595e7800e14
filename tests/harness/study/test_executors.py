"""Executors: what SLURM and Ray get, what is told of cells that do not end well, and that tables are a local run's.

Programs of the tests' own stand in for SLURM's; the slow tests ask a real SLURM of one node, and a real Ray, where they
are installed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from attrs import Factory, define
from tritonrl.harness.display import CellState, DisplayKind, Progress
from tritonrl.harness.errors import TritonrlError, UsageError
from tritonrl.harness.settings import ExecutorKind, load_config, to_toml
from tritonrl.harness.study.grid import GridOutcome, order_cells, parse_grid, run_grid
from tritonrl.harness.study.runner import executors
from tritonrl.harness.study.runner.ablation import run_ablation
from tritonrl.harness.study.runner.executors import JobOptions
from tritonrl.harness.study.runner.ray_tasks import run_on_ray
from tritonrl.harness.study.runner.slurm import run_on_slurm, sbatch_script
from tritonrl.harness.study.store import Results

from ..context_stub import equal_but_for_times, stub_context, tiny_config

REPOSITORY = Path(__file__).parents[3]
CELLS = parse_grid("m,msct")
ORDER = order_cells(CELLS, range(2))


@define
class Recording(Progress):
    """Keeps what it is told of cells."""

    events: list[tuple[str, int, CellState, str]] = Factory(list)

    def cell(self, cell: str, seed: int, state: CellState, message: str = "") -> None:
        self.events.append((cell, seed, state, message))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the same grid, run in this process."""
    results, config = Results(root=tmp_path_factory.mktemp("alone")), tiny_config()
    run_grid(results, config, CELLS, range(2), lambda: stub_context(results, config), Progress())
    return results.root


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    """A folder with its configuration; jobs run stand-ins there."""
    monkeypatch.setattr(executors, "WORKER", "tests.harness.study.stub_job")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY), prepend=os.pathsep)
    root = tmp_path / "out"
    root.mkdir()
    (root / "config.toml").write_text(to_toml(tiny_config()))
    return Results(root=root)


def submit(results: Results, options: JobOptions | None = None) -> tuple[GridOutcome, Recording]:
    """Run the grid on SLURM, whichever that is."""
    progress = Recording()
    config = results.root / "config.toml"
    return run_on_slurm(results, ORDER, config, options or JobOptions(), "", progress, poll_s=0.05), progress


def install(folder: Path, name: str, body: str) -> None:
    """Write a program."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)


FAKE_SBATCH = """
import os, shlex, sys
from pathlib import Path
from tests.harness.study import stub_job
home = Path(__file__).parent
job = str(len(list(home.glob("*.job"))) + 1)
(home / f"{job}.job").write_text(" ".join(sys.argv[1:]))
lines = Path(sys.argv[-1]).read_text().splitlines()
output = next(line for line in lines if "--output=" in line).partition("=")[2]
commands = [line.partition(") exec ")[2].removesuffix(" ;;") for line in lines if ") exec " in line]
for task, command in enumerate(commands):
    if os.fork() == 0:
        log = os.open(output.replace("%A", job).replace("%a", str(task)), os.O_CREAT | os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = shlex.split(command)[2:]
        os._exit(stub_job.main())
    state = "COMPLETED|None" if os.wait()[1] == 0 else "FAILED|NonZeroExitCode"
    with open(home / "states", "a") as states:
        print(f"{job}_{task}|{state}", file=states)
print(job)
"""
"""Runs the commands of the array at once, one after the other, in children that need not import anew."""


@pytest.fixture
def fake_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs with SLURM's names."""
    programs = tmp_path / "bin"
    install(programs, "sbatch", FAKE_SBATCH)
    install(programs, "squeue", "from pathlib import Path\nprint((Path(__file__).parent / 'states').read_text())")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return programs


def test_scripts_have_a_task_for_each_cell_and_seed(results: Results) -> None:
    """The script is an array over the places, is valid bash, and passes on what was asked for."""
    options = JobOptions(jobs=3, display=DisplayKind.NONE, log=("jsonl",), num_at_once=4)
    places = [place for place in ORDER if place[0] != "sft"]
    script = sbatch_script("name", places, results, results.root / "config.toml", options, "--gpus=1 --time=60")
    assert "#SBATCH --array=0-3%4" in script
    assert "#SBATCH --gpus=1\n#SBATCH --time=60" in script
    assert script.count(str(results.root / "config.toml")) == 4
    assert script.count("--cell msct --seed 1 --jobs 3 --display none --log jsonl") == 1
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def test_cells_wait_for_the_starts(results: Results, fake_slurm: Path, alone: Path) -> None:
    """There is one array for the starts and one for the cells that depends on it; the tables are a local run's."""
    outcome, progress = submit(results)
    assert outcome == GridOutcome(num_complete=6, num_failed=0, num_cached=0)
    assert (fake_slurm / "1.job").read_text().split()[:-1] == ["--parsable"]
    assert (fake_slurm / "2.job").read_text().split()[:-1] == ["--parsable", "--dependency=afterany:1"]
    assert {event[2] for event in progress.events} == {CellState.COMPLETE}
    assert equal_but_for_times(results.root, alone)


def test_what_is_complete_is_not_submitted(results: Results, fake_slurm: Path) -> None:
    """The same command again submits nothing, and of a larger grid only the rest."""
    config = tiny_config()
    run_grid(results, config, CELLS[:1], range(2), lambda: stub_context(results, config), Progress())
    outcome, _ = submit(results)
    assert outcome == GridOutcome(num_complete=6, num_failed=0, num_cached=4)
    assert [path.name for path in fake_slurm.glob("*.job")] == ["1.job"]
    assert "array=0-1" in (results.root / "slurm" / "tritonrl-cells.sbatch").read_text()
    outcome, _ = submit(results)
    assert outcome == GridOutcome(num_complete=6, num_failed=0, num_cached=6)
    assert [path.name for path in fake_slurm.glob("*.job")] == ["1.job"]


def test_unfinished_is_told_from_failed(results: Results, fake_slurm: Path, alone: Path) -> None:
    """A cell that raised has its message; one whose job died the scheduler's state; both their log's last lines."""
    (results.root / "fail-m").touch()
    (results.root / "kill-msct").touch()
    outcome, progress = submit(results)
    assert (outcome.num_complete, outcome.num_failed, outcome.num_unfinished) == (2, 2, 2)
    told = "\n".join(outcome.problems)
    assert "m seed 0: failed: RuntimeError: the model is on fire\n  traceback: " in told
    assert "msct seed 1: unfinished: FAILED (NonZeroExitCode)\n  log: " in told
    assert "  | working at msct seed 1 with 0 jobs" in told
    shown = [message for *_, state, message in progress.events if state is CellState.FAILED]
    assert len(shown) == 4
    assert sum(message.startswith("RuntimeError: the model is on fire, log ") for message in shown) == 2
    for name in ("fail-m", "kill-msct"):
        (results.root / name).unlink()
    outcome, _ = submit(results)
    assert outcome == GridOutcome(num_complete=6, num_failed=0, num_cached=2)
    assert equal_but_for_times(results.root, alone)


def test_refused_submission_is_an_infrastructure_error(results: Results, fake_slurm: Path) -> None:
    """What sbatch says when it refuses a job is the error's message."""
    install(fake_slurm, "sbatch", "import sys; sys.exit('invalid partition')")
    with pytest.raises(TritonrlError, match="invalid partition"):
        submit(results)


@pytest.mark.parametrize("kind", [ExecutorKind.SLURM, ExecutorKind.RAY])
def test_missing_scheduler_is_a_usage_error(
    kind: ExecutorKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the scheduler the option is refused by name before anything runs, and no folder is left."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=f"--executor {kind}"):
        run_ablation(tiny_config(), tmp_path / "out", CELLS, 1, executor=kind)
    assert not (tmp_path / "out").exists()


class _InProcessRay(types.ModuleType):
    """As much of Ray as a grid uses, in this process and at once."""

    init = staticmethod(lambda **_: None)
    cluster_resources = staticmethod(dict)
    get = staticmethod(lambda value: value)
    wait = staticmethod(lambda tasks, timeout: (list(tasks), []))
    exceptions = types.SimpleNamespace(RayError=OSError)

    @staticmethod
    def remote(**_: object) -> Callable[[Callable[..., int]], object]:
        # codes that are equal must be different tasks
        def call(function: Callable[..., int]) -> object:
            return types.SimpleNamespace(remote=lambda *arguments: _Code(function(*arguments)))

        return call


class _Code(int):
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@pytest.mark.slow
def test_rays_tasks_do_as_slurms_jobs(results: Results, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed and unfinished cells are told apart with their logs, and the next run ends with a local run's tables."""
    monkeypatch.setitem(sys.modules, "ray", _InProcessRay("ray"))
    _check_ray(results, alone)


def _check_ray(results: Results, alone: Path) -> None:
    (results.root / "fail-m").touch()
    (results.root / "kill-msct").touch()
    config, options = results.root / "config.toml", JobOptions(num_at_once=2)
    outcome = run_on_ray(results, ORDER, config, options, Progress())
    assert (outcome.num_complete, outcome.num_failed, outcome.num_unfinished) == (2, 2, 2)
    told = "\n".join(outcome.problems)
    assert "m seed 0: failed: RuntimeError: the model is on fire" in told
    assert "msct seed 0: unfinished: killed by signal 9" in told
    assert "  | working at msct seed 0 with 1 jobs" in told
    for name in ("fail-m", "kill-msct"):
        (results.root / name).unlink()
    outcome = run_on_ray(results, ORDER, config, options, Progress())
    assert outcome == GridOutcome(num_complete=6, num_failed=0, num_cached=2)
    assert equal_but_for_times(results.root, alone)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_a_real_ray_runs_the_grid(results: Results, alone: Path) -> None:
    """With a local cluster of Ray: a cell that fails, one that is killed, a resume, and a local run's tables."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        _check_ray(results, alone)
    finally:
        ray.shutdown()


_NEEDED = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel")
_CAN_START = all(map(shutil.which, _NEEDED)) and os.geteuid() == 0
_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={port}
SlurmdPort={other_port}
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=60 State=UP
"""


@pytest.fixture
def real_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A SLURM of one node with two processors, which munge's daemon serves where it runs."""
    folder = tmp_path / "slurm"
    (folder / "state").mkdir(parents=True)
    host, ports = socket.gethostname().split(".")[0], (_free_port(), _free_port())
    conf = folder / "slurm.conf"
    conf.write_text(_CONF.format(host=host, folder=folder, port=ports[0], other_port=ports[1]))
    monkeypatch.setenv("SLURM_CONF", str(conf))
    daemons = [subprocess.Popen([name, "-D", "-f", str(conf)]) for name in ("slurmctld", "slurmd")]
    try:
        for _ in range(300):
            listed = subprocess.run(["sinfo", "--noheader", "--format", "%T"], capture_output=True, text=True)
            if listed.stdout.strip() == "idle":
                break
            time.sleep(0.1)
        else:
            pytest.skip("SLURM's node did not come up; is munged running?")
        yield
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.slow
@pytest.mark.skipif(not _CAN_START, reason="needs SLURM's daemons and root (Debian: slurmctld slurmd munge)")
@pytest.mark.usefixtures("real_slurm")
def test_a_real_slurm_runs_the_grid(results: Results, alone: Path) -> None:
    """With one node: a cell that fails, one that is cancelled, a resume, and a local run's tables."""
    (results.root / "fail-m").touch()
    (results.root / "hold-msct").touch()
    canceller = threading.Thread(target=_cancel_when_running, args=("2_",))
    canceller.start()
    outcome, progress = submit(results, JobOptions(jobs=2))
    canceller.join()
    assert (outcome.num_complete, outcome.num_failed, outcome.num_unfinished) == (2, 2, 2)
    told = "\n".join(outcome.problems)
    assert "m seed 1: failed: RuntimeError: the model is on fire" in told
    assert "msct seed 0: unfinished: CANCELLED" in told
    assert "  | working at msct seed 0 with 2 jobs" in told
    assert CellState.RUNNING in {event[2] for event in progress.events}
    for name in ("fail-m", "hold-msct"):
        (results.root / name).unlink()
    outcome, _ = submit(results)
    assert outcome == GridOutcome(num_complete=6, num_failed=0, num_cached=2)
    assert equal_but_for_times(results.root, alone)


def _cancel_when_running(prefix: str) -> None:
    """Cancel the tasks of a job that alone are left, once they run."""
    cancelled: set[str] = set()
    until = time.monotonic() + 120
    while len(cancelled) < 2 and time.monotonic() < until:
        command = ["squeue", "--noheader", "--array", "--states=RUNNING", "--format", "%i|%M"]
        for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
            task, _, ran = line.strip().partition("|")
            # the held cells are those that run for long
            if task.startswith(prefix) and int(ran.replace(":", "")) >= 25:
                subprocess.run(["scancel", task])
                cancelled.add(task)
        time.sleep(0.5)


def test_workers_read_back_the_same_configuration(tmp_path: Path) -> None:
    """The configuration that is handed to workers as TOML is the one that was submitted."""
    config = tiny_config(policy={"name": 'a "quoted" \\ name', "threads": 3}, seed=7)
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config))
    assert load_config(file=path) == config
