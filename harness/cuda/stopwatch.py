"""Device time of a recorded piece of work: how a runtime is measured on a GPU.

Naive timing, events around launches from Python, measures Python for kernels of a few microseconds. Here the work is
captured in a CUDA graph and replayed between two events; the L2 cache is flushed before every trial, since what a
kernel reads is not in the cache when a model calls it; and a spinning kernel holds the stream back until all trials are
queued, so that no gap between launches is inside the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

FLUSH_BYTES = 256 << 20
"""More than the L2 cache of any GPU so far."""
_SPIN_CYCLES = 2_000_000


class Stopwatch:
    """Measures on the current device; holds the memory whose writing flushes the cache."""

    def __init__(self) -> None:
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")

    def capture(self, work: Callable[[], None]) -> Any:
        """The work as a CUDA graph, after one run outside it."""
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph

    def trials_us(self, replay: Callable[[], None], num_trials: int, num_warmups: int) -> list[float]:
        """Microseconds of each of `num_trials` replays, after `num_warmups` that are not timed."""
        for _ in range(num_warmups):
            self.flush.zero_()
            replay()
        new_event: Any = torch.cuda.Event
        events = [(new_event(enable_timing=True), new_event(enable_timing=True)) for _ in range(num_trials)]
        torch.cuda._sleep(_SPIN_CYCLES)  # type: ignore[no-untyped-call]
        for start, end in events:
            self.flush.zero_()
            start.record()
            replay()
            end.record()
        torch.cuda.synchronize()
        return [1e3 * start.elapsed_time(end) for start, end in events]
