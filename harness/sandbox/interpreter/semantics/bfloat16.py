"""Right bfloat16 arithmetic for Triton's interpreter.

NumPy has no bfloat16, so the interpreter holds such values as the 16-bit integers that encode them, and (seen in 3.6
and 3.7) adds, multiplies, compares, reduces and matrix-multiplies those integers; its conversion truncates where a GPU
rounds to nearest even. Genuine kernels would be called wrong, so these operations are replaced: widen to float32,
operate, round back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import triton.language as tl
from triton.runtime import interpreter

from .patches import BUILDER, Patch, replace

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint16]


def widen(codes: Codes) -> Floats:
    """Return the float32 values that the codes stand for; exact."""
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: npt.NDArray[Any]) -> Codes:
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


def _widened_operation(original: Any) -> Any:
    def operate(self: Any, *arguments: Any) -> Any:
        *handles, operation = arguments
        if operation is np.where or not any(_is_bfloat16(handle) for handle in handles):
            return original(self, *arguments)
        output = operation(*(_widened(handle).data for handle in handles))
        if output.dtype == np.bool_:
            return interpreter.TensorHandle(output, tl.int1)
        return interpreter.TensorHandle(narrow(output), tl.bfloat16)

    return operate


def _widened_result(original: Any) -> Any:
    def operate(self: Any, *arguments: Any) -> Any:
        if not any(_is_bfloat16(argument) for argument in arguments):
            return original(self, *arguments)
        result = original(self, *map(_widened, arguments))
        third = arguments[2] if len(arguments) > 2 else arguments[0]  # the addend gives the type of a * b + c
        return _narrowed(result) if _is_bfloat16(third) else result

    return operate


def _widened_cast(original: Any) -> Any:
    def cast(self: Any, source: Any, target: Any, *rest: Any) -> Any:
        to, out = source.dtype.scalar, target.scalar
        if tl.bfloat16 not in (to, out) or to == out or to.is_fp8() or out.is_fp8():
            return original(self, source, target, *rest)
        values = _widened(source).data
        if out == tl.bfloat16:
            return interpreter.TensorHandle(narrow(values), out)
        return interpreter.TensorHandle(values.astype(interpreter._get_np_dtype(target)), out)

    return cast


def _widened_reduction(original: Any) -> Any:
    def apply(self: Any, values: Any) -> Any:
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

    return apply


def _tensor(handle: Any, dtype: Any) -> Any:
    shape = list(handle.data.shape)
    return tl.core.tensor(handle, tl.block_type(dtype, shape) if shape and shape != [1] else dtype)


PATCHES = (
    *(Patch(BUILDER, name, _widened_operation) for name in ("binary_op", "ternary_op")),
    *(
        Patch(BUILDER, name, _widened_result)
        for name in ("create_erf", "create_rsqrt", "create_fma", "create_dot", "unary_op")
    ),
    *(Patch(BUILDER, name, _widened_cast) for name in ("cast_impl", "create_fp_to_fp")),
    replace(BUILDER, "get_bf16", _make_bfloat16),
    Patch(interpreter.ReduceScanOpInterface, "apply", _widened_reduction),
)
