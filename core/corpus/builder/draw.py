"""Draws the corpus' randomness by SplitMix64, because an id must render the same text for ever.

`random.Random` promises a stable stream for `random()` alone; task ids are written into results, so the corpus
draws from sixty-four bits of arithmetic of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

MASK_64 = (1 << 64) - 1


def mix(value: int) -> int:
    """Apply SplitMix64's finaliser: 64 bits that look unrelated to `value`."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK_64
    return value ^ (value >> 31)


def digest(identity: object) -> int:
    """Return 64 bits that depend on what is written of `identity` alone: the same in every process."""
    return int.from_bytes(hashlib.blake2b(repr(identity).encode(), digest_size=8).digest(), "big")


class Draw:
    """A stream of draws from one 64-bit seed."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & MASK_64

    def fork(self, label: str) -> Draw:
        """Return a stream of its own; this one goes on as if none had been asked for."""
        return Draw(digest((self._state, label)))

    def bits(self) -> int:
        """Return the next 64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & MASK_64
        return mix(self._state)

    def below(self, stop: int) -> int:
        """Return an integer in [0, stop)."""
        return (self.bits() * stop) >> 64

    def between(self, low: int, high: int) -> int:
        """Return an integer in [low, high]."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.bits() < probability * (MASK_64 + 1)

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def size(self, low: int, high: int) -> int:
        """Return a tensor size in [low, high], about uniform in its logarithm: round ones and odd ones alike."""
        shift = low.bit_length() - 1
        power = 1 << self.between(shift, max(shift, high.bit_length() - 1))
        kind = self.below(10)
        if kind < 3:
            value = power
        elif kind < 5:
            value = power + power // 2
        elif kind < 8:
            value = power + 8 * self.below(max(1, power // 8))
        else:
            value = power + self.below(power)
        return min(max(value, low), high)
