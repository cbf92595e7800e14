"""A cluster's job with stand-ins for model and verifier; otherwise it is `runner.worker`.

A file `fail-CELL` in the results folder makes that cell fail, `hold-CELL` makes it wait until the file is gone, and
`kill-CELL` ends its process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

from attrs import define, evolve
from tritonrl.core.recipe.extensions import VerifierSpec
from tritonrl.core.task import Task
from tritonrl.core.verdict import Verdict
from tritonrl.harness.study.runner import worker
from tritonrl.harness.study.store import Results

from ..context_stub import TextJudge, stub_context, tiny_config


@define
class Troubled(TextJudge):
    """A judge that gets into the trouble that the folder asks for; other than samples, verdicts are never shared."""

    root: Path = Path()
    cell: str = ""

    def verify_many(
        self,
        pairs: Sequence[tuple[Task, str]],
        spec: VerifierSpec,
        jobs: int = 1,
        on_done: Callable[[int, Verdict], None] | None = None,
        on_bad_task: Callable[[int, Exception], None] | None = None,
    ) -> list[Verdict]:
        while (self.root / f"hold-{self.cell}").exists():
            time.sleep(0.05)
        if (self.root / f"kill-{self.cell}").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        if (self.root / f"fail-{self.cell}").exists():
            raise RuntimeError("the model is on fire")
        return super().verify_many(pairs, spec, jobs, on_done, on_bad_task)


def main() -> int:
    """Run the job that the command line names."""
    given = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    results, config = Results(root=Path(given["--out"])), tiny_config()
    judge = Troubled(root=results.root, cell=given["--cell"])
    print(f"working at {given['--cell']} seed {given['--seed']} with {given['--jobs']} jobs", file=sys.stderr)

    class Context:
        def __init__(self, *arguments: object) -> None: ...

        def __enter__(self) -> object:
            return evolve(stub_context(results, config), judge=judge)

        def __exit__(self, *_: object) -> None: ...

    with patch.object(worker, "open_context", Context):
        return worker.main()


if __name__ == "__main__":
    sys.exit(main())
