"""What each ATen operator is called in an operation graph, and which of its arguments say more than a number.

Overloads, in-place forms and the several operators that differ by constants alone get one name: `relu`, `relu6`,
`clamp_min` and `hardtanh` clamp from below, above, or both. Operators that only move a tensor's header, copy it or
cast it do nothing here. An operator that no table names keeps its own name, its flags and its dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table

DECOMPOSED = frozenset(
    {"_log_softmax", "_safe_softmax", "_softmax", "hardsigmoid", "leaky_relu", "mish", "silu", "_prelu_kernel"}
    | {"addcdiv", "addcmul", "addmm", "addmv", "baddbmm", "dot", "mse_loss", "soft_margin_loss", "std", "xlogy"}
    | {"native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm"}
)
"""Operators that are traced as what PyTorch's decompositions make of them."""

TRANSPARENT = frozenset(
    {"alias", "clone", "contiguous", "detach", "lift", "lift_fresh", "lift_fresh_copy", "positive", "real"}
    | {"_to_copy", "to", "squeeze", "unsqueeze", "expand", "view_as", "expand_as", "resolve_conj", "resolve_neg"}
)
"""Operators whose result holds the values of their first argument, in the same order."""

REGROUPING = frozenset({"view", "_unsafe_view", "reshape", "_reshape_alias", "flatten", "unflatten"})
"""Operators that split and merge dimensions: nothing where the dimensions that are longer than one stay as they are."""

PERMUTING = frozenset({"t", "transpose", "permute", "numpy_T", "mT", "swapaxes", "swapdims", "movedim"})

WINDOWING = frozenset({"slice", "narrow"})
"""Operators that do nothing where they take all there is."""

TAKING = frozenset({"select"})
"""Operators that do nothing where there is one to choose from."""

CREATING = frozenset({"empty", "zeros", "ones", "full", "rand", "randn", "empty_strided"})
"""Operators whose `_like` and `new_` forms read a tensor for its shape alone."""

REDUCING = frozenset(
    {"sum", "mean", "amax", "amin", "prod", "argmax", "argmin", "max", "min", "var", "std", "var_mean", "std_mean"}
    | {"all", "any", "logsumexp", "linalg_vector_norm", "count_nonzero", "median"}
)
"""Operators that reduce over every dimension where none is named; `max` and `min` of two tensors are renamed first."""

SYNONYMS = {
    "relu": "clamp",
    "relu6": "clamp",
    "hardtanh": "clamp",
    "clamp_min": "clamp",
    "clamp_max": "clamp",
    "clip": "clamp",
    "mm": "matmul",
    "norm": "linalg_vector_norm",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "subtract": "sub",
    "logical_not": "bitwise_not",
    "huber_loss": "smooth_l1_loss",
    "absolute": "abs",
    "_unsafe_view": "view",
    "reshape": "view",
    "_convolution": "convolution",
    "log_sigmoid_forward": "log_sigmoid",
}

TAKING_NUMBERS = {
    "add": ("add", "add"),
    "mul": ("mul", "mul"),
    "sub": ("rsub", "sub"),
    "div": ("number_over", "div"),
    "maximum": ("clamp_min", "clamp_min"),
    "minimum": ("clamp_max", "clamp_max"),
    "gt": ("lt", "gt"),
    "ge": ("le", "ge"),
    "lt": ("gt", "lt"),
    "le": ("ge", "le"),
}
"""What operators of two tensors are where the first, or the second, is one number everywhere."""

LIFTED = frozenset(
    {"add", "sub", "rsub", "mul", "div", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "pow", "abs", "sin", "cos"}
    | {"tanh", "sigmoid", "erf", "relu", "relu6", "clamp", "clamp_min", "clamp_max", "hardtanh", "elu"}
    | {"gelu", "softplus", "hardswish", "log_sigmoid_forward", "expm1", "log1p"}
    | {"gt", "ge", "lt", "le", "where", "masked_fill", "threshold", "maximum", "minimum", "lerp"}
    | {"cumsum", "cumprod", "flip", "number_over", "square", "sign"}
)
"""Operators of elements, or along named dimensions: a view's elements, or dimensions that it leaves, are its base's."""

NOT_BROADCASTING = frozenset(
    {"matmul", "mm", "bmm", "mv", "dot", "convolution", "cat", "stack", "gather", "scatter", "index", "embedding"}
    | {"native_layer_norm", "native_group_norm", "nll_loss_forward", "nll_loss2d_forward", "_fused_rms_norm"}
)
"""Operators whose arguments may have shapes that would broadcast to the result's by chance."""

BOUNDS = {
    "relu": ("lower",),
    "relu6": ("lower", "upper"),
    "hardtanh": ("lower", "upper"),
    "clamp_min": ("lower",),
    "clamp_max": ("upper",),
}
"""Which sides these clamp."""

DIMENSIONS = frozenset({"dim", "dims", "dim0", "dim1", "dim2", "axis"})
"""Arguments that name dimensions."""

NAMED_CHOICES = frozenset({"reduction", "ord", "p", "approximate", "mode", "rounding_mode", "padding_mode"})
"""Arguments that choose the operation although they may be numbers: the kind of a loss's reduction or of a norm."""

IGNORED = frozenset(
    {"keepdim", "pin_memory", "non_blocking", "implicit", "half_to_float", "allow_tf32", "benchmark", "deterministic"}
    | {"cudnn_enabled", "ceil_mode", "copy", "inplace", "stable", "unbiased", "count_include_pad"}
)
"""Flags that change a shape, an edge or a constant factor, and no more."""


def find_decomposition(operator: Any) -> Callable[..., Any] | None:
    """PyTorch's decomposition of an operator that is to be traced as one; of an in-place form, one that writes."""
    if name_operator(operator._schema.name) not in DECOMPOSED:
        return None
    if operator in decomposition_table:
        return decomposition_table[operator]
    packet: Any = getattr(torch.ops.aten, name_operator(operator._schema.name), None)
    overload: Any = getattr(packet, operator._overloadname, None)
    functional = decomposition_table.get(overload)
    if functional is None:
        return None
    return lambda target, *args, **kwargs: target.copy_(functional(target, *args, **kwargs))


def name_operator(name: str) -> str:
    """The operator without namespace and without the mark of the in-place forms."""
    short = name.rpartition("::")[2]
    if short.endswith("_") and not short.endswith("__"):
        short = short[:-1]
    if short.endswith("_like") and short.removesuffix("_like") in CREATING:
        return short.removesuffix("_like")
    if short.startswith("new_") and short.removeprefix("new_") in CREATING:
        return short.removeprefix("new_")
    return short
