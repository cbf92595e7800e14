"""CUDA's library of device functions for Triton's interpreter, which has none of them.

Kernels reach for `tanh`, `pow` or `expm1` there because Triton itself lacks them. A compiled kernel calls NVIDIA's
bitcode by symbol (`__nv_tanhf`); here the same symbol is looked up in a table of NumPy functions, computed in the
argument's own precision. A symbol that the table lacks is refused as something that this backend cannot run. What the
library calls fast is computed by the instructions' formulas (read in the PTX, and in the PTX manual), as their
infinities, zeros and NaN are others than the exact function's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from triton.language import core
from triton.language.extra import libdevice as generic
from triton.language.extra.cuda import libdevice
from triton.runtime import interpreter

from ...kernel_source import NotKernelLanguage
from .patches import BUILDER, Patch, replace
from .rounding import flushed, fuse, to_integers

Function = Callable[..., Any]


def _each(function: Callable[..., float]) -> Function:
    """Apply a scalar function to arrays; where it raises, the result is NaN."""

    def call(*values: float) -> float:
        try:
            return function(*(float(value) for value in values))
        except ValueError:
            return math.nan

    vectorised = np.vectorize(call, otypes=[np.float64])
    return lambda *arrays: vectorised(*arrays).astype(arrays[0].dtype)


def _round_half_away(x: Any) -> Any:
    whole = np.trunc(x)
    return np.copysign(np.abs(whole) + (np.abs(x - whole) >= 0.5), x).astype(x.dtype)


def _exponent(x: Any) -> Any:
    """Return the binary exponents of floats as floats: -inf of 0, inf of an infinity."""
    exponents = (np.frexp(x)[1] - 1).astype(x.dtype)
    return np.where(np.isfinite(x) & (x != 0), exponents, np.where(x == 0, -np.inf, np.abs(x))).astype(x.dtype)


def _integer_exponent(x: Any) -> Any:
    """Return the binary exponents of floats as integers: the least of 0 and NaN, the largest of an infinity."""
    extremes = np.where(np.isinf(x), 2**31 - 1, -(2**31))
    return np.where(np.isfinite(x) & (x != 0), np.frexp(x)[1] - 1, extremes).astype(np.int32)


def _wide(function: Function) -> Function:
    """Compute in float64, and round to the argument's type."""
    return lambda *arrays: function(*(array.astype(np.float64) for array in arrays)).astype(arrays[0].dtype)


def _quarters(x: Any, shift: int) -> Any:
    """Return the sine of `pi * x + shift * pi / 2`, exact where that is 0 or 1."""
    turns = np.fmod(x, 2.0)
    quarter = np.rint(2 * turns)
    angle = (turns - quarter / 2) * np.pi
    which = (np.where(np.isnan(quarter), 0, quarter).astype(np.int64) + shift) % 4
    return np.choose(which, [np.sin(angle), np.cos(angle), -np.sin(angle), -np.cos(angle)])


def _flushing(function: Function) -> Function:
    """Return a function that takes and gives 0 for subnormal numbers, rounded to float32."""
    return lambda *arrays: flushed(function(*map(flushed, arrays)).astype(np.float32))


def _fast_turn(function: Function) -> Function:
    """Return a sine or cosine that counts turns in float32, so that a large angle has few digits of one."""

    def turn(x: Any) -> Any:
        turns = (x * np.float32(1 / (2 * math.pi))).astype(np.float64)
        return function(2 * np.pi * np.fmod(turns, 1.0))

    return _flushing(turn)


_fast_sin, _fast_cos = _fast_turn(np.sin), _fast_turn(np.cos)


@_flushing
def _fast_divide(x: Any, y: Any) -> Any:
    """Divide by way of the reciprocal, which is 0 beyond 2**126."""
    return x * np.where(np.abs(y) > np.float32(2.0**126), np.copysign(np.float32(0), y), 1 / y)


def _reciprocal_root(x: Any) -> Any:
    around = _flushing if x.dtype == np.float32 else _wide
    return around(lambda values: 1 / np.sqrt(values))(x)


_fast_exp2 = _flushing(lambda x: np.exp2(x.astype(np.float64)))
_fast_log2 = _flushing(lambda x: np.log2(x.astype(np.float64)))


def _fast_log(factor: float) -> Function:
    return lambda x: _fast_log2(x) * np.float32(factor)


def _gamma(x: float) -> float:
    if x == 0.0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf


def _log_gamma(x: float) -> float:
    is_pole = math.isinf(x) or (x <= 0 and x == math.floor(x))
    return math.inf if is_pole else math.lgamma(x)


def _scaled_erfc(x: Any) -> Any:
    import torch

    return torch.special.erfcx(torch.from_numpy(np.ascontiguousarray(x, dtype=np.float64))).numpy().astype(x.dtype)


def _positive_difference(x: Any, y: Any) -> Any:
    difference = np.where(x > y, x - y, 0).astype(x.dtype)
    return np.where(np.isnan(x) | np.isnan(y), np.asarray(np.nan, x.dtype), difference)


def _inverse_normal(probability: float) -> float:
    from statistics import NormalDist

    if probability in (0.0, 1.0):
        return math.inf if probability else -math.inf
    return NormalDist().inv_cdf(probability)


def _of_bits(count: Callable[[int, int], int]) -> Function:
    """Return a function of the bits of integers, each given without its sign, and of their number."""
    return lambda x: np.vectorize(lambda value: count(int(value), 8 * x.itemsize), otypes=[np.int32])(
        x.view(f"u{x.itemsize}")
    )


def _view(x: Any, dtype: Any) -> Any:
    return x.view(dtype)


_BITS: dict[str, Function] = {
    "popc": _of_bits(lambda value, _: value.bit_count()),
    "clz": _of_bits(lambda value, num_bits: num_bits - value.bit_length()),
    "ffs": _of_bits(lambda value, _: (value & -value).bit_length()),
}
_VIEWS = {
    "float_as_int": np.int32,
    "float_as_uint": np.uint32,
    "int_as_float": np.float32,
    "uint_as_float": np.float32,
    "double_as_longlong": np.int64,
    "longlong_as_double": np.float64,
}
_FUNCTIONS: dict[str, Function] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc")},
    **{name: getattr(np, name) for name in ("rint", "hypot", "fmod", "copysign", "nextafter", "fabs", "ldexp")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2")},
    **{name: getattr(np, name) for name in ("isnan", "isinf", "signbit")},
    **dict.fromkeys(("abs", "llabs"), np.abs),
    **dict.fromkeys(("finite", "isfinited"), np.isfinite),
    **dict.fromkeys(("fma", "fma_rn", "fmaf_rn"), fuse),
    **dict.fromkeys(("nearbyint", "llrint", "float2int_rn"), np.rint),
    **dict.fromkeys(("round", "llround"), _round_half_away),
    **dict.fromkeys(("int2float_rn", "uint2float_rn", "double2float_rn"), np.asarray),
    **{f"float2int_r{way}": function for way, function in (("z", np.trunc), ("d", np.floor), ("u", np.ceil))},
    **{f"{name}{suffix}": function for name, function in _BITS.items() for suffix in ("", "ll")},
    **{name: functools.partial(_view, dtype=dtype) for name, dtype in _VIEWS.items()},
    "exp10": lambda x: np.power(np.asarray(10.0, dtype=x.dtype), x),
    "rsqrt": _reciprocal_root,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "sinpi": _wide(lambda x: _quarters(x, 0)),
    "cospi": _wide(lambda x: _quarters(x, 1)),
    "pow": np.power,
    "powi": _wide(np.power),
    "scalbn": np.ldexp,
    "remainder": _each(math.remainder),
    "fdim": _positive_difference,
    "fmin": np.fmin,
    "fmax": np.fmax,
    "logb": _exponent,
    "ilogb": _integer_exponent,
    "saturate": lambda x: np.where(np.isnan(x), 0, np.clip(x, 0, 1)),
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "erfcx": _scaled_erfc,
    "erfinv": _each(lambda x: _inverse_normal((x + 1) / 2) / math.sqrt(2)),
    "erfcinv": _each(lambda x: -_inverse_normal(x / 2) / math.sqrt(2)),
    "normcdf": _each(lambda x: 0.5 * math.erfc(-x / math.sqrt(2))),
    "normcdfinv": _each(_inverse_normal),
    "lgamma": _each(_log_gamma),
    "tgamma": _each(_gamma),
    "norm3d": _wide(lambda x, y, z: np.hypot(np.hypot(x, y), z)),
    "rnorm3d": _wide(lambda x, y, z: 1 / np.hypot(np.hypot(x, y), z)),
    "fast_sin": _fast_sin,
    "fast_cos": _fast_cos,
    "fast_tan": lambda x: _fast_divide(_fast_sin(x), _fast_cos(x)),
    "fast_exp": lambda x: _fast_exp2(x * np.float32(math.log2(math.e))),
    "fast_exp10": lambda x: _fast_exp2(x * np.float32(math.log2(10))),
    "fast_log": _fast_log(math.log(2)),
    "fast_log2": _fast_log2,
    "fast_log10": _fast_log(math.log10(2)),
    "fast_pow": lambda x, y: _fast_exp2(y * _fast_log2(x)),
    "fast_fdivide": _fast_divide,
    **{
        f"{kind}{name}_rn": function
        for name, function in (("div", np.divide), ("add", np.add), ("sub", np.subtract), ("mul", np.multiply))
        for kind in "fd"
    },
    **dict.fromkeys(("fsqrt_rn", "dsqrt_rn"), np.sqrt),
    "frcp_rn": lambda x: 1 / x,
    "frsqrt_rn": _wide(lambda x: 1 / np.sqrt(x)),
}


def find_function(symbol: str) -> Function:
    """Return the NumPy function for one of the library's symbols; raises NotKernelLanguage."""
    name = symbol.removeprefix("__nv_")
    for candidate in (name, name.removesuffix("f"), name.removesuffix("d")):
        if candidate in _FUNCTIONS:
            return _FUNCTIONS[candidate]
    raise NotKernelLanguage(f"the interpreter has no {symbol}")


def _call(self: Any, library: str, path: str, symbol: str, handles: Any, kind: Any, is_pure: bool) -> Any:
    result = np.asarray(find_function(symbol)(*(handle.data for handle in handles)))
    dtype = np.dtype(interpreter._get_np_dtype(kind.scalar))
    is_rounded = result.dtype.kind == "f" and dtype.kind in "iu"
    return interpreter.TensorHandle(to_integers(result, dtype) if is_rounded else result.astype(dtype), kind.scalar)


def _bind(function: Any) -> Any:
    return functools.wraps(function)(functools.partial(function, _semantic=interpreter.interpreter_semantic))


def _offer_functions() -> tuple[Patch, ...]:
    """Return patches that offer the library under both of its names."""
    functions = {
        name: _bind(function)
        for name, function in vars(libdevice).items()
        if core.is_builtin(function) and function.__module__ == libdevice.__name__
    }
    return tuple(replace(owner, name, bound) for name, bound in functions.items() for owner in (libdevice, generic))


PATCHES = (replace(BUILDER, "create_extern_elementwise", _call), *_offer_functions())
