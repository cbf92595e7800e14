"""Addresses of tensors without memory: apart, aligned, and near each other as an allocator's are."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.sandbox.recording.fake_tensors import Allocator

SIZES = st.lists(st.one_of(st.integers(0, 1 << 12), st.integers(0, 1 << 25)), min_size=1, max_size=40)


@given(seed=st.integers(0, 1 << 40), sizes=SIZES)
def test_no_two_overlap_and_all_are_near(seed: int, sizes: list[int]) -> None:
    """Each begins at a multiple of 512, and all lie in no more than four times what they take, and two segments."""
    allocator = Allocator(seed, "cuda")
    taken = [(allocator.take(size), max(1, size)) for size in sizes]
    assert all(begin % 512 == 0 and begin > 0 for begin, _ in taken)
    ordered = sorted(taken)
    assert all(begin + size <= after for (begin, size), (after, _) in itertools.pairwise(ordered))
    span = ordered[-1][0] + ordered[-1][1] - ordered[0][0]
    assert span <= 4 * sum(max(512, size) for size in sizes) + (22 << 20)


def test_the_first_is_drawn() -> None:
    """A constant does not know it, and the same seed gives it again."""
    first = [Allocator(seed, "cuda").take(100) for seed in range(20)]
    assert len(set(first)) == 20
    assert first == [Allocator(seed, "cuda").take(100) for seed in range(20)]
    assert Allocator(3, "cuda").take(1) != Allocator(3, "cpu").take(1)
