"""Run many programs of a launch at once: a quick look at all of a large grid, of which only hints are taken.

The interpreter's operations are NumPy's, whose cost for a block of a thousand lanes is that of the call. So all values
get one axis more, the first, along which programs lie, and each operation is done once for hundreds of programs. One
program in a hundred that computes something else is found that way; no affordable sample would have it.

Nothing is decided here. Programs that take different branches are separated and begun anew, what cannot be done with
one axis more ends the scan, and programs are taken to be independent. So the judge takes from a scan which programs to
run one by one, or whether all of them should.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
import triton.language as tl
from attrs import define, field
from numpy.typing import NDArray
from triton.runtime import interpreter

from ....core.plan import Launch
from ..candidate_module import find_cause
from .buffers import find_stretch
from .programs import Place, run_programs
from .semantics.patches import BUILDER, INTERPRETER, Patch, around, patched, replace

_FIRST_PROGRAMS = 16
_CHUNK_LANES = 1 << 17
"""Of one operation: so much stays in a processor's cache."""
_MOST_GROUPS = 24
_LANES_OF_A_DOT = 32
"""Multiplications that cost as much as the access to one element."""
_ALL_AT_ONCE: Place = (0, 0, 0)
"""Where the interpreter thinks that it is; programs are numbered by `Scan.numbers`."""


class NotScannable(Exception):
    """Ends a scan: the launch has something that is not done for many programs at once, or takes too long."""


class _Diverged(Exception):
    """Programs do not take the same branch; `values` says which takes which."""

    def __init__(self, values: NDArray[Any]) -> None:
        super().__init__("programs diverge")
        self.values = values


@define
class Scan:
    """Runs launches within a budget of lanes of loads and stores, and notes each element's last writer, from 1 on."""

    start: int
    shift: int
    writers: NDArray[np.int32]
    num_lanes: int
    seed: int
    num_run: list[int] = field(factory=list)
    """How many programs of each launch ran."""
    met: list[list[int]] = field(factory=list)
    """Which programs of each launch had to do with what is watched."""
    _watched: int = -1
    _grid: Place = (1, 1, 1)
    _programs: NDArray[np.int64] = field(factory=lambda: np.zeros(1, np.int64))
    _used: int = 0
    _widest: int = 0
    _has_atomics: bool = False

    def run(self, function: Any, launch: Launch, arguments: dict[str, Any], is_last: bool = False) -> None:
        """Run a launch's programs, of the plan's last one as many as there are lanes for."""
        self._grid = launch.grid
        self.met.append([])
        total, before = math.prod(launch.grid), self._used
        order = np.random.default_rng(self.seed).permutation(total)
        first = order[:_FIRST_PROGRAMS]
        with _many_programs(self):
            self._run_groups(function, arguments, np.sort(first))
            each = max(1.0, (self._used - before) / first.size)
            affordable = int((self.num_lanes - self._used) / each)
            is_complete = affordable >= total - first.size
            if not is_complete and (self._has_atomics or not is_last):
                raise NotScannable("it takes too long")  # sums, and what later launches read, would not be complete
            rest = np.sort(order[first.size : first.size + max(0, affordable)])
            size = max(1, _CHUNK_LANES // max(1, self._widest))
            for at in range(0, rest.size, size):
                self._run_groups(function, arguments, rest[at : at + size])
        self.num_run.append(first.size + rest.size)

    def _run_groups(self, function: Any, arguments: dict[str, Any], programs: NDArray[np.int64]) -> None:
        """Run programs together; those that diverge begin anew, apart."""
        waiting, num_groups = [programs], 0
        while waiting:
            self._programs, self._has_atomics = waiting.pop(), False
            num_groups += 1
            if num_groups > _MOST_GROUPS:
                raise NotScannable("programs take too many branches")
            try:
                run_programs(function, self._grid, arguments, [_ALL_AT_ONCE])
            except Exception as error:
                diverged = find_cause(error, _Diverged)
                if diverged is None or self._has_atomics:
                    raise
                values = np.broadcast_to(diverged.values.reshape(-1), self._programs.shape)
                waiting += [self._programs[values == value] for value in np.unique(values)[:_MOST_GROUPS]]

    def watch(self, view: torch.Tensor, position: int) -> None:
        """Note which programs store to an element of a view, given by its position in the order of a flat one."""
        indices = np.unravel_index(position, tuple(view.shape)) if view.dim() else ()
        offset = sum(int(index) * step for index, step in zip(indices, view.stride(), strict=True))
        self._watched = (view.data_ptr() + offset * view.element_size() - self.start) >> self.shift

    def numbers(self, axis: int) -> NDArray[np.int32]:
        """Return the programs' numbers along an axis of the grid."""
        return np.unravel_index(self._programs, self._grid)[axis].astype(np.int32).reshape(-1, 1)

    def spend(self, shape: tuple[int, ...], each: int = 1) -> None:
        """Count an operation's lanes."""
        size = math.prod(shape)
        self._used += size * each
        self._widest = max(self._widest, size // self._programs.size)
        if self._used > 2 * self.num_lanes:
            raise NotScannable("it takes too long")

    def note(self, pointers: NDArray[np.uint64], mask: NDArray[np.bool_], is_atomic: bool = False) -> None:
        """Note who stores where."""
        self._has_atomics |= is_atomic
        numbers = (self._programs + 1).astype(np.int32).reshape(-1, *(1,) * (pointers.ndim - 1))
        chosen = (pointers - np.uint64(self.start)) >> np.uint64(self.shift)
        if self._watched >= 0:
            is_met = (chosen == self._watched) & mask
            self.met[-1] += self._programs[is_met.reshape(self._programs.size, -1).any(axis=1)].tolist()
        if mask.all():
            self.writers[chosen] = numbers
        else:
            self.writers[chosen[mask]] = np.broadcast_to(numbers, pointers.shape)[mask]

    def carry(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy a view's values to another of its shape, and who wrote them."""
        target.copy_(source.clone())
        self._writers_of(target).copy_(self._writers_of(source).clone())

    def writers_of(self, view: torch.Tensor) -> bytes:
        """Return for each element of a view the number of the program that wrote it last, from 1 on, or 0."""
        return self._writers_of(view).contiguous().numpy().tobytes()

    def _writers_of(self, view: torch.Tensor) -> torch.Tensor:
        scale = view.element_size() >> self.shift
        steps = [step * scale for step in view.stride()]
        at = (view.data_ptr() - self.start) >> self.shift
        return torch.from_numpy(self.writers).as_strided(tuple(view.shape), steps, at)

    def lead(self, *arrays: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the arrays in one shape, the first axis the programs'."""
        rank = max(2, *(array.ndim for array in arrays))
        shaped = [
            array if array.ndim == rank else array.reshape((1,) * (rank - array.ndim) + array.shape) for array in arrays
        ]
        shape = np.broadcast_shapes(
            (self._programs.size,), *(array.shape[:1] for array in shaped)
        ) + np.broadcast_shapes(*(array.shape[1:] for array in shaped))
        # the interpreter's own accesses want arrays that can be written
        return [a if a.shape == shape and a.flags.writeable else np.array(np.broadcast_to(a, shape)) for a in shaped]


def start_scan(buffers: list[torch.Tensor], item_bytes: int, num_lanes: int, seed: int) -> Scan:
    """Return a scan of launches on buffers in one stretch of memory, whose smallest elements have `item_bytes`."""
    start, stop = find_stretch(buffers)
    shift = item_bytes.bit_length() - 1
    writers = np.zeros(((stop - start) >> shift) + 1, np.int32)
    return Scan(start=start, shift=shift, writers=writers, num_lanes=num_lanes, seed=seed)


def _many_programs(scan: Scan) -> AbstractContextManager[None]:
    """Let the interpreter compute with one axis more."""
    return patched(
        (
            *(replace(BUILDER, name, value) for name, value in {**_accesses(scan), **_shapes(scan)}.items()),
            *_reductions(),
            replace(INTERPRETER.BlockPointerHandle, "materialize_pointers", _materialize),
            around(INTERPRETER, "_patch_lang_tensor", _patch_tensor),
        )
    )


def _accesses(scan: Scan) -> dict[str, Callable[..., Any]]:
    """Return replacements of the builder's methods that access memory or cost much, which the scan counts."""
    handle: Any = interpreter.TensorHandle
    plain_load, plain_store = BUILDER.create_masked_load, BUILDER.create_masked_store
    plain_combine, plain_dot = BUILDER.create_atomic_rmw, BUILDER.create_dot

    def lead(pointers: Any, mask: Any, *values: Any) -> Any:
        """Return pointers, mask and values in one shape, which is counted."""
        arrays = scan.lead(pointers.data, _lanes(mask), *(value.data for value in values))
        scan.spend(arrays[0].shape)
        dtypes = (pointers.dtype, tl.int1, *(value.dtype for value in values))
        return [handle(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True)]

    def load(self: Any, pointers: Any, mask: Any, other: Any, *options: Any, **named: Any) -> Any:
        places, lanes, *others = lead(pointers, mask, *(() if other is None else (other,)))
        return plain_load(self, places, lanes, others[0] if others else None, *options, **named)

    def store(self: Any, pointers: Any, value: Any, mask: Any, *options: Any, **named: Any) -> Any:
        places, lanes, values = lead(pointers, mask, value)
        plain_store(self, places, values, lanes, *options, **named)
        scan.note(places.data, lanes.data)

    def combine(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        if value.dtype.scalar == tl.bfloat16:
            raise NotScannable("an atomic on bfloat16")
        places, lanes, values = lead(pointers, mask, value)
        result = plain_combine(self, operation, places, values, lanes, *options)
        scan.note(places.data, lanes.data, is_atomic=True)
        return handle(result.data.reshape(places.data.shape), result.dtype)

    def dot(self: Any, left: Any, right: Any, *rest: Any) -> Any:
        shape = (max(len(left.data), len(right.data)), *left.data.shape[1:], right.data.shape[-1])
        scan.spend((1,), math.prod(shape) // _LANES_OF_A_DOT)
        return plain_dot(self, left, right, *rest)

    return {
        "create_masked_load": load,
        "create_masked_store": store,
        "create_atomic_rmw": combine,
        "create_dot": dot,
    }


def _lanes(mask: Any) -> NDArray[np.bool_]:
    """Return a mask's array; that of a block pointer is one."""
    lanes: NDArray[np.bool_] = mask if isinstance(mask, np.ndarray) else mask.data
    return lanes


def _materialize(self: Any, boundary_check: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Return a block pointer's addresses and mask, of each program."""
    sizes, element = self.block_shape, self.base.get_element_ty()

    def by_program(handle: Any) -> NDArray[Any]:
        number: NDArray[Any] = handle.data.reshape(-1, *(1,) * len(sizes))
        return number

    places = np.broadcast_to(by_program(self.base), (self.base.data.size, *sizes))
    lanes = np.ones((1, *sizes), dtype=bool)
    for axis, size in enumerate(sizes):
        along = np.arange(size).reshape(-1, *(1,) * (len(sizes) - axis - 1))
        at = by_program(self.offsets[axis]) + along
        places = places + (element.primitive_bitwidth // 8 * at * by_program(self.strides[axis])).astype(np.uint64)
        if axis in boundary_check:
            lanes = lanes & (at < by_program(self.shape[axis])) & (at >= 0)
    return interpreter.TensorHandle(places, self.base.dtype.scalar), lanes


def _splat(self: Any, kind: Any, value: Any) -> Any:
    data, shape = value.data, tuple(kind.shape)
    if data.ndim > 2 or data.shape[-1] != 1:
        raise NotScannable("a block is splat")
    data = data.reshape(-1, *(1,) * len(shape))
    return interpreter.TensorHandle(np.broadcast_to(data, (len(data), *shape)), value.dtype.scalar)


def _reshape(self: Any, value: Any, shape: Any, may_reorder: bool) -> Any:
    if may_reorder:
        raise NotScannable("a block is reordered")
    return interpreter.TensorHandle(value.data.reshape(len(value.data), *shape), value.dtype.scalar)


def _unsplat(self: Any, value: Any) -> Any:
    return interpreter.TensorHandle(value.data.reshape(len(value.data), 1), value.dtype.scalar)


def _refuse(*_: Any, **__: Any) -> Any:
    raise NotScannable("an operation for single programs")


_SINGLE = (
    *("create_cat", "create_histogram", "create_gather", "create_atomic_cas", "create_make_tensor_descriptor"),
    *("create_inline_asm", "create_print"),
)


def _shapes(scan: Scan) -> dict[str, Callable[..., Any]]:
    """Return replacements of the builder's methods that know of shapes, with the programs' axis before theirs."""
    handle: Any = interpreter.TensorHandle
    return {
        **dict.fromkeys(_SINGLE, _refuse),
        "create_assert": lambda self, condition, message: None,  # single programs are held to it
        "create_get_program_id": lambda self, axis: handle(scan.numbers(axis), tl.int32),
        "create_make_range": lambda self, kind, start, stop: handle(
            np.arange(start, stop, dtype=np.int32)[None], tl.int32
        ),
        "create_expand_dims": lambda self, value, axis: handle(
            np.expand_dims(value.data, axis + 1), value.dtype.scalar
        ),
        "create_broadcast": lambda self, value, shape: handle(
            np.broadcast_to(value.data, (len(value.data), *shape)), value.dtype.scalar
        ),
        "create_trans": lambda self, value, order: handle(
            np.transpose(value.data, (0, *(axis + 1 for axis in order))), value.dtype.scalar
        ),
        "create_splat": _splat,
        "create_unsplat": _unsplat,
        "create_reshape": _reshape,
    }


def _reductions() -> tuple[Patch, ...]:
    """Reduce and scan along an axis that is one further on."""
    base: Any = interpreter.ReduceScanOpInterface
    plain_apply = base.apply

    def apply(self: Any, values: Any) -> Any:
        if not isinstance(values, tuple):
            return self.apply((values,))[0]
        rank = values[0].handle.data.ndim - 1
        axis = self.axis
        if axis is None and rank > 1:
            self.axis = tuple(range(1, rank + 1))
        else:
            self.axis = 1 if axis is None else axis % rank + 1
        try:
            return plain_apply(self, values)
        finally:
            self.axis = axis

    def to_tensor(self: Any, values: Any, dtype: Any) -> Any:
        data = np.asarray(values).astype(interpreter._get_np_dtype(dtype))
        if data.ndim < 1:
            raise NotScannable("a reduction over programs")
        kind = tl.block_type(dtype, list(data.shape[1:])) if data.ndim > 1 else dtype
        data = data if data.ndim > 1 else data.reshape(-1, 1)
        return tl.core.tensor(interpreter.TensorHandle(data, dtype.scalar), kind)

    return (
        replace(base, "apply", apply),
        replace(base, "to_tensor", to_tensor),
        replace(base, "check_axis", lambda self, shape, axis: None),
        around(interpreter.ReduceOps, "generic_reduce", _combine_by_own_function),
        around(interpreter.ScanOps, "generic_scan", _combine_by_own_function),
    )


def _combine_by_own_function(self: Any, values: Any, *, original: Any) -> Any:
    if isinstance(self.axis, tuple):
        raise NotScannable("the kernel's own function combines along several axes")
    return original(self, values)


def _patch_tensor(tensor: Any, *rest: Any, original: Any) -> None:
    """Let tensors be conditions, indices and transposed for many programs at once."""
    original(tensor, *rest)
    tensor.__index__ = lambda self: int(_agreed(self))
    # the interpreter takes every block for true
    tensor.__bool__ = lambda self: bool(self.type.is_block() or _agreed(self))
    tensor.T = property(_transposed)


def _agreed(tensor: Any) -> Any:
    data = tensor.handle.data
    if data.ndim > 2 or data.shape[-1] != 1:
        raise NotScannable("a block is a condition")
    if data.size > 1 and np.any(data != data[0]):
        raise _Diverged(data)
    return data.reshape(-1)[0]


def _transposed(tensor: Any) -> Any:
    handle = interpreter.TensorHandle(np.swapaxes(tensor.handle.data, -1, -2), tensor.handle.dtype)
    shape = list(tensor.type.shape)
    return tl.core.tensor(handle, tl.core.block_type(tensor.dtype, [*shape[:-2], shape[-1], shape[-2]]))
