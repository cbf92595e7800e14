"""Numbers that a compiled kernel holds as tensors, and that Python, which interprets its text, would not.

Numbers in a kernel's text, its constexpr parameters and what is computed from these are exact when compiled, as they
are in Python. They become tensors, of 32 bits or what else holds them, where the compiler makes them so:

- what is assigned, also by `x += 1`, and each element of a tuple or a list that is assigned;
- the variable of a loop over `range`, of the type that its bounds have together (`tl.static_range` gives constants);
- both sides of `a if condition else b` where the condition is a tensor;
- what a helper returns: always up to Triton 3.6; after that, where its `return` statements do not agree;
- an argument of a launch, of the type that it was compiled for, unless it was compiled in, as 1 is.

`max` and `min` of tensors are `tl.maximum` and `tl.minimum`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.compiler.code_generator import CodeGenerator
from triton.runtime import interpreter

from ...kernel_source import NotKernelLanguage
from .run_state import current_run

RETURNS_CONSTANTS = hasattr(CodeGenerator, "decide_return_type")
"""Whether this Triton's helpers can return numbers that stay constants."""
_BOUNDS = {"arg1": 0, "arg2": 1, "start": 0, "end": 1, "stop": 1, "step": 2}


def unwrapped(value: Any) -> Any:
    """Return the number, not the constexpr that holds it."""
    return value.value if isinstance(value, tl.constexpr) else value


def stored(value: Any) -> Any:
    """Return what a variable holds after an assignment."""
    if isinstance(value, (tuple, list)):
        items = [stored(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return interpreter.interpreter_semantic.to_tensor(value, False)


def chosen(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """Choose by a condition; one that is a tensor makes a tensor of the result."""
    value = then() if unwrapped(condition) else otherwise()
    return stored(value) if isinstance(condition, tl.tensor) else value


def returned(value: Any, were_tensors: Iterable[bool], others_follow: bool, others: tuple[Any, ...]) -> Any:
    """Return what a helper's caller gets: a constant only where every `return` that was compiled says the same.

    Others were compiled if they follow, or if the condition of an `if` with a `return` inside was a tensor. What they
    say is in `others`, unevaluated, and None where that is more than names and numbers.
    """
    if not RETURNS_CONSTANTS:
        return stored(value)
    return _in_common(value, others) if others_follow or any(were_tensors) else value


def _in_common(value: Any, others: Iterable[Any]) -> Any:
    others = list(others)
    if isinstance(value, tuple) and all(isinstance(other, tuple) and len(other) == len(value) for other in others):
        return tuple(_in_common(item, column) for item, *column in zip(value, *others, strict=True))
    is_constant = isinstance(unwrapped(value), (int, float)) and all(_says(other, unwrapped(value)) for other in others)
    return value if is_constant else stored(value)


def _says(other: Any, value: int | float) -> bool:
    try:
        found = unwrapped(other())
    except Exception:  # None, a tuple, a name that is not bound on this way: no constant
        return False
    return isinstance(found, (int, float)) and found == value


def decided_by(condition: Any, were_tensors: list[bool]) -> Any:
    """Return the condition itself; notes whether it is a tensor."""
    were_tensors.append(isinstance(condition, tl.tensor))
    return condition


def fold(plain: Callable[..., Any], name: str, *values: Any, **options: Any) -> Any:
    """Return the `max` or `min` of a compiled kernel: `plain` of numbers, the function of this name of tensors."""
    if not any(isinstance(value, tl.tensor) for value in values):
        return plain(*map(unwrapped, values), **options)
    result, *others = values
    for other in others:
        result = getattr(tl, name)(result, other, **options)
    return result


def _followed(loop: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Tell watchers when a loop begins and ends."""

    @functools.wraps(loop)
    def follow(*bounds: Any, **options: Any) -> Iterator[Any]:
        told = tuple(current_run().watchers)
        for watcher in told:
            watcher.begin_loop()
        try:
            yield from loop(*bounds, **options)
        finally:
            for watcher in told:
                watcher.end_loop()

    return follow


@_followed
def loop_range(*bounds: Any, **options: Any) -> Iterator[Any]:
    """Yield the numbers of `range` and `tl.range` of a compiled kernel; what only schedules the loop is ignored."""
    given = list(bounds)
    for name in ("arg1", "start", "arg2", "end", "stop", "step"):
        if options.get(name) is not None:
            while len(given) < _BOUNDS[name]:
                given.append(None)
            given.insert(_BOUNDS[name], options[name])
    while len(given) < 3:
        given.append(None)
    if given[1] is None:
        given[:2] = [None, given[0]]
    first, last, step = map(unwrapped, given[:3])
    first, step = (default if value is None else value for value, default in ((first, 0), (step, 1)))
    goes_down = not isinstance(step, tl.tensor) and step < 0
    if goes_down:
        first, last, step = last, first, -step
    semantic = interpreter.interpreter_semantic
    ends = [semantic.to_tensor(end) for end in (first, last, step)]
    kind = semantic.integer_promote_impl(semantic.integer_promote_impl(ends[0].dtype, ends[1].dtype), ends[2].dtype)
    low, high, width = (_signed(int(end.__index__()), kind.int_bitwidth) for end in ends)
    dtype = np.dtype(interpreter._get_np_dtype(kind))
    for value in _counted(low, high, width, kind.int_bitwidth):
        number = high - value + low if goes_down else value
        data = np.array([_signed(number, kind.int_bitwidth)], dtype=np.int64).astype(dtype)
        yield tl.tensor(interpreter.TensorHandle(data, kind), kind)


def _signed(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _counted(low: int, high: int, step: int, bits: int) -> range:
    """Return the steps of a compiled loop, which compares signed numbers and goes up."""
    steps = range(low, high, step) if step > 0 else range(low, low)
    if (step <= 0 and low < high) or (steps and steps[-1] + step >= 1 << (bits - 1)):
        raise NotKernelLanguage("a loop's variable runs beyond its type; let it end before")
    return steps


def argument(value: bool | int | float, kind: str | None) -> Any:
    """Return a number as a kernel gets it, of the type that it was compiled for, or would be."""
    names = {"fp": "float", "bf": "bfloat", "i": "int", "u": "uint"}
    if kind is None:
        kind = _usual(value)
    letters = kind.rstrip("0123456789")
    dtype = tl.int1 if kind in ("u1", "i1") else getattr(tl, names.get(letters, letters) + kind[len(letters) :])
    if dtype == tl.bfloat16:
        return tl.tensor(interpreter.interpreter_builder.get_bf16(float(value)), dtype)
    target = np.dtype(interpreter._get_np_dtype(dtype))
    with np.errstate(over="ignore"):
        if target.kind in "iu":
            data = np.array([int(value) % (1 << 8 * target.itemsize)], np.uint64).astype(target)
        else:
            data = np.array([value]).astype(target)
    return tl.tensor(interpreter.TensorHandle(data, dtype), dtype)


def _usual(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, float):
        return "fp32"
    if -(2**31) <= value < 2**31:
        return "i32"
    return "i64" if value < 2**63 else "u64"
