"""The process of one worker of `harness.study.runner.local_workers`: the grid's loop, reported to its parent."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from ....core.config import ConfigError
from ...errors import TritonrlError
from ...settings import load_config
from ..grid import parse_grid, run_grid
from ..pipeline import open_context
from ..store import Results
from .local_workers import Reporter, take_stdout


def main() -> int:
    """Work until every cell has ended; the exit code is 0, also where cells failed."""
    parser = argparse.ArgumentParser(prog="tritonrl.harness.study.runner.worker", description=__doc__)
    parser.add_argument("--grid", required=True)
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--sharing", type=int, default=1, help="workers on each GPU")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    results, progress = Results(root=given.out), Reporter(take_stdout())
    try:
        config = load_config(file=given.config)
        with ExitStack() as stack:
            run_grid(
                results,
                config,
                parse_grid(given.grid),
                range(given.seeds),
                lambda: stack.enter_context(open_context(config, results, progress, given.jobs, given.sharing)),
                progress,
                retry_failed=False,
            )
    except (TritonrlError, ConfigError) as error:
        print(error, file=sys.stderr)
        return getattr(error, "exit_code", 2)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
