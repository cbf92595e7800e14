"""Dimensions in an operation graph: counted from the end, as texts; which of them a view merges, splits or keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ....core.graphs.operation_graph import EVERYWHERE

Group = tuple[tuple[int, ...], tuple[int, ...]]
"""Dimensions of a tensor and the dimensions of its view that have the same elements; both from the end."""


def join(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def keep_long(shape: Iterable[int]) -> list[int]:
    """The sizes that are not one."""
    return [int(size) for size in shape if size != 1]


def name_dims(dims: Collection[int], rank: int) -> str:
    """The dimensions of a tensor of that rank that are reduced."""
    return EVERYWHERE if len(dims) == rank else join(sorted(dims))


def name_reach(shape: Sequence[int], strides: Sequence[int], result: Sequence[int], is_given: bool) -> str:
    """Where an operand broadcasts, the dimensions along which it varies; of a computed one those where it does not.

    Either way the number of outer dimensions is left open: a column's mean is "not -1" in a matrix and in a batch of
    matrices, a parameter for each column is "-1" in both.
    """
    missing = len(result) - len(shape)
    pairs = zip(reversed(shape), reversed(result), strict=False)
    if missing < 0 or any(size not in (1, wanted) for size, wanted in pairs):
        return EVERYWHERE
    varies = {
        place - len(result): place >= missing and shape[place - missing] != 1 and strides[place - missing] != 0
        for place, size in enumerate(result)
        if size != 1
    }
    return _name_varying(varies, is_given)


def name_spread(shape: Sequence[int], dims: Collection[int]) -> str:
    """The reach of a computed value that is the same along these dimensions of a result of that shape."""
    return _name_varying(
        {place - len(shape): place - len(shape) not in dims for place, size in enumerate(shape) if size != 1}, False
    )


def _name_varying(varies: dict[int, bool], is_given: bool) -> str:
    if all(varies.values()):
        return EVERYWHERE
    if not any(varies.values()):
        return "nowhere"
    named = join(dim for dim, varying in varies.items() if varying == is_given)
    return named if is_given else f"not {named}"


def match_view(shape: Sequence[int], view: Sequence[int]) -> list[Group] | None:
    """Groups of dimensions longer than one that a view makes of each other, from the last on; null for no such view."""
    old = [(place - len(shape), int(size)) for place, size in enumerate(shape) if size != 1]
    new = [(place - len(view), int(size)) for place, size in enumerate(view) if size != 1]
    groups: list[Group] = []
    while old and new:
        (dim, size), (other, length) = old.pop(), new.pop()
        dims, others = [dim], [other]
        while size != length:
            waiting, taken = (old, dims) if size < length else (new, others)
            if not waiting:
                return None
            next_dim, next_size = waiting.pop()
            taken.append(next_dim)
            if taken is dims:
                size *= next_size
            else:
                length *= next_size
        groups.append((tuple(sorted(dims)), tuple(sorted(others))))
    return None if old or new else groups


def name_view(groups: Sequence[Group]) -> str:
    """How many dimensions become how many, from the last on; outer ones that stay are left out."""
    texts = [f"{len(dims)}:{len(others)}" for dims, others in groups]
    while texts and texts[-1] == "1:1":
        texts.pop()
    return "groups=" + ",".join(texts)


def count_kept(groups: Sequence[Group]) -> int:
    """How many of the last dimensions a view leaves as they are."""
    kept = 0
    for dims, others in groups:
        if dims != others or len(dims) != 1:
            break
        kept += 1
    return kept
