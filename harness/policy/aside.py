"""Running something once before it is captured: kernels are compiled, and libraries have what they need, by then.

Capturing forbids both. It happens on a stream beside the current one, always the same, since libraries keep memory for
every stream that they have seen.
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
