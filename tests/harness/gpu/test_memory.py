"""Where a plan's buffers lie, and that they are the same wherever that is."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.plan import Argument, ArgumentKind, Buffer, BufferKind, LaunchPlan, View
from tritonrl.harness.gpu.device import memory
from tritonrl.harness.gpu.device.memory import (
    GUARD_BYTES,
    PAGE_BYTES,
    DeviceBuffers,
    bytes_of,
    draw_rooms,
    find_mutated,
    find_out_of_bounds,
    room_bytes,
)

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


@given(st.integers(0, 2 * PAGE_BYTES), st.integers(1, 4), st.integers(0, 5), st.integers())
def test_rooms_share_no_page(num_bytes: int, number: int, num_spare: int, seed: int) -> None:
    """Each has its size and is aligned, and the pages that it lies in are those of no other, with room to begin in."""
    assert room_bytes(num_bytes) % PAGE_BYTES == 0
    assert PAGE_BYTES // 2 <= room_bytes(num_bytes) - num_bytes < 3 * PAGE_BYTES // 2
    stretch = torch.empty(number * room_bytes(num_bytes) + num_spare * PAGE_BYTES, dtype=torch.uint8)
    rooms = draw_rooms(stretch, num_bytes, number, random.Random(seed))
    starts = [room.storage_offset() for room in rooms]
    assert [room.numel() for room in rooms] == [num_bytes] * number
    assert all(start % ALIGNMENT == 0 for start in starts)
    assert max(starts) + num_bytes <= stretch.numel()
    pages = [page for start in starts for page in range(start // PAGE_BYTES, -(-(start + num_bytes) // PAGE_BYTES))]
    assert len(pages) == len(set(pages))


def test_every_place_may_be_drawn() -> None:
    """Two small rooms in a stretch for three come up in every order, and begin anywhere in their pages."""
    stretch = torch.empty(3 * room_bytes(9), dtype=torch.uint8)
    rng = random.Random(0)
    drawn = [[room.storage_offset() for room in draw_rooms(stretch, 9, 2, rng)] for _ in range(500)]
    firsts = {(a // PAGE_BYTES, b // PAGE_BYTES) for a, b in drawn}
    assert {a for a, _ in firsts} == {b for _, b in firsts} == set(range(3))
    assert {a < b for a, b in firsts} == {True, False}
    assert len({a % PAGE_BYTES for a, _ in drawn}) > 300


def test_a_stretch_that_is_too_short_has_no_rooms() -> None:
    """Nothing overlaps instead."""
    with pytest.raises(ValueError, match="do not lie in"):
        draw_rooms(torch.empty(3 * room_bytes(9) - 1, dtype=torch.uint8), 9, 3, random.Random(0))


@pytest.mark.parametrize("offset", [None, 0, ALIGNMENT])
def test_buffers_are_the_same_in_every_room(offset: int | None) -> None:
    """Values, views, addresses, bands and what was changed, in memory of their own or in that of others."""
    stretch = torch.full((1 << 16,), 7, dtype=torch.uint8)
    values = torch.arange(12, dtype=torch.float32)
    buffers = DeviceBuffers(PLAN, {0: values.view(torch.uint8)})
    if offset is not None:
        buffers = buffers.copy_to(stretch[offset : offset + (1 << 14)])
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
    if offset is not None:
        assert bool((stretch[offset + buffers.arena_bytes :] == 7).all())
        assert bool((stretch[:offset] == 7).all())


def test_a_room_must_be_large_enough() -> None:
    """It is no room for a part of the buffers."""
    with pytest.raises(RuntimeError, match="must match the size"):
        DeviceBuffers(PLAN, {}).copy_to(torch.zeros(4 * GUARD_BYTES, dtype=torch.uint8))


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


def test_a_copy_holds_what_was_held_and_is_its_own() -> None:
    """Values, bands and temporaries; what is written to one is not in the other, and it blanks and checks itself."""
    stretch = torch.full((1 << 16,), 7, dtype=torch.uint8)
    values = torch.arange(12, dtype=torch.float32)
    first = DeviceBuffers(PLAN, {0: values.view(torch.uint8)})
    other = first.copy_to(stretch[256:])
    assert other.view(ROWS).data_ptr() == stretch.data_ptr() + 256 + first.view(ROWS).storage_offset() * 4
    assert torch.equal(other.view(ROWS), first.view(ROWS))
    assert bool((stretch[256 + first.arena_bytes :] == 7).all())
    assert (find_mutated([first, other]), find_out_of_bounds([first, other])) == ((), ())
    temporary = View(buffer=1, offset=0, shape=(3,), stride=(1,), dtype="int64")
    for each in (first, other):
        each.view(temporary).zero_()
    other.blank()
    assert bytes_of(other.view(temporary)) == b"\xaa" * 24
    assert bytes_of(first.view(temporary)) == bytes(24)
    other.give({0: values.flip(0).contiguous().view(torch.uint8)})
    assert torch.equal(first.view(ROWS), values[4:12].reshape(2, 4))
    assert other.mutated() == ()


THREE = tuple(Buffer(kind=BufferKind.INPUT, name=str(i), dtype="float32", num_elements=12) for i in (2, 0, 1))


@given(
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from(["inside", "below", "above", "nothing"]),
    st.sampled_from([1, 2 * 48, 64 << 20]),
)
def test_a_change_in_any_place_is_found(number: int, where: int, which: int, kind: str, together: int) -> None:
    """Of what was given or of a band of any buffer, whether places are looked at together or one by one."""
    values = {i: (torch.arange(12, dtype=torch.float32) + i).view(torch.uint8) for i in (2, 0, 1)}
    first = DeviceBuffers(LaunchPlan(buffers=THREE, kernels=(), steps=(), outputs=()), values)
    places = [first, *(first.copy_to(torch.empty(first.arena_bytes, dtype=torch.uint8)) for _ in range(number - 1))]
    view = places[where % number].view(View(buffer=which, offset=0, shape=(12,), stride=(1,), dtype="float32"))
    offset = {"inside": 11, "below": -1, "above": 12, "nothing": 0}[kind]
    view.as_strided((1,), (1,), view.storage_offset() + offset).fill_(99.0 if kind != "nothing" else float(which))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "_COMPARED_BYTES", together)
        assert find_mutated(places) == ((which,) if kind == "inside" else ())
    assert find_out_of_bounds(places) == ((which,) if kind in ("below", "above") else ())


def test_buffers_are_named_in_order() -> None:
    """Whatever the order in which they were given."""
    values = {i: torch.zeros(48, dtype=torch.uint8) for i in (2, 0, 1)}
    found = DeviceBuffers(LaunchPlan(buffers=THREE, kernels=(), steps=(), outputs=()), values)
    found._arena.fill_(1)
    assert (found.mutated(), found.out_of_bounds()) == ((0, 1, 2), (0, 1, 2))
