"""The operators that eager PyTorch would run for a reference, and what they say of the inputs that may be asked for.

Names stand for habits: which operators PyTorch defines to be right whatever the magnitudes, and which activations
right kernels compute by way of exponentials, exact within the range of what they add up and not near their zeros. All
others are held to PyTorch's own precision, so that an operator that nobody listed is asked for more, not less. PyTorch
itself says which work on single elements.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...core.task import Profile, Task
from ...stages.roofline import EagerOperator
from ..errors import TaskError
from .reference import RAISED, dtype_name, fake_reference, one_line

PRODUCT_WORDS = ("mm", "conv", "attention", "linear", "matmul", "dot", "mv", "lstm", "gru", "rnn", "cdist", "einsum")
_STABLE = frozenset({"_softmax", "_log_softmax", "logsumexp"})
_EXPONENTIAL = frozenset(
    {"tanh", "sigmoid", "silu", "gelu", "elu", "softplus", "mish", "log_sigmoid_forward", *_STABLE}
)
_SUMS_OF_EXPONENTIALS = frozenset(
    {"logaddexp", "logaddexp2", "logcumsumexp", "celu", "binary_cross_entropy_with_logits"}
)
_UNORDERED = frozenset({"topk", "sort", "argsort", "kthvalue", "median", "nanmedian", "mode"})
_CHOOSING = frozenset({"amax", "amin", "max", "min", "cummax", "cummin", "argmax", "argmin", "sort", "topk"})
_ADDING = frozenset({"sum", "mean", "cumsum"})
_RUNNING_PRODUCTS = frozenset({"prod", "cumprod"})
_ROUNDING = frozenset({"round", "floor", "ceil", "trunc", "_to_copy", "bucketize"})


class OperatorTraits:
    """Answers for one reference, by its operators at the declared sizes."""

    def __init__(self, operators: tuple[EagerOperator, ...]) -> None:
        self._operators = operators
        self._names = [operator.name.split(".")[1] for operator in operators]

    @property
    def _first(self) -> str:
        return self._names[0] if self._names else ""

    @property
    def subtracts_maximum(self) -> bool:
        """Whether the reference begins with an operator that PyTorch defines to be right whatever the magnitudes."""
        return self._first in _STABLE

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which the first operator that works along any does; empty where there is none."""
        return next((operator.axes for operator in self._operators if operator.axes), ())

    @property
    def orders_inputs(self) -> bool:
        """Whether the reference begins with an operator that compares its inputs and computes nothing of them."""
        return self._first in ("argmax", "argmin")

    @property
    def is_unordered(self) -> bool:
        """Whether an operator may choose among equal values."""
        return not _UNORDERED.isdisjoint(self._names)

    @property
    def rounds(self) -> bool:
        """Whether an operator may make integers of floats."""
        return not _ROUNDING.isdisjoint(self._names)

    @property
    def is_exact_near_zero(self) -> bool:
        """Whether small elements are held to their own precision: no operator is right within a range alone."""
        return (_EXPONENTIAL | _SUMS_OF_EXPONENTIALS).isdisjoint(self._names)

    @property
    def num_products(self) -> int:
        """How many operators multiply matrices."""
        return sum(map(is_product, self._operators))

    @property
    def begins_with_product(self) -> bool:
        """Whether the first operator multiplies matrices: inputs and parameters, and not what was made of them."""
        return bool(self._operators) and is_product(self._operators[0])

    @property
    def multiplies_many(self) -> bool:
        """Whether an operator multiplies many elements, whose order decides what overflows on the way."""
        return not _RUNNING_PRODUCTS.isdisjoint(self._names)

    @property
    def num_operators(self) -> int:
        """How many operators there are, where each is exact for single elements; else 0.

        Not so products of matrices, nor of many elements.
        """
        has_products = self.num_products or self.multiplies_many
        return len(self._operators) if self.is_exact_near_zero and not has_products else 0

    @cached_property
    def is_pointwise(self) -> bool:
        """Whether each operator works on single elements or chooses some: none squares what it gives the root of."""
        return all(operator.name.split(".")[1] in _CHOOSING or is_pointwise(operator) for operator in self._operators)

    @cached_property
    def squares_nothing(self) -> bool:
        """Whether each operator works on single elements, chooses some, or adds: none squares on the way."""
        return all(
            operator.name.split(".")[1] in _CHOOSING | _ADDING
            or "pool" in operator.name.split(".")[1]
            or is_pointwise(operator)
            for operator in self._operators
        )


def is_product(operator: EagerOperator) -> bool:
    """Return whether an operator may be computed by matrix units."""
    return bool(operator.matmul_flops) or any(part in operator.name.split(".")[1] for part in PRODUCT_WORDS)


def is_pointwise(operator: EagerOperator) -> bool:
    """Return whether each element that an operator returns follows from single elements, as PyTorch's tags say."""
    space, name, overload = operator.name.split(".")
    found = getattr(getattr(getattr(torch.ops, space), name), overload)
    return torch.Tag.pointwise in found.tags


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
            )
        )
        return result


def trace_operators(task: Task) -> tuple[EagerOperator, ...]:
    """Return the operators that eager PyTorch would run at the declared sizes, with bytes and matrix operations."""
    with fake_reference(task, Profile.DECLARED, task.dtypes[0]) as (model, inputs):
        trace = _OperatorTrace()
        with torch.no_grad(), trace:
            try:
                model(*inputs)
            except RAISED as error:
                raise TaskError(f"{task.task_id}: running the reference failed: {one_line(error)}") from error
    return tuple(trace.operators)
