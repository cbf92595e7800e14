"""Sizes that no block of a kernel divides, so that what is done with a last part of one shows."""

from __future__ import annotations

_LEAST_BLOCK, _BLOCKS, _TAILS = 8, 4, 8
"""Blocks from the least one to a quarter of a size leave at least an eighth of a block over, and as much is missing."""


def make_uneven(size: int) -> int:
    """Return the next odd size that consists of whole blocks, of whatever power of two, and a part that is seen.

    The part is an eighth of the block at the least, and as much is missing.
    """
    while (later := _pass_even(size)) != size:
        size = later
    return size


def _pass_even(size: int) -> int:
    """Return the size itself, or one that is passed by no uneven size from it on."""
    if size % 2 == 0:
        return size + 1
    block = 1 << (size // _BLOCKS).bit_length() >> 1
    while block >= _LEAST_BLOCK:
        whole, part = size - size % block, size % block
        if part < block // _TAILS:
            return whole + block // _TAILS
        if part > block - block // _TAILS:
            return whole + block + block // _TAILS
        block //= 2
    return size
