"""Check the hints on which compiled code relies: a false one ends the run where it could change a result.

`tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy` let a thread access several elements at once: it takes the
first one's address and mask for all of them. Triton's interpreter does nothing with these hints. Here an address, a
lane or a constant that is no multiple of what it is said to be ends the run. Of lanes more is said than is meant: rows
that wrap around at the end of a matrix (`rows % M`) are not contiguous there, and do no harm, as nobody stores what
comes of them. So programs in which such a hint is false run twice more, storing nothing: once with the values as they
are and once as the hints have them. Where by these a thread could make several accesses at once, to addresses that are
contiguous and aligned, it does in the second run; then both must store the same. A thread's accesses have at most 16
bytes.

A single number may be no multiple at one size and one at others (the stride of a matrix). In the second run it is the
next multiple. Whatever the compiler concludes of an access from hints is true of all that this access does in that run:
if some of it cannot be made several elements at a time, none of it is. If all of it can, where it really goes must be
aligned for that, and the second run must go the first one's way.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import triton.language as tl
from attrs import define, field, frozen
from numpy.typing import NDArray
from triton.runtime.interpreter import TensorHandle

from ..candidate_module import find_cause
from ..kernel_source import NotKernelLanguage
from .buffers import lie_inside
from .programs import Place, run_programs
from .semantics.patches import BUILDER, INTERPRETER, patched, replace, replace_in_language
from .semantics.poison import make_lanes
from .semantics.run_state import current_run

_MOST_BYTES = 16
_MOST_LANES = 16
_MOST_SUSPECTS = 16
_MOST_RECORDED = 1 << 22
"""Lanes; what comes after is not compared."""
_ATOMIC = object()
"""In place of the value of a store."""

Array = NDArray[Any]
_Site = tuple[Any, ...]
"""Where a kernel accesses memory, and an axis."""


class _FalseHint(NotKernelLanguage):
    """A hint that is not true; ends the run."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"tl.{name} is not true of a kernel's values, and compiled code relies on it: leave it out, or say what is"
        )


class _Diverged(Exception):
    """The two runs do not make the same accesses."""


@define
class HintCheck:
    """Notes the programs of one launch in which a hint was false, and what comparing them has found."""

    suspects: list[Place] = field(factory=list)
    """Programs in which a hint was false: the first and the last of them."""
    is_applied: bool = False
    """Whether values are as the hints have them."""
    of_numbers: bool = False
    """Whether one of a single number was."""
    widths: dict[_Site, int] = field(factory=dict)
    """How many lanes of each access of these programs a thread may take at once, by the hints."""
    misaligned: set[tuple[_Site, int]] = field(factory=set)
    """Accesses that are not aligned for so many."""
    unrolled: list[int] = field(factory=list)
    """The iterations of the unrolled loops in which the program is."""

    def suspect(self, place: Place) -> None:
        """Note a program in which a hint was false."""
        if place in self.suspects:
            return
        if len(self.suspects) == _MOST_SUSPECTS:
            del self.suspects[_MOST_SUSPECTS // 2]
        self.suspects.append(place)


def _current_check() -> HintCheck:
    run = current_run()
    if run.hints is None:
        run.hints = HintCheck()
    check: HintCheck = run.hints
    return check


def _checked(name: str, original: Any) -> Any:
    def hint(input: Any, values: Any, *rest: Any, **named: Any) -> Any:
        check = _current_check()
        given = values if isinstance(values, (list, tuple)) else [values]
        sizes: list[int] = [value.value if isinstance(value, tl.constexpr) else value for value in given]
        if isinstance(input, int) and name == "multiple_of" and not _are_multiples(np.array(input), sizes, 1):
            raise _FalseHint(name)  # a loop's variable
        result = original(input, values, *rest, **named)
        if not isinstance(result, tl.tensor):
            return result
        data = result.handle.data
        if data.ndim > len(sizes):  # many programs at once
            return result
        kind = result.dtype
        step = max(1, kind.element_ty.primitive_bitwidth // 8) if kind.is_ptr() else 1
        if name == "multiple_of":
            if _are_multiples(data, sizes, step):
                return result
            if data.size > 1 or kind.is_ptr():
                raise _FalseHint(name)
            check.of_numbers = True
            width = math.gcd(sizes[0], _MOST_LANES)
            meant = ((data + (width - 1)) // width * width).astype(data.dtype)
        else:
            meant = apply_hint(data, sizes, step if name == "max_contiguous" else 0)
        if np.array_equal(meant, data):
            return result
        if check.is_applied:
            return tl.tensor(type(result.handle)(meant, result.handle.dtype), result.type)
        check.suspect(INTERPRETER.interpreter_builder.grid_idx)
        return result

    return hint


def _numbered(loop: Any) -> Any:
    """Number the iterations of an unrolled loop, each of which is code of its own."""

    def count(*bounds: Any, **options: Any) -> Iterator[Any]:
        unrolled = _current_check().unrolled
        depth = len(unrolled)
        unrolled.append(0)
        try:
            for value in loop(*bounds, **options):
                yield value
                unrolled[depth] += 1
        finally:
            del unrolled[depth:]

    return count


def _are_multiples(data: Array, sizes: list[int], step: int) -> bool:
    """Return whether what begins a contiguous run is a multiple; repeated values do not begin one."""
    if data.size == 1:
        return int(data.reshape(-1)[0]) % math.gcd(sizes[0], _MOST_LANES) == 0
    for axis, size in enumerate(sizes):
        lanes = np.moveaxis(data, axis, -1).astype(np.int64)
        differences = np.diff(lanes, axis=-1)
        if data.ndim > 1 and not np.any(differences == step):
            continue
        begins = np.ones(lanes.shape, dtype=bool)
        begins[..., 1:] = (differences != step) & (differences != 0)
        if np.any(lanes[begins] % math.gcd(size, _MOST_LANES)):
            return False
    return True


def apply_hint(data: Array, sizes: list[int], step: int) -> Array:
    """Return the values as a hint has them.

    Of each group of lanes along an axis the first, and `step` more for each next.
    """
    for axis, size in enumerate(sizes):
        width = math.gcd(math.gcd(size, _MOST_LANES), data.shape[axis] if data.ndim else 1)
        if width > 1:
            lanes = np.moveaxis(data, axis, -1)
            groups = lanes.reshape(*lanes.shape[:-1], -1, width)
            meant = groups[..., :1] + (np.arange(width) * step).astype(data.dtype)
            data = np.moveaxis(np.broadcast_to(meant, groups.shape).reshape(lanes.shape), -1, axis).astype(data.dtype)
    return np.array(data)


@frozen
class _Access:
    pointers: Array
    lanes: NDArray[np.bool_]
    result: Any


@contextlib.contextmanager
def checking_hints(function: Any, grid: Place, arguments: dict[str, Any]) -> Iterator[None]:
    """After a launch has run, run those of its programs twice more in which a hint was false."""
    check = current_run().hints = HintCheck()
    yield
    for place in tuple(check.suspects):
        _compare(function, grid, arguments, place)
    if not check.misaligned.isdisjoint(check.widths.items()):
        raise _FalseHint("multiple_of")


def _compare(function: Any, grid: Place, arguments: dict[str, Any], place: Place) -> None:
    check, recorded = _current_check(), list[_Access]()
    load = BUILDER.create_masked_load
    try:
        with contextlib.suppress(Exception), _instead_of_accesses(_recording(recorded, load)):
            run_programs(function, grid, arguments, [place])
        check.is_applied = True
        remaining = iter(recorded)
        with _instead_of_accesses(_comparing(remaining, load, check)):
            run_programs(function, grid, arguments, [place])
        if next(remaining, None) is not None:
            raise _Diverged
    except Exception as error:
        # programs that wait for others, or take another way
        if refused := find_cause(error, _FalseHint):
            raise refused from error
        if check.of_numbers:
            raise _FalseHint("multiple_of") from error
    finally:
        check.is_applied = False


def _recording(recorded: list[_Access], load: Any) -> Any:
    room = _MOST_RECORDED

    def access(self: Any, pointers: Any, mask: Any, other: Any, value: Any) -> Any:
        nonlocal room
        room -= pointers.data.size + 1
        if room < 0:
            raise _Diverged
        result = _load(load, self, pointers, mask, other) if value is None or value is _ATOMIC else value
        recorded.append(_Access(pointers.data, _broadcast(mask, pointers), result))
        return result

    return access


def _comparing(remaining: Iterator[_Access], load: Any, check: HintCheck) -> Any:
    def access(self: Any, pointers: Any, mask: Any, other: Any, value: Any) -> Any:
        before = next(remaining, None)
        if before is None or before.pointers.shape != pointers.data.shape:
            raise _Diverged
        width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        meant = _broadcast(mask, pointers)
        if check.of_numbers:
            _note_widths(check, before, pointers.data, meant, width)
        compiled = find_compiled(before.pointers, before.lanes, pointers.data, meant, width)
        if value is None:
            return before.result if compiled is None else _load_anywhere(load, self, before, pointers, *compiled)
        is_other = compiled is not None
        if value is not _ATOMIC:
            new, old = (np.broadcast_to(one.data, before.lanes.shape)[before.lanes] for one in (value, before.result))
            is_other |= bool(np.any((new != old) & ~((new != new) & (old != old))))
        if is_other:
            raise _FalseHint("multiple_of" if check.of_numbers else "max_contiguous or tl.max_constancy")
        return before.result

    return access


def _note_widths(
    check: HintCheck, before: _Access, meant: Array, meant_lanes: NDArray[np.bool_], item_bytes: int
) -> None:
    """Return how many lanes a thread may take at once of an access, in all the runs of it that there are."""
    frame: Any = sys._getframe(2)
    place: list[Any] = list(check.unrolled)
    while frame is not None:
        place += id(frame.f_code), frame.f_lasti
        frame = frame.f_back
    for axis, size in enumerate(meant.shape):
        site = (*place, axis)
        width = min(check.widths.get(site, _MOST_BYTES // item_bytes), size & -size)
        while width > 1 and not _goes_at_once(meant, meant_lanes, meant, meant_lanes, axis, width, item_bytes):
            width //= 2
        check.widths[site] = width
        while width > 1:
            addresses, lanes = (_group(values, axis, width)[..., 0] for values in (before.pointers, before.lanes))
            if np.any(addresses[lanes] % addresses.dtype.type(width * item_bytes)):
                check.misaligned.add((site, width))
            width //= 2


def _load(load: Any, builder: Any, pointers: Any, mask: Any, other: Any) -> Any:
    return load(builder, pointers, mask, other, None, None, False)


def _load_anywhere(
    load: Any, builder: Any, before: _Access, pointers: Any, addresses: Array, lanes: NDArray[np.bool_]
) -> Any:
    """Return what compiled code finds at addresses that may lie beyond a buffer's end."""
    result, kind = before.result.data.copy(), pointers.get_element_ty()
    is_new = lanes & ((addresses != before.pointers) | ~before.lanes)
    is_known = is_new & lie_inside(addresses, kind)
    result[is_new] = make_lanes(kind, result.shape)[is_new]
    found = _load(load, builder, TensorHandle(addresses, pointers.dtype), TensorHandle(is_known, tl.int1), None).data
    result[is_known] = found[is_known]
    return TensorHandle(result, before.result.dtype)


def _broadcast(mask: Any, pointers: Any) -> NDArray[np.bool_]:
    return np.broadcast_to(np.asarray(getattr(mask, "data", mask), dtype=bool), pointers.data.shape)


def _instead_of_accesses(access: Any) -> AbstractContextManager[None]:
    """Let the interpreter's loads and atomics find what memory holds, and store nothing."""

    def load(self: Any, pointers: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        return access(self, pointers, mask, other, None)

    def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        return access(self, pointers, mask, None, value)

    def combine(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        return access(self, pointers, mask, None, _ATOMIC)

    def swap(self: Any, pointers: Any, *rest: Any) -> Any:
        all_lanes = TensorHandle(np.ones_like(pointers.data, dtype=bool), tl.int1)
        return access(self, pointers, all_lanes, None, _ATOMIC)

    return patched(
        (
            replace(BUILDER, "create_masked_load", load),
            replace(BUILDER, "create_masked_store", store),
            replace(BUILDER, "create_atomic_rmw", combine),
            replace(BUILDER, "create_atomic_cas", swap),
        )
    )


def find_compiled(
    pointers: Array, lanes: NDArray[np.bool_], meant: Array, meant_lanes: NDArray[np.bool_], item_bytes: int
) -> tuple[Array, NDArray[np.bool_]] | None:
    """Return the addresses and lanes of an access that a thread may make at once by a hint.

    None if they are what they were.

    A group of lanes goes by its first. `meant` are addresses and lanes as the hints have them.
    """
    if np.array_equal(pointers, meant) and np.array_equal(lanes, meant_lanes):
        return None
    for axis, size in enumerate(meant.shape):
        width = _MOST_BYTES // item_bytes
        while width > 1:
            if size % width == 0 and _goes_at_once(pointers, lanes, meant, meant_lanes, axis, width, item_bytes):
                first, chosen = _group(pointers, axis, width)[..., :1], _group(lanes, axis, width)[..., :1]
                steps = (np.arange(width) * item_bytes).astype(pointers.dtype)
                found = _ungroup(first + steps, axis, meant.shape)
                found_lanes = _ungroup(np.repeat(chosen, width, axis=-1), axis, meant.shape)
                if np.any(found_lanes != lanes) or np.any((found != pointers) & lanes):
                    return found, found_lanes
            width //= 2
    return None


def _goes_at_once(
    pointers: Array,
    lanes: NDArray[np.bool_],
    meant: Array,
    meant_lanes: NDArray[np.bool_],
    axis: int,
    width: int,
    item_bytes: int,
) -> bool:
    first, addresses, chosen = (_group(values, axis, width) for values in (pointers, meant, meant_lanes))
    is_touched = chosen.any(axis=-1) | _group(lanes, axis, width).any(axis=-1)
    expected = addresses[..., :1] + (np.arange(width) * item_bytes).astype(addresses.dtype)
    is_group = (addresses == expected).all(axis=-1) & (chosen == chosen[..., :1]).all(axis=-1)
    is_aligned = first[..., 0] % first.dtype.type(width * item_bytes) == 0
    return bool(np.all((is_group & is_aligned)[is_touched]))


def _group(values: Array, axis: int, width: int) -> Array:
    moved = np.moveaxis(values, axis, -1)
    return moved.reshape(*moved.shape[:-1], -1, width)


def _ungroup(groups: Array, axis: int, shape: tuple[int, ...]) -> Array:
    moved = groups.reshape(*groups.shape[:-2], -1)
    return np.ascontiguousarray(np.moveaxis(moved, -1, axis).reshape(shape))


PATCHES = (
    replace_in_language(
        {
            **{name: partial(_checked, name) for name in ("multiple_of", "max_contiguous", "max_constancy")},
            "static_range": _numbered,
        }
    ),
)
