"""The policy's turn on a GPU that others time kernels on: a sampler that runs beside a measurement would be in it.

Sampling and fine-tuning hold a shared turn (`harness.gpu.gpu_lock`), which is let go of ten times a second: several
processes may share a GPU, and nobody should wait to time for as long as a whole batch takes. They share its memory too:
what PyTorch's allocator holds in reserve, a batch's gigabytes and those of a training, is given back at a turn's end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch

from ..gpu.gpu_lock import GpuLock

HOLD_S = 0.1
"""A measurement takes about as long, and several may be waiting."""

OnDone = Callable[[int], None]


def open_turns(device: torch.device) -> GpuLock | None:
    """The turns of a device, as its executors take them; null where nothing is ever timed."""
    if device.type != "cuda":
        return None
    return GpuLock(f"GPU-{torch.cuda.get_device_properties(device).uuid}")


@contextmanager
def in_turn(turns: GpuLock | None, on_done: OnDone) -> Iterator[OnDone]:
    """A shared turn for as long as the context lasts; `on_done` as it must be called, which now and then lets go."""
    if turns is None:
        yield on_done
        return
    with ExitStack() as stack:
        stack.enter_context(turns.shared())
        since = time.monotonic()

        def report(done: int) -> None:
            nonlocal since
            on_done(done)
            if time.monotonic() - since >= HOLD_S:
                _settle()
                stack.close()
                stack.enter_context(turns.shared())
                since = time.monotonic()

        try:
            yield report
        finally:
            _settle()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def _settle() -> None:
    """Wait for what this process has queued: a turn is over when the GPU is done with it."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
