"""Executors: the job array that SLURM gets, and clear refusals where a scheduler is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from tritonrl.core.recipe.extensions import ALL_CELLS
from tritonrl.harness.display import Silent
from tritonrl.harness.errors import TritonrlError, UsageError
from tritonrl.harness.settings import load_config, to_toml
from tritonrl.harness.study.grid import parse_grid, run_grid
from tritonrl.harness.study.runner.ablation import run_ablation
from tritonrl.harness.study.runner.executors import ExecutorKind, run_on_ray, run_on_slurm, sbatch_script
from tritonrl.harness.study.store import Results

from ..context_stub import stub_context, tiny_config

CELLS = parse_grid("none,msct")


def _install(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def test_script_has_one_task_a_cell(tmp_path: Path) -> None:
    """The script is an array as long as the grid, is valid bash, and names each cell with the shared folder."""
    script = sbatch_script(ALL_CELLS, 3, Results(root=tmp_path), tmp_path / "config.toml", "--gpus=1 --time=60")
    assert "#SBATCH --array=0-15" in script
    assert "#SBATCH --gpus=1\n#SBATCH --time=60" in script
    assert script.count(str(tmp_path / "config.toml")) == 16
    assert "--grid msct --seeds 3" in script
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def test_slurm_submits_waits_and_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The grid is submitted once, polled until the queue is empty, and merged from what the workers wrote."""
    programs, results, config = tmp_path / "bin", Results(root=tmp_path / "out"), tiny_config()
    programs.mkdir()
    _install(programs, "sbatch", f'echo "$@" > {tmp_path}/submitted; echo "42;cluster"')
    # listed twice, then forgotten, as squeue does with finished jobs
    _install(programs, "squeue", f"echo x >> {tmp_path}/polls; [ $(wc -l < {tmp_path}/polls) -le 2 ] && echo 42; true")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    # the workers' part: cells finish in the shared folder
    run_grid(results, config, CELLS, range(1), lambda: stub_context(results, config), Silent())
    for path in results.root.glob("*.parquet"):
        path.unlink()
    outcome = run_on_slurm(results, CELLS, 1, tmp_path / "config.toml", poll_s=0.01)
    assert (outcome.num_complete, outcome.num_failed) == (2, 0)
    assert (tmp_path / "submitted").read_text().split() == ["--parsable", str(results.root / "ablate.sbatch")]
    assert len((tmp_path / "polls").read_text().splitlines()) == 3
    assert results.read("cells").height == 3


def test_cells_that_no_worker_finished_count_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that died leaves its cell unfinished, and the outcome says so."""
    programs = tmp_path / "bin"
    programs.mkdir()
    _install(programs, "sbatch", "echo 7")
    _install(programs, "squeue", "true")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    outcome = run_on_slurm(Results(root=tmp_path / "out"), CELLS, 2, tmp_path / "config.toml", poll_s=0.01)
    assert (outcome.num_complete, outcome.num_failed) == (0, 4)


def test_refused_submission_is_an_infrastructure_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What sbatch says when it refuses a job is the error's message."""
    programs = tmp_path / "bin"
    programs.mkdir()
    _install(programs, "sbatch", "echo 'invalid partition' >&2; exit 1")
    _install(programs, "squeue", "true")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(TritonrlError, match="invalid partition"):
        run_on_slurm(Results(root=tmp_path / "out"), CELLS, 1, tmp_path / "config.toml")


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


def test_failed_ray_worker_is_told_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a worker that broke is the last line that it wrote."""
    monkeypatch.setitem(sys.modules, "ray", _InProcessRay("ray"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    _install(tmp_path, "python", "echo loading >&2; echo 'tritonrl: no GPU left' >&2; exit 3")
    with pytest.raises(TritonrlError, match=r"exit code 3: tritonrl: no GPU left$"):
        run_on_ray(Results(root=tmp_path / "out"), CELLS, 1, tmp_path / "config.toml")


class _InProcessRay(types.ModuleType):
    """As much of Ray as a grid uses, in this process and at once."""

    init = staticmethod(lambda **_: None)
    cluster_resources = staticmethod(dict)
    get = staticmethod(list)

    @staticmethod
    def remote(**_: object) -> object:
        return lambda function: types.SimpleNamespace(remote=function)


def test_workers_read_back_the_same_configuration(tmp_path: Path) -> None:
    """The configuration that is handed to workers as TOML is the one that was submitted."""
    config = tiny_config(policy={"name": 'a "quoted" \\ name', "threads": 3}, seed=7)
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config))
    assert load_config(file=path) == config
