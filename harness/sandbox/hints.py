"""What a kernel tells the compiler of its values, and compiled code then relies on: it must be true where that shows.

`tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy` let a thread access several elements at once: it takes the
first one's address and mask for all of them. Triton's interpreter does nothing with these hints. Here a number that is
no multiple of what it is said to be ends the run. Of lanes more is said than is meant: rows that wrap around at the end
of a matrix (`rows % M`) are not contiguous there, and do no harm where no thread can take several of them at once. So
programs in which such a hint is false run twice more, storing nothing: once with the values as they are and once as the
hints have them. Where an access of the two differs that compiled code could make at once, by addresses that are
contiguous and aligned, the hint matters. A thread's accesses have at most 16 bytes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from .kernel_source import NotKernelLanguage
from .programs import Place, find_cause, run_programs

_MOST_BYTES = 16
_MOST_LANES = 16
_MOST_SUSPECTS = 16
_MOST_ACCESSES = 20_000

Array = NDArray[Any]


class _FalseHint(NotKernelLanguage):
    """A hint that is not true; ends the run."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"tl.{name} is not true of a kernel's values, and compiled code relies on it: leave it out, or say what holds"
        )


class _Diverged(Exception):
    """The two runs do not make the same accesses."""


@define
class _State:
    suspects: list[Place] = field(factory=list)
    """Programs in which a hint about lanes was false."""
    is_applied: bool = False
    """Whether values are as the hints have them."""


_state = _State()


def install() -> None:
    """Look at all hints of this process's kernels."""
    from triton.runtime import interpreter

    patched: Any = interpreter
    original = patched._patch_lang_core

    def patch(lang: Any, scope: Any = None) -> None:
        original(*(value for value in (lang, scope) if value is not None))
        for name in ("multiple_of", "max_contiguous", "max_constancy"):
            hint = _followed(name, getattr(lang, name))
            if scope is not None:
                scope.set_attr(lang, name, hint)
            else:
                setattr(lang, name, hint)

    patched._patch_lang_core = patch


def _followed(name: str, original: Any) -> Any:
    def hint(input: Any, values: Any, *rest: Any, **named: Any) -> Any:
        import triton.language as tl

        given = values if isinstance(values, (list, tuple)) else [values]
        sizes = [int(getattr(value, "value", value)) for value in given]
        if isinstance(input, int) and not isinstance(input, bool):  # a loop's variable
            if name == "multiple_of" and input % sizes[0]:
                raise _FalseHint(name)
        result = original(input, values, *rest, **named)
        if not isinstance(result, tl.tensor):
            return result
        data = result.handle.data
        if data.ndim > len(sizes):  # many programs at once
            return result
        kind = result.dtype
        step = max(1, kind.element_ty.primitive_bitwidth // 8) if kind.is_ptr() else 1
        if name == "multiple_of":
            if not _are_multiples(data, sizes, step):
                raise _FalseHint(name)
            return result
        meant = apply_hint(data, sizes, step if name == "max_contiguous" else 0)
        if np.array_equal(meant, data):
            return result
        if _state.is_applied:
            return tl.tensor(type(result.handle)(meant, result.handle.dtype), result.type)
        place = tuple(interpreter_place())
        if place not in _state.suspects and len(_state.suspects) < _MOST_SUSPECTS:
            _state.suspects.append(place)  # type: ignore[arg-type]
        return result

    return hint


def interpreter_place() -> Place:
    """The program that the interpreter runs."""
    from triton.runtime import interpreter

    place: Place = interpreter.interpreter_builder.grid_idx
    return place


def _are_multiples(data: Array, sizes: list[int], step: int) -> bool:
    """Whether what begins a contiguous run is a multiple; repeated values do not begin one."""
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
    """The values as a hint has them: of each group of lanes along an axis the first, and `step` more for each next."""
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
    _state.suspects = []
    yield
    for place in tuple(_state.suspects):
        _compare(function, grid, arguments, place)


def _compare(function: Any, grid: Place, arguments: dict[str, Any], place: Place) -> None:
    recorded: list[_Access] = []
    try:
        with _instead_of_accesses(_recording(recorded)):
            run_programs(function, grid, arguments, [place])
        _state.is_applied = True
        with _instead_of_accesses(_comparing(recorded)):
            run_programs(function, grid, arguments, [place])
    except Exception as error:
        # programs that wait for others, or take another way
        if refused := find_cause(error, _FalseHint):
            raise refused from error
    finally:
        _state.is_applied = False


def _recording(recorded: list[_Access]) -> Any:
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    plain_load = builder.create_masked_load

    def access(self: Any, pointers: Any, mask: Any, other: Any, is_load: bool) -> Any:
        if len(recorded) > _MOST_ACCESSES:
            raise _Diverged
        result = plain_load(self, pointers, mask, other, None, None, False) if is_load else None
        recorded.append(_Access(pointers.data, _broadcast(mask, pointers), result))
        return result

    return access


def _comparing(recorded: list[_Access]) -> Any:
    remaining = iter(recorded)

    def access(self: Any, pointers: Any, mask: Any, other: Any, is_load: bool) -> Any:
        before = next(remaining, None)
        if before is None or before.pointers.shape != pointers.data.shape:
            raise _Diverged
        width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        lanes = _broadcast(mask, pointers)
        if may_differ(before.pointers, before.lanes, pointers.data, lanes, width):
            raise _FalseHint("max_contiguous or tl.max_constancy")
        return before.result

    return access


def _broadcast(mask: Any, pointers: Any) -> NDArray[np.bool_]:
    return np.broadcast_to(np.asarray(getattr(mask, "data", mask), dtype=bool), pointers.data.shape)


@contextlib.contextmanager
def _instead_of_accesses(access: Any) -> Iterator[None]:
    """Let the interpreter's loads and atomics find what memory holds, and store nothing."""
    import triton.language as tl
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    methods = {
        "create_masked_load": lambda self, pointers, mask, other, *rest, **named: access(
            self, pointers, mask, other, True
        ),
        "create_masked_store": lambda self, pointers, value, mask, *rest, **named: access(
            self, pointers, mask, None, False
        ),
        "create_atomic_rmw": lambda self, operation, pointers, value, mask, *rest: access(
            self, pointers, mask, None, True
        ),
        "create_atomic_cas": lambda self, pointers, *rest: access(
            self, pointers, interpreter.TensorHandle(np.ones_like(pointers.data, dtype=bool), tl.int1), None, True
        ),
    }
    saved = {name: getattr(builder, name) for name in methods}
    for name, method in methods.items():
        setattr(builder, name, method)
    try:
        yield
    finally:
        for name, method in saved.items():
            setattr(builder, name, method)


def may_differ(
    pointers: Array, lanes: NDArray[np.bool_], meant: Array, meant_lanes: NDArray[np.bool_], item_bytes: int
) -> bool:
    """Whether compiled code may access by a hint what it should not: groups at once that are no such groups."""
    is_other = ((pointers != meant) & (lanes | meant_lanes)) | (lanes != meant_lanes)
    if not is_other.any():
        return False
    for axis, size in enumerate(meant.shape):
        width = 2
        while size % width == 0 and width * item_bytes <= _MOST_BYTES:
            if _goes_at_once(meant, meant_lanes, lanes, axis, width, item_bytes):
                return True
            width *= 2
    return False


def _goes_at_once(
    meant: Array,
    meant_lanes: NDArray[np.bool_],
    lanes: NDArray[np.bool_],
    axis: int,
    width: int,
    item_bytes: int,
) -> bool:
    def group(values: Array) -> Array:
        moved = np.moveaxis(values, axis, -1)
        return moved.reshape(-1, width)

    addresses, chosen = group(meant), group(meant_lanes)
    is_touched = chosen.any(axis=1) | group(lanes).any(axis=1)
    expected = addresses[:, :1] + (np.arange(width) * item_bytes).astype(addresses.dtype)
    is_group = (addresses == expected).all(axis=1) & (chosen == chosen[:, :1]).all(axis=1)
    is_aligned = addresses[:, 0] % addresses.dtype.type(width * item_bytes) == 0
    return bool(np.all((is_group & is_aligned)[is_touched]))
