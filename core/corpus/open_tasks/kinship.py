"""Which open tasks may be one computation, and what no task with a teacher has.

Two programs of one operation graph have one multiset of operations, up to names of the same function and to layers that
have others built in. So the split of an open task comes from that multiset alone, whatever the order, the sizes and
the numbers: a held-out task is of operations that no training task has together, in any order. It is coarser than the
graph, and needs no graph.
"""

from __future__ import annotations

from math import prod

from ..composition.tensors import Node, ProgramSpec
from .operations import LEADING, LEADING_BINARY, NEW

_VIEWS = frozenset({"input", "dropout", "flatten", "tokens"})
_BUILT_IN = frozenset({"bias", "gain"})
"""Steps that a layer or a norm may do itself."""
_MERGED = ("scale", "shift")
"""Steps of which two may be one."""
_PARTS: dict[str, tuple[str, ...]] = {
    "hardtanh": ("clamp",),
    "relu6": ("clamp",),
    "selu": ("elu",),
    "divide": ("scale",),
    "sigmoid_gate": ("silu",),
    "glu": ("gate", "sigmoid"),
    "swiglu": ("gate", "silu"),
    "squared_difference": ("subtract", "square"),
    "distance": ("subtract", "abs"),
    "signed_square": ("abs", "again gate"),
    "hardsigmoid": ("shift", "clamp", "scale"),
    "logsigmoid": ("softplus",),
}
_LEADS = frozenset(operation.name for operation in (*LEADING, *LEADING_BINARY))
_NUMBERS = frozenset({"scale", "divide", "shift"})
_ALONE = frozenset({"softmax", "scan"})
"""Operators after which no family with a teacher has a step, where they come first."""


def find_operations(spec: ProgramSpec) -> tuple[str, ...]:
    """Return the multiset of a program's operations, sorted."""
    found: list[str] = []
    for node in spec.nodes:
        if node.op not in _VIEWS:
            found += _name(node, spec)
    merged = {name for name in found if name in _MERGED}
    return tuple(sorted([*merged, *(name for name in found if name not in _BUILT_IN and name not in _MERGED)]))


def _name(node: Node, spec: ProgramSpec) -> tuple[str, ...]:
    if node.applied is not None:
        names = _PARTS.get(node.applied.operation.name, (node.applied.operation.name,))
        return tuple(f"again {name}" for name in names) if _reads_again(node, spec) else names
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
        case _:
            return (f"{node.op} {kind}",)


def _reads_again(node: Node, spec: ProgramSpec) -> bool:
    """Return whether a pointwise function reads a value that the other one was computed from, or the other way."""
    return len(node.inputs) > 1 and _is_inside(min(node.inputs), max(node.inputs), spec)


def _is_inside(earlier: int, later: int, spec: ProgramSpec) -> bool:
    return earlier in _sources(later, spec)


def _sources(place: int, spec: ProgramSpec) -> set[int]:
    """Return the places that a value was computed from, its own among them."""
    found = {place}
    for source in spec.nodes[place].inputs:
        found |= _sources(source, spec)
    return found


def _returns(node: Node, spec: ProgramSpec) -> bool:
    """Return whether a pointwise function reads what a head has made of a value, and that value, which no head made."""
    if not _reads_again(node, spec):
        return False
    own, other = (
        {at for at in _sources(place, spec) if spec.nodes[at].op not in ("point", *_VIEWS)}
        for place in (min(node.inputs), max(node.inputs))
    )
    return not own and bool(other)


def count_elements(spec: ProgramSpec) -> int:
    """Return the elements of a program's largest tensor."""
    return max(prod(dim.declared for dim in node.shape) for node in spec.nodes)


def is_open(spec: ProgramSpec) -> bool:
    """Return whether a program has what none of Levels 1 and 2 has that has a teacher.

    Networks of Level 3 may read their input again, and have two products or more, where an open task has one at most.
    """
    computing = [node for node in spec.nodes if node.op not in _VIEWS]
    if len(computing) < 2:
        return False
    names = [node.applied.operation.name if node.applied else "" for node in computing]
    # numbers change no function: one of two inputs that is scaled afterwards is still what other families have alone
    if any(name in NEW for name in names) and sum(name not in _NUMBERS for name in names) > 1:
        return True
    has_head = not all(names)
    if has_head and names[0] in _LEADS:
        return True
    if computing[0].op in _ALONE and computing[1].applied is not None:
        return True
    return any(_returns(node, spec) for node in computing if node.applied is not None)
