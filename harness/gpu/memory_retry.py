"""Memory that is short on a GPU, and is not the plan's doing.

A plan that asks for more than there is is refused. But executors share their GPU with one another, and what the others
hold says nothing about a plan. So what would fit into an executor's part is asked once more, in a fresh context and
while nobody else has a turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ...core.candidate import Failure
from ...core.outcome import Outcome
from ...core.plan import LaunchPlan
from .processes import Executor

EXECUTOR_BYTES = 16 << 30
"""An executor's part of a GPU's memory: kept references, copies of a plan, graphs."""
T = TypeVar("T")


def needed_bytes(plan: LaunchPlan) -> int:
    """What the plan's buffers take, with what they are filled from and compared with."""
    from .device.memory import num_bytes

    return 2 * sum(num_bytes(buffer) for buffer in plan.buffers)


def with_memory_retry(
    executor: Executor,
    plans: Sequence[LaunchPlan],
    work: Callable[[], T],
    failures_of: Callable[[T], Iterable[Failure | None]],
    count_wait: Callable[[float], None],
) -> T:
    """What the work returns; where memory was too short for plans that are not large, the same with the GPU alone.

    Seconds until it is alone go to `count_wait`.
    """
    found = work()
    is_short = any(failure and failure.outcome is Outcome.MEMORY_LIMIT for failure in failures_of(found))
    if not is_short or max(map(needed_bytes, plans), default=0) > EXECUTOR_BYTES:
        return found
    began = time.perf_counter()
    with executor.lock.exclusive():
        executor.end()
        count_wait(time.perf_counter() - began)
        return work()
