"""Conversions between floating-point types as a GPU does them: towards zero, and to and from eight bits.

Triton's interpreter takes numbers apart by bits. It rounds ties away from zero, lets the digits of a result overflow
into its exponent or not at all, and knows no rounding towards zero. Compiled for sm_90 (read in the PTX of 3.6 and
3.7): the nearest number of eight bits, ties to even and never infinite; float32 towards zero into bfloat16 and float16,
where what is finite stays finite, and by way of float16 into float8e5, of which the upper half is kept. What is not in
this list the compiler refuses, or takes apart by instructions that are not copied here.

float8e5 becomes bfloat16 by a multiplication with a power of two, for which infinity and NaN are numbers from 65536 on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter

from ..kernel_source import NotKernelLanguage
from .bfloat16 import narrow, widen
from .rounding import narrow_to_odd, towards_zero

Floats = NDArray[Any]
Codes = NDArray[np.uint8]

_EIGHT_BITS = {"fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}
_NAN = 0x7F


def encode(values: Floats, name: str) -> Codes:
    """The codes of the nearest numbers of a type of eight bits."""
    dtype = _EIGHT_BITS[name]
    largest = torch.finfo(dtype).max
    wide = np.clip(np.asarray(values, dtype=np.float32), -largest, largest)
    codes: Codes = torch.from_numpy(np.nan_to_num(wide)).to(dtype).view(torch.uint8).numpy()
    return np.where(np.isnan(wide), np.uint8(_NAN), codes)


def decode(codes: Codes, name: str) -> NDArray[np.float32]:
    """The numbers that codes stand for; exact."""
    held = torch.from_numpy(np.array(codes, dtype=np.uint8)).view(_EIGHT_BITS[name])
    values: NDArray[np.float32] = held.to(torch.float32).numpy()
    return values


def _decode_by_product(codes: Codes) -> NDArray[np.float32]:
    """Of float8e5, where the highest exponent is one like others."""
    magnitude = (codes.astype(np.uint32) & 0x7F) << 21  # the digits and the exponent where float32 has them
    values = magnitude.view(np.float32) * np.float32(2.0**112)
    return np.where(codes & 0x80, -values, values).astype(np.float32)


def _truncate(values: NDArray[np.float32], name: str) -> NDArray[Any]:
    """Numbers of float32 in a narrower type, towards zero."""
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


def _truncate_double(original: Any) -> Any:
    def convert(self: Any, source: Any, target: Any) -> Any:
        if source.data.dtype != np.float64 or target.scalar != tl.bfloat16:
            return original(self, source, target)
        return interpreter.TensorHandle(narrow(narrow_to_odd(source.data)), tl.bfloat16)

    return convert


def _decode_operand(original: Any) -> Any:
    def convert(data: Any, to: Any, out: Any, rounding: Any) -> Any:
        if to.scalar.name not in _EIGHT_BITS or out != tl.float16:
            return original(data, to, out, rounding)
        return decode(data, to.scalar.name).astype(np.float16)

    return convert


def install() -> None:
    """Let this process's interpreter convert as a compiled kernel does; after `bfloat16`."""
    builder: Any = interpreter.InterpreterBuilder
    builder.create_fp_to_fp = _convert
    builder.create_fp_trunc = _truncate_double(builder.create_fp_trunc)
    patched: Any = interpreter
    patched._convert_float = _decode_operand(patched._convert_float)
