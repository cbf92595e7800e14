"""CUDA's library of device functions for Triton's interpreter, which has none of them.

Kernels reach for `tanh`, `pow` or `expm1` there because Triton itself lacks them. A compiled kernel calls NVIDIA's
bitcode by symbol (`__nv_tanhf`); here the same symbol is looked up in a table of NumPy functions, computed in the
argument's own precision. A symbol that the table lacks is refused as something that this backend cannot run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .kernel_source import NotKernelLanguage

Function = Callable[..., Any]


def _each(function: Callable[..., float]) -> Function:
    """A scalar function for arrays; where it raises, the result is NaN."""

    def call(*values: float) -> float:
        try:
            return function(*(float(value) for value in values))
        except (ValueError, OverflowError):
            return math.nan

    vectorised = np.vectorize(call, otypes=[np.float64])
    return lambda *arrays: vectorised(*arrays).astype(arrays[0].dtype)


def _round_half_away(x: Any) -> Any:
    return np.copysign(np.floor(np.abs(x) + np.asarray(0.5, dtype=x.dtype)), x)


def _inverse_normal(probability: float) -> float:
    from statistics import NormalDist

    if probability in (0.0, 1.0):
        return math.inf if probability else -math.inf
    return NormalDist().inv_cdf(probability)


def _count_bits(x: Any) -> Any:
    return np.vectorize(lambda value: int(value).bit_count(), otypes=[np.int32])(x.view(f"u{x.itemsize}"))


def _leading_zeros(x: Any) -> Any:
    bits = 8 * x.itemsize
    return np.vectorize(lambda value: bits - int(value).bit_length(), otypes=[np.int32])(x.view(f"u{x.itemsize}"))


def _first_set(x: Any) -> Any:
    unsigned = x.view(f"u{x.itemsize}")
    return np.vectorize(lambda value: (int(value) & -int(value)).bit_length(), otypes=[np.int32])(unsigned)


_FUNCTIONS: dict[str, Function] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc")},
    **{name: getattr(np, name) for name in ("rint", "hypot", "fmod", "copysign", "nextafter", "fabs", "ldexp")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2")},
    **{name: getattr(np, name) for name in ("isnan", "isinf", "signbit")},
    "abs": np.abs,
    "llabs": np.abs,
    "exp10": lambda x: np.power(np.asarray(10.0, dtype=x.dtype), x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2)).astype(x.dtype),
    "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2)).astype(x.dtype),
    "pow": np.power,
    "powi": lambda x, y: np.power(x, y.astype(x.dtype)),
    "scalbn": np.ldexp,
    "remainder": lambda x, y: x - y * np.rint(x / y),
    "fma": lambda x, y, z: x * y + z,
    "fdim": lambda x, y: np.maximum(x - y, 0),
    "fmin": np.fmin,
    "fmax": np.fmax,
    "nearbyint": np.rint,
    "round": _round_half_away,
    "llrint": np.rint,
    "llround": _round_half_away,
    "logb": lambda x: np.frexp(x)[1] - 1,
    "ilogb": lambda x: np.frexp(x)[1] - 1,
    "finite": np.isfinite,
    "isfinited": np.isfinite,
    "saturate": lambda x: np.where(np.isnan(x), 0, np.clip(x, 0, 1)),
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "erfcx": _each(lambda x: math.exp(x * x) * math.erfc(x)),
    "erfinv": _each(lambda x: _inverse_normal((x + 1) / 2) / math.sqrt(2)),
    "erfcinv": _each(lambda x: -_inverse_normal(x / 2) / math.sqrt(2)),
    "normcdf": _each(lambda x: 0.5 * math.erfc(-x / math.sqrt(2))),
    "normcdfinv": _each(_inverse_normal),
    "lgamma": _each(math.lgamma),
    "tgamma": _each(math.gamma),
    "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z),
    "rnorm3d": lambda x, y, z: 1 / np.sqrt(x * x + y * y + z * z),
    "popc": _count_bits,
    "popcll": _count_bits,
    "clz": _leading_zeros,
    "clzll": _leading_zeros,
    "ffs": _first_set,
    "ffsll": _first_set,
    "float_as_int": lambda x: x.view(np.int32),
    "float_as_uint": lambda x: x.view(np.uint32),
    "int_as_float": lambda x: x.view(np.float32),
    "uint_as_float": lambda x: x.view(np.float32),
    "double_as_longlong": lambda x: x.view(np.int64),
    "longlong_as_double": lambda x: x.view(np.float64),
    "fast_sin": np.sin,
    "fast_cos": np.cos,
    "fast_tan": np.tan,
    "fast_exp": np.exp,
    "fast_log": np.log,
    "fast_log2": np.log2,
    "fast_log10": np.log10,
    "fast_pow": np.power,
    "fast_fdivide": np.divide,
    "fdiv_rn": np.divide,
    "ddiv_rn": np.divide,
    "frcp_rn": lambda x: 1 / x,
    "fsqrt_rn": np.sqrt,
    "dsqrt_rn": np.sqrt,
    "frsqrt_rn": lambda x: 1 / np.sqrt(x),
    "fadd_rn": np.add,
    "dadd_rn": np.add,
    "fsub_rn": np.subtract,
    "dsub_rn": np.subtract,
    "fmul_rn": np.multiply,
    "dmul_rn": np.multiply,
    "fmaf_rn": lambda x, y, z: x * y + z,
    "fma_rn": lambda x, y, z: x * y + z,
    "int2float_rn": np.asarray,
    "uint2float_rn": np.asarray,
    "float2int_rn": np.rint,
    "float2int_rz": np.trunc,
    "float2int_rd": np.floor,
    "float2int_ru": np.ceil,
    "double2float_rn": np.asarray,
}


def find_function(symbol: str) -> Function:
    """The NumPy function for one of the library's symbols; raises NotKernelLanguage."""
    name = symbol.removeprefix("__nv_")
    for candidate in (name, name.removesuffix("f"), name.removesuffix("d")):
        if candidate in _FUNCTIONS:
            return _FUNCTIONS[candidate]
    raise NotKernelLanguage(f"the interpreter has no {symbol}")


def install() -> None:
    """Offer the library under both of its names in this process."""
    from triton.language import core
    from triton.language.extra import libdevice as generic
    from triton.language.extra.cuda import libdevice
    from triton.runtime import interpreter

    def call(self: Any, library: str, path: str, symbol: str, handles: Any, kind: Any, is_pure: bool) -> Any:
        result = find_function(symbol)(*(handle.data for handle in handles))
        scalar = kind.scalar
        return interpreter.TensorHandle(np.asarray(result).astype(interpreter._get_np_dtype(scalar)), scalar)

    builder: Any = interpreter.InterpreterBuilder
    builder.create_extern_elementwise = call
    for name, function in list(vars(libdevice).items()):
        if core.is_builtin(function) and function.__module__ == libdevice.__name__:
            bound = functools.wraps(function)(functools.partial(function, _semantic=interpreter.interpreter_semantic))
            setattr(libdevice, name, bound)
            setattr(generic, name, bound)
