"""The grid: which cells to run, what is already there and what the rest will cost, and running them.

A failing cell is a result (`cells` says so) and the others go on; broken infrastructure ends the run, because every
later cell would fail for the same reason.

Several processes may run one grid into one folder: each claims a cell before it runs it, and a claim is a lock that the
kernel drops when its holder dies, so what a killed process was at is taken up by whoever comes next. It is taken up
where it was, not begun anew: a cell's sampling, updates and verdicts are stored as they are done (`harness.work`).
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Sequence
from enum import StrEnum

from attrs import frozen

from ...core.config import Config
from ...core.recipe.extensions import CellSpec, parse_cells
from ..display import CellState, Progress
from ..errors import TritonrlError, UsageError
from ..tables import TABLES, read_table
from .cell import run_cell, run_start
from .contamination import open_admission
from .pipeline import CellContext
from .rows import SFT
from .store import Results, RunIdentity
from .task_draws import evaluated_rounds
from .training_data import require_pairs


class Planned(StrEnum):
    """Where a cell stands before a run."""

    CACHED = "cached"
    AGAIN = "again"
    """A start that is complete, and is trained again because a cell needs its adapter, which is not here."""
    NEW = "new"


@frozen(kw_only=True)
class PlannedCell:
    """A cell of a dry run; `seconds` is estimated from finished cells of the folder, null where there is none."""

    cell: str
    seed: int
    state: Planned
    num_samples: int
    num_updates: int
    """Optimiser steps, at most: a round where fewer candidates were worth keeping takes fewer."""
    seconds: float | None


@frozen(kw_only=True)
class GridOutcome:
    """What became of a run's cells; unfinished are those that ended neither way, as a cancelled job's."""

    num_complete: int
    num_failed: int
    num_cached: int
    num_unfinished: int = 0
    problems: tuple[str, ...] = ()
    """Of cells that ran elsewhere and are not complete: why, and the log, each in a few lines."""

    def counts(self) -> dict[str, int]:
        """Return the numbers by what became of the cells."""
        return {
            "complete": self.num_complete,
            "failed": self.num_failed,
            "cached": self.num_cached,
            "unfinished": self.num_unfinished,
        }


POLL_S = 1.0
"""How often a process that has nothing left to claim looks whether the others have finished, or died."""


def parse_grid(text: str) -> tuple[CellSpec, ...]:
    """Return the cells that `--grid` names (`core.recipe.extensions.parse_cells`); raises UsageError."""
    try:
        return parse_cells(text)
    except ValueError as error:
        raise UsageError(f"--grid {text}: {error}") from None


def count_samples(config: Config, cell: str) -> int:
    """Completions that a cell draws, evaluation included."""
    evaluation = config.evaluation
    num_evaluated = (evaluation.level1_tasks + evaluation.level2_tasks) * evaluation.samples_per_task
    if cell == SFT:
        return num_evaluated
    num_between = (evaluation.level1_tasks + evaluation.level2_tasks) * evaluation.round_samples
    num_trained_on = config.rl.rounds * config.rl.tasks_per_round * config.rl.samples_per_task
    return num_trained_on + len(evaluated_rounds(config)) * num_between + num_evaluated


def count_updates(config: Config, cell: str) -> int:
    """Optimiser steps of a cell, at most; the start's are its own, which all cells of a seed share."""
    if cell == SFT:
        return math.ceil(config.sft.num_pairs / config.sft.batch_size) * config.sft.epochs
    kept = config.rl.tasks_per_round * config.rl.keep
    return config.rl.rounds * math.ceil(kept / config.rl.batch_size) * config.rl.epochs


def plan_grid(results: Results, config: Config, cells: Sequence[CellSpec], seeds: Sequence[int]) -> list[PlannedCell]:
    """Where each cell stands, the shared starts first; raises DriftError where the folder is another run's."""
    results.require_same(static_identity(config))
    recorded, lost = _recorded_seconds(results), lost_starts(results, cells, seeds)
    planned = []
    for cell, seed in order_cells(cells, seeds):
        is_new = results.cell_status(cell, seed) != "complete"
        is_lost = cell == SFT and seed in lost
        planned.append(
            PlannedCell(
                cell=cell,
                seed=seed,
                state=Planned.NEW if is_new else Planned.AGAIN if is_lost else Planned.CACHED,
                # its samples are in the tables
                num_samples=count_samples(config, cell) if is_new else 0,
                num_updates=count_updates(config, cell) if is_new or is_lost else 0,
                seconds=recorded.get(cell == SFT) if is_new else lost.get(seed, 0.0) if is_lost else 0.0,
            )
        )
    return planned


def lost_starts(results: Results, cells: Sequence[CellSpec], seeds: Sequence[int]) -> dict[int, float]:
    """The seeds whose start was finished, is not here, and is needed by a cell; with the seconds that it took."""
    found = {}
    for seed in seeds:
        adapter = results.adapter_folder(SFT, seed)
        is_needed = any(results.cell_status(str(cell), seed) != "complete" for cell in cells)
        if adapter is not None and not adapter.exists() and is_needed:
            rows = read_table(TABLES["cells"], results.cell_folder(SFT, seed) / "cells.parquet")
            found[seed] = float(rows["train_s"][0])
    return found


def static_identity(config: Config) -> dict[str, object]:
    """The part of a run's identity that is known without loading a model."""
    plain = RunIdentity(config=config, policy="", backend="").plain()
    return {key: value for key, value in plain.items() if key not in ("policy", "backend")}


def _recorded_seconds(results: Results) -> dict[bool, float]:
    """Mean wall time of the folder's finished cells: under False for cells, under True for shared starts."""
    try:
        frame = results.read("cells")
    except UsageError:
        return {}
    found = {}
    for is_start in (False, True):
        walls = frame.filter((frame["status"] == "complete") & ((frame["cell"] == SFT) == is_start))["wall_s"]
        if len(walls):
            found[is_start] = float(walls.sum()) / len(walls)
    return found


def order_cells(cells: Sequence[CellSpec], seeds: Sequence[int]) -> list[tuple[str, int]]:
    """The (cell, seed) pairs of a run in the order in which they are begun: the shared starts first."""
    return [(SFT, seed) for seed in seeds] + [(str(cell), seed) for seed in seeds for cell in cells]


def find_left(
    results: Results, order: Sequence[tuple[str, int]], progress: Progress, retry_failed: bool = True
) -> list[tuple[str, int]]:
    """Return the cells that are not complete, and show where each stands; failures to be retried are forgotten."""
    # here and not with the work: a run may have been killed while it merged the tables of finished cells
    results.sweep()
    if retry_failed:
        results.forget_failures(order)
    left = [place for place in order if results.cell_status(*place) != "complete"]
    progress.grid([(*place, CellState.WAITING if place in left else CellState.CACHED) for place in order])
    return left


def run_grid(
    results: Results,
    config: Config,
    cells: Sequence[CellSpec],
    seeds: Sequence[int],
    open_context: Callable[[], CellContext],
    progress: Progress,
    retry_failed: bool = True,
) -> GridOutcome:
    """Run the cells of these seeds as `run_places` does, and merge the tables."""
    order = order_cells(cells, seeds)
    outcome = run_places(results, config, order, open_context, progress, retry_failed)
    # once, at the end: with many cells merging takes seconds, and whoever reads the tables before then merges them
    results.merge_cells()
    return outcome


def run_places(
    results: Results,
    config: Config,
    order: Sequence[tuple[str, int]],
    open_context: Callable[[], CellContext],
    progress: Progress,
    retry_failed: bool = True,
) -> GridOutcome:
    """Run in this process what is not there yet and no other process is running.

    Returns when every cell has ended, wherever it ran. Raises DriftError before anything runs where the folder holds
    another experiment. `open_context` loads the model and starts the sandboxes; called only if there is work to do.
    """
    results.require_same(static_identity(config))
    left = find_left(results, order, progress, retry_failed)
    waiting = [place for place in left if results.cell_status(*place) is None]
    if waiting:
        context = open_context()
        run = RunIdentity(
            config=config,
            policy=context.learner.fingerprint,
            backend=context.judge.backend,
            start=None if context.given is None else context.given.key,
        )
        if config.sft.data and config.sft.num_pairs and results.recorded() is None:
            # the folder is nobody's yet, and would be that of data of which nothing can be used
            admission = open_admission(config, context.work, context.progress)
            require_pairs(config, context.learner.fits, admission, context.jobs)
        results.claim(run)
        _run_waiting(results, run, context, waiting)
    return count_outcome(results, order, len(order) - len(left))


def count_outcome(results: Results, order: Sequence[tuple[str, int]], num_cached: int) -> GridOutcome:
    """What became of the cells, as the folder has it."""
    statuses = [results.cell_status(*place) for place in order]
    return GridOutcome(
        num_complete=statuses.count("complete"),
        num_failed=statuses.count("failed"),
        num_cached=num_cached,
        num_unfinished=statuses.count(None),
    )


def _run_waiting(results: Results, run: RunIdentity, context: CellContext, waiting: list[tuple[str, int]]) -> None:
    """Run the cells that can be claimed, in order, until all have ended here or elsewhere."""
    while waiting:
        num_run = 0
        for cell, seed in waiting:
            with results.claimed_cell(cell, seed) as ours:
                if ours and results.cell_status(cell, seed) is None:
                    _run_one(results, run, context, cell, seed)
                    num_run += 1
        waiting = [place for place in waiting if results.cell_status(*place) is None]
        if waiting and not num_run:
            time.sleep(POLL_S)


def _run_one(results: Results, run: RunIdentity, context: CellContext, cell: str, seed: int) -> None:
    context.progress.cell(cell, seed, CellState.RUNNING)
    try:
        result = run_start(context, seed) if cell == SFT else run_cell(context, CellSpec.parse(cell), seed)
    except TritonrlError:
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        results.write_failure(run, cell, seed, message)
        (results.cell_folder(cell, seed) / "error.txt").write_text(traceback.format_exc())
        context.progress.cell(cell, seed, CellState.FAILED, message)
        return
    results.write_cell(run, cell, seed, result)
    context.progress.cell(cell, seed, CellState.COMPLETE)
