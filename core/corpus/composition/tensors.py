"""The tensors of a composed task, and the nodes that make them.

A dimension knows its length in every profile, so that a step is drawn only where it fits all of them, and how a
program writes it, so that a further input can be given a result's shape. Texts name the task's constants by role, in
braces; their wording is drawn later.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from attrs import evolve, frozen

from ..builder.operations import Applied
from ..builder.spec import Size, Spec
from ..builder.windows import Window

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


def rename(node: Node, name: str) -> Node:
    """Return the node with its result in another variable."""
    return evolve(node, name=name)
