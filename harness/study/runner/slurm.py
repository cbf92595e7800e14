"""SLURM: one array of jobs for the starts, one over cells x seeds that waits for it, and what became of each.

Two scripts are written into the folder, and `squeue` tells the states, which knows ended jobs for some minutes. It
needs no accounting database, as `sacct` does and therefore submitit, which also pickles what it runs; here a job is a
command that a person can repeat.

Cells wait for the starts to end, however they end: a cell whose start is not there trains it, as it would locally.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from ...display import CellState, Progress
from ...errors import TritonrlError
from ..grid import GridOutcome
from ..store import Results
from .executors import Ended, JobOptions, Place, collect, job_command, show_ended, split_left

POLL_S = 10.0
_MAX_UNANSWERED = 60
"""Polls in a row that the scheduler may miss, as when it is restarted."""
_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
_RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED"})


@frozen(kw_only=True)
class JobArray:
    """A submitted array: one task for each place, in their order."""

    job: str
    places: tuple[Place, ...]
    folder: Path

    def log(self, place: Place) -> Path:
        return self.folder / f"{self.job}_{self.places.index(place)}.log"


def sbatch_script(
    name: str,
    places: Sequence[Place],
    results: Results,
    config_file: Path,
    job_options: JobOptions,
    sbatch_options: str,
) -> str:
    """Return the script of an array with one task a place; `sbatch_options` are further options in one line."""
    throttle = f"%{job_options.num_at_once}" if job_options.num_at_once else ""
    commands = [shlex.join(job_command(place, results, config_file, job_options)) for place in places]
    lines = ["#!/bin/bash", f"#SBATCH --job-name={name}", f"#SBATCH --array=0-{len(places) - 1}{throttle}"]
    # SLURM reads quotes there as part of the path
    lines += [f"#SBATCH --output={log_folder(results)}/%A_%a.log"]
    lines += [f"#SBATCH {option}" for option in shlex.split(sbatch_options)]
    lines += ["set -euo pipefail", "case $SLURM_ARRAY_TASK_ID in"]
    lines += [f"{index}) exec {command} ;;" for index, command in enumerate(commands)]
    lines += ["*) exit 2 ;;", "esac", ""]
    return "\n".join(lines)


def log_folder(results: Results) -> Path:
    return results.root.resolve() / "slurm"


def run_on_slurm(
    results: Results,
    order: Sequence[Place],
    config_file: Path,
    options: JobOptions,
    sbatch_options: str,
    progress: Progress,
    poll_s: float = POLL_S,
) -> GridOutcome:
    """Submit what is not complete, watch it until it has ended, and merge; an interrupt cancels the jobs."""
    starts, cells = split_left(results, order, progress)
    num_cached = len(order) - len(starts) - len(cells)
    arrays: list[JobArray] = []
    ended: dict[Place, Ended] = {}
    try:
        for name, places in (("tritonrl-starts", starts), ("tritonrl-cells", cells)):
            if places:
                script = sbatch_script(name, places, results, config_file, options, sbatch_options)
                arrays.append(_submit(name, script, places, results, after=arrays))
        if arrays:
            _say(arrays, log_folder(results))
            ended = _watch(results, arrays, progress, poll_s)
    except KeyboardInterrupt:
        subprocess.run(["scancel", *[array.job for array in arrays]], check=False)
        raise
    return collect(results, order, num_cached, ended)


def _submit(name: str, script: str, places: Sequence[Place], results: Results, after: Sequence[JobArray]) -> JobArray:
    folder = log_folder(results)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.sbatch"
    path.write_text(script)
    dependency = [f"--dependency=afterany:{array.job}" for array in after]
    submitted = subprocess.run(["sbatch", "--parsable", *dependency, str(path)], capture_output=True, text=True)
    if submitted.returncode != 0:
        raise TritonrlError(f"sbatch: {submitted.stderr.strip() or submitted.stdout.strip()}")
    job = submitted.stdout.strip().split(";")[0]
    return JobArray(job=job, places=tuple(places), folder=folder)


def _say(arrays: Sequence[JobArray], logs: Path) -> None:
    jobs = [array.job for array in arrays]
    told = " and ".join(f"job {array.job} ({len(array.places)} tasks)" for array in arrays)
    print(f"tritonrl: submitted {told}; logs: {logs}/JOB_TASK.log", file=sys.stderr)
    print(f"tritonrl: squeue --jobs {','.join(jobs)} shows them, scancel {' '.join(jobs)} ends them", file=sys.stderr)


def _watch(results: Results, arrays: Sequence[JobArray], progress: Progress, poll_s: float) -> dict[Place, Ended]:
    """Show the states until no task waits or runs; returns how each ended."""
    states: dict[Place, str] = {}
    num_unanswered = 0
    while True:
        found = _ask(arrays)
        num_unanswered = num_unanswered + 1 if found is None else 0
        if num_unanswered > _MAX_UNANSWERED:
            raise TritonrlError(f"squeue has not answered {_MAX_UNANSWERED} times; the jobs go on")
        if found is not None:
            for array in arrays:
                for place in array.places:
                    # of what ended long ago it knows nothing
                    state = found.get(f"{array.job}_{array.places.index(place)}", "ended")
                    if state != states.get(place):
                        if state != "ended" or place not in states or _is_alive(states[place]):
                            states[place] = state
                        _show(results, place, states[place], array, progress)
            num_waiting = sum(state.split()[0] in _WAITING for state in states.values())
            num_running = sum(state.split()[0] in _RUNNING for state in states.values())
            progress.phase(f"{num_running} running, {num_waiting} waiting in the queue", 0)
            if not num_waiting + num_running:
                break
        time.sleep(poll_s)
    return {place: Ended(state=states[place], log=array.log(place)) for array in arrays for place in array.places}


def _is_alive(state: str) -> bool:
    return state.split()[0] in _WAITING | _RUNNING


def _ask(arrays: Sequence[JobArray]) -> dict[str, str] | None:
    """Return the state of each task that SLURM knows, with its reason; None where it did not answer."""
    jobs = ",".join(array.job for array in arrays)
    command = ["squeue", "--noheader", "--array", "--states=all", "--jobs", jobs, "--format", "%i|%T|%r"]
    listed = subprocess.run(command, capture_output=True, text=True)
    if listed.returncode != 0:
        # after some minutes it forgets ended jobs, and then calls their ids invalid
        return {} if "invalid job id" in listed.stderr.lower() else None
    found = {}
    for line in listed.stdout.splitlines():
        task, _, rest = line.strip().partition("|")
        state, _, reason = rest.partition("|")
        found[task] = state if reason in ("", "None") else f"{state} ({reason})"
    return found


def _show(results: Results, place: Place, state: str, array: JobArray, progress: Progress) -> None:
    if state.split()[0] in _WAITING:
        return
    if state.split()[0] in _RUNNING:
        progress.cell(*place, CellState.RUNNING, f"job {array.job}_{array.places.index(place)}")
    else:
        show_ended(results, place, Ended(state=state, log=array.log(place)), progress)
