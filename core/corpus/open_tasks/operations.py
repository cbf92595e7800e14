"""Pointwise operations that older chains lack; those of `MARKS` make a chain one that no older family can draw."""

from __future__ import annotations

from ..builder.operations import ACTIVATIONS, GATE, RESIDUAL, SUBTRACT, Operand, Operation, make_operation
from ..composition.chains import MISH, SELF_GATE

_WEIGHTS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.6, 0.7, 0.75, 0.9)
_SMOOTHING = (0.25, 0.5, 1.0, 2.0)


def _on_tensor(name: str, torch: str, text: str, triton: str, **more: object) -> Operation:
    return make_operation(name, torch, text, triton, operand=Operand.TENSOR, group="tensor", **more)


SINE = make_operation("sin", "torch.sin({x})", "sine", "tl.sin({x})", group="squash")
COSINE = make_operation("cos", "torch.cos({x})", "cosine", "tl.cos({x})", group="squash")
NEW_UNARY: tuple[Operation, ...] = (
    SINE,
    COSINE,
    make_operation("erf", "torch.erf({x})", "error function", "tl.erf({x})", group="squash", result="same"),
    make_operation(
        "smooth_abs",
        "torch.sqrt({x} * {x} + {a})",
        "square root of the square plus {a}",
        "tl.sqrt({x} * {x} + {a})",
        numbers=(("smoothing", _SMOOTHING),),
        group="even",
        result="one",
    ),
    make_operation(
        "signed_square", "{x} * torch.abs({x})", "multiply by its absolute value", "{x} * tl.abs({x})", group="even"
    ),
    make_operation(
        "bump",
        "{x} / (1.0 + {x} * {x})",
        "divide by one plus its square",
        "{x} / (1.0 + {x} * {x})",
        group="squash",
        result="same",
    ),
)
"""Functions of one value."""

FURTHER: tuple[Operation, ...] = (
    make_operation(
        "logsigmoid",
        "F.logsigmoid({x})",
        "log-sigmoid",
        "tl.minimum({x}, 0.0) - tl.log(1.0 + tl.exp(-tl.abs({x})))",
        result="one",
    ),
    make_operation(
        "hardsigmoid",
        "F.hardsigmoid({x})",
        "hardsigmoid",
        "tl.minimum(tl.maximum({x} / 6.0 + 0.5, 0.0), 1.0)",
        group="squash",
        result="one",
    ),
)
"""Those that others make with a number beside them, a softplus or a clamp, so that they alone make nothing new."""

NEW_BINARY: tuple[Operation, ...] = (
    _on_tensor("maximum", "torch.maximum({x}, {v})", "maximum with {v}", "tl.maximum({x}, {v})"),
    _on_tensor("minimum", "torch.minimum({x}, {v})", "minimum with {v}", "tl.minimum({x}, {v})"),
    _on_tensor(
        "lerp",
        "torch.lerp({x}, {v}, {a})",
        "interpolate towards {v} by {a}",
        "{x} + {a} * ({v} - {x})",
        numbers=(("weight", _WEIGHTS),),
    ),
    _on_tensor("glu", "{x} * torch.sigmoid({v})", "multiply by the sigmoid of {v}", "{x} * tl.sigmoid({v})"),
    _on_tensor("swiglu", "{x} * F.silu({v})", "multiply by SiLU of {v}", "{x} * ({v} * tl.sigmoid({v}))"),
    _on_tensor(
        "squared_difference",
        "({x} - {v}) ** 2",
        "squared difference from {v}",
        "({x} - {v}) * ({x} - {v})",
        result="one",
    ),
    _on_tensor("distance", "torch.abs({x} - {v})", "absolute difference from {v}", "tl.abs({x} - {v})", result="one"),
)
"""Functions of the running value and a further input of its shape."""

NEW = frozenset(operation.name for operation in (*NEW_UNARY, *NEW_BINARY))
MARKS = frozenset(operation.name for operation in (*NEW_UNARY, *NEW_BINARY[:3]))
"""Functions that no chain of an older family has, in one step or in several."""
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
RELATING: tuple[Operation, ...] = (SUBTRACT, SUBTRACT, RESIDUAL, GATE, GATE)
"""How a value and a statistic of it become one."""
