"""What an executor keeps of references, on a GPU that is made up (`pretend.py`)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from attrs import evolve
from tritonrl.harness.gpu.device import graphs
from tritonrl.harness.gpu.device.graphs import PageFillers
from tritonrl.harness.gpu.timing import references as references_module
from tritonrl.harness.gpu.timing.protocol import ReferenceSource
from tritonrl.harness.gpu.timing.references import References
from tritonrl.harness.gpu.timing.stopwatch import count_copies

from ..kernels import POINTWISE
from .pretend import pretend_gpu

COPIES = 3
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
        assert len(list(reference.eager(COPIES))) == COPIES
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
    for _ in range(2):
        assert len(list(reference.eager(COPIES))) == COPIES
        assert reference.num_bytes == first + (COPIES - 1) * (3 << 20)


def test_every_capture_of_a_reference_is_its_own(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With TF32 as well. Eager ones are made once, with a filler before each but the first."""
    captured: list[Any] = []
    pretend_capture = references_module.capture
    monkeypatch.setattr(references_module, "capture", lambda *a, **k: captured.append(a) or pretend_capture(*a, **k))
    monkeypatch.setattr(PageFillers, "add", lambda _: captured.append("filler"))
    reference = References().get(SOURCE)
    lanes = list(reference.eager(COPIES))
    assert len({lane.work for lane in lanes}) == COPIES
    assert [one == "filler" for one in captured] == [True, False] * (COPIES - 1)
    assert list(reference.eager(COPIES)) == lanes
    assert len(captured) == 2 * (COPIES - 1)
    tf32 = reference.tf32(COPIES)
    assert len({lane.work for lane in [*lanes, *tf32]}) == 2 * COPIES


def test_a_reference_that_takes_long_is_captured_less_often(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing lies between."""
    monkeypatch.setattr(references_module, "is_short", lambda _: False)
    monkeypatch.setattr(PageFillers, "add", None)
    assert len(list(References().get(SOURCE).eager(16))) == count_copies(16, False) == 4


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
    (lane,) = reference.eager(COPIES)
    assert not reference.is_captured
    lane.work()
