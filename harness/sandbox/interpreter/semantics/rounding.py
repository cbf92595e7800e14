"""Conversions, fused operations and bfloat16 arithmetic, rounded as a GPU rounds them.

NumPy has no bfloat16, so the interpreter holds such values as the 16-bit integers that encode them, and (seen in 3.6
and 3.7) adds, compares, reduces and matrix-multiplies those; its conversion truncates where a GPU rounds to nearest
even. These operations are replaced: widen to float32, operate, round back.

An operation is done in float64, and what that loses is kept in its last bit, which is made odd ("round to odd"): a
second rounding, to a type that has at least two digits fewer, then gives what one rounding of the exact value would.

Triton's interpreter converts between floating-point types by taking numbers apart by bits. It rounds ties away from
zero, lets the digits of a result overflow into its exponent or not at all, and knows no rounding towards zero. Compiled
for sm_90 (read in the PTX of 3.6 and 3.7): the nearest number of eight bits, ties to even and never infinite; float32
towards zero into bfloat16 and float16, where what is finite stays finite, and by way of float16 into float8e5, of which
the upper half is kept. What is not in this list the compiler refuses, or takes apart by instructions that are not
copied here. float8e5 becomes bfloat16 by a multiplication with a power of two, for which infinity and NaN are numbers
from 65536 on.

Float32 has no odd numbers beyond 2^24, and a tensor may have more elements than that. Where an address goes through a
float, one run at small sizes computes with fewer digits (`SHORT_PATCHES`), so that its offsets are to them as those of
a large tensor are to float32's own. Whole numbers alone are rounded: a coordinate between two elements keeps what is
behind its point.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import torch
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter

from ...kernel_source import NotKernelLanguage
from .patches import BUILDER, INTERPRETER, around, replace
from .run_state import current_run

Array = NDArray[Any]
Floats = NDArray[np.float32]
Codes = NDArray[np.uint16]


def widen(codes: Codes) -> Floats:
    """Return the float32 values that the codes stand for; exact."""
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: Array) -> Codes:
    """Return the codes of the nearest bfloat16 values, ties to even."""
    bits = np.atleast_1d(np.asarray(values, dtype=np.float32)).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_nan, quiet, rounded).astype(np.uint16).reshape(np.shape(values))


def _make_bfloat16(self: Any, value: float) -> Any:
    return interpreter.TensorHandle(narrow(np.array([value])), tl.bfloat16)


def _is_bfloat16(value: Any) -> bool:
    return isinstance(value, interpreter.TensorHandle) and value.dtype.scalar == tl.bfloat16


def _widened(value: Any) -> Any:
    return interpreter.TensorHandle(widen(value.data), tl.float32) if _is_bfloat16(value) else value


def _narrowed(value: Any) -> Any:
    return interpreter.TensorHandle(narrow(value.data), tl.bfloat16)


def _operate_wide(self: Any, *arguments: Any, original: Any) -> Any:
    *handles, operation = arguments
    if operation is np.where or not any(_is_bfloat16(handle) for handle in handles):
        return original(self, *arguments)
    output = operation(*(_widened(handle).data for handle in handles))
    if output.dtype == np.bool_:
        return interpreter.TensorHandle(output, tl.int1)
    return interpreter.TensorHandle(narrow(output), tl.bfloat16)


def _round_result(self: Any, *arguments: Any, original: Any) -> Any:
    if not any(_is_bfloat16(argument) for argument in arguments):
        return original(self, *arguments)
    result = original(self, *map(_widened, arguments))
    third = arguments[2] if len(arguments) > 2 else arguments[0]  # the addend gives the type of a * b + c
    return _narrowed(result) if _is_bfloat16(third) else result


def _cast(self: Any, source: Any, target: Any, *, original: Any) -> Any:
    to, out = source.dtype.scalar, target.scalar
    if tl.bfloat16 not in (to, out) or to == out or to.is_fp8() or out.is_fp8():
        return original(self, source, target)
    values = _widened(source).data
    if out == tl.bfloat16:
        return interpreter.TensorHandle(narrow(values), out)
    return interpreter.TensorHandle(values.astype(interpreter._get_np_dtype(target)), out)


def _reduce_wide(self: Any, values: Any, *, original: Any) -> Any:
    inputs = values if isinstance(values, tuple) else (values,)
    narrow_ones = [_is_bfloat16(value.handle) for value in inputs]
    if not any(narrow_ones):
        return original(self, values)
    wide = tuple(
        _tensor(_widened(value.handle), tl.float32) if is_narrow else value
        for value, is_narrow in zip(inputs, narrow_ones, strict=True)
    )
    results = original(self, wide)
    back = tuple(
        _tensor(_narrowed(result.handle), tl.bfloat16) if is_narrow and result.dtype == tl.float32 else result
        for result, is_narrow in zip(results, narrow_ones, strict=False)
    )
    return (back + tuple(results[len(back) :])) if isinstance(values, tuple) else back[0]


def _tensor(handle: Any, dtype: Any) -> Any:
    shape = list(handle.data.shape)
    return tl.core.tensor(handle, tl.block_type(dtype, shape) if shape and shape != [1] else dtype)


def fuse(left: Array, right: Array, addend: Array) -> Array:
    """Compute `left * right + addend`, rounded once to the addend's type; arrays of one shape."""
    if addend.dtype == np.float64:
        return np.asarray(_fuse_exactly(left, right, addend))
    return fuse_to_odd(left, right, addend).astype(addend.dtype)


def fuse_to_odd(left: Array, right: Array, addend: Array) -> NDArray[np.float64]:
    """Compute `left * right + addend` of types narrower than float64, in float64 and rounded to odd."""
    product = left.astype(np.float64) * right.astype(np.float64)  # exact
    wide = addend.astype(np.float64)
    total = np.asarray(product + wide)
    share = total - product
    rest = (product - (total - share)) + (wide - share)
    rest = np.where(np.isfinite(total), rest, 0.0)
    return _made_odd(total, rest)


def narrow_to_odd(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Convert float64 to float32, rounded to odd."""
    nearest = values.astype(np.float32)
    rest = np.where(np.isfinite(nearest), values - nearest.astype(np.float64), 0.0)
    return _made_odd(nearest, rest)


def _made_odd(nearest: Array, rest: Array) -> Array:
    """Return the neighbours with an odd last bit of what `nearest + rest` stands for; itself where there is no rest."""
    signs = np.where(rest == 0, nearest, rest).astype(nearest.dtype)
    nearest = np.where(nearest == 0, np.copysign(nearest, signs), nearest)
    bits = np.atleast_1d(nearest).view(f"i{nearest.dtype.itemsize}").reshape(nearest.shape)
    # in this order of bits the next one is further from zero
    step = np.where((nearest == 0) | ((rest > 0) == (nearest > 0)), 1, -1).astype(bits.dtype)
    is_even = (rest != 0) & (bits & 1 == 0)
    return np.atleast_1d(np.where(is_even, bits + step, bits)).view(nearest.dtype).reshape(nearest.shape)


def _fuse_one(left: float, right: float, addend: float) -> float:
    left, right, addend = float(left), float(right), float(addend)  # NumPy's would warn
    plain = left * right + addend
    if not (math.isfinite(left) and math.isfinite(right)):
        return plain
    if not math.isfinite(addend):
        return addend
    exact = Fraction(left) * Fraction(right) + Fraction(addend)
    if not exact:
        return plain
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_fuse_exactly = np.vectorize(_fuse_one, otypes=[np.float64])


def towards_zero(values: NDArray[np.float32]) -> NDArray[np.float16]:
    """Convert float32 to float16, rounded towards zero; what is finite stays finite."""
    with np.errstate(over="ignore"):
        nearest = np.asarray(values).astype(np.float16)
    beyond = np.abs(nearest.astype(np.float32)) > np.abs(values)
    bits = np.atleast_1d(nearest).view(np.uint16).reshape(nearest.shape)
    return np.atleast_1d(np.where(beyond, bits - np.uint16(1), bits)).view(np.float16).reshape(nearest.shape)


def flushed(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Flush subnormal float32 numbers to 0."""
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


def to_integers(values: Array, kind: np.dtype[Any]) -> Array:
    """Round floats towards zero to an integer type and saturate at its ends; NaN becomes 0, or 2**63 in 64 bits.

    Into eight bits a GPU converts by way of sixteen, and the upper byte is dropped: beyond eight bits nothing
    saturates. The result has the shape of `values`.
    """
    wide = np.dtype(f"{kind.kind}2") if kind.itemsize == 1 else kind
    low, high = np.iinfo(wide).min, np.iinfo(wide).max
    values = np.trunc(values)
    above, below, is_nan = values >= float(high), values <= float(low), np.isnan(values)
    inside = np.where(above | below | is_nan, 0, values).astype(wide)
    nan = np.array(1 << 63, np.uint64).astype(kind) if kind.itemsize == 8 else kind.type(0)
    result = np.where(is_nan, nan, np.where(above, wide.type(high), np.where(below, wide.type(low), inside)))
    return result.astype(kind)


_EIGHT_BITS = {"fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}
_NAN = 0x7F


def encode(values: Array, name: str) -> NDArray[np.uint8]:
    """Return the codes of the nearest numbers of a type of eight bits."""
    dtype = _EIGHT_BITS[name]
    largest = torch.finfo(dtype).max
    wide = np.clip(np.asarray(values, dtype=np.float32), -largest, largest)
    codes: NDArray[np.uint8] = torch.from_numpy(np.nan_to_num(wide)).to(dtype).view(torch.uint8).numpy()
    return np.where(np.isnan(wide), np.uint8(_NAN), codes)


def decode(codes: NDArray[np.uint8], name: str) -> NDArray[np.float32]:
    """Return the numbers that codes stand for; exact."""
    held = torch.from_numpy(np.array(codes, dtype=np.uint8)).view(_EIGHT_BITS[name])
    values: NDArray[np.float32] = held.to(torch.float32).numpy()
    return values


def _decode_by_product(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Decode float8e5 as if its highest exponent were one like others."""
    magnitude = (codes.astype(np.uint32) & 0x7F) << 21  # the digits and the exponent where float32 has them
    values = magnitude.view(np.float32) * np.float32(2.0**112)
    return np.where(codes & 0x80, -values, values).astype(np.float32)


def _truncate(values: NDArray[np.float32], name: str) -> NDArray[Any]:
    """Convert float32 to a narrower type, rounded towards zero."""
    if name == "fp16":
        return towards_zero(values)
    if name == "fp8e5":
        halves = np.atleast_1d(towards_zero(values)).view(np.uint16).reshape(values.shape)
        return np.where(np.isnan(values), _NAN, halves >> 8).astype(np.uint8)
    bits = np.atleast_1d(values).view(np.uint32).reshape(values.shape)
    return np.where(np.isnan(values), 0x7FFF, bits >> 16).astype(np.uint16)


def _convert(self: Any, source: Any, target: Any, rounding: Any) -> Any:
    to, out = source.dtype.scalar, target.scalar
    is_towards_zero = rounding == interpreter._ir.ROUNDING_MODE.RTZ
    if is_towards_zero and to.name == "fp32" and out.name in ("fp16", "bf16", "fp8e5"):
        return interpreter.TensorHandle(_truncate(source.data, out.name), out)
    if not is_towards_zero and out.name in _EIGHT_BITS and to.name in ("fp32", "fp16", "bf16"):
        values = widen(source.data) if to == tl.bfloat16 else source.data
        return interpreter.TensorHandle(encode(values, out.name), out)
    if to.name in _EIGHT_BITS and out.name in ("fp32", "fp16", "bf16"):
        if (to.name, out.name) == ("fp8e5", "bf16"):
            return interpreter.TensorHandle(narrow(_decode_by_product(source.data)), out)
        values = decode(source.data, to.name)
        return interpreter.TensorHandle(
            narrow(values) if out == tl.bfloat16 else values.astype(interpreter._get_np_dtype(out)), out
        )
    how = ", rounded towards zero" if is_towards_zero else ""
    raise NotKernelLanguage(f"the interpreter has no conversion of {to.name} to {out.name}{how}; go by way of float32")


def _truncate_double(self: Any, source: Any, target: Any, *, original: Any) -> Any:
    if source.data.dtype != np.float64 or target.scalar != tl.bfloat16:
        return original(self, source, target)
    return interpreter.TensorHandle(narrow(narrow_to_odd(source.data)), tl.bfloat16)


def _decode_operand(data: Any, to: Any, out: Any, rounding: Any, *, original: Any) -> Any:
    if to.scalar.name not in _EIGHT_BITS or out != tl.float16:
        return original(data, to, out, rounding)
    return decode(data, to.scalar.name).astype(np.float16)


def _round_to_integers(self: Any, source: Any, target: Any, *, original: Any) -> Any:
    if source.data.dtype.kind != "f":
        return original(self, source, target)
    kind = np.dtype(interpreter._get_np_dtype(target.scalar))
    return interpreter.TensorHandle(to_integers(source.data, kind), target.scalar)


def _round_once(self: Any, left: Any, right: Any, addend: Any, *, original: Any) -> Any:
    if addend.dtype.scalar == tl.bfloat16:
        total = fuse_to_odd(widen(left.data), widen(right.data), widen(addend.data))
        return interpreter.TensorHandle(narrow(narrow_to_odd(total)), tl.bfloat16)
    if addend.data.dtype.kind != "f":
        return original(self, left, right, addend)
    return interpreter.TensorHandle(fuse(left.data, right.data, addend.data), addend.dtype.scalar)


PATCHES = (
    *(around(BUILDER, name, _operate_wide) for name in ("binary_op", "ternary_op")),
    *(around(BUILDER, name, _round_result) for name in ("create_erf", "create_rsqrt", "create_dot", "unary_op")),
    around(BUILDER, "cast_impl", _cast),
    replace(BUILDER, "get_bf16", _make_bfloat16),
    around(interpreter.ReduceScanOpInterface, "apply", _reduce_wide),
    replace(BUILDER, "create_fp_to_fp", _convert),
    around(BUILDER, "create_fp_trunc", _truncate_double),
    around(INTERPRETER, "_convert_float", _decode_operand),
    *(around(BUILDER, name, _round_to_integers) for name in ("create_fp_to_si", "create_fp_to_ui")),
    around(BUILDER, "create_fma", _round_once),
)


def shorten(values: Floats, num_digits: int) -> Floats:
    """Round whole numbers to so many binary digits, ties to even."""
    digits, exponents = np.frexp(values)
    rounded = np.ldexp(np.rint(np.ldexp(digits, num_digits)), exponents - num_digits)
    return np.where(np.trunc(values) == values, rounded, values).astype(np.float32)


def _shorten_result(self: Any, *operands: Any, original: Any) -> Any:
    result = original(self, *operands)
    if result.dtype.scalar != tl.float32:
        return result
    return interpreter.TensorHandle(shorten(result.data, current_run().float_digits), result.dtype)


SHORT_PATCHES = tuple(
    around(BUILDER, f"create_{name}", _shorten_result)
    for name in ("si_to_fp", "ui_to_fp", "fadd", "fsub", "fmul", "fdiv", "fma")
)
"""For the runs that have few digits alone."""
