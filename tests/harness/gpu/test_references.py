"""What an executor keeps of references, on a GPU that is made up (`pretend.py`)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from attrs import evolve
from tritonrl.core.config import ClockConfig
from tritonrl.harness.gpu.device import graphs
from tritonrl.harness.gpu.timing import references as references_module
from tritonrl.harness.gpu.timing.protocol import Protocol, ReferenceSource
from tritonrl.harness.gpu.timing.references import References
from tritonrl.harness.gpu.timing.stopwatch import count_places

from ..kernels import POINTWISE
from .pretend import pretend_gpu

PROTOCOL = Protocol.of(ClockConfig(trials=6, warmups=1, flush_mb=1, placements=3), True)
SMALL = evolve(POINTWISE, source=POINTWISE.source.replace("1024", "9").replace("2048", "33"))
SOURCE = ReferenceSource(task=SMALL, dtype="float32", seed=1)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A GPU that is made up, and what was waited for."""
    with pretend_gpu(monkeypatch) as found:
        yield found


def test_a_reference_is_freed_when_it_is_let_go(waits: list[str]) -> None:
    """Nothing of it waits for the collector: that would free its graphs while others are captured."""
    gc.disable()
    try:
        references = References()
        reference = references.get(SOURCE)
        assert len(list(reference.eager(PROTOCOL.placements))) >= PROTOCOL.placements
        observed = weakref.ref(reference)
        del reference
        assert observed() is not None
        references.clear()
        assert observed() is None
    finally:
        gc.enable()


def test_captures_are_counted_by_what_the_allocator_holds(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each capture that is added counts, and counts once."""
    held = [0]

    def capture(work: Any, *args: Any, **kwargs: Any) -> Any:
        held[0] += 3 << 20
        return pretend_capture(work, *args, **kwargs)

    pretend_capture = references_module.capture
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: held[0])
    monkeypatch.setattr(references_module, "capture", capture)
    monkeypatch.setattr(references_module, "capture_or_launch", capture)
    reference = References().get(SOURCE)
    first = reference.num_bytes
    assert first >= 3 << 20
    number = count_places(PROTOCOL.placements, True)
    for _ in range(2):
        assert len(list(reference.eager(PROTOCOL.placements))) == number * references_module._NUM_PAGES
        assert reference.num_bytes == first + (number - 1) * (3 << 20)


def test_every_place_of_a_reference_is_its_own(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With TF32 as well. It is captured once for each, and lies in pages only while it is timed."""
    captured: list[Any] = []
    pretend_capture = references_module.capture
    monkeypatch.setattr(references_module, "capture", lambda *a, **k: captured.append(a) or pretend_capture(*a, **k))
    reference = References().get(SOURCE)
    number = count_places(PROTOCOL.placements, True) * references_module._NUM_PAGES
    lanes = list(reference.eager(PROTOCOL.placements))
    assert len({lane.work for lane in lanes}) == number
    assert len(captured) == count_places(PROTOCOL.placements, True) - 1
    again = list(reference.eager(PROTOCOL.placements))
    assert len({lane.work for lane in [*lanes, *again]}) == 2 * number
    assert len(captured) == count_places(PROTOCOL.placements, True) - 1
    assert len({lane.work for lane in reference.tf32(PROTOCOL.placements)}) == number


def test_a_reference_that_takes_long_has_no_pages(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """And fewer places."""
    monkeypatch.setattr(references_module, "is_short", lambda _: False)
    monkeypatch.setattr(references_module, "in_pages", None)
    assert len(list(References().get(SOURCE).eager(PROTOCOL.placements))) == PROTOCOL.placements


def test_tf32_is_allowed_where_it_is_timed_alone(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before, not after, and not for the eager figure."""
    seen: list[bool] = []
    reference = References().get(SOURCE)
    reference.run = lambda: seen.append(torch.backends.cuda.matmul.allow_tf32)
    reference.tf32(1)
    assert seen
    assert all(seen)
    assert not torch.backends.cuda.matmul.allow_tf32


def test_a_graph_whose_memory_was_freed_is_not_replayed(waits: list[str]) -> None:
    """The made-up GPU finds out; a real one reads or writes what is there by then."""
    cells = [torch.zeros(4, device="cuda")]
    work = graphs.capture(lambda: cells[0].add_(1.0))
    work()
    assert cells[0].tolist() == [2.0] * 4
    cells.clear()
    with pytest.raises(AssertionError, match="was freed"):
        work()


def test_what_python_launches_is_in_one_place(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a reference that cannot be captured there are no captures."""
    monkeypatch.setattr(references_module, "capture_or_launch", lambda work, *_: lambda: work())
    reference = References().get(SOURCE)
    (lane,) = reference.eager(PROTOCOL.placements)
    assert not reference.is_captured
    lane.work()
