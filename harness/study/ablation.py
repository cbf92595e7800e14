"""Run a grid: by which executor, in how many processes, and with a record of where its results came from."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ...core.cells import CellSpec
from ...core.config import Config
from ..display import DisplayKind, open_display
from ..errors import UsageError
from ..phases import default_jobs, open_line
from ..settings import to_toml
from ..work import write_atomically
from .executors import ExecutorKind, run_on_ray, run_on_slurm
from .grid import GridOutcome, order_cells, run_grid, static_identity
from .local_workers import run_locally, visible_devices, worker_command
from .provenance import recorded_invocation
from .store import Results


def run_ablation(
    config: Config,
    out: Path,
    cells: Sequence[CellSpec],
    num_seeds: int,
    executor: ExecutorKind = ExecutorKind.LOCAL,
    executor_options: str = "",
    display: DisplayKind | None = None,
    jobs: int | None = None,
    workers: int | None = None,
) -> GridOutcome:
    """Run a grid by an executor; the results are in `out`.

    `workers` are the processes of a local run; by default one a GPU where there is work for several, and else this one.
    """
    results = Results(root=out)
    if (out / "cells.parquet").exists() and not (out / "cells").exists():
        # merging would replace all of it by what this run has finished
        raise UsageError(f"{out}: published tables, not a run; use another --out")
    results.require_same(static_identity(config))
    config_file, text = out / "config.toml", to_toml(config)
    if not config_file.exists() or config_file.read_text() != text:
        write_atomically(config_file, text.encode())
    results.plan(order_cells(cells, range(num_seeds)))
    if executor is ExecutorKind.SLURM:
        return run_on_slurm(results, cells, num_seeds, config_file, executor_options)
    if executor is ExecutorKind.RAY:
        return run_on_ray(results, cells, num_seeds, config_file)
    return _run_here(config, results, cells, num_seeds, config_file, display, jobs, workers)


def _run_here(
    config: Config,
    results: Results,
    cells: Sequence[CellSpec],
    num_seeds: int,
    config_file: Path,
    display: DisplayKind | None,
    jobs: int | None,
    workers: int | None,
) -> GridOutcome:
    order = order_cells(cells, range(num_seeds))
    num_left = sum(results.cell_status(*place) != "complete" for place in order)
    devices = visible_devices() if num_left else ()
    num_workers = min(workers or max(1, len(devices)), num_left)
    progress = open_display(display)
    with ExitStack() as stack:
        stack.callback(progress.close)
        if num_left:
            # one process uses every GPU to verify; of several, each uses one
            held = devices[:num_workers] if num_workers > 1 else devices
            command = shlex.join(["tritonrl", *sys.argv[1:]])
            stack.enter_context(recorded_invocation(results, command, num_workers, held))
        if num_workers > 1:
            results.sweep()
            results.forget_failures(order)
            share = jobs or max(1, default_jobs() // num_workers)
            num_sharing = math.ceil(num_workers / max(1, len(devices)))
            worker = worker_command(results, cells, num_seeds, config_file, share, num_sharing)
            return run_locally(results, cells, num_seeds, worker, num_workers, devices, progress)
        return run_grid(
            results,
            config,
            cells,
            range(num_seeds),
            lambda: stack.enter_context(open_line(config, results, progress, jobs or default_jobs())),
            progress,
        )
