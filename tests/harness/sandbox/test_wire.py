"""Frames round-trip, and whatever is not exactly one frame is refused."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.sandbox import wire

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), _JSON, max_size=4), st.lists(st.binary(max_size=50), max_size=4))
def test_frame_round_trips(header: dict[str, object], blobs: list[bytes]) -> None:
    """Decoding what was encoded gives it back."""
    assert wire.decode(wire.encode(header, blobs)) == (header, blobs)


@pytest.mark.parametrize("sizes", [(), (3, 0, 5), (3 << 20, 0, 7)])
def test_what_is_sent_is_the_frame(sizes: tuple[int, ...]) -> None:
    """A reader gets what was sent, whether its blobs went with the header or after it."""
    blobs = [bytes([number]) * size for number, size in enumerate(sizes)]
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(1) as pool:
        sent = pool.submit(wire.send, ours, {"key": 1}, blobs)
        assert wire.read(theirs.recv, 1 << 24) == ({"key": 1}, blobs)
        sent.result()


@given(st.lists(st.binary(max_size=20), max_size=3), st.data())
def test_truncated_or_extended_frame_is_refused(blobs: list[bytes], data: st.DataObject) -> None:
    """A byte too few or too many is an error, not a shorter answer."""
    frame = wire.encode({"key": 1}, blobs)
    cut = data.draw(st.integers(0, len(frame) - 1))
    for broken in (frame[:cut], frame + b"x"):
        with pytest.raises(wire.FrameError):
            wire.decode(broken)


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    """Bytes that are no frame raise FrameError and nothing else."""
    with pytest.raises(wire.FrameError):
        wire.decode(noise)


def test_length_is_checked_before_reading() -> None:
    """A frame that announces more than agreed is refused at its head."""
    frame = wire.encode({}, [bytes(1000)])
    position = 0

    def receive(count: int) -> bytes:
        nonlocal position
        position += count
        return frame[position - count : position]

    with pytest.raises(wire.FrameError, match="larger"):
        wire.read(receive, 500)
    assert position < 100


def test_not_a_number_is_refused() -> None:
    """JSON has no NaN, so neither has a frame."""
    frame = wire.encode({"a": 111}, []).replace(b"111", b"NaN")
    with pytest.raises(wire.FrameError, match="JSON"):
        wire.decode(frame)
