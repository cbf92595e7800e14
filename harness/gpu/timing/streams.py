"""Streams that lie in several places, to time short work on in turns.

On an H200 a short kernel takes 30 ns more or less (standard deviation) by the stream that it is timed on, whatever
kernel it is. Streams that were made one after the other agree, and those after them, five or twenty later, agree with
one another on another time, as it is with graphs and the pages that the driver keeps them in (`gpu/timing/pages.py`).
"""

from __future__ import annotations

from typing import Any

import torch

from ..device.graphs import load_driver
from ..device.launcher import check

NUM_STREAMS = 16


class Streams:
    """Streams of the current device, kept while this process lives."""

    def __init__(self) -> None:
        self._streams: list[Any] = []
        self._turn = 0

    def make(self, number: int) -> None:
        """Have at least so many, and no more than are of use."""
        while len(self._streams) < min(number, NUM_STREAMS):
            flag = load_driver().CUstream_flags.CU_STREAM_NON_BLOCKING
            handle = int(check(load_driver().cuStreamCreate(flag)))
            self._streams.append(torch.cuda.ExternalStream(handle))  # type: ignore[no-untyped-call]

    def take_next(self) -> Any:
        """A context in which work goes to the next of them; what is put there must be waited for before it is left."""
        self.make(NUM_STREAMS)
        self._turn += 1
        return torch.cuda.stream(self._streams[self._turn % len(self._streams)])
