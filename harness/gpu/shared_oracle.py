"""The oracle on a GPU that others use as well: what it computes there takes a turn, so that nobody times meanwhile.

Drawing inputs and parameters takes longer than computing on them, and takes no turn, but where gigabytes are drawn on
the GPU; nor do sizes so small that a processor is done before a turn would have come. Sizes that a GPU runs whole make
results of many megabytes, and a task's candidates come one after the other or all mixed up, so more of them are kept
than without a GPU. Where others want its memory as well, no more is taken than is meant for the run, since what is
missing ends the runs of others. Where float64 needs more than that, a processor computes, or at sizes that are too
large for it the GPU in float32, without TF32.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from attrs import evolve

from ...core.candidate import Variant
from ...core.task import Profile, Task
from ...stages.variant_inputs import VariantInputs
from ..errors import TaskError, TooLargeError
from ..reference.expected_run import ExpectedRun
from ..reference.oracle import Oracle
from ..reference.reference import call_model, convert, is_floating
from ..reference.task_facts import MAX_CACHED_BYTES
from ..reference.values import DrawnInputs, draw_on_device
from .gpu_lock import GpuLock
from .timing.references import forbid_tf32

_FEW_ELEMENTS = 1 << 14
"""So many elements of inputs a processor computes on in less than a millisecond or two."""
_SHARE_OF_MEMORY = 16
_MOST_CACHED_BYTES = 8 << 30
_RUN_BYTES = 4 << 30
"""A run that asks nobody may take so much of the GPU's memory, beside neighbours."""
_SPARE_BYTES = 1 << 30
"""As much of it stays with a process between its runs."""


def _has_few(inputs: Sequence[Any]) -> bool:
    return sum(value.numel() for value in inputs if isinstance(value, torch.Tensor)) <= _FEW_ELEMENTS


class SharedOracle(Oracle):
    """An oracle that computes on a GPU, in its turn; `has_neighbours`: others of the same kind want its memory."""

    def __init__(
        self,
        seed: int,
        lock: GpuLock,
        device: str = "cuda:0",
        max_cached_bytes: int | None = None,
        has_neighbours: bool = False,
    ) -> None:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        usual = max(MAX_CACHED_BYTES, min(_MOST_CACHED_BYTES, memory // _SHARE_OF_MEMORY))
        super().__init__(seed, max_cached_bytes or usual)
        self._gpu_lock = lock
        self._has_neighbours = has_neighbours
        self.device = device

    def _compute(self, task: Task, spec: VariantInputs, seeded_parameters: frozenset[str]) -> ExpectedRun:
        """Compute there what a processor accepts at tiny sizes: an assertion about values ends a GPU's context.

        The variant of other numbers has these at its own sizes alone.
        """
        if spec.variant is not Variant.ORIGINAL and spec.profile not in (Profile.TINY, Profile.NUMBERS):
            self.expected(task, evolve(spec, profile=Profile.TINY), seeded_parameters)
        return super()._compute(task, spec, seeded_parameters)

    @contextmanager
    def confined(self, num_bytes: float = _RUN_BYTES) -> Iterator[None]:
        """Take no more of the GPU's memory where neighbours want some: PyTorch raises `OutOfMemoryError` for more."""
        if self._has_neighbours:
            memory = torch.cuda.get_device_properties(self.device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, max(num_bytes, _RUN_BYTES) / memory), self.device)
        try:
            yield
        finally:
            if self._has_neighbours:
                torch.cuda.set_per_process_memory_fraction(1.0, self.device)
            if torch.cuda.is_available() and torch.cuda.memory_reserved() > _SPARE_BYTES:
                torch.cuda.empty_cache()

    def _call(self, task: Task, model: torch.nn.Module, inputs: list[Any]) -> Sequence[torch.Tensor]:
        if not _has_few(inputs):
            with self._gpu_lock.shared():
                found = self._try_in(torch.float64, task, model, inputs)
            if found is not None:
                return found
        return super()._call(task, model.cpu(), inputs)

    def _call_in_own(
        self, dtype: torch.dtype, task: Task, model: torch.nn.Module, inputs: list[Any]
    ) -> Sequence[torch.Tensor]:
        if not _has_few(inputs):
            with self._gpu_lock.shared():
                forbid_tf32()
                found = self._try_in(dtype, task, model, inputs)
            if found is not None:
                return found
        return super()._call_in_own(dtype, task, model.cpu(), inputs)

    def _try_in(
        self, dtype: torch.dtype, task: Task, model: torch.nn.Module, inputs: list[Any]
    ) -> Sequence[torch.Tensor] | None:
        """Return the results, or None where there is too little memory."""
        with self.confined():
            try:
                return self._call_in(dtype, task, model, inputs)
            except torch.cuda.OutOfMemoryError:
                return None

    def build_there(self, task: Task, dtype: str) -> torch.nn.Module | None:
        """The reference's model at its declared sizes, made on the GPU; None where it cannot be."""
        with contextlib.suppress(TaskError), self._gpu_lock.shared():
            return self.build_model(task, Profile.DECLARED, dtype, frozenset(), self.device)
        return None

    def compute_there(
        self, task: Task, model: torch.nn.Module, drawn: DrawnInputs, dtype: torch.dtype
    ) -> tuple[list[torch.Tensor], str]:
        """The reference's results on inputs drawn on the GPU, which stay there, and in which dtype they were computed.

        Floating ones are rounded to float32. Raises TooLargeError where there is too little memory.
        """
        with self._gpu_lock.shared():
            for kind in dict.fromkeys((dtype, torch.float32)):
                try:
                    forbid_tf32()
                    return self._compute_there(kind, task, copy.deepcopy(model), drawn), str(kind).removeprefix(
                        "torch."
                    )
                except torch.cuda.OutOfMemoryError:
                    pass  # its traceback would hold what did not fit
                torch.cuda.empty_cache()
        raise TooLargeError(
            f"{task.task_id}: the GPU's memory does not suffice for the reference at its declared sizes"
        )

    def _compute_there(
        self, dtype: torch.dtype, task: Task, model: torch.nn.Module, drawn: DrawnInputs
    ) -> list[torch.Tensor]:
        inputs = draw_on_device(drawn, self.device)
        wide = [value.to(dtype) if is_floating(value) else value for value in inputs]
        del inputs
        outputs = call_model(task, convert(convert(model, self.device), dtype), wide, is_last=True)
        return [output.float() if is_floating(output) else output for output in outputs]

    def _call_in(
        self, dtype: torch.dtype, task: Task, model: torch.nn.Module, inputs: list[Any]
    ) -> Sequence[torch.Tensor]:
        placed = [value.to(self.device) if isinstance(value, torch.Tensor) else value for value in inputs]
        placed = [value.to(dtype) if is_floating(value) else value for value in placed]
        return [output.cpu() for output in call_model(task, convert(convert(model, self.device), dtype), placed)]
