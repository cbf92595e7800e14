"""The operators that eager PyTorch would run for a reference: traced, each with what it moves and computes."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...core.task import Profile, Task
from ...stages.operator_traits import PRODUCT_WORDS
from ...stages.roofline import EagerOperator
from .reference import blaming, dtype_name, fake_reference


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
        self.operators.append(
            EagerOperator(
                name=str(func),
                num_bytes=sum(t.numel() * t.element_size() for t in tensors),
                matmul_flops=_count_matmul_flops(func, args, kwargs or {}, result),
                dtype=dtype_name(outputs[0]),
                axes=_find_axes(func, args, kwargs or {}, outputs[0]),
                is_pointwise=torch.Tag.pointwise in func.tags,
            )
        )
        return result


def trace_operators(task: Task) -> tuple[EagerOperator, ...]:
    """Return the operators that eager PyTorch would run at the declared sizes, with bytes and matrix operations."""
    with fake_reference(task, Profile.DECLARED, task.dtypes[0]) as (model, inputs):
        trace = _OperatorTrace()
        with blaming(task, "running the reference failed"), torch.no_grad(), trace:
            model(*inputs)
    return tuple(trace.operators)
