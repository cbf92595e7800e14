"""A pool of workers for tests of the queue and the server: it answers at once, without a process.

A candidate says what happens: `broken` is a broken sandbox, `bad` a task's error, `wait` waits until `go` is set.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.recipe.extensions import VerifierSpec
from tritonrl.core.task import Task
from tritonrl.core.verdict import StageResult, Verdict
from tritonrl.harness.errors import SandboxError, TaskError


class StubPool:
    """Stands for `WorkerPool`; `asked` are the candidates that came to it, in order."""

    def __init__(self) -> None:
        self.num_up = 0
        self.num_ended = 0
        self.asked: list[str] = []
        self.go = threading.Event()

    def start(self, num_workers: int) -> None:
        """Have workers."""
        self.num_up = num_workers

    def verify_one(
        self, task: Callable[[], Task], source: str, spec: VerifierSpec, name: str, limit_s: float
    ) -> Verdict:
        """Return a verdict on the text of the candidate."""
        self.asked.append(source)
        word = source.split()[0]
        if word == "broken":
            raise SandboxError("no worker starts")
        if word == "bad":
            raise TaskError(f"{name}: no task")
        if word == "wait":
            assert self.go.wait(30)
        stage = StageResult(stage=Stage.AST, outcome=Outcome.PASSED, seconds=0.0)
        candidate = hashlib.sha256(source.encode()).hexdigest()
        return Verdict(task_id=name, candidate=candidate, backend="stub", stages=(stage,), torch_operators=())
