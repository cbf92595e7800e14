"""Running a few programs of a launch, and what they wrote: how the declared sizes are looked at without a GPU.

An interpreter that runs some hundred programs a second cannot run a kernel at the sizes that are compiled, timed and
rewarded. It can run a few programs of the launch, drawn by the judge: what they write can be compared, and how much
each of them writes tells whether the whole launch writes the whole result.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np
import torch
from attrs import define, field, frozen
from numpy.typing import NDArray

from ...core.plan import Copy, LaunchPlan
from .protocol import Sample


@frozen(kw_only=True)
class Sampling:
    """How many programs of each launch run (0 = all), and the seed that chooses them."""

    num_programs: int = 0
    seed: int = 0

    def draw(self, grid: tuple[int, int, int]) -> frozenset[int]:
        """Flat indices of the programs that run, x slowest: drawn ones, each with its next along every axis.

        Neighbours show what single programs would not: that one axis of the grid makes no difference, so that its
        programs write the same elements.
        """
        total = math.prod(grid)
        if self.num_programs >= total:
            return frozenset(range(total))
        draw = random.Random(self.seed)
        chosen: set[int] = set()
        while len(chosen) < self.num_programs:
            place = [draw.randrange(size) for size in grid]
            chosen.add(_flat(place, grid))
            for axis, size in enumerate(grid):
                beside = [*place[:axis], (place[axis] + 1) % size, *place[axis + 1 :]]
                chosen.add(_flat(beside, grid))
        return frozenset(chosen)


def _flat(place: list[int], grid: tuple[int, int, int]) -> int:
    return (place[0] * grid[1] + place[1]) * grid[2] + place[2]


@define
class Writes:
    """Which elements kernels stored to, as marks on the first byte of each in a stretch of memory at `start`.

    `counted` are the ranges of bytes, those of the returned buffers, in which each program's new elements are counted.
    """

    start: int
    marks: NDArray[np.bool_]
    counted: tuple[tuple[int, int], ...]
    by_program: list[int] = field(factory=list)
    has_atomics: bool = False

    def mark(self, pointers: Any, mask: Any) -> None:
        """Note a store's addresses, which lie inside the memory."""
        chosen = np.broadcast_to(np.asarray(mask, dtype=bool), pointers.data.shape)
        offsets = pointers.data[chosen].astype(np.int64) - self.start
        fresh = np.unique(offsets[~self.marks[offsets]])
        self.marks[fresh] = True
        for low, high in self.counted:
            self.by_program[-1] += int(np.count_nonzero((fresh >= low) & (fresh < high)))

    def carry(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Let a copied element count as written where its source was."""
        self._window(target).copy_(self._window(source).clone())

    def bits(self, view: torch.Tensor) -> bytes:
        """A bit for each element of a view: whether it was written."""
        return np.packbits(self._window(view).contiguous().numpy().reshape(-1)).tobytes()

    def sample(self) -> Sample:
        """The counts."""
        return Sample(written_by_program=tuple(self.by_program), has_atomics=self.has_atomics)

    def _window(self, view: torch.Tensor) -> torch.Tensor:
        size = view.element_size()
        steps = [step * size for step in view.stride()]
        return torch.from_numpy(self.marks).as_strided(tuple(view.shape), steps, view.data_ptr() - self.start)


def follow_writes(plan: LaunchPlan, buffers: Sequence[torch.Tensor]) -> Writes:
    """Nothing is written yet in the plan's buffers, which lie in one stretch of memory."""
    start = min(buffer.data_ptr() for buffer in buffers)
    stop = max(buffer.data_ptr() + buffer.numel() for buffer in buffers)
    counted = [(buffers[index].data_ptr() - start, buffers[index].numel()) for index in sorted(_returned(plan))]
    return Writes(
        start=start,
        marks=np.zeros(stop - start, dtype=bool),
        counted=tuple((low, low + size) for low, size in counted),
    )


def _returned(plan: LaunchPlan) -> set[int]:
    """The buffers that are returned, as they are or by way of copies."""
    found = {view.buffer for view in plan.outputs}
    for step in reversed(plan.steps):
        if isinstance(step, Copy) and step.target.buffer in found:
            found.add(step.source.buffer)
    return found


_watching: list[Writes] = []


def install() -> None:
    """Let this process's interpreter report stores and atomics to what watches them."""
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    plain_store, plain_combine = builder.create_masked_store, builder.create_atomic_rmw
    plain_swap = builder.create_atomic_cas

    def store(self: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        result = plain_store(self, pointers, value, mask, *options)
        for writes in _watching:
            writes.mark(pointers, mask.data)
        return result

    def combine(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        result = plain_combine(self, operation, pointers, value, mask, *options)
        for writes in _watching:
            writes.has_atomics = True
            writes.mark(pointers, mask.data)
        return result

    def swap(self: Any, pointers: Any, *operands: Any) -> Any:
        result = plain_swap(self, pointers, *operands)
        for writes in _watching:
            writes.has_atomics = True
            writes.mark(pointers, True)
        return result

    builder.create_masked_store = store
    builder.create_atomic_rmw, builder.create_atomic_cas = combine, swap


def run_sample(
    function: Any, grid: tuple[int, int, int], arguments: dict[str, Any], chosen: frozenset[int], writes: Writes
) -> None:
    """Run the chosen programs of an interpreted kernel; the others count in the grid and do nothing."""
    from triton.runtime import interpreter

    rewritten, builder = function.rewrite(), interpreter.interpreter_builder

    def run_if_chosen(**values: Any) -> None:
        x, y, z = builder.grid_idx
        if (x * grid[1] + y) * grid[2] + z in chosen:
            writes.by_program.append(0)
            rewritten(**values)

    # the executor looks at its function's globals for the kernel language, and at its signature and annotations
    body = run_if_chosen
    sampled: Any = FunctionType(body.__code__, rewritten.__globals__, rewritten.__name__, None, body.__closure__)
    sampled.__signature__, sampled.__annotations__ = inspect.signature(rewritten), rewritten.__annotations__
    _watching.append(writes)
    try:
        interpreter.GridExecutor(sampled, function.arg_names, grid, function.pre_run_hooks)(**arguments)
    finally:
        _watching.clear()
