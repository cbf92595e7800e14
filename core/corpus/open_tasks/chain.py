"""Chains of open tasks: how they begin, and their steps; the sizes are such as a verdict can afford.

Steps are those of every chain, new functions, steps before the head, and earlier values again. Functions of `MARKS`
make a chain one that no older family can draw. A policy is judged on hundreds of answers a round, and what they are
judged by is the code and not the size: tensors have a few million elements at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from ..builder.draw import Draw
from ..builder.operations import (
    ACTIVATIONS,
    GATE,
    HARDSIGMOID,
    LOG_SIGMOID,
    RESIDUAL,
    SUBTRACT,
    WEIGHT,
    Numbers,
    Operand,
    Operation,
    apply,
    make_operation,
)
from ..builder.spec import draw_size
from ..composition.chains import GLU, MISH, PLAIN, POINTWISE, SELF_GATE, SOFT_CAP, Chain
from ..composition.heads import (
    add_convolution,
    add_image,
    add_tensor,
    draw_batch,
    draw_features,
    draw_pool_window,
    draw_rank,
    draw_rows,
    draw_sequence,
)
from ..composition.program import Program, Shape, rename


def _on_tensor(
    name: str, torch: str, text: str, triton: str, numbers: Numbers = (), result: str = "mixed"
) -> Operation:
    return make_operation(
        name, torch, text, triton, numbers=numbers, operand=Operand.TENSOR, group="tensor", result=result
    )


_SMOOTHING = (("smoothing", (0.25, 0.5, 1.0, 2.0)),)
_ROOT = ("torch.sqrt({x} * {x} + {a})", "square root of the square plus {a}", "tl.sqrt({x} * {x} + {a})")
_SIGNED_SQUARE = ("{x} * torch.abs({x})", "multiply by its absolute value", "{x} * tl.abs({x})")
_BUMP = ("{x} / (1.0 + {x} * {x})", "divide by one plus its square")
NEW_UNARY: tuple[Operation, ...] = (
    make_operation("sin", "torch", "sine", "tl.sin({x})", group="squash"),
    make_operation("cos", "torch", "cosine", "tl.cos({x})", group="squash"),
    make_operation("erf", "torch", "error function", "tl.erf({x})", group="squash", result="same"),
    make_operation("smooth_abs", *_ROOT, numbers=_SMOOTHING, group="even", result="one"),
    make_operation("signed_square", *_SIGNED_SQUARE, group="even"),
    make_operation("bump", *_BUMP, group="squash", result="same"),
)
"""Functions of one value."""

FURTHER: tuple[Operation, ...] = (
    make_operation("logsigmoid", "F", "log-sigmoid", LOG_SIGMOID, result="one"),
    make_operation("hardsigmoid", "F", "hardsigmoid", HARDSIGMOID, group="squash", result="one"),
)
"""Those that others make with a number beside them, a softplus or a clamp, so that they alone make nothing new."""

_LERP = ("torch.lerp({x}, {v}, {a})", "interpolate towards {v} by {a}", "{x} + {a} * ({v} - {x})")
_SQUARED_DIFFERENCE = ("({x} - {v}) ** 2", "squared difference from {v}", "({x} - {v}) * ({x} - {v})")
NEW_BINARY: tuple[Operation, ...] = (
    _on_tensor("maximum", "torch.maximum({x}, {v})", "maximum with {v}", "tl.maximum({x}, {v})"),
    _on_tensor("minimum", "torch.minimum({x}, {v})", "minimum with {v}", "tl.minimum({x}, {v})"),
    _on_tensor("lerp", *_LERP, numbers=WEIGHT),
    GLU,
    _on_tensor("swiglu", "{x} * F.silu({v})", "multiply by SiLU of {v}", "{x} * ({v} * tl.sigmoid({v}))"),
    _on_tensor("squared_difference", *_SQUARED_DIFFERENCE, result="one"),
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
_SQUARING = frozenset({"signed_square", "squared_difference"})
_ATTEMPTS = 30
_WITHOUT_CAP = tuple(operation for operation in POINTWISE if operation is not SOFT_CAP)
STEPS = ((*_WITHOUT_CAP, *NEW_UNARY, *FURTHER), (*PLAIN, *NEW_BINARY))
"""What a chain of an open task may have; a third of it no older chain has."""


@define
class OpenChain(Chain):
    """A chain that begins before its head and may read what it has computed again."""

    pointwise: tuple[tuple[Operation, ...], tuple[Operation, ...]] = STEPS
    pairs: tuple[tuple[Operation, Operation], ...] = ()
    num_layers: int = 1

    def take(self, operation: Operation) -> bool:
        """Add a pointwise function where it shows; returns whether it was added."""
        is_extreme = operation.name in ("maximum", "minimum")
        # of an extreme of many, or of a sum, the further input is never the larger
        if is_extreme and (self.is_bounded or self.is_large or not self.is_mixed):
            return False
        return super().take(operation)

    def take_one_of(self, operations: Sequence[Operation]) -> bool:
        """Add one of the functions; returns whether one of those that were drawn could be added."""
        return any(self.take(self.draw.choice(operations)) for _ in range(_ATTEMPTS))

    def lead(self, binary: float = 0.3) -> bool:
        """Add a function of the input before a head, at times of two inputs."""
        return self.take_one_of(LEADING_BINARY if self.draw.chance(binary) else LEADING)

    def add_new(self) -> bool:
        """Add a function that no older chain has."""
        return self.take_one_of(NEW_UNARY if self.draw.chance(0.5) else NEW_BINARY)

    def lengthen(self, num_steps: int, most_kernels: int = 0) -> None:
        """Add so many more steps, at most `most_kernels` of them with a kernel of their own."""
        self.extend(self.num_steps + num_steps, self.num_kernels + most_kernels)

    def head(self, kind: str) -> bool:
        """Add a kernel of its own: "reduce", "spread", "softmax", "normalize", "pool" or "scan"."""
        kernels = {"reduce": self._reduce, "spread": self._spread, "softmax": self._softmax}
        kernels |= {"normalize": self._normalize, "pool": self._pool, "scan": self._scan}
        return kernels[kind]()

    def head_of(self, *kinds: str) -> bool:
        """Add one of these kernels; returns whether one of those that were drawn could be added."""
        return any(self.head(self.draw.choice(kinds)) for _ in range(_ATTEMPTS))

    def combine(self, earlier: int) -> bool:
        """Add, multiply or compare the last value with an earlier one of its shape."""
        program = self.program
        if program.shape(earlier) != program.shape(self.x) or "tensor" in self.used or earlier == self.x:
            return False
        # what was computed meanwhile must not be called like what is read again
        for place in range(earlier + 1, len(program.nodes)):
            node = program.nodes[place]
            if node.op != "input" and node.name == program.nodes[earlier].name:
                program.nodes[place] = rename(node, "h")
        operation = self.draw.choice(COMBINING)
        self.used.add("tensor")
        self.x = program.point(self.x, apply(operation, self.draw), "tensor", other=earlier)
        self._note(operation)
        self.is_centred, self.is_mixed = False, True
        return True

    def relate(self, functions: Sequence[Operation]) -> bool:
        """Reduce the value, at times apply a function, and add what comes of that, or multiply or subtract by it."""
        program, earlier = self.program, self.x
        dims, kinds = self._candidates(), ("mean", "mean", "max", "min", "std")
        if not dims or self.is_bounded:
            return False
        kind = self.draw.choice(kinds)
        place = program.reduce(earlier, kind, (self.draw.choice(dims),), keeps=True, name="s")
        if functions and self.draw.chance(0.4):
            place = program.point(place, apply(self.draw.choice(functions), self.draw))
        # an extreme of many is never the lesser, or never the larger
        ways = RELATING if kind in ("max", "min") else (*RELATING, *NEW_BINARY[:2])
        self.x = program.point(earlier, apply(self.draw.choice(ways), self.draw), "tensor", other=place)
        self.used |= {"tensor", "squash", "rectify"}
        self.num_kernels, self.num_steps, self.order = self.num_kernels + 1, self.num_steps + 2, 2
        return True

    def _spread(self) -> bool:
        """Add a variance or a standard deviation along a dimension."""
        dims = self._candidates()
        if not dims or self.is_centred or self.soft >= 0:
            return False
        dim, keeps = self.draw.choice(dims), self.draw.chance(0.45)
        self.x = self.program.reduce(self.x, self.draw.choice(("var", "std")), (dim,), keeps)
        self._forget([dim], keeps)
        self.is_mixed, self.is_bounded, self.is_large, self.order = False, False, False, 2 * max(1, self.order)
        self.num_kernels += 1
        return True

    def _scan(self) -> bool:
        """Add a cumulative sum along a dimension."""
        dims = self._candidates()
        if not dims or self.is_centred or self.soft >= 0:
            return False
        kind = self.draw.choice(("plain", "plain", "reverse"))
        self.x = self.program.scan(self.x, kind, self.draw.choice(dims))
        self.is_large, self.is_bounded = True, False
        self.num_kernels += 1
        return True

    def _note(self, operation: Operation) -> None:
        super()._note(operation)
        if operation.name in _SQUARING:
            self.order *= 2
        elif operation.name == "smooth_abs":
            self.order = 0
        if operation.name in NEW:
            self.is_centred = False


MOST_ELEMENTS = 1 << 22
_PART = 1 / 8
"""Of the places that a convolution of the older families has at most."""


def begin(draw: Draw, rank: int) -> OpenChain:
    """Begin a chain with a tensor of two to five dimensions."""
    program = Program()
    x = add_tensor(program, draw, rank, most=MOST_ELEMENTS)
    axis = rank - 1 if rank < 4 else 1
    return OpenChain(program=program, draw=draw, x=x, axis=axis, is_image=rank > 3)


def begin_image(draw: Draw, multiple: int = 1) -> OpenChain:
    """Begin a chain with images of one to three sides."""
    program = Program()
    x = add_image(program, draw, draw_rank, 8, 128, multiple, MOST_ELEMENTS)
    return OpenChain(program=program, draw=draw, x=x, axis=1, is_image=True)


def begin_pooling(draw: Draw, leads: float) -> OpenChain:
    """Begin a chain with a pooling of images, after a function of them with probability `leads`."""
    rank = draw_rank(draw)
    window = draw_pool_window(draw, rank, is_plain=draw.chance(0.4))
    program = Program()
    x = add_image(program, draw, lambda _: rank, 8, 128, 1, MOST_ELEMENTS, window)
    chain = OpenChain(program=program, draw=draw, x=x, axis=1, is_image=True)
    if draw.chance(leads):
        chain.lead()
    # the largest of bounded values is their bound, and that of values of both signs has one
    kind = "avg" if chain.is_bounded else draw.choice(("max", "avg"))
    chain.x = program.pool(chain.x, kind, window)
    chain.is_mixed = chain.is_mixed and kind == "avg"
    chain.used.add("pool")
    return chain


_CONVOLUTIONS = ("standard",) * 5 + ("depthwise", "pointwise", "grouped")


def begin_convolution(draw: Draw, leads: float, kinds: tuple[str, ...] = _CONVOLUTIONS) -> OpenChain:
    """Begin a chain with a convolution of images, after a function of them with probability `leads`."""
    chain = OpenChain(program=Program(), draw=draw, x=-1, axis=1, is_image=True)

    def lead(x: int) -> int:
        chain.x = x
        if draw.chance(leads):
            chain.lead()
        return chain.x

    rank = draw.choice((1, 2, 2, 2, 2, 3))
    kind, is_plain = draw.choice(kinds), draw.chance(0.7)
    chain.x = add_convolution(chain.program, draw, kind, rank, is_plain, _PART, lead)
    return _mixed(chain)


def begin_linear(draw: Draw, leads: float) -> OpenChain:
    """Begin a chain with a linear layer of rows or of sequences, after a function of them with probability `leads`."""
    program = Program()
    inner = program.dim("in_features", draw_features(draw, 64, 2048))
    lead: Shape = (program.dim("batch", draw_rows(draw, 64, 2048)),)
    if draw.chance(0.25):
        lead = (program.dim("groups", draw_batch(draw)), program.dim("sequence", draw_sequence(draw, 8, 64)))
    outer = program.dim("out_features", draw_features(draw, 64, 2048))
    x = program.input((*lead, inner))
    chain = OpenChain(program=program, draw=draw, x=x, axis=len(lead))
    if draw.chance(leads):
        chain.lead()
    chain.x = program.linear(chain.x, outer, draw.chance(0.7))
    return _mixed(chain)


def begin_product(draw: Draw, leads: float) -> OpenChain:
    """Begin a chain with a product of two matrices or of two batches of them."""
    program = Program()
    m = program.dim("M", draw_size(draw, draw.size(32, 1024), (3, 5, 7), (17, 23), (33, 47)))
    k = program.dim("K", draw_size(draw, draw.size(32, 1024), (5, 7, 9), (35, 45), (66, 90)))
    n = program.dim("N", draw_size(draw, draw.size(32, 1024), (3, 5, 7), (19, 30), (35, 50)))
    lead: Shape = ()
    if draw.chance(0.35):
        lead = (program.dim("batch", draw_size(draw, draw.choice((4, 8, 16, 12)), (2,), (2, 2), (3, 3))),)
    layout = draw.choice(("nn", "nn", "nn", "nt", "tn", "tt"))
    left = (*lead, m, k) if layout[0] == "n" else (*lead, k, m)
    right = (*lead, k, n) if layout[1] == "n" else (*lead, n, k)
    names = draw.choice((("a", "b"), ("x", "w")))
    # products of unscaled inputs are large, and functions with a bound would be constant
    a = program.input(left, names[0], scale=k)
    b = program.input(right, names[1])
    chain = OpenChain(program=program, draw=draw, x=a, axis=len(left) - 1)
    if draw.chance(leads):
        chain.lead(binary=0.0)
    chain.x = program.matmul(chain.x, b, layout, name="x")
    chain.axis, chain.order = len(lead) + 1, chain.order + 1
    return _mixed(chain)


def _mixed(chain: OpenChain) -> OpenChain:
    """Return the chain after a head whose weights have both signs."""
    chain.is_mixed, chain.is_bounded, chain.is_large = True, False, False
    return chain
