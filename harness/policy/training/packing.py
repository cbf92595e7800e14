"""How a batch of pairs is cut: into microbatches of pairs that follow one another in one row, and among processes.

A pair is never cut. A row has no padding: whatever its length, its documents fill it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from attrs import frozen

Pair = tuple[list[int], int]
"""Tokens of a prompt with its answer, and how many of them are the prompt's."""
P = TypeVar("P", bound=tuple[Any, ...])
"""A pair, or a longer tuple that begins like one."""


@frozen(kw_only=True)
class Row:
    """Pairs one after another: positions restart with each; `answers` are the places of all tokens of answers."""

    tokens: tuple[int, ...]
    lengths: tuple[int, ...]
    positions: tuple[int, ...]
    answers: tuple[int, ...]


def join(pairs: Sequence[Pair]) -> Row:
    lengths = tuple(len(tokens) for tokens, _ in pairs)
    answers: list[int] = []
    start = 0
    for tokens, prompt in pairs:
        answers += range(start + prompt, start + len(tokens))
        start += len(tokens)
    return Row(
        tokens=tuple(token for tokens, _ in pairs for token in tokens),
        lengths=lengths,
        positions=tuple(position for length in lengths for position in range(length)),
        answers=tuple(answers),
    )


def cut(pairs: Sequence[P], limit: int) -> list[list[P]]:
    """The pairs in order, cut where the next one would exceed `limit` tokens; a longer pair is alone."""
    batches: list[list[P]] = []
    room = 0
    for pair in pairs:
        if not batches or len(pair[0]) > room:
            batches.append([])
            room = limit
        batches[-1].append(pair)
        room -= len(pair[0])
    return batches


def share(pairs: Sequence[P], rank: int, size: int) -> list[P]:
    """What process `rank` of `size` computes of a batch: shares of about as many tokens; each pair is in one."""
    if size == 1:
        return list(pairs)
    loads = [0] * size
    chosen: list[int] = []
    for number in sorted(range(len(pairs)), key=lambda number: (-len(pairs[number][0]), number)):
        lightest = loads.index(min(loads))
        loads[lightest] += len(pairs[number][0])
        if lightest == rank:
            chosen.append(number)
    return [pairs[number] for number in sorted(chosen)]
