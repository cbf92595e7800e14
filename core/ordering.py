"""In which order candidates are judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def order_apart(groups: Sequence[str], apart: int) -> list[int]:
    """Positions in an order in which members of one group are `apart` from each other, where there are as many groups.

    Answers to one task are often the same but for their names; once the first is found right, the others cost little
    (`verifier.share_renamed`), but not while it is still being judged. So many groups come up together, in turns, and
    no more, since what judging a task takes is kept for a few tasks.
    """
    numbers: dict[str, int] = {}
    seen: Counter[str] = Counter()
    keys: list[tuple[int, int, int]] = []
    for group in groups:
        keys.append((numbers.setdefault(group, len(numbers)) // apart, seen[group], numbers[group]))
        seen[group] += 1
    return sorted(range(len(groups)), key=keys.__getitem__)
