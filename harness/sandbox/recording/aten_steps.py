"""PyTorch operators as steps of a plan: written down while recording, computed while replaying.

Only at purity "lenient" does a plan with such steps count. What can be a step is a closed set: functional ATen
operators that PyTorch tags as core or pointwise, or that are listed here; none that draws random numbers, whose
result's size depends on values, or (two apart) that has a text argument. An operator in place (`add_`) is written down
as the functional one with its target as the output. Others are named in the plan's `arithmetic` without a step, and
such a plan cannot be run.

The replaying process takes a plan from the judge, who had it from an untrusted process: it checks the set once more, so
that a plan can name no operator that does anything but compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ....core.plan import ArgumentKind, Operand, Operator, View, plain_value
from .refusal import Refusal

_PLACEMENT = ("device", "layout", "pin_memory", "memory_format", "non_blocking")
"""Keywords that say where a result lies: the recorded view does."""
_ALSO = {
    "_addmm_activation", "_log_softmax", "_softmax", "_unsafe_index", "addbmm", "addcdiv", "addcmul", "addmm",
    "addmv", "addr", "all", "amax", "amin", "aminmax", "any", "arange", "argmax", "argmin", "baddbmm", "bmm", "cat",
    "constant_pad_nd", "convolution", "count_nonzero", "cross", "cummax", "cummin", "cumprod", "cumsum", "dot",
    "eye", "flip", "gather", "glu", "index", "index_select", "kthvalue", "lerp", "linalg_cross",
    "linalg_vector_norm", "linspace", "logcumsumexp", "logsumexp", "masked_fill", "max", "mean", "median", "min",
    "mm", "mse_loss", "mv", "native_group_norm", "native_layer_norm", "nll_loss_forward", "norm", "prod", "renorm",
    "roll", "scatter", "scatter_add", "smooth_l1_loss", "softplus", "sort", "stack", "std", "std_mean", "sum",
    "topk", "trace", "tril", "triu", "var", "var_mean", "vdot",
}  # fmt: skip
_REFUSED_TAGS = (
    torch.Tag.nondeterministic_seeded,
    torch.Tag.dynamic_output_shape,
    torch.Tag.data_dependent_output,
)


class Inexpressible(Exception):
    """The call is none that a plan can hold."""


def is_allowed(function: Any) -> bool:
    """Return whether an operator may be a step: ATen's, functional, deterministic, and of the closed set."""
    schema = function._schema
    namespace, _, name = schema.name.partition("::")
    if namespace != "aten" or schema.is_mutable or any(tag in function.tags for tag in _REFUSED_TAGS):
        return False
    if any(result.alias_info is not None for result in schema.returns):
        return False
    if any(str(argument.type).startswith(("str", "Optional[str")) for argument in schema.arguments):
        # `rounding_mode` and `reduction`-like flags are text; nothing else that computes takes any
        return name in ("div", "gelu")
    return torch.Tag.core in function.tags or torch.Tag.pointwise in function.tags or name in _ALSO


def find_operator(name: str) -> Any:
    """Return the operator of the closed set with this name, such as "add.Tensor"; raises LookupError."""
    packet, _, overload = name.partition(".")
    function = getattr(getattr(torch.ops.aten, packet, None), overload, None)
    if not isinstance(function, torch._ops.OpOverload) or not is_allowed(function):
        raise LookupError(f"no operator that a plan may name: {name}")
    return function


def converts_by_computing(source: torch.dtype, target: torch.dtype) -> bool:
    """Return whether a conversion compares with zero, or cuts digits off: more than another format for a number.

    Kernels may write truth values as bytes.
    """
    if target == torch.bool:
        return source not in (torch.bool, torch.int8, torch.uint8)
    return source.is_floating_point and not (target.is_floating_point or target.is_complex)


def describe_operator(
    function: Any, args: Any, kwargs: Any, outputs: list[torch.Tensor], view: Callable[[torch.Tensor], View]
) -> Operator | None:
    """Return the step for one call with its results, or None where there is none."""
    functional = _functional_form(function)
    if functional is None or not is_allowed(functional) or not outputs:
        return None
    try:
        operands = [_describe(value, "", view) for value in args]
        operands += [_describe(value, name, view) for name, value in kwargs.items() if name not in _PLACEMENT]
    except (Inexpressible, Refusal):
        return None
    name = functional._schema.name.partition("::")[2]
    return Operator(
        name=f"{name}.{functional._overloadname}",
        operands=tuple(operands),
        outputs=tuple(view(tensor) for tensor in outputs),
    )


def _functional_form(function: Any) -> Any:
    """Return the operator itself where it is functional, or what it does in place; None for others that mutate."""
    schema = function._schema
    if not schema.is_mutable:
        return function
    name = schema.name.partition("::")[2]
    if not name.endswith("_") or name.endswith("__"):
        return None
    return getattr(getattr(torch.ops.aten, name[:-1], None), function._overloadname, None)


def _describe(value: Any, keyword: str, view: Callable[[torch.Tensor], View]) -> Operand:
    match value:
        case None:
            return Operand(kind=ArgumentKind.NONE, keyword=keyword)
        case torch.Tensor():
            return Operand(kind=ArgumentKind.VIEW, keyword=keyword, view=view(value))
        case bool():
            return Operand(kind=ArgumentKind.BOOL, keyword=keyword, number=int(value))
        case int():
            return Operand(kind=ArgumentKind.INT, keyword=keyword, number=value)
        case float():
            if not math.isfinite(value):
                return Operand(kind=ArgumentKind.FLOAT, keyword=keyword, text=repr(value))
            return Operand(kind=ArgumentKind.FLOAT, keyword=keyword, number=value)
        case str():
            return Operand(kind=ArgumentKind.STR, keyword=keyword, text=value)
        case torch.dtype():
            return Operand(kind=ArgumentKind.DTYPE, keyword=keyword, text=str(value).removeprefix("torch."))
        case list() | tuple():
            items = tuple(_describe(item, "", view) for item in value)
            if any(item.kind is ArgumentKind.LIST for item in items):
                raise Inexpressible
            return Operand(kind=ArgumentKind.LIST, keyword=keyword, items=items)
    raise Inexpressible


def run_operator(step: Operator, view: Callable[[View], torch.Tensor]) -> None:
    """Compute one step on CPU tensors and store its results where the plan says."""
    function = find_operator(step.name)
    args = [_value(operand, view) for operand in step.operands if not operand.keyword]
    kwargs = {operand.keyword: _value(operand, view) for operand in step.operands if operand.keyword}
    with torch.no_grad():
        result = function(*args, **kwargs)
    results = [tensor for tensor in tensors_in(result) if tensor.numel()]
    targets = [target for target in step.outputs if 0 not in target.shape]
    for tensor, target in zip(results, targets, strict=True):
        view(target).copy_(tensor)


def _value(operand: Operand, view: Callable[[View], torch.Tensor]) -> Any:
    match operand.kind:
        case ArgumentKind.VIEW:
            assert operand.view is not None
            return view(operand.view)
        case ArgumentKind.DTYPE:
            return getattr(torch, operand.text or "")
        case ArgumentKind.LIST:
            return [_value(item, view) for item in operand.items]
    return plain_value(operand)


def tensors_in(value: Any) -> Iterable[torch.Tensor]:
    """Yield the tensors in a value, also in lists, tuples and dicts inside it."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(item)
