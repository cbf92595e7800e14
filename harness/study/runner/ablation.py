"""Run a grid: by which executor, in how many processes, and with a record of where its results came from."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ....core.config import Config
from ....core.recipe.extensions import CellSpec
from ...display import DisplayKind, open_display
from ...errors import TritonrlError, UsageError
from ...metrics import open_progress
from ...policy.api_model import is_api_model
from ...settings import ExecutorKind, require_scheduler, to_toml
from ...tasks.batch import default_jobs
from ...verification.verifier import open_verifier
from ...work import write_atomically
from ..grid import GridOutcome, PlannedCell, lost_starts, order_cells, plan_grid, run_grid, static_identity
from ..pipeline import open_context, take_start
from ..provenance import recorded_invocation
from ..store import Results, is_published, require_folder
from .executors import JobOptions, worker_command
from .local_workers import run_locally, visible_devices
from .ray_tasks import run_on_ray
from .slurm import run_on_slurm


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
    log: Sequence[str] = (),
    adapter: Path | None = None,
) -> GridOutcome:
    """Run a grid by an executor; the results are in `out`. All cells start from `adapter`, where one is given.

    `workers` are the processes of a local run, by default one a GPU where there is work for several, and else this one;
    on a cluster they are the cells at once, by default as many as it has room for. `log` are trackers of live metrics.
    """
    if is_api_model(config.policy.name):
        raise UsageError(f"policy.name: {config.policy.name}: sampled by `eval` and `sample`, and not trained")
    results = Results(root=out)
    require_scheduler(executor)
    require_free(results, config)
    take_start(results, adapter)
    _tell_lost_starts(results, cells, num_seeds)
    config_file = write_config(config, out)
    order = order_cells(cells, range(num_seeds))
    results.plan(order)
    if executor is ExecutorKind.LOCAL:
        return _run_here(config, results, cells, num_seeds, config_file, display, jobs, workers, log)
    shown = DisplayKind.PLAIN if display in (None, DisplayKind.RICH) else display
    options = JobOptions(jobs=jobs or 0, display=shown, log=tuple(log), num_at_once=workers or 0)
    # a tracker that is missing is told here, and not by every job
    open_progress(DisplayKind.NONE, log, out).close()
    progress = open_display(display)
    try:
        if executor is ExecutorKind.SLURM:
            return run_on_slurm(results, order, config_file, options, executor_options, progress)
        return run_on_ray(results, order, config_file, options, progress)
    finally:
        progress.close()


def preview(
    config: Config, out: Path, cells: Sequence[CellSpec], num_seeds: int, executor: ExecutorKind
) -> list[PlannedCell]:
    """What `run_ablation` would do, refused where that is; what this machine lacks for it is told on stderr."""
    results = Results(root=out)
    require_free(results, config)
    planned = plan_grid(results, config, cells, range(num_seeds))
    _tell_lost_starts(results, cells, num_seeds)
    try:
        require_scheduler(executor)
        if executor is ExecutorKind.LOCAL and not visible_devices():
            with open_verifier(config):
                pass
    except TritonrlError as error:
        print(f"tritonrl: this machine cannot run it: {error}", file=sys.stderr)
    return planned


def require_free(results: Results, config: Config) -> None:
    """Raise UsageError or DriftError where the folder is none, or holds something else than this run."""
    require_folder(results.root)
    if is_published(results.root):
        # merging would replace all of it by what this run has finished
        raise UsageError(f"{results.root}: published tables, not a run; use another --out")
    results.require_same(static_identity(config))


def write_config(config: Config, out: Path) -> Path:
    """Keep every key of a run's configuration in its folder; returns the file."""
    path, text = out / "config.toml", to_toml(config)
    if not path.exists() or path.read_text() != text:
        write_atomically(path, text.encode())
    return path


def _tell_lost_starts(results: Results, cells: Sequence[CellSpec], num_seeds: int) -> None:
    lost = ", ".join(map(str, lost_starts(results, cells, range(num_seeds))))
    if lost:
        print(
            f"tritonrl: seed {lost}: the supervised start is trained again, since its adapter is not in {results.root};"
            " new cells may start from another model than the finished ones",
            file=sys.stderr,
        )


def _run_here(
    config: Config,
    results: Results,
    cells: Sequence[CellSpec],
    num_seeds: int,
    config_file: Path,
    display: DisplayKind | None,
    jobs: int | None,
    workers: int | None,
    log: Sequence[str],
) -> GridOutcome:
    order = order_cells(cells, range(num_seeds))
    num_left = sum(results.cell_status(*place) != "complete" for place in order)
    devices = visible_devices() if num_left else ()
    num_workers = min(workers or max(1, len(devices)), num_left)
    progress = open_progress(display, log, results.root)
    with ExitStack() as stack:
        stack.callback(progress.close)
        if num_left:
            # one process uses every GPU to verify; of several, each uses one
            held = devices[:num_workers] if num_workers > 1 else devices
            command = shlex.join(["tritonrl", *sys.argv[1:]])
            stack.enter_context(recorded_invocation(results, command, num_workers, held))
        if num_workers > 1:
            share = jobs or max(1, default_jobs() // num_workers)
            num_sharing = math.ceil(num_workers / max(1, len(devices)))
            named = ("--grid", ",".join(map(str, cells)), "--seeds", num_seeds)
            worker = worker_command(results, config_file, *named, "--jobs", share, "--sharing", num_sharing)
            return run_locally(results, order, worker, num_workers, devices, progress)
        return run_grid(
            results,
            config,
            cells,
            range(num_seeds),
            lambda: stack.enter_context(open_context(config, results, progress, jobs or default_jobs())),
            progress,
        )
