"""Builds a composed task node by node: each method adds one operation and says what it does to the shape.

A method returns the place of its result. Names of variables are given where a result is read again later; else all
results are called `x`, as in a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from attrs import Factory, define

from ..builder.draw import Draw
from ..builder.operations import Applied
from ..builder.spec import Size
from ..builder.windows import Window
from .tensors import Dim, Node, Option, ProgramSpec, Shape, fixed, make_size, multiply

_SIDES = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}


@define
class Program:
    """The nodes so far, and the sizes by role."""

    sizes: dict[str, Size] = Factory(dict)
    nodes: list[Node] = Factory(list)

    def dim(self, role: str, size: Size) -> Dim:
        """Add a size that the task's contract lets vary, and return it as a dimension."""
        self.sizes.setdefault(role, size)
        return Dim(text=f"{{{role}}}", size=self.sizes[role])

    def image(self, batch: Size, channels: Size, sides: Sequence[Size], role: str = "in_channels") -> Shape:
        """Add the sizes of a batch of images of one to three sides."""
        first = (self.dim("batch", batch), self.dim(role, channels))
        return (*first, *(self.dim(name, size) for name, size in zip(_SIDES[len(sides)], sides, strict=True)))

    def shape(self, place: int = -1) -> Shape:
        """Return the shape of a node's result, by default the last one's."""
        return self.nodes[place].shape

    @property
    def last(self) -> int:
        return len(self.nodes) - 1

    def add(
        self,
        op: str,
        shape: Shape,
        inputs: Sequence[int] = (),
        name: str = "",
        applied: Applied | None = None,
        window: Window | None = None,
        /,
        **options: Option,
    ) -> int:
        """Add a node, called as what it reads where no name is given."""
        called = name or (self.nodes[inputs[0]].name if inputs else "x")
        given = tuple(options.items())
        node = Node(
            op=op, shape=shape, inputs=tuple(inputs), name=called, applied=applied, window=window, options=given
        )
        self.nodes.append(node)
        return self.last

    def input(self, shape: Shape, name: str = "x", scale: Dim | None = None, kind: str = "randn") -> int:
        """Add an argument of `forward`; `scale` is what it is divided by the root of.

        `kind` is "randn", "mask" (true or false),
        "positive" (0.5 to 1.5), "classes:TEXT" for whole numbers below an expression, or "number:VALUE".
        """
        return self.add("input", shape, (), name, kind=kind, scale=scale.text if scale else "")

    def convolution(
        self, x: int, filters: Dim, window: Window, groups: int = 1, bias: bool = True, name: str = ""
    ) -> int:
        """Add a convolution, transposed where the window says so; `groups` of -1 is one for each channel."""
        shape = (self.shape(x)[0], filters, *self._slide(x, window))
        return self.add("conv", shape, (x,), name, None, window, groups=groups, bias=int(bias))

    def pool(self, x: int, kind: str, window: Window, name: str = "") -> int:
        """Add max or average pooling."""
        return self.add("pool", (*self.shape(x)[:2], *self._slide(x, window)), (x,), name, None, window, kind=kind)

    def _slide(self, x: int, window: Window) -> Shape:
        """Return the sides of what a window makes of an image."""
        return tuple(
            dim.map(window.length(side, "#"), partial(window.count, side)) for side, dim in enumerate(self.shape(x)[2:])
        )

    def linear(self, x: int, features: Dim, bias: bool = True, name: str = "") -> int:
        """Add a linear layer over the last dimension."""
        return self.add("linear", (*self.shape(x)[:-1], features), (x,), name, bias=int(bias))

    def matmul(self, a: int, b: int, layout: str = "nn", name: str = "x", **more: Option) -> int:
        """Add a matrix product of two tensors, each as it lies ("n") or transposed ("t")."""
        left, right = self.shape(a), self.shape(b)
        rows = left[:-1] if layout[0] == "n" else (*left[:-2], left[-1])
        columns = right[-1] if layout[1] == "n" else right[-2]
        return self.add("matmul", (*rows, columns), (a, b), name, layout=layout, **more)

    def point(self, x: int, applied: Applied, operand: str = "", name: str = "", axis: int = 1, other: int = -1) -> int:
        """Add a pointwise function; `operand` is its parameter's kind, or "tensor", "plane" or "number" of `other`."""
        inputs = (x, other) if other >= 0 else (x,)
        return self.add("point", self.shape(x), inputs, name, applied, operand=operand, axis=axis)

    def reduce(self, x: int, kind: str, dims: Sequence[int], keeps: bool = False, name: str = "") -> int:
        """Add a reduction over dimensions."""
        return self._reduce("reduce", x, kind, dims, keeps, name)

    def position(self, x: int, kind: str, dim: int, keeps: bool = False) -> int:
        """Add the position of the largest or least element along a dimension."""
        return self._reduce("position", x, kind, (dim,), keeps)

    def _reduce(self, op: str, x: int, kind: str, dims: Sequence[int], keeps: bool, name: str = "") -> int:
        shape = tuple(
            fixed(1) if at in dims else dim for at, dim in enumerate(self.shape(x)) if keeps or at not in dims
        )
        return self.add(op, shape, (x,), name, kind=kind, dims=",".join(map(str, dims)), keeps=int(keeps))

    def softmax(self, x: int, dim: int, kind: str = "softmax", name: str = "") -> int:
        """Add a softmax, a log-softmax or a division by a norm along one dimension."""
        return self.add("softmax", self.shape(x), (x,), name, kind=kind, dims=str(dim))

    def norm(self, x: int, kind: str, name: str = "", **more: Option) -> int:
        """Add a normalisation: "batch" (its own or, where `running`, the stored statistics), "group", "instance",
        "layer" (over `dims`) or "rms" (over the last dimension or the channels)."""
        return self.add("norm", self.shape(x), (x,), name, kind=kind, **more)

    def scan(self, x: int, kind: str, dim: int, is_product: bool = False, mask: int = -1) -> int:
        """Add a cumulative sum or product."""
        inputs = (x, mask) if mask >= 0 else (x,)
        return self.add("scan", self.shape(x), inputs, kind=kind, dims=str(dim), is_product=int(is_product))

    def attention(
        self, q: int, k: int, v: int, is_causal: bool, num_heads: int = 0, mask: int = -1, name: str = "x"
    ) -> int:
        """Add scaled dot-product attention; `num_heads` where they lie beside one another in the features."""
        inputs = (q, k, v, mask) if mask >= 0 else (q, k, v)
        return self.add("attention", self.shape(q), inputs, name, is_causal=int(is_causal), num_heads=num_heads)

    def flatten(self, x: int, name: str = "") -> int:
        """Add a view with all but the first dimension in one."""
        return self.add("flatten", (self.shape(x)[0], multiply(self.shape(x)[1:])), (x,), name)

    def tokens(self, x: int, name: str = "") -> int:
        """Add an image's places in a row: (batch, channels, sides) as (batch, places, channels)."""
        batch, channels, *sides = self.shape(x)
        return self.add("tokens", (batch, multiply(tuple(sides)), channels), (x,), name)

    def concatenate(self, x: int, y: int, name: str = "") -> int:
        """Add the concatenation of two tensors along the second dimension."""
        left, right = self.shape(x), self.shape(y)
        size = make_size(lambda profile: left[1].length(profile) + right[1].length(profile))
        joined = Dim(text=f"{left[1].text} + {right[1].text}", size=size)
        return self.add("concat", (left[0], joined, *left[2:]), (x, y), name)

    def dropout(self, x: int, probability: float, is_training: bool = False) -> int:
        """Add dropout in evaluation mode, which changes nothing; raises ValueError for training mode."""
        if is_training:
            raise ValueError("dropout in training mode draws its mask anew in each call: no kernel can be right")
        return self.add("dropout", self.shape(x), (x,), probability=probability)

    def cross_entropy(self, x: int, target: int) -> int:
        """Add the cross entropy of rows of logits and classes, one value a row."""
        return self.add("cross_entropy", self.shape(x)[:1], (x, target))

    def finish(self, level: int, family: str) -> ProgramSpec:
        """Return the task."""
        return ProgramSpec(
            level=level,
            family=family,
            producer=self.nodes[-1].op,
            sizes=tuple(self.sizes.values()),
            roles=tuple(self.sizes),
            nodes=tuple(self.nodes),
        )


ProgramDraw = Callable[[Program, Draw], None]
"""Draws the nodes of a task."""


def draw_programs(level: int, draw_nodes: ProgramDraw) -> Callable[[Draw, str], ProgramSpec]:
    """Return how the tasks of a family are drawn, whose nodes `draw_nodes` adds."""

    def draw_spec(draw: Draw, family: str) -> ProgramSpec:
        program = Program()
        draw_nodes(program, draw)
        return program.finish(level, family)

    return draw_spec
