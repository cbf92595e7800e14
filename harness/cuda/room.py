"""Whose doing it is that a GPU's memory was short.

A plan that asks for more than there is is refused. But executors share their GPU with one another and with other
programs, and what those hold says nothing about a plan. So what an executor should have room for is asked once more, in
a fresh context and while nobody else has a turn; and where memory is short again because others hold it, nothing is
said of the plan: whoever asked gets an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ...core.candidate import Failure
from ...core.outcome import Outcome
from ...core.plan import LaunchPlan
from ..errors import SandboxError
from .processes import Executor

EXECUTOR_BYTES = 16 << 30
"""An executor's part of a GPU's memory; references that are kept, and replicas of a plan, take up to half of it."""
_LARGEST_SHARE = 0.25
"""Of a small GPU's memory a plan may need so much before it counts as asking for too much."""
_CONTEXT_BYTES = 2 << 30
"""What else a context may take, its executor's code and all."""
T = TypeVar("T")


def needed_bytes(plan: LaunchPlan) -> int:
    """What the plan's buffers take, with what they are filled from and compared with."""
    from .memory import num_bytes

    return 2 * sum(num_bytes(buffer) for buffer in plan.buffers)


def with_room(
    executor: Executor,
    plans: Sequence[LaunchPlan],
    work: Callable[[], T],
    failures_of: Callable[[T], Iterable[Failure | None]],
) -> T:
    """What the work returns, where memory was not short on account of others.

    Raises SandboxError where other programs hold what a plan needs.
    """

    def is_short(found: T) -> bool:
        return any(failure is not None and failure.outcome is Outcome.MEMORY_LIMIT for failure in failures_of(found))

    found = work()
    needed = max(map(needed_bytes, plans), default=0)
    if not is_short(found) or needed > min(EXECUTOR_BYTES, _LARGEST_SHARE * executor.total_bytes):
        return found
    with executor.turns.exclusive():
        executor.close()
        found = work()
        if is_short(found):
            executor.close()
            free = executor.open()
            if free < needed + _CONTEXT_BYTES:
                raise SandboxError(
                    f"GPU {executor.device} has {free / 2**30:.1f} GB of free memory, too little for a plan of "
                    f"{needed / 2**30:.1f} GB: other programs hold the rest"
                )
    return found
