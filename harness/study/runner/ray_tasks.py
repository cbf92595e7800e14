"""Ray: a task for each start, then one for each cell, which starts the same command as a SLURM job does.

A task has as many processors as `--jobs` says, one by default, and a GPU where the cluster has any. Its worker's output
goes to a log in the shared folder, whichever machine it runs on.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from ...display import Progress
from ..grid import GridOutcome
from ..store import Results
from .executors import Ended, JobOptions, Place, collect, job_command, show_ended, split_left

_POLL_S = 2.0


def run_on_ray(
    results: Results, order: Sequence[Place], config_file: Path, options: JobOptions, progress: Progress
) -> GridOutcome:
    """Run what is not complete as Ray tasks, at most `num_at_once` at a time, and merge."""
    starts, cells = split_left(results, order, progress)
    num_cached = len(order) - len(starts) - len(cells)
    # a task that says nothing of processors gets one
    options = evolve(options, jobs=options.jobs or 1)
    ended: dict[Place, Ended] = {}
    for places in (starts, cells):
        if places:
            ended |= _run_tasks(results, places, config_file, options, progress)
    return collect(results, order, num_cached, ended)


def _run_tasks(
    results: Results, places: Sequence[Place], config_file: Path, options: JobOptions, progress: Progress
) -> dict[Place, Ended]:
    import ray  # type: ignore[import-not-found,unused-ignore]

    ray.init(ignore_reinit_error=True, log_to_driver=False)
    resources: dict[str, Any] = {"num_gpus": 1} if ray.cluster_resources().get("GPU") else {}
    remote = ray.remote(max_retries=0, num_cpus=options.jobs, **resources)(_run_command)
    folder = results.root.resolve() / "ray"
    folder.mkdir(parents=True, exist_ok=True)
    waiting, running, ended = list(places), dict[Any, Place](), dict[Place, Ended]()
    try:
        while waiting or running:
            while waiting and len(running) < (options.num_at_once or len(places)):
                place = waiting.pop(0)
                command = job_command(place, results, config_file, options)
                running[remote.remote(command, str(_log(folder, place)))] = place
            done, _ = ray.wait(list(running), timeout=_POLL_S)
            for task in done:
                place = running.pop(task)
                ended[place] = Ended(state=_end_of(ray, task), log=_log(folder, place))
                show_ended(results, place, ended[place], progress)
            progress.phase(f"{len(running)} with Ray, {len(waiting)} waiting", 0)
    except KeyboardInterrupt:
        for task in running:
            ray.cancel(task, force=True)
        raise
    return ended


def _run_command(command: list[str], log: str) -> int:
    with open(log, "w") as output:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output).returncode


def _log(folder: Path, place: Place) -> Path:
    return folder / f"{place[0]}-seed{place[1]}.log"


def _end_of(ray: Any, task: Any) -> str:
    try:
        code = int(ray.get(task))
    except ray.exceptions.RayError as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
