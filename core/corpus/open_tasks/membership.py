"""Decides which compositions are open tasks: a program with a mark, where the hash of its operations says so.

A mark is what no program of an older family has, and a pair that teaches parts of open tasks (`lessons`) is one with a
mark whose hash says otherwise. So no pair has an open task's operations, drawn or not yet drawn.

Two programs of one operation graph have one multiset of operations, up to names of the same function and to layers that
have others built in. Mark, hash and split come from that multiset alone, whatever the order, the sizes and the numbers:
a held-out task is of operations that no training task has together, in any order. It is coarser than the graph, and
needs no graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..builder.draw import digest
from ..composition.program import VIEWS, Node, ProgramSpec
from .chain import MARKS

_BUILT_IN = frozenset({"bias", "gain"})
"""Steps that a layer or a norm may do itself."""
_MERGED = ("scale", "shift")
"""Steps of which two may be one."""
_VARIANCE = " var"
"""A reduction that ends with a number, the degrees of freedom: a further one makes no other graph of it."""
_PARTS: dict[str, tuple[str, ...]] = {
    "hardtanh": ("clamp",),
    "relu6": ("clamp",),
    "selu": ("elu",),
    "divide": ("scale",),
    "sigmoid_gate": ("silu",),
    "softcap": ("scale", "tanh"),
    "minus": ("shift",),
    "glu": ("gate", "sigmoid"),
    "swiglu": ("gate", "silu"),
    "squared_difference": ("subtract", "square"),
    "distance": ("subtract", "abs"),
    "hardsigmoid": ("shift", "clamp", "scale"),
    "logsigmoid": ("softplus",),
}
_PRODUCTS = frozenset({"matmul", "conv", "conv transposed"})
_ALONE = frozenset({"softmax", "scan"})
"""Operators after which no older family has a step, where they come first."""
_BEFORE, _BACK, _FIRST = "before ", "back to ", "first "
_PAIRS_OF_THREE = 1
"""Of three compositions with a mark, those that pairs may have."""


def find_operations(spec: ProgramSpec) -> tuple[str, ...]:
    """Return the multiset of a program's operations, sorted; those of an input, or of an earlier value, say so."""
    has_head = any(node.op not in ("point", *VIEWS) for node in spec.nodes)
    found: list[str] = []
    for place, node in enumerate(spec.nodes):
        if node.op not in VIEWS:
            found += _name(place, node, spec, has_head)
    merged = {name for name in found if name in _MERGED}
    if any(name.endswith(_VARIANCE) for name in found):
        merged.discard("scale")
    return tuple(sorted([*merged, *(name for name in found if name not in _BUILT_IN and name not in _MERGED)]))


def _name(place: int, node: Node, spec: ProgramSpec, has_head: bool) -> tuple[str, ...]:
    if node.applied is not None:
        names = _PARTS.get(node.applied.operation.name, (node.applied.operation.name,))
        role = _find_role(place, node, spec, has_head)
        return tuple(f"{role}{name}" for name in names)
    kind = str(node.option("kind"))
    match node.op:
        case "conv":
            return ("conv transposed" if node.window is not None and node.window.is_transposed else "conv",)
        case "linear" | "matmul":
            return ("matmul",)
        case "norm":
            return ("norm",)
        case "softmax" if kind.endswith("normalize"):
            return ("norm",)
        case op:
            is_first = op in _ALONE and _find_heads(place, spec) == {place}
            return (f"{_FIRST if is_first else ''}{op} {kind}",)


def _find_role(place: int, node: Node, spec: ProgramSpec, has_head: bool) -> str:
    """Return whether a function comes before every head, or reads an earlier value again, made by a head or not."""
    if len(node.inputs) > 1 and min(node.inputs) in _sources(max(node.inputs), spec):
        return "again " if _find_heads(min(node.inputs), spec) else _BACK
    return _BEFORE if has_head and not _find_heads(place, spec) else ""


def _find_heads(place: int, spec: ProgramSpec) -> set[int]:
    """Return the places of the heads that a value was computed by."""
    return {at for at in _sources(place, spec) if spec.nodes[at].op not in ("point", *VIEWS)}


def _sources(place: int, spec: ProgramSpec) -> set[int]:
    """Return the places that a value was computed from, its own among them."""
    found = {place}
    for source in spec.nodes[place].inputs:
        found |= _sources(source, spec)
    return found


def is_marked(spec: ProgramSpec) -> bool:
    """Return whether a program has what none of an older family has: two operations or more, one of them a mark.

    Numbers change no function: one of two inputs that is scaled afterwards is still what other families have alone.
    Networks of Level 3 may have marks, and have two products or more.
    """
    names = find_operations(spec)
    if sum(name not in _MERGED for name in names) < 2 or sum(name in _PRODUCTS for name in names) > 1:
        return False
    return any(name in MARKS or name.startswith((_BEFORE, _BACK, _FIRST)) for name in names)


def is_open(spec: ProgramSpec) -> bool:
    """Return whether a program is for open tasks: two of three multisets with a mark, by their hash."""
    return is_marked(spec) and digest(("taught", *find_operations(spec))) % 3 >= _PAIRS_OF_THREE


def count_elements(spec: ProgramSpec) -> int:
    """Return the elements of a program's largest tensor."""
    return max(prod(dim.declared for dim in node.shape) for node in spec.nodes)


def count_operations(nodes: Sequence[Node]) -> int:
    """Return how many nodes compute."""
    return sum(node.op not in VIEWS for node in nodes)
