"""Streams to time on, from a driver that is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tritonrl.harness.gpu.device.launcher import DriverError
from tritonrl.harness.gpu.timing import streams as module
from tritonrl.harness.gpu.timing.streams import NUM_STREAMS, Streams


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the driver was asked to make; its streams are numbers."""
    asked: list[Any] = []

    def create(flag: str) -> tuple[int, int]:
        asked.append(flag)
        return 0, len(asked)

    driver = SimpleNamespace(CUstream_flags=SimpleNamespace(CU_STREAM_NON_BLOCKING="alone"), cuStreamCreate=create)
    monkeypatch.setattr(module, "load_driver", lambda: driver)
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle: handle)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    return asked


def test_streams_are_made_as_they_are_asked_for(made: list[Any]) -> None:
    """At least so many, and never more than are of use."""
    streams = Streams()
    for number, total in ((0, 0), (1, 1), (3, 3), (2, 3), (NUM_STREAMS + 5, NUM_STREAMS)):
        streams.make(number)
        assert made == ["alone"] * total


def test_streams_take_turns(made: list[Any]) -> None:
    """All of them before any comes up again, also where none was made before."""
    streams = Streams()
    turns = [streams.take_next() for _ in range(2 * NUM_STREAMS)]
    assert len(made) == NUM_STREAMS
    assert turns[:NUM_STREAMS] == turns[NUM_STREAMS:]
    assert set(turns) == set(range(1, NUM_STREAMS + 1))


def test_a_driver_that_makes_none_is_an_error(monkeypatch: pytest.MonkeyPatch, made: list[Any]) -> None:
    """With its name for the reason."""

    class Code(int):
        name = "CUDA_ERROR_OUT_OF_MEMORY"

    monkeypatch.setattr(module.load_driver(), "cuStreamCreate", lambda _: (Code(2), None))
    with pytest.raises(DriverError, match="OUT_OF_MEMORY"):
        Streams().make(1)
