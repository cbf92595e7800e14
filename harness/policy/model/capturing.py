"""Capturing work on a GPU as a graph, which launches all of it at once and fixes everything but tensors' contents.

Before, the work runs once: capturing forbids what a first run does, compiling kernels and giving libraries what they
need. It runs on a stream beside the current one, always the same, since libraries keep memory for every stream that
they have seen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch


@cache
def _stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def run_aside(work: Callable[[], object], device: torch.device) -> None:
    """Run `work` on a GPU's other stream, after all that the current one has been given, and before what follows."""
    stream = _stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream(device).wait_stream(stream)


def capture(work: Callable[[], object], device: torch.device, memory: Any) -> Any:
    """The graph of `work`, which runs once for it; what a graph needs while it runs is taken from `memory`.

    `memory` is the `pool()` of other graphs, of which no two run at the same time; null makes a new one.
    """
    run_aside(work, device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=memory):
        work()
    return graph
