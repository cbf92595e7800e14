"""Where cells run: in this process and its children, as SLURM jobs, or as Ray tasks.

All run the same code on one shared results folder: content-addressed work with locked keys makes it safe for workers
to meet, so a cluster needs no coordinator beyond its scheduler. A cluster's job runs one cell of one seed (`worker`);
those that are complete are not submitted, and the others begin when the shared starts have ended. The submitting
process watches, merges, and says of each cell that is not complete why, and where its log is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from ...display import CellState, DisplayKind, Progress
from ...tables import TABLES, read_table
from ..grid import GridOutcome, count_outcome, find_left
from ..rows import SFT
from ..store import Results

Place = tuple[str, int]
"""A cell and a seed."""
_TAIL_LINES = 5
WORKER = "tritonrl.harness.study.runner.worker"


@frozen(kw_only=True)
class JobOptions:
    """What the submitting command passes on to each job, and how many of them may run at once (0 = all)."""

    jobs: int = 0
    display: DisplayKind = DisplayKind.PLAIN
    log: tuple[str, ...] = ()
    num_at_once: int = 0


@frozen(kw_only=True)
class Ended:
    """How a cell's job ended, in the scheduler's words, and its log."""

    state: str
    log: Path


def worker_command(results: Results, config_file: Path, *options: object) -> list[str]:
    """Return the command of a process that runs what the options say into the shared folder."""
    places = ("--config", config_file.resolve(), "--out", results.root.resolve())
    return [sys.executable, "-m", WORKER, *map(str, options + places)]


def job_command(place: Place, results: Results, config_file: Path, options: JobOptions) -> list[str]:
    """Return the command by which a job runs one cell of one seed into the shared folder."""
    cell, seed = place
    shown = ("--display", options.display.value, *(part for name in options.log for part in ("--log", name)))
    return worker_command(results, config_file, "--cell", cell, "--seed", seed, "--jobs", options.jobs, *shown)


def split_left(results: Results, order: Sequence[Place], progress: Progress) -> tuple[list[Place], list[Place]]:
    """Return the starts and the cells that are not complete, as `find_left` does."""
    left = find_left(results, order, progress)
    return [place for place in left if place[0] == SFT], [place for place in left if place[0] != SFT]


def show_ended(results: Results, place: Place, ended: Ended, progress: Progress) -> None:
    """Show what became of a cell whose job has ended."""
    status = results.cell_status(*place)
    if status == "complete":
        progress.cell(*place, CellState.COMPLETE)
    else:
        why = _message(results, place) if status == "failed" else ended.state
        progress.cell(*place, CellState.FAILED, f"{why}, log {ended.log}")


def _message(results: Results, place: Place) -> str:
    return str(read_table(TABLES["cells"], results.cell_folder(*place) / "cells.parquet")["message"][0])


def collect(results: Results, order: Sequence[Place], num_cached: int, ended: Mapping[Place, Ended]) -> GridOutcome:
    """Merge the tables; returns what became of the cells, with a problem for each that is not complete."""
    results.merge_cells()
    outcome = count_outcome(results, order, num_cached)
    problems = [_tell_problem(results, place, ended.get(place)) for place in order]
    return evolve(outcome, problems=tuple(text for text in problems if text is not None))


def _tell_problem(results: Results, place: Place, ended: Ended | None) -> str | None:
    cell, seed = place
    status = results.cell_status(cell, seed)
    if status == "complete":
        return None
    if status == "failed":
        head = f"{cell} seed {seed}: failed: {_message(results, place)}"
        traceback = results.cell_folder(cell, seed) / "error.txt"
        lines = [f"  traceback: {traceback}"] if traceback.exists() else []
    else:
        head = f"{cell} seed {seed}: unfinished: {ended.state if ended else 'its job left no trace'}"
        lines = []
    if ended is not None:
        lines += [f"  log: {ended.log}", *[f"  | {line}" for line in read_tail(ended.log)]]
    return "\n".join([head, *lines])


def read_tail(log: Path) -> list[str]:
    """Return the last lines of a log that say something."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ["(there is no log: the job has not begun, or its machine does not share this folder)"]
    return [line for line in lines if line.strip()][-_TAIL_LINES:]
