"""Where a plan's buffers lie, and that they are the same wherever that is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.plan import Argument, ArgumentKind, Buffer, BufferKind, LaunchPlan, View
from tritonrl.harness.gpu.device.memory import DeviceBuffers, bytes_of

from .pretend import pretend_gpu

ALIGNMENT = 512
INPUT = Buffer(kind=BufferKind.INPUT, name="0", dtype="float32", num_elements=12)
TEMPORARY = Buffer(kind=BufferKind.TEMPORARY, name="", dtype="int64", num_elements=3)
PLAN = LaunchPlan(buffers=(INPUT, TEMPORARY), kernels=(), steps=(), outputs=())
ROWS = View(buffer=0, offset=4, shape=(2, 4), stride=(4, 1), dtype="float32")


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU that is made up."""
    with pretend_gpu(monkeypatch):
        yield


def test_a_place_is_drawn() -> None:
    """Anywhere in the memory that there is to spare, aligned as the allocator does it; the rest holds nothing."""
    starts = set()
    for _ in range(300):
        arena = DeviceBuffers(PLAN, {}, 100 * ALIGNMENT)._arena
        starts.add(arena.storage_offset())
        whole = torch.empty(0, dtype=torch.uint8).set_(arena.untyped_storage())
        assert whole.numel() == arena.numel() + 100 * ALIGNMENT
        assert bool((whole[: arena.storage_offset()] == 0xC5).all())
        assert bool((whole[arena.storage_offset() + arena.numel() :] == 0xC5).all())
    assert all(start % ALIGNMENT == 0 for start in starts)
    assert min(starts) < 20 * ALIGNMENT
    assert max(starts) > 80 * ALIGNMENT
    assert len(starts) > 50


@pytest.mark.parametrize("spread_bytes", [0, 1 << 20])
def test_buffers_are_the_same_in_every_place(spread_bytes: int) -> None:
    """Values, views, addresses, bands and what was changed."""
    values = torch.arange(12, dtype=torch.float32)
    buffers = DeviceBuffers(PLAN, {0: values.view(torch.uint8)}, spread_bytes)
    view = buffers.view(ROWS)
    assert torch.equal(view, values[4:12].reshape(2, 4))
    argument = Argument(name="x", kind=ArgumentKind.VIEW, view=ROWS)
    assert buffers.address(argument) == view.data_ptr()
    assert bytes_of(buffers.view(View(buffer=1, offset=0, shape=(3,), stride=(1,), dtype="int64"))) == b"\xaa" * 24
    assert (buffers.mutated(), buffers.out_of_bounds()) == ((), ())
    view[0, 0] = 99.0
    assert (buffers.mutated(), buffers.out_of_bounds()) == ((0,), ())
    buffers.view(ROWS).as_strided((1,), (1,), view.storage_offset() + 8).zero_()
    assert buffers.out_of_bounds() == (0,)


@pytest.mark.parametrize(
    ("dtype", "held"), [("float16", b"\x00\x7e"), ("float64", None), ("int32", b"\xaa" * 4), ("bool", b"\x01")]
)
def test_a_temporary_is_blank(dtype: str, held: bytes | None) -> None:
    """Not a number in every element, and where there is none, a pattern; without elements there is nothing to blank."""
    buffers = tuple(Buffer(kind=BufferKind.TEMPORARY, name="", dtype=dtype, num_elements=n) for n in (5, 0))
    found = DeviceBuffers(LaunchPlan(buffers=buffers, kernels=(), steps=(), outputs=()), {})
    view = found.view(View(buffer=0, offset=0, shape=(5,), stride=(1,), dtype=dtype))
    for _ in range(2):
        assert bool(view.isnan().all()) if held is None else bytes_of(view) == held * 5
        view.zero_()
        found.blank()
    assert len(found._blanks) == 1
    assert (found.mutated(), found.out_of_bounds()) == ((), ())


THREE = tuple(Buffer(kind=BufferKind.INPUT, name=str(i), dtype="float32", num_elements=12) for i in (2, 0, 1))


@given(st.integers(0, 2), st.sampled_from(["inside", "below", "above", "nothing"]))
def test_a_change_is_found(which: int, kind: str) -> None:
    """Of what was given or of a band of any buffer."""
    values = {i: (torch.arange(12, dtype=torch.float32) + i).view(torch.uint8) for i in (2, 0, 1)}
    found = DeviceBuffers(LaunchPlan(buffers=THREE, kernels=(), steps=(), outputs=()), values)
    view = found.view(View(buffer=which, offset=0, shape=(12,), stride=(1,), dtype="float32"))
    offset = {"inside": 11, "below": -1, "above": 12, "nothing": 0}[kind]
    view.as_strided((1,), (1,), view.storage_offset() + offset).fill_(99.0 if kind != "nothing" else float(which))
    assert found.mutated() == ((which,) if kind == "inside" else ())
    assert found.out_of_bounds() == ((which,) if kind in ("below", "above") else ())


def test_buffers_are_named_in_order() -> None:
    """Whatever the order in which they were given."""
    values = {i: torch.zeros(48, dtype=torch.uint8) for i in (2, 0, 1)}
    found = DeviceBuffers(LaunchPlan(buffers=THREE, kernels=(), steps=(), outputs=()), values)
    found._arena.fill_(1)
    assert (found.mutated(), found.out_of_bounds()) == ((0, 1, 2), (0, 1, 2))
