"""A process that works at a grid for another one: as a worker of this machine, or as a cluster's job.

A worker of this machine runs the whole grid's loop and tells its parent what happens in lines of JSON
(`local_workers`). A cluster's job has one cell of one seed (`--cell`), and tells it in its log, as a person reads it.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from ....core.config import ConfigError
from ...display import DisplayKind, Progress
from ...errors import TritonrlError
from ...metrics import open_progress
from ...settings import load_config
from ...tasks.batch import default_jobs
from ..grid import order_cells, parse_grid, run_places
from ..pipeline import CellContext, open_context
from ..store import Results
from .local_workers import Reporter, take_stdout


def main() -> int:
    """Work until every cell has ended; the exit code is 0, also where cells failed."""
    parser = argparse.ArgumentParser(prog="tritonrl.harness.study.runner.worker", description=__doc__)
    parser.add_argument("--grid", default="none")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--cell", help="run this cell alone, or `sft` for the start")
    parser.add_argument("--seed", type=int, default=0, help="of --cell")
    parser.add_argument("--jobs", type=int, default=0, help="0: one a processor")
    parser.add_argument("--sharing", type=int, default=1, help="workers on each GPU")
    parser.add_argument("--display", type=DisplayKind, default=DisplayKind.PLAIN, help="of --cell")
    parser.add_argument("--log", action="append", default=[], help="of --cell")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    try:
        with ExitStack() as stack:
            progress = _open_progress(given)
            stack.callback(progress.close)
            _work(given, progress, stack)
    except (TritonrlError, ConfigError) as error:
        print(error, file=sys.stderr)
        return getattr(error, "exit_code", 2)
    except KeyboardInterrupt:
        return 130
    return 0


def _open_progress(given: argparse.Namespace) -> Progress:
    if given.cell is None:
        return Reporter(take_stdout())
    return open_progress(given.display, given.log, given.out, f"{given.cell}-seed{given.seed}")


def _work(given: argparse.Namespace, progress: Progress, stack: ExitStack) -> None:
    results, config, jobs = Results(root=given.out), load_config(file=given.config), given.jobs or default_jobs()

    def open_it() -> CellContext:
        return stack.enter_context(open_context(config, results, progress, jobs, given.sharing))

    if given.cell is None:
        order = order_cells(parse_grid(given.grid), range(given.seeds))
    else:
        order = [(given.cell, given.seed)]
    run_places(results, config, order, open_it, progress, retry_failed=False)
    if given.cell is None:
        results.merge_cells()


if __name__ == "__main__":
    sys.exit(main())
