"""Sizes that no block divides: the next one, found at once however large."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.reference.sizes.uneven import make_uneven


def is_uneven(size: int) -> bool:
    """Whether a size is odd, and every block up to a quarter of it leaves and lacks an eighth of a block or more."""
    blocks = [1 << power for power in range(3, size.bit_length()) if 1 << power <= size // 4]
    return size % 2 == 1 and all(block <= 8 * (size % block) <= 7 * block for block in blocks)


@given(st.integers(1, 50_000))
def test_it_is_the_next_uneven_size(size: int) -> None:
    """No size in between is uneven."""
    found = make_uneven(size)
    assert found == next(later for later in range(size, found + 1) if is_uneven(later))


@given(st.integers(1, 2**40))
def test_a_size_in_the_billions_is_found_in_a_few_steps(size: int) -> None:
    """The size grows by a quarter at the most, and is uneven."""
    found = make_uneven(size)
    assert size <= found <= size + size // 4 + 2
    assert is_uneven(found)
