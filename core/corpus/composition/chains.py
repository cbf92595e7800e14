"""The steps that follow a head: which may be drawn, by what the tensor is like by then.

A step must show: no mean of what a norm has centred, no least of values that have a bound, no ReLU of one sign, no sum
over what a softmax has made one. So a chain carries what is known of its values, and each step says what it leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from ..builder.draw import Draw
from ..builder.operations import (
    ACTIVATIONS,
    BIAS,
    CELU,
    CLAMP,
    GAIN,
    GATE,
    RESIDUAL,
    SCALE,
    SHIFT,
    SUBTRACT,
    Applied,
    Operand,
    Operation,
    apply,
    make_operation,
)
from .heads import draw_pool_window
from .program import PROFILES, Program, shortest

MISH = make_operation(
    "mish",
    "F",
    "Mish",
    "{x} * (2.0 * tl.sigmoid(2.0 * tl.log(1.0 + tl.exp(-tl.abs({x}))) + 2.0 * tl.maximum({x}, 0.0)) - 1.0)",
    result="one",
)
RELU6 = make_operation("relu6", "F", "ReLU6", "tl.minimum(tl.maximum({x}, 0.0), 6.0)", group="clamp", result="one")
LEARNED_SCALE = make_operation("factor", "{x} * {v}", "multiply by {v}", result="same")
_DIVISOR = (("divisor", (1.5, 2.0, 2.5, 3.0, 4.0)),)
DIVIDE = make_operation("divide", "{x} / {a}", "divide by {a}", numbers=_DIVISOR, result="same")
_AMOUNTS = (("amount", (0.1, 0.2, 0.25, 0.3, 0.5, 0.75, 1.0)),)
MINUS = make_operation("minus", "{x} - {a}", "subtract {a}", numbers=_AMOUNTS, result="same")
_GATED = ("torch.sigmoid({x}) * {x}", "multiply by its sigmoid", "{x} * tl.sigmoid({x})")
SELF_GATE = make_operation("sigmoid_gate", *_GATED, result="one")
SOFT_CAP = make_operation(
    "softcap",
    "{a} * torch.tanh({x} / {a})",
    "soft cap at {a}",
    "{a} * (2.0 * tl.sigmoid(2.0 * {x} / {a}) - 1.0)",
    numbers=(("cap", (0.75, 1.5, 2.0, 2.5, 3.0, 5.0)),),
    group="squash",
    result="same",
)
GLU = make_operation(
    "glu",
    "{x} * torch.sigmoid({v})",
    "multiply by the sigmoid of {v}",
    "{x} * tl.sigmoid({v})",
    operand=Operand.TENSOR,
    group="tensor",
)
SUBTRAHEND = make_operation("subtrahend", "{x} - {v}", "subtract {v}", operand=Operand.VECTOR)
POINTWISE: tuple[Operation, ...] = (*ACTIVATIONS, MISH, RELU6, CELU, SELF_GATE, SOFT_CAP)
PLAIN = (SCALE, SHIFT, CLAMP, DIVIDE, SCALE, BIAS, BIAS, GAIN, SUBTRAHEND, RESIDUAL, SUBTRACT, GATE, LEARNED_SCALE)
_OF_THE_FIELD = (*PLAIN, LEARNED_SCALE, LEARNED_SCALE, GLU, GLU)
PAIRS: tuple[tuple[Operation, Operation], ...] = (
    *((LEARNED_SCALE, BIAS), (SCALE, BIAS), (GAIN, BIAS), (GAIN, SHIFT), (MINUS, DIVIDE), (MINUS, SCALE)),
    *((MINUS, DIVIDE), (LEARNED_SCALE, MINUS), (SHIFT, DIVIDE)),
    *((BIAS, SCALE), (BIAS, DIVIDE), (GATE, SHIFT), (RESIDUAL, SCALE), (SUBTRACT, DIVIDE), (DIVIDE, BIAS)),
)
"""Steps of arithmetic that follow one another in one expression."""
_CANCELLING = frozenset({"elu", "celu", "tanh", "selu", "mish", "softcap"})
"""Functions that lose digits on what is near zero."""
_FEW = 12
"""Elements of which a function with a bound may leave none as it was."""
_BOUNDING = ("rectify", "clamp", "squash")


@define
class Chain:
    """A program in the making, and what is known of its last result."""

    program: Program
    draw: Draw
    x: int
    axis: int
    """The dimension of channels or features, -1 where it is gone."""
    order: int = 1
    """The power of the inputs' scale that the values have."""
    is_image: bool = False
    is_mixed: bool = True
    is_bounded: bool = False
    is_centred: bool = False
    is_large: bool = False
    """Whether values are sums of many, or their logarithms, so that functions with a bound are constant."""
    soft: int = -1
    """The dimension that a softmax was over."""
    log_soft: int = -1
    """The dimension that a log-softmax was over: a log-sum-exp over it is nought but rounding errors."""
    has_input: bool = False
    used: set[str] = field(factory=set)
    num_kernels: int = 0
    num_steps: int = 0
    pointwise: tuple[tuple[Operation, ...], tuple[Operation, ...]] = (POINTWISE, _OF_THE_FIELD)
    """Functions of one value, and those with numbers, parameters or further inputs; as often one as the other."""
    pairs: tuple[tuple[Operation, Operation], ...] = PAIRS
    num_layers: int = 3
    """How often a norm or a pooling is tried, where a reduction is three times."""

    @property
    def rank(self) -> int:
        return len(self.program.shape(self.x))

    def extend(self, num_steps: int, most_kernels: int) -> None:
        """Add so many steps, at most `most_kernels` of them with a kernel of their own."""
        attempts = added = 0
        while self.num_steps < num_steps and attempts < 60:
            attempts += 1
            if self.num_kernels < most_kernels and self.draw.chance(0.45):
                layers = (self._normalize, self._pool) * self.num_layers
                added = self.draw.choice((self._reduce, self._reduce, self._reduce, self._softmax, *layers))()
            elif self.draw.chance(0.03):
                added = self._drop()
            elif self.pairs and self.draw.chance(0.08):
                added = sum([self.take(operation) for operation in self.draw.choice(self.pairs)])
            else:
                added = self.take(self.draw.choice(self.pointwise[0 if self.draw.chance(0.5) else 1]))
            self.num_steps += added

    def _drop(self) -> bool:
        if "dropout" in self.used:
            return False
        self.used.add("dropout")
        self.x = self.program.dropout(self.x, self.draw.choice((0.1, 0.2, 0.25, 0.5)))
        return True

    def take(self, operation: Operation) -> bool:
        """Add a pointwise function where it shows; returns whether it was added."""
        group = operation.group or operation.name
        if group in self.used or (operation.needs_mixed_signs and not self.is_mixed):
            return False
        if operation.name in _CANCELLING and self.order > 1:
            return False
        if self.is_large and operation.group in ("clamp", "squash"):
            return False
        if operation.group in ("clamp", "rectify") and shortest(self.program.shape(self.x)) < _FEW:
            return False
        if self.soft >= 0 and operation.group in ("clamp", "squash", "even", "gelu"):
            return False
        operand = self._find_operand(operation)
        if operand is None:
            return False
        self.used.add(group)
        other = -1
        if operand == "tensor":
            # inputs come first, so that no kernel waits for one
            other = self.program.input(self.program.shape(self.x), self.draw.choice(("r", "y", "other")))
            self.has_input = True
        applied = apply(operation, self.draw)
        if operation is SHIFT and self.pairs and applied.values[0] < 0:
            # programs say `x - 0.5`, and so do answers
            applied = Applied(operation=MINUS, values=(-applied.values[0],))
        self.x = self.program.point(self.x, applied, operand, axis=max(self.axis, 0), other=other)
        self._note(operation)
        return True

    def _find_operand(self, operation: Operation) -> str | None:
        """Return the kind of the operand, or None where there is none to be had."""
        if operation.operand is Operand.VECTOR:
            return "channel" if self.axis >= 0 else None
        if operation is LEARNED_SCALE:
            return "scalar"
        if operation.operand is Operand.TENSOR:
            return None if self.has_input or self.rank < 2 else "tensor"
        return ""

    def _note(self, operation: Operation) -> None:
        if operation.result != "same":
            self.is_mixed = operation.result == "mixed"
        self.is_bounded = self.is_bounded or operation.result == "one" or operation.group in _BOUNDING
        self.is_centred = self.is_centred and operation.name in ("scale", "divide", "gain", "factor", "residual")
        if operation.name == "square":
            self.order *= 2
        elif operation.name in ("gate", "glu", "swiglu"):
            self.order += 1
        elif operation.name in ("bias", "subtrahend", "shift", "minus", "sigmoid", "softplus"):
            self.order = 0

    def _candidates(self) -> list[int]:
        """Return the dimensions but the first that are longer than one in every profile."""
        shape = self.program.shape(self.x)
        return [at for at in range(1, self.rank) if shape[at].least > 1]

    def reduce_depth(self) -> bool:
        """Add a reduction over the depth of a volume, its largest or least where values have no bound."""
        return self.is_image and self.rank == 5 and 2 in self._candidates() and self._reduce([2])

    def _reduce(self, wanted: Sequence[int] = ()) -> bool:
        dims = self._candidates()
        if not dims:
            return False
        kinds = ["sum", "mean", "logsumexp"] + ([] if self.is_bounded else ["max", "min", "max"])
        if self.is_centred:
            kinds = [kind for kind in kinds if kind not in ("sum", "mean")]
        if self.soft >= 0:
            kinds = ["max", "sum", "mean"]
        if wanted:
            kinds = [kind for kind in kinds if kind in ("max", "min")] or kinds
        kind = self.draw.choice(kinds)
        sides = [dim for dim in dims if dim > 1] if not wanted else []
        chosen = list(wanted) or [self.draw.choice(dims)]
        if len(sides) > 1 and self.draw.chance(0.35):
            chosen = sides
        if not wanted and len(dims) > 2 and dims == list(range(1, self.rank)) and self.draw.chance(0.1):
            chosen = dims
        if chosen != list(range(chosen[0], chosen[0] + len(chosen))):
            return False
        if (self.soft in chosen and kind != "max") or (self.log_soft in chosen and kind == "logsumexp"):
            return False
        keeps = self.draw.chance(0.45)
        self.x = self.program.reduce(self.x, kind, chosen, keeps)
        self._forget(chosen, keeps)
        self.is_large = kind in ("sum", "logsumexp")
        self.is_mixed = self.is_mixed and kind in ("sum", "mean")
        self.is_bounded = self.is_bounded or kind in ("max", "min")
        self.is_centred = False
        self.soft = self.log_soft = -1
        if kind == "logsumexp":
            self.order, self.is_bounded = 0, False
        self.num_kernels += 1
        return True

    def _forget(self, dims: list[int], keeps: bool) -> None:
        if self.axis in dims:
            self.axis = -1
        elif not keeps and self.axis >= 0:
            self.axis -= sum(dim < self.axis for dim in dims)
        if not keeps:
            self.is_image = False

    def _softmax(self) -> bool:
        dims = self._candidates()
        if not dims or "softmax" in self.used:
            return False
        self.used.add("softmax")
        dim = self.draw.choice(dims)
        kind = self.draw.choice(("softmax", "softmax", "softmax", "log_softmax"))
        self.x = self.program.softmax(self.x, dim, kind)
        self.order, self.is_mixed, self.is_centred, self.is_large = 0, False, False, False
        self.is_bounded = True
        self.soft, self.log_soft = (dim, -1) if kind == "softmax" else (-1, dim)
        self.num_kernels += 1
        return True

    def _normalize(self) -> bool:
        shape = self.program.shape(self.x)
        if "norm" in self.used or self.soft >= 0 or self.axis < 0 or any(dim.least < 2 for dim in shape[1:]):
            return False
        kinds = ["batch", "batch", "layer", "rms"]
        # a row that has become all zeros has no direction
        if not self.used & {"rectify", "clamp"}:
            kinds.append("l2")
        if self.is_image:
            kinds += ["group", "group", "instance", "instance"]
        if self.rank == 2:
            kinds += ["group", "group"]
        elif not self.is_image:
            kinds = ["layer", "layer", "rms"]
        kind = self.draw.choice(kinds)
        add, program = self.draw, self.program
        eps, affine = add.choice((1e-5, 1e-5, 1e-5, 1e-6, 1e-3)), int(add.chance(0.8))
        if kind == "instance" and shortest(shape[2:]) < 4:
            return False
        match kind:
            case "batch":
                self.x = program.norm(self.x, kind, eps=eps, affine=affine, running=int(add.chance(0.15)))
            case "group":
                lengths = [shape[1].length(profile) for profile in PROFILES]
                groups = [count for count in (2, 3, 4, 8) if not any(length % count for length in lengths)]
                if not groups:
                    return False
                self.x = program.norm(self.x, kind, eps=eps, affine=affine, groups=add.choice(groups))
            case "instance":
                self.x = program.norm(self.x, kind, eps=eps, affine=int(add.chance(0.3)))
            case "l2":
                self.x = program.softmax(self.x, self.axis, "l2_normalize")
            case "rms":
                self.x = program.norm(self.x, kind, eps=eps, affine=affine, dims=str(self.axis))
            case _:
                dims = range(1, self.rank) if self.is_image else (self.rank - 1,)
                self.x = program.norm(self.x, kind, eps=eps, affine=affine, dims=",".join(map(str, dims)))
        self.used.add("norm")
        # on minute inputs eps is larger than the variance, and the result is as small as a product's
        self.order, self.is_centred, self.is_large = 2, True, False
        self.is_mixed = self.is_mixed or kind not in ("rms", "l2")
        self.is_bounded = self.is_bounded and kind in ("rms", "l2")
        self.num_kernels += 1
        return True

    def _pool(self) -> bool:
        shape = self.program.shape(self.x)
        if not self.is_image or "pool" in self.used or any(side.least < 4 for side in shape[2:]):
            return False
        self.used.add("pool")
        kind = "avg" if self.is_bounded else self.draw.choice(("max", "max", "avg"))
        window = draw_pool_window(self.draw, len(shape) - 2, is_plain=self.draw.chance(0.7))
        if any(window.count(at, side.least) < 1 or side.least < window.reach(at) for at, side in enumerate(shape[2:])):
            return False
        self.x = self.program.pool(self.x, kind, window)
        self.is_centred = False
        self.num_kernels += 1
        return True

    def add_loss(self) -> None:
        """Add the cross entropy of the rows and a further input of classes."""
        shape = self.program.shape(self.x)
        target = self.program.input(shape[:1], "target", kind=f"classes:{shape[1].text}")
        self.x = self.program.cross_entropy(self.x, target)
        self.num_kernels += 1

    def add_skip(self, head: int, activation: Applied) -> None:
        """Add a function of the head's result and the head's result itself."""
        self.x = self.program.point(head, activation, name="x")
        self.x = self.program.point(self.x, apply(RESIDUAL, self.draw), "tensor", other=head)
        self._note(activation.operation)
        self.used |= {"tensor", activation.operation.group or activation.operation.name}
        self.is_centred, self.num_kernels = False, self.num_kernels + 1
