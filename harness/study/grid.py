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

from ...core.cells import CONTROLS, GRID_CELLS, NOISE_SWEEP, CellSpec
from ...core.config import Config
from ..display import CellState, Progress
from ..errors import TritonrlError, UsageError
from .cell import SFT, Line, run_cell, run_start
from .cell_tasks import evaluated_rounds
from .store import Results, RunIdentity

NAMED_GRIDS: dict[str, tuple[CellSpec, ...]] = {
    "full": GRID_CELLS,
    # the half fraction with defining relation I = MSCT: main effects are clear of two-way interactions
    "half": tuple(cell for cell in GRID_CELLS if sum(cell.extensions.flags) % 2 == 0),
    "one-at-a-time": tuple(cell for cell in GRID_CELLS if sum(cell.extensions.flags) <= 1),
    "leave-one-out": tuple(cell for cell in GRID_CELLS if sum(cell.extensions.flags) >= 3),
    "controls": CONTROLS,
    "noise": NOISE_SWEEP,
}


class Planned(StrEnum):
    """Where a cell stands before a run."""

    CACHED = "cached"
    STALE = "stale"
    """Made by another configuration or version: the run would be refused as drift."""
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
    """What became of a run's cells."""

    num_complete: int
    num_failed: int
    num_cached: int


POLL_S = 1.0
"""How often a process that has nothing left to claim looks whether the others have finished, or died."""


def parse_grid(text: str, limit: int | None = None) -> tuple[CellSpec, ...]:
    """Cells of a comma-separated list of named grids and cells, such as "full,controls" or "none,ms,c+binary".

    Each cell once, in the order given, and at most `limit` of them; raises UsageError.
    """
    cells: dict[CellSpec, None] = {}
    for part in text.split(","):
        if not part.strip():
            raise UsageError(f"--grid {text}: an empty cell name; the baseline is called 'none'")
        try:
            named = NAMED_GRIDS.get(part.strip())
            cells |= dict.fromkeys((CellSpec.parse(part),) if named is None else named)
        except ValueError as error:
            raise UsageError(f"--grid {text}: {error}; or one of {', '.join(NAMED_GRIDS)}") from None
    return tuple(cells)[:limit]


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
    """Where each cell stands, the shared starts first."""
    stale = bool(results.drift(static_identity(config)))
    recorded = _recorded_seconds(results)
    planned = []
    for cell, seed in order_cells(cells, seeds):
        complete = results.cell_status(cell, seed) == "complete"
        state = Planned.NEW if not complete else Planned.STALE if stale else Planned.CACHED
        planned.append(
            PlannedCell(
                cell=cell,
                seed=seed,
                state=state,
                num_samples=0 if state is Planned.CACHED else count_samples(config, cell),
                num_updates=0 if state is Planned.CACHED else count_updates(config, cell),
                seconds=0.0 if state is Planned.CACHED else recorded.get(cell == SFT),
            )
        )
    return planned


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


def run_grid(
    results: Results,
    config: Config,
    cells: Sequence[CellSpec],
    seeds: Sequence[int],
    open_line: Callable[[], Line],
    progress: Progress,
    retry_failed: bool = True,
) -> GridOutcome:
    """Run in this process what is not there yet and no other process is running, and merge the tables.

    Returns when every cell has ended, wherever it ran. Raises DriftError before anything runs where the folder holds
    another experiment. `open_line` loads the model and starts the sandboxes; it is called only if there is work to do.
    """
    results.require_same(static_identity(config))
    order = order_cells(cells, seeds)
    # here and not with the work: a run may have been killed while it merged the tables of finished cells
    results.sweep()
    if retry_failed:
        results.forget_failures(order)
    done = {place for place in order if results.cell_status(*place) == "complete"}
    progress.grid([(*place, CellState.CACHED if place in done else CellState.WAITING) for place in order])
    waiting = [place for place in order if results.cell_status(*place) is None]
    if waiting:
        line = open_line()
        run = RunIdentity(config=config, policy=line.learner.fingerprint, backend=line.judge.backend)
        results.claim(run)
        _run_waiting(results, run, line, waiting)
    # once, at the end: with many cells merging takes seconds, and whoever reads the tables before then merges them
    results.merge_cells()
    return count_outcome(results, order, len(done))


def count_outcome(results: Results, order: Sequence[tuple[str, int]], num_cached: int) -> GridOutcome:
    """What became of the cells, as the folder has it; one that nobody finished counts as failed."""
    num_complete = sum(results.cell_status(*place) == "complete" for place in order)
    return GridOutcome(num_complete=num_complete, num_failed=len(order) - num_complete, num_cached=num_cached)


def _run_waiting(results: Results, run: RunIdentity, line: Line, waiting: list[tuple[str, int]]) -> None:
    """Run the cells that can be claimed, in order, until all have ended here or elsewhere."""
    while waiting:
        num_run = 0
        for cell, seed in waiting:
            with results.claimed_cell(cell, seed) as ours:
                if ours and results.cell_status(cell, seed) is None:
                    _run_one(results, run, line, cell, seed)
                    num_run += 1
        waiting = [place for place in waiting if results.cell_status(*place) is None]
        if waiting and not num_run:
            time.sleep(POLL_S)


def _run_one(results: Results, run: RunIdentity, line: Line, cell: str, seed: int) -> None:
    line.progress.cell(cell, seed, CellState.RUNNING)
    try:
        result = run_start(line, seed) if cell == SFT else run_cell(line, CellSpec.parse(cell), seed)
    except TritonrlError:
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        results.write_failure(run, cell, seed, message)
        (results.cell_folder(cell, seed) / "error.txt").write_text(traceback.format_exc())
        line.progress.cell(cell, seed, CellState.FAILED, message)
        return
    results.write_cell(run, cell, seed, result)
    line.progress.cell(cell, seed, CellState.COMPLETE)
