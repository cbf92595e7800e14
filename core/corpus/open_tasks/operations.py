"""Pointwise operations that no chain of a family with a teacher has, so that one of them makes a chain a new one.

They have no Triton, for nobody writes kernels of these tasks but the policy.
"""

from __future__ import annotations

from ..builder.operations import ACTIVATIONS, GATE, RESIDUAL, Operand, Operation, make_operation
from ..composition.chains import MISH, SELF_GATE

_WEIGHTS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.6, 0.7, 0.75, 0.9)
_SMOOTHING = (0.25, 0.5, 1.0, 2.0)


def _on_tensor(name: str, torch: str, text: str, **more: object) -> Operation:
    return make_operation(name, torch, text, operand=Operand.TENSOR, group="tensor", **more)


SINE = make_operation("sin", "torch.sin({x})", "sine", group="squash")
COSINE = make_operation("cos", "torch.cos({x})", "cosine", group="squash")
NEW_UNARY: tuple[Operation, ...] = (
    SINE,
    COSINE,
    make_operation("erf", "torch.erf({x})", "error function", group="squash", result="same"),
    make_operation(
        "smooth_abs",
        "torch.sqrt({x} * {x} + {a})",
        "square root of the square plus {a}",
        numbers=(("smoothing", _SMOOTHING),),
        group="even",
        result="one",
    ),
    make_operation("signed_square", "{x} * torch.abs({x})", "multiply by its absolute value", group="even"),
    make_operation("bump", "{x} / (1.0 + {x} * {x})", "divide by one plus its square", group="squash", result="same"),
)
"""Functions of one value."""

FURTHER: tuple[Operation, ...] = (
    make_operation("logsigmoid", "F.logsigmoid({x})", "log-sigmoid", result="one"),
    make_operation("hardsigmoid", "F.hardsigmoid({x})", "hardsigmoid", group="squash", result="one"),
)
"""Those that others make with a number beside them, a softplus or a clamp, so that they alone make nothing new."""

NEW_BINARY: tuple[Operation, ...] = (
    _on_tensor("maximum", "torch.maximum({x}, {v})", "maximum with {v}"),
    _on_tensor("minimum", "torch.minimum({x}, {v})", "minimum with {v}"),
    _on_tensor("lerp", "torch.lerp({x}, {v}, {a})", "interpolate towards {v} by {a}", numbers=(("weight", _WEIGHTS),)),
    _on_tensor("glu", "{x} * torch.sigmoid({v})", "multiply by the sigmoid of {v}"),
    _on_tensor("swiglu", "{x} * F.silu({v})", "multiply by SiLU of {v}"),
    _on_tensor("squared_difference", "({x} - {v}) ** 2", "squared difference from {v}", result="one"),
    _on_tensor("distance", "torch.abs({x} - {v})", "absolute difference from {v}", result="one"),
)
"""Functions of the running value and a further input of its shape."""

NEW = frozenset(operation.name for operation in (*NEW_UNARY, *NEW_BINARY))
_EVEN = frozenset({"square", "abs"})
"""Functions that a sum after them makes a norm or a loss of, which older families have."""
LEADING: tuple[Operation, ...] = (
    *(operation for operation in (*ACTIVATIONS, MISH, SELF_GATE) if operation.name not in _EVEN),
    *NEW_UNARY,
    *FURTHER,
)
"""Functions of an input that may come before a head."""
LEADING_BINARY: tuple[Operation, ...] = (RESIDUAL, *NEW_BINARY[:5])
"""Functions of two inputs that may come before any head."""
COMBINING: tuple[Operation, ...] = (RESIDUAL, RESIDUAL, RESIDUAL, GATE, *NEW_BINARY[:2])
"""How a value and an earlier one that it was computed from become one."""
