"""Tensors of a composed task, the nodes that make them, and a builder that adds node by node.

A dimension knows its length in every profile, so that a step is drawn only where it fits all of them, and how a
program writes it, so that a further input can be given a result's shape. Texts name the task's constants by role, in
braces; their wording is drawn later. A method of `Program` adds one operation, says what it does to the shape, and
returns the place of its result. Names of variables are given where a result is read again later; else all results are
called `x`, as in a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from attrs import Factory, define, evolve, frozen

from ..builder.draw import Draw
from ..builder.operations import Applied
from ..builder.spec import Size, Spec
from ..builder.windows import Window

_SIDES = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}


VIEWS = frozenset({"input", "dropout", "flatten", "tokens"})
"""Operations that compute nothing."""
PROFILES = ("declared", "tiny", "small", "larger")

Option = str | int | float


def make_size(length: Callable[[str], int]) -> Size:
    """Return the size that has these lengths by profile."""
    return Size(**{profile: length(profile) for profile in PROFILES})


@frozen(kw_only=True)
class Dim:
    """One dimension: its text, with roles in braces, and its length in each profile."""

    text: str
    size: Size

    def map(self, template: str, function: Callable[[int], int]) -> Dim:
        """Return a dimension computed from this one, as text and as number."""
        inner = f"({self.text})" if " " in self.text else self.text
        return Dim(text=template.replace("#", inner), size=make_size(lambda profile: function(self.length(profile))))

    def length(self, profile: str) -> int:
        """Return the length in a profile."""
        return int(getattr(self.size, profile))

    @property
    def least(self) -> int:
        """Return the shortest length of all profiles."""
        return min(self.length(profile) for profile in PROFILES)

    @property
    def declared(self) -> int:
        """Return the declared length."""
        return self.size.declared


Shape = tuple[Dim, ...]


def fixed(length: int) -> Dim:
    """Return a dimension that no profile changes."""
    return Dim(text=str(length), size=Size(declared=length, tiny=length, small=length, larger=length))


def multiply(dims: Shape) -> Dim:
    """Return the product of dimensions."""
    if len(dims) == 1:
        return dims[0]
    size = make_size(lambda profile: prod(dim.length(profile) for dim in dims))
    return Dim(text=" * ".join(f"({dim.text})" if " " in dim.text else dim.text for dim in dims), size=size)


def shortest(shape: Shape) -> int:
    """Return the least number of elements over the profiles."""
    return min(prod(dim.length(profile) for dim in shape) for profile in PROFILES)


@frozen(kw_only=True)
class Node:
    """One operation: the places of what it reads among the nodes before it, and the shape of its result.

    `name` is the variable that holds the result; `applied` is a pointwise function, `window` a convolution's or a
    pooling's, and `options` are what else the operation is given.
    """

    op: str
    shape: Shape
    inputs: tuple[int, ...] = ()
    name: str = "x"
    applied: Applied | None = None
    window: Window | None = None
    options: tuple[tuple[str, Option], ...] = ()

    def option(self, name: str, default: Option = 0) -> Option:
        """Return the named option."""
        return dict(self.options).get(name, default)

    def number(self, name: str) -> int:
        """Return the named option as a whole number."""
        return int(self.option(name))

    @property
    def dims(self) -> tuple[int, ...]:
        """Return the dimensions that the operation runs over."""
        return tuple(int(part) for part in str(self.option("dims", "")).split(",") if part)

    @property
    def identity(self) -> tuple[object, ...]:
        """Return what distinguishes the operation from others."""
        applied = self.applied.identity if self.applied else ()
        return (self.op, self.inputs, applied, self.window.options if self.window else (), self.options)


@frozen(kw_only=True)
class ProgramSpec(Spec):
    """A composed task without its wording: `roles` name the sizes, and the last node is the result."""

    roles: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()

    @property
    def identity(self) -> tuple[object, ...]:
        sizes = tuple((role, size.declared) for role, size in zip(self.roles, self.sizes, strict=True))
        return (self.level, self.family, sizes, tuple(node.identity for node in self.nodes))

    @property
    def computing(self) -> list[Node]:
        """Return the nodes that are more than views."""
        return [node for node in self.nodes if node.op not in VIEWS]


def rename(node: Node, name: str) -> Node:
    """Return the node with its result in another variable."""
    return evolve(node, name=name)


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

    def pool(self, x: int, kind: str, window: Window) -> int:
        """Add max or average pooling."""
        return self.add("pool", (*self.shape(x)[:2], *self._slide(x, window)), (x,), "", None, window, kind=kind)

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
        return self._reduce("reduce", (x,), kind, dims, keeps, name)

    def position(self, x: int, kind: str, dim: int, keeps: bool = False) -> int:
        """Add the position of the largest or least element along a dimension."""
        return self._reduce("position", (x,), kind, (dim,), keeps)

    def pair(self, x: int, y: int, kind: str, name: str) -> int:
        """Add a distance or a similarity of two tensors along the last dimension."""
        return self._reduce("pair", (x, y), kind, (len(self.shape(x)) - 1,), False, name)

    def matvec(self, a: int, v: int, dim: int, keeps: bool) -> int:
        """Add the products of matrices along a dimension and one vector, or one vector for each matrix."""
        return self._reduce("matvec", (a, v), "sum", (dim,), keeps, "x")

    def _reduce(
        self, op: str, inputs: tuple[int, ...], kind: str, dims: Sequence[int], keeps: bool, name: str = ""
    ) -> int:
        shape = tuple(
            fixed(1) if at in dims else dim for at, dim in enumerate(self.shape(inputs[0])) if keeps or at not in dims
        )
        return self.add(op, shape, inputs, name, kind=kind, dims=",".join(map(str, dims)), keeps=int(keeps))

    def softmax(self, x: int, dim: int, kind: str = "softmax") -> int:
        """Add a softmax, a log-softmax or a division by a norm along one dimension."""
        return self.add("softmax", self.shape(x), (x,), kind=kind, dims=str(dim))

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

    def tokens(self, x: int) -> int:
        """Add an image's places in a row: (batch, channels, sides) as (batch, places, channels)."""
        batch, channels, *sides = self.shape(x)
        return self.add("tokens", (batch, multiply(tuple(sides)), channels), (x,))

    def concatenate(self, x: int, y: int, name: str = "") -> int:
        """Add the concatenation of two tensors along the second dimension."""
        left, right = self.shape(x), self.shape(y)
        size = make_size(lambda profile: left[1].length(profile) + right[1].length(profile))
        joined = Dim(text=f"{left[1].text} + {right[1].text}", size=size)
        return self.add("concat", (left[0], joined, *left[2:]), (x, y), name)

    def dropout(self, x: int, probability: float) -> int:
        """Add dropout in evaluation mode, which changes nothing; in training mode no kernel could be right."""
        return self.add("dropout", self.shape(x), (x,), probability=probability)

    def cross_entropy(self, x: int, target: int) -> int:
        """Add the cross entropy of rows of logits and classes, one value a row."""
        return self.add("cross_entropy", self.shape(x)[:1], (x, target))

    def finish(self, level: int = 0, family: str = "") -> ProgramSpec:
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


def draw_programs(draw_nodes: ProgramDraw) -> Callable[[Draw, str], ProgramSpec]:
    """Return how the tasks of a family are drawn, whose nodes `draw_nodes` adds."""

    def draw_spec(draw: Draw, family: str) -> ProgramSpec:
        program = Program()
        draw_nodes(program, draw)
        return program.finish()

    return draw_spec
