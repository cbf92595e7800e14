"""The operations of the task grammar: each is one record that knows its PyTorch, its Triton and its English.

Templates name their input `{x}`, their numbers `{a}` and `{b}`, and their operand `{v}` (a parameter vector or a
further input). Numbers are chosen so that leaving a step out shows: clamp bounds lie inside the values' range,
scales are not 1. A chain never repeats a group of operations, and a step that only acts on one sign (ReLU, clamp)
never follows one whose result has a single sign, where it would be invisible.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from attrs import frozen

from .draw import Draw


class Operand(StrEnum):
    """The kind of an operation's further input."""

    NONE = "none"
    VECTOR = "vector"
    """A parameter with one value a column."""
    TENSOR = "tensor"
    """A further input, shaped as the result."""


@frozen(kw_only=True)
class Operation:
    """One step: `torch` and `triton` (equivalent spellings) are expressions, `text` its description."""

    name: str
    torch: str
    triton: tuple[str, ...]
    text: str
    numbers: tuple[tuple[str, tuple[float, ...]], ...] = ()
    """The name of each number, and the values that it is drawn from."""
    operand: Operand = Operand.NONE
    group: str = ""
    result: str = "mixed"
    """Signs of the result: mixed, one (a single sign), or same as the input's."""

    @property
    def needs_mixed_signs(self) -> bool:
        """Return whether the operation does nothing, or the same everywhere, on values of a single sign."""
        return self.group in ("rectify", "clamp") or self.name == "abs"


@frozen(kw_only=True)
class Applied:
    """An operation with its numbers chosen."""

    operation: Operation
    values: tuple[float, ...] = ()
    as_argument: bool = False
    """Whether the first number is an argument of `Model` rather than a literal."""

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.operation.name, *self.values, self.as_argument)

    @property
    def argument(self) -> str:
        """Return the name of the number that is an argument of `Model`, or nothing."""
        return self.operation.numbers[0][0] if self.as_argument else ""

    def _texts(self, prefix: str) -> dict[str, str]:
        texts = dict(zip("ab", map(repr, self.values), strict=False))
        if self.as_argument:
            texts["a"] = prefix + self.argument
        return texts

    def torch(self, x: str, operand: str = "") -> str:
        """Return the PyTorch expression."""
        return self.operation.torch.format(x=x, v=operand, **self._texts("self."))

    def triton(self, x: str, draw: Draw, operand: str = "", numbers: Sequence[str] = ()) -> str:
        """Return the Triton expression, in one of its spellings; `numbers` are names in place of the values."""
        spellings = self.operation.triton
        spelling = spellings[0] if len(spellings) == 1 else draw.choice(spellings)
        return spelling.format(x=x, v=operand, **(self._texts("") | dict(zip("ab", numbers, strict=False))))

    def text(self, operand: str = "", x: str = "") -> str:
        """Return the description."""
        return self.operation.text.format(x=x, v=operand, **dict(zip("ab", map(repr, self.values), strict=False)))


_SLOPE = (("slope", (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)),)
_BOUNDS = (("low", (-0.6, -0.5, -0.4, -0.3, -0.25, -0.2)), ("high", (0.2, 0.25, 0.3, 0.4, 0.5, 0.6)))
_ALPHA = (("alpha", (0.5, 0.75, 0.8, 1.0, 1.25, 1.5)),)
_SCALES = (0.5, 0.6, 0.7, 0.75, 0.8, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
_SHIFTS = (-0.75, -0.5, -0.25, -0.2, 0.1, 0.25, 0.3, 0.5, 0.75, 1.0)
_CLAMP = ("tl.minimum(tl.maximum({x}, {a}), {b})", "tl.clamp({x}, {a}, {b})")
LOG_SIGMOID = "tl.minimum({x}, 0.0) - tl.log(1.0 + tl.exp(-tl.abs({x})))"
HARDSIGMOID = "tl.minimum(tl.maximum({x} / 6.0 + 0.5, 0.0), 1.0)"
SOFTPLUS = "tl.maximum({x}, 0.0) + tl.log(1.0 + tl.exp(-tl.abs({x})))"
Numbers = tuple[tuple[str, tuple[float, ...]], ...]


def make_operation(
    name: str,
    torch: str,
    text: str,
    *triton: str,
    numbers: Numbers = (),
    operand: Operand = Operand.NONE,
    group: str = "",
    result: str = "mixed",
) -> Operation:
    """Make an operation of its PyTorch, its English and its Triton, which is the PyTorch where none is given.

    "F" and "torch" are the functions of these modules that are called like the operation, of the value and its numbers.
    """
    if torch in ("F", "torch"):
        given = ", ".join(("{x}", "{a}", "{b}")[: 1 + len(numbers)])
        torch = f"{torch}.{name}({given})"
    return Operation(
        name=name,
        torch=torch,
        triton=triton or (torch,),
        text=text,
        numbers=numbers,
        operand=operand,
        group=group,
        result=result,
    )


_GELU_TANH = "{x} * tl.sigmoid(1.59576912 * ({x} + 0.044715 * {x} * {x} * {x}))"
_HARDSWISH = "{x} * tl.minimum(tl.maximum({x} + 3.0, 0.0), 6.0) / 6.0"
_RECTIFIED = ("tl.maximum({x}, 0.0)", "tl.where({x} > 0, {x}, 0.0)")
_ELU = "tl.where({x} > 0, {x}, {a} * (tl.exp({x}) - 1.0))"
_LEAKY = "tl.where({x} > 0, {x}, {a} * {x})"

RELU = make_operation("relu", "torch", "ReLU", *_RECTIFIED, group="rectify", result="one")
ACTIVATIONS: tuple[Operation, ...] = (
    RELU,
    make_operation("leaky_relu", "F", "leaky ReLU with slope {a}", _LEAKY, numbers=_SLOPE, group="rectify"),
    make_operation("gelu", "F", "GELU", "0.5 * {x} * (1.0 + tl.erf({x} * 0.70710678))", group="gelu", result="one"),
    make_operation(
        "gelu_tanh", 'F.gelu({x}, approximate="tanh")', "GELU (tanh)", _GELU_TANH, group="gelu", result="one"
    ),
    make_operation(
        "sigmoid", "torch", "sigmoid", "tl.sigmoid({x})", "1.0 / (1.0 + tl.exp(-{x}))", group="squash", result="one"
    ),
    make_operation("tanh", "torch", "tanh", "2.0 * tl.sigmoid(2.0 * {x}) - 1.0", group="squash", result="same"),
    make_operation("silu", "F", "SiLU", "{x} * tl.sigmoid({x})", "{x} / (1.0 + tl.exp(-{x}))", result="one"),
    make_operation(
        "softplus", "F", "softplus", "tl.where({x} > 20.0, {x}, tl.log(1.0 + tl.exp({x})))", SOFTPLUS, result="one"
    ),
    make_operation("elu", "F", "ELU with alpha {a}", _ELU, numbers=_ALPHA, group="rectify"),
    make_operation("hardtanh", "F", "hardtanh to [{a}, {b}]", *_CLAMP, numbers=_BOUNDS, group="clamp"),
    make_operation("softsign", "F", "softsign", "{x} / (1.0 + tl.abs({x}))", group="squash", result="same"),
    make_operation("square", "{x} * {x}", "square", group="even", result="one"),
    make_operation("abs", "torch", "absolute value", "tl.abs({x})", group="even", result="one"),
    make_operation("hardswish", "F", "hardswish", _HARDSWISH, result="one"),
)

CELU = make_operation(
    "celu",
    "F",
    "CELU with alpha {a}",
    "tl.where({x} > 0, {x}, {a} * (tl.exp({x} / {a}) - 1.0))",
    numbers=(("alpha", (0.5, 0.75, 1.25, 1.5, 2.0)),),
)
CLAMP = make_operation("clamp", "torch", "clamp to [{a}, {b}]", *_CLAMP, numbers=_BOUNDS, group="clamp")
SCALE = make_operation("scale", "{x} * {a}", "multiply by {a}", numbers=(("scale", _SCALES),), result="same")
SHIFT = make_operation("shift", "{x} + {a}", "add {a}", numbers=(("shift", _SHIFTS),), result="same")
BIAS = make_operation("bias", "{x} + {v}", "add the bias vector", operand=Operand.VECTOR)
GAIN = make_operation("gain", "{x} * {v}", "multiply by the gain vector", operand=Operand.VECTOR)
RESIDUAL = make_operation("residual", "{x} + {v}", "add the residual {v}", operand=Operand.TENSOR, group="tensor")
SUBTRACT = make_operation("subtract", "{x} - {v}", "subtract {v}", operand=Operand.TENSOR, group="tensor")
GATE = make_operation("gate", "{x} * {v}", "multiply by {v}", operand=Operand.TENSOR, group="tensor")

_TWO_NUMBERS = (("scale", _SCALES), ("shift", _SHIFTS))
UNARY: tuple[Operation, ...] = (
    *ACTIVATIONS,
    CLAMP,
    make_operation("exp", "torch", "exponential", "tl.exp({x})"),
    make_operation("sin", "torch", "sine", "tl.sin({x})"),
    make_operation("cos", "torch", "cosine", "tl.cos({x})"),
    make_operation("logsigmoid", "F", "log-sigmoid", LOG_SIGMOID),
    make_operation("affine", "{x} * {a} + {b}", "multiply by {a} and add {b}", numbers=_TWO_NUMBERS),
)

_BOTH = (("alpha", _SCALES), ("beta", _SCALES))
WEIGHT = (("weight", (0.1, 0.2, 0.25, 0.3, 0.4, 0.6, 0.7, 0.75, 0.9)),)
_LERP = ("torch.lerp({x}, {v}, {a})", "linear interpolation from {x} to {v} by {a}", "{x} + {a} * ({v} - {x})")
_SQUARED_DIFFERENCE = ("({x} - {v}) ** 2", "squared difference of {x} and {v}", "({x} - {v}) * ({x} - {v})")
BINARY: tuple[Operation, ...] = (
    make_operation("add", "{x} + {v}", "sum of {x} and {v}"),
    make_operation("sub", "{x} - {v}", "difference of {x} and {v}"),
    make_operation("mul", "{x} * {v}", "product of {x} and {v}"),
    make_operation("maximum", "torch.maximum({x}, {v})", "maximum of {x} and {v}", "tl.maximum({x}, {v})"),
    make_operation("minimum", "torch.minimum({x}, {v})", "minimum of {x} and {v}", "tl.minimum({x}, {v})"),
    make_operation("axpby", "{a} * {x} + {b} * {v}", "weighted sum {a} * {x} + {b} * {v}", numbers=_BOTH),
    make_operation("add_scaled", "{x} + {a} * {v}", "{x} plus {a} times {v}", numbers=_BOTH[:1]),
    make_operation("mul_add", "{x} * {v} + {a}", "product of {x} and {v} plus {a}", numbers=_TWO_NUMBERS[1:]),
    make_operation("squared_difference", *_SQUARED_DIFFERENCE),
    make_operation("relu_add", "torch.relu({x} + {v})", "ReLU of {x} plus {v}", "tl.maximum({x} + {v}, 0.0)"),
    make_operation("glu", "{x} * torch.sigmoid({v})", "{x} times sigmoid of {v}", "{x} * tl.sigmoid({v})"),
    make_operation("swiglu", "F.silu({x}) * {v}", "SiLU of {x} times {v}", "{x} * tl.sigmoid({x}) * {v}"),
    make_operation("lerp", *_LERP, numbers=WEIGHT),
)

MATRIX_STEPS = (BIAS, GAIN, RESIDUAL, SUBTRACT, GATE)


def apply(operation: Operation, draw: Draw, argument_share: float = 0.0) -> Applied:
    """Draw the numbers of an operation, the first an argument of `Model` with probability `argument_share`."""
    values = tuple(draw.choice(values) for _, values in operation.numbers)
    as_argument = bool(values) and argument_share > 0 and draw.chance(argument_share)
    return Applied(operation=operation, values=values, as_argument=as_argument)


def draw_chain(draw: Draw, operands: tuple[Operation, ...], order: int) -> tuple[Applied, ...]:
    """Draw two to five steps: half pointwise functions, half `operands`, scale, shift and clamp.

    `order` is the power of the inputs' scale that the producer's result has. Inputs may be faint, and functions that
    subtract nearly equal numbers near zero (`_CANCELLING`) lose float32's digits on products of faint numbers.
    """
    length = draw.choice(_LENGTHS)
    plain = (*operands, SCALE, SHIFT, CLAMP)
    chain: list[Applied] = []
    used: set[str] = set()
    mixed, has_argument = True, False
    while len(chain) < length:
        operation = draw.choice(ACTIVATIONS if draw.chance(0.5) else plain)
        group = operation.group or operation.name
        if group in used or (operation.needs_mixed_signs and not mixed):
            continue
        if operation.name in _CANCELLING and order > 1:
            continue
        used.add(group)
        applied = apply(operation, draw, 0.0 if has_argument else _ARGUMENT_SHARE)
        has_argument = has_argument or applied.as_argument
        chain.append(applied)
        if operation.result != "same":
            mixed = operation.result == "mixed"
        order = _order_after(operation.name, order)
    return tuple(chain)


_ARGUMENT_SHARE = 0.15
_LENGTHS = (2,) * 10 + (3,) * 7 + (4,) * 2 + (5,)
_CANCELLING = frozenset({"elu", "tanh"})


def _order_after(name: str, order: int) -> int:
    match name:
        case "square":
            return 2 * order
        case "gate":
            return order + 1
        case "residual" | "subtract":
            return min(order, 1)
        case "bias" | "shift" | "sigmoid" | "softplus":
            return 0
        case _:
            return order


def is_bounded(chain: tuple[Applied, ...]) -> bool:
    """Return whether a chain's result has a bound, which the extreme of many values is everywhere."""
    return any(applied.operation.result == "one" or applied.operation.group in _BOUNDED for applied in chain)


_BOUNDED = ("rectify", "clamp", "squash")
