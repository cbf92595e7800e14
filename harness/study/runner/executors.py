"""Where cells run: in this process, as a SLURM job array, or as Ray tasks.

All three run the same code on one shared results folder: content-addressed work with locked keys makes it safe for
workers to meet, so a cluster needs no coordinator beyond its scheduler. Remote workers write their cells, and the
submitting process merges.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from ....core.recipe.extensions import CellSpec
from ...errors import TritonrlError, UsageError
from ..grid import GridOutcome, count_outcome
from ..store import Results

POLL_S = 10.0


class ExecutorKind(StrEnum):
    LOCAL = "local"
    RAY = "ray"
    SLURM = "slurm"


def cell_command(cell: str, seeds: int, results: Results, config_file: Path) -> list[str]:
    """The command by which a worker runs one cell for all seeds into the shared folder."""
    return [
        *(sys.executable, "-m", "tritonrl.cli", "ablate"),
        *("--grid", cell, "--seeds", str(seeds)),
        *("--config", str(config_file.resolve()), "--out", str(results.root.resolve())),
        *("--workers", "1", "--display", "plain"),
    ]


def sbatch_script(cells: Sequence[CellSpec], seeds: int, results: Results, config_file: Path, options: str) -> str:
    """A job array with one task a cell; `options` are further sbatch options in one line."""
    commands = [shlex.join(cell_command(str(cell), seeds, results, config_file)) for cell in cells]
    logs = shlex.quote(str(results.root.resolve() / "slurm-%A_%a.log"))
    lines = ["#!/bin/bash", "#SBATCH --job-name=tritonrl", f"#SBATCH --array=0-{len(cells) - 1}"]
    lines += [f"#SBATCH --output={logs}"]
    lines += [f"#SBATCH {option}" for option in shlex.split(options)]
    lines += ["set -euo pipefail", "case $SLURM_ARRAY_TASK_ID in"]
    lines += [f"{index}) exec {command} ;;" for index, command in enumerate(commands)]
    lines += ["*) exit 2 ;;", "esac", ""]
    return "\n".join(lines)


def require_scheduler(executor: ExecutorKind) -> None:
    """Raise UsageError where this machine cannot hand cells to the executor."""
    if executor is ExecutorKind.SLURM and (shutil.which("sbatch") is None or shutil.which("squeue") is None):
        raise UsageError("--executor slurm: no `sbatch` and `squeue` on this machine")
    if executor is ExecutorKind.RAY:
        try:
            import ray  # type: ignore[import-not-found,unused-ignore] # noqa: F401
        except ImportError:
            raise UsageError("--executor ray: Ray is not installed (pip install ray)") from None


def run_on_slurm(
    results: Results,
    cells: Sequence[CellSpec],
    seeds: int,
    config_file: Path,
    options: str = "",
    poll_s: float = POLL_S,
) -> GridOutcome:
    """Submit the cells as a job array, wait until the queue no longer lists it, and merge."""
    results.root.mkdir(parents=True, exist_ok=True)
    script = results.root / "ablate.sbatch"
    script.write_text(sbatch_script(cells, seeds, results, config_file, options))
    submitted = subprocess.run(["sbatch", "--parsable", str(script)], capture_output=True, text=True)
    if submitted.returncode != 0:
        raise TritonrlError(f"sbatch: {submitted.stderr.strip() or submitted.stdout.strip()}")
    job = submitted.stdout.strip().split(";")[0]
    try:
        while _is_queued(job):
            time.sleep(poll_s)
    except KeyboardInterrupt:
        subprocess.run(["scancel", job], check=False)
        raise
    return _collect(results, cells, seeds)


def _is_queued(job: str) -> bool:
    listed = subprocess.run(["squeue", "--noheader", "--jobs", job], capture_output=True, text=True)
    # squeue forgets finished jobs after a while and then calls their id invalid
    return listed.returncode == 0 and bool(listed.stdout.strip())


def run_on_ray(results: Results, cells: Sequence[CellSpec], seeds: int, config_file: Path) -> GridOutcome:
    """Run each cell as a Ray task that starts the same command, then merge."""
    import ray  # type: ignore[import-not-found,unused-ignore]

    ray.init(ignore_reinit_error=True, log_to_driver=False)

    def run(command: list[str]) -> tuple[int, str]:
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stderr[-2000:]

    resources: dict[str, Any] = {"num_gpus": 1} if ray.cluster_resources().get("GPU") else {}
    remote = ray.remote(max_retries=0, **resources)(run)
    replies = ray.get([remote.remote(cell_command(str(cell), seeds, results, config_file)) for cell in cells])
    for code, text in replies:
        if code not in (0, 1):
            last = (text.strip().splitlines() or ["it said nothing"])[-1]
            raise TritonrlError(f"a worker ended with exit code {code}: {last}")
    return _collect(results, cells, seeds)


def _collect(results: Results, cells: Sequence[CellSpec], seeds: int) -> GridOutcome:
    results.merge_cells()
    return count_outcome(results, [(str(cell), seed) for cell in cells for seed in range(seeds)], 0)
