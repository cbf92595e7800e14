"""The operators that eager PyTorch would run for a reference: traced, each with what it moves and computes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...core.task import Profile, Task
from ...stages.operator_traits import PRODUCT_WORDS
from ...stages.roofline import EagerOperator
from .reference import call_model, dtype_name, fake_reference


def _count_matmul_flops(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    """Return the operations of a matrix product, convolution or attention; 0 for every other operator."""
    if not any(word in str(func) for word in PRODUCT_WORDS):
        return 0
    from torch.utils.flop_counter import flop_registry  # with it comes Triton, which takes as long as a run

    count = flop_registry.get(func._overloadpacket)
    return 0 if count is None else int(count(*args, **kwargs, out_val=result))


def _find_axes(func: Any, args: Any, kwargs: Any, result: torch.Tensor) -> tuple[int, ...]:
    """Return the axes that an operator works along, as it was given them; all where it was given none and left none."""
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}.get("dim")
    if isinstance(given, int):
        return (given,)
    if given:
        return tuple(given)
    first = args[0] if args else None
    return tuple(range(first.ndim)) if isinstance(first, torch.Tensor) and first.ndim and not result.ndim else ()


def _count_along(func: Any, args: Any, axes: tuple[int, ...], num_flops: int, result: torch.Tensor) -> int:
    """Return how many elements of its first tensor, along its axes or in a product's sum, make one of the result's.

    A transposed convolution has all taps in that sum, those between strides and beyond the edges too.
    """
    if func._overloadpacket is torch.ops.aten.convolution:
        return max(1, int(args[1].numel() // max(1, result.shape[1])))
    if num_flops:
        return max(1, num_flops // (2 * max(1, result.numel())))
    first = args[0] if args else None
    return math.prod(first.shape[axis] for axis in axes) if isinstance(first, torch.Tensor) and first.ndim else 1


class _OperatorTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Collects the operators that would each be a kernel: those that return something other than a view."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[EagerOperator] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        returns_view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        if returns_view or not outputs or func._schema.name.startswith(("aten::empty", "aten::detach", "prim::")):
            return result
        tensors = [*(t for t in tree_leaves((args, kwargs or {})) if isinstance(t, torch.Tensor)), *outputs]
        num_flops = _count_matmul_flops(func, args, kwargs or {}, result)
        axes = _find_axes(func, args, kwargs or {}, outputs[0])
        self.operators.append(
            EagerOperator(
                name=str(func),
                num_bytes=sum(t.numel() * t.element_size() for t in tensors),
                most_elements=max(t.numel() for t in tensors),
                matmul_flops=num_flops,
                dtype=dtype_name(outputs[0]),
                axes=axes,
                is_pointwise=torch.Tag.pointwise in func.tags,
                num_along=_count_along(func, args, axes, num_flops, outputs[0]),
            )
        )
        return result


def trace_operators(task: Task) -> tuple[EagerOperator, ...]:
    """Return the operators that eager PyTorch would run at the declared sizes, with bytes and matrix operations."""
    return trace_declared(task)[0]


def trace_declared(task: Task) -> tuple[tuple[EagerOperator, ...], float]:
    """Return the operators at the declared sizes, and the bytes of inputs, parameters and results."""
    with fake_reference(task, Profile.DECLARED, task.dtypes[0]) as (model, inputs):
        trace = _OperatorTrace()
        with trace:
            outputs = call_model(task, model, inputs, is_last=True)
        tensors = [*inputs, *model.state_dict().values(), *outputs]
        num_bytes = sum(t.nbytes for t in tensors if isinstance(t, torch.Tensor))
    return tuple(trace.operators), float(num_bytes)
