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
from tritonrl.harness.cuda import graphs
from tritonrl.harness.cuda import references as references_module
from tritonrl.harness.cuda.memory import PageReader
from tritonrl.harness.cuda.pages import LEAST_PAGES
from tritonrl.harness.cuda.protocol import Protocol, ReferenceSource
from tritonrl.harness.cuda.references import References
from tritonrl.harness.cuda.stopwatch import count_places, nothing

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
    """Each capture that is added counts, and counts once; so does what reads its pages."""
    held = [0]

    def capture(work: Any, *args: Any, **kwargs: Any) -> Any:
        held[0] += (3 << 20) if "_Touch" not in work.__qualname__ else (1 << 20)
        return pretend_capture(work, *args, **kwargs)

    pretend_capture = references_module.capture
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: held[0])
    monkeypatch.setattr(references_module, "capture", capture)
    monkeypatch.setattr(references_module, "capture_or_launch", capture)
    reference = References().get(SOURCE)
    first = reference.num_bytes
    assert first >= 3 << 20
    for _ in range(2):
        assert len(list(reference.eager(PROTOCOL.placements))) >= count_places(PROTOCOL.placements, True)
        number = count_places(PROTOCOL.placements, True)
        assert reference.num_bytes == first + (number - 1) * (3 << 20) + number * (1 << 20)


def test_what_reads_a_references_pages_lives_as_long_as_its_lanes(
    waits: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that it is given is read, and what each place returns. Lanes may outlive the captures that they come from."""
    read: list[int] = []
    read_pages = PageReader.read
    monkeypatch.setattr(PageReader, "read", lambda self, m: (read.append(m.data_ptr()), read_pages(self, m))[0])
    reference = References().get(SOURCE)
    for get in (reference.eager, reference.tf32):
        lanes = list(get(PROTOCOL.placements))
        touches = {lane.touch for lane in lanes}
        assert len(touches) == count_places(PROTOCOL.placements, True)
        assert len(read) == 2 * len(touches)
        assert len(set(read[0::2])) == 1
        assert len(set(read[1::2])) == len(touches)
        read.clear()
        for lane in lanes:
            assert isinstance(lane.touch, references_module._Touch)
            found = [reader._bytes for reader in lane.touch._readers.values()]
            was = [each.clone().bitwise_not_() for each in found]
            for each, other in zip(found, was, strict=True):
                each.copy_(other)
            lane.touch()
            assert not any(torch.equal(each, other) for each, other in zip(found, was, strict=True))
            lane.work()


def test_a_touch_that_finds_no_memory_is_not_forgotten(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next measurement has it, or fails as well."""
    reference = References().get(SOURCE)

    def fail(self: PageReader, num_bytes: int) -> None:
        raise torch.cuda.OutOfMemoryError("out of memory")

    with monkeypatch.context() as patched:
        patched.setattr(PageReader, "__init__", fail)
        for _ in range(2):
            with pytest.raises(torch.cuda.OutOfMemoryError):
                list(reference.eager(PROTOCOL.placements))
    lanes = list(reference.eager(PROTOCOL.placements))
    assert len(lanes) == count_places(PROTOCOL.placements, True) * LEAST_PAGES
    assert all(lane.touch is not nothing for lane in lanes)


def test_a_graph_whose_memory_was_freed_is_not_replayed(waits: list[str]) -> None:
    """The made-up GPU finds out; a real one reads or writes what is there by then."""
    cells = [torch.zeros(4, device="cuda")]
    work = graphs.capture(lambda: cells[0].add_(1.0))
    work()
    assert cells[0].tolist() == [2.0] * 4
    cells.clear()
    with pytest.raises(AssertionError, match="was freed"):
        work()


def test_what_python_launches_keeps_no_result(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run has results elsewhere, of which none is read beforehand, and none outlives the run."""
    monkeypatch.setattr(references_module, "capture_or_launch", lambda work, *_: work() or (lambda: work()))
    reference = References().get(SOURCE)
    (lane,) = reference.eager(PROTOCOL.placements)
    assert not reference.is_captured
    lane.touch()
    lane.work()
    assert not reference._eager._returned
    assert not reference._eager._first_results


def test_what_a_reference_returns_elsewhere_is_not_read(waits: list[str]) -> None:
    """On the processor, say, or in a form that has no memory of its own."""
    on_gpu, elsewhere = torch.zeros(3), torch.zeros(3, device="meta")
    sparse = torch.zeros(3).to_sparse()
    found = list(references_module._tensors_in([{"a": (on_gpu, elsewhere)}, sparse, "text", None]))
    assert len(found) == 1
    assert found[0] is on_gpu
