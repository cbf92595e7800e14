"""Finds composed tasks that are one computation, and those that the older families hold out of training.

Chains that differ by the order of neighbouring sums or products, by a layer's bias that is added after it, or by a
clamp's name have one normal form, so that a split keeps them together. What an older family may hold out is not for
training here either: reserved structures of single operators, and chains that another family writes too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ..builder.spec import Spec
from .tensors import Node, ProgramSpec

_SUMS = frozenset({"bias", "residual", "shift", "subtract"})
_PRODUCTS = frozenset({"gain", "gate", "scale", "factor"})
_NAMES = {"hardtanh": "clamp", "relu6": "clamp", "divide": "scale", "sigmoid_gate": "silu"}
_NEW = frozenset({"mish", "factor"})
"""Functions that no older family has in a chain."""
OPERATORS_WITH_RESERVED = frozenset(
    {"any_norm", "any_reduction", "any_position", "any_softmax", "any_scan", "any_matmul", "any_conv", "any_pool"}
    | {"any_conv_transpose"}
)
"""The families that `is_reserved_operator` finds something in."""
_VIEWS = ("input", "dropout", "flatten", "tokens")


def normalize(spec: ProgramSpec) -> tuple[object, ...]:
    """Return the normal form of a composition: its operations, without numbers and sizes."""
    kinds = [_kind(node) for node in spec.nodes if node.op not in _VIEWS]
    found: list[object] = [kinds[0]]
    has_bias = spec.level == 2 and any(node.op in ("conv", "linear") for node in spec.nodes)
    for group, members in groupby(kinds[1:], _group):
        run = list(members)
        if group in "+*":
            run.sort(key=str)
        if has_bias and group == "+" and len(found) == 1:
            run = [kind for kind in run if kind != "bias"]
        found += run
    for place in range(len(found) - 1):
        if found[place : place + 2] == ["square", "scale"]:
            found[place : place + 2] = ["scale", "square"]
    return tuple(found)


def _kind(node: Node) -> object:
    if node.applied is not None:
        name = node.applied.operation.name
        return _NAMES.get(name, name)
    window = node.window
    shape = (window.rank, window.is_transposed) if window is not None else ()
    structure = [value for name, value in node.options if name in ("kind", "dims", "layout", "is_causal", "running")]
    return (node.op, *shape, *structure)


def _group(kind: object) -> str:
    return "+" if kind in _SUMS else "*" if kind in _PRODUCTS else str(kind)


def goes_on(spec: ProgramSpec) -> bool:
    """Return whether a chain has what no older family has: a step after a second kernel, or three kernels."""
    computing = [node for node in spec.nodes if node.op not in _VIEWS]
    kernels = [place for place, node in enumerate(computing) if place and not _is_step(node)]
    return len(kernels) > 1 or (len(kernels) == 1 and kernels[0] < len(computing) - 1)


def has_tail(spec: ProgramSpec) -> bool:
    """Return whether a chain has a second kernel."""
    computing = [node for node in spec.nodes if node.op not in _VIEWS]
    return any(not _is_step(node) for node in computing[1:])


def _is_step(node: Node) -> bool:
    return node.op == "point"


def find_older(spec: ProgramSpec) -> Iterator[Spec]:
    """Yield what older families call the same head and pointwise steps."""
    computing = [node for node in spec.nodes if node.op not in _VIEWS]
    chain = tuple(node.applied for node in computing[1:] if node.applied is not None)
    if any(applied.operation.name in _NEW for applied in chain):
        return
    head = computing[0]
    options: tuple[tuple[str, str | int | float], ...] = (
        ("bias", head.number("bias")),
        ("affine", head.number("affine")),
    )
    if head.window is not None:
        options += (("kernel", ",".join(map(str, head.window.kernel))),)
    for family, producer in _name_head(head):
        yield Spec(level=2, family=family, producer=producer, sizes=(), chain=chain, options=options)


def _name_head(head: Node) -> Iterator[tuple[str, str]]:
    kind, window = str(head.option("kind")), head.window
    match head.op:
        case "conv":
            assert window is not None
            if window.is_transposed:
                yield "transposed_conv_chain", f"conv_transpose{window.rank}d"
                return
            groups = head.number("groups")
            grouped = ("depthwise_conv",) if groups < 0 else ("grouped_conv",)
            for name in grouped if groups != 1 else ("conv", "pointwise_conv"):
                yield "conv_chain", f"{name}{window.rank}d"
        case "linear":
            yield "linear_chain", "linear" if head.option("bias") else "linear_no_bias"
        case "matmul":
            yield "matmul_chain", str(head.option("layout"))
        case "pool":
            assert window is not None
            yield "pooling_chain", f"{kind}_pool{window.rank}d"
        case "norm":
            match kind:
                case "batch":
                    yield "batch_norm_chain", "running" if head.option("running") else "batch"
                case "group" | "instance":
                    yield "group_norm_chain", f"{kind}_norm"
                case _:
                    yield "norm_chain", f"{kind}_norm"


def is_reserved_operator(spec: ProgramSpec) -> bool:
    """Return whether a single operator has a structure that older families leave out of training."""
    node = next(node for node in spec.nodes if node.op not in _VIEWS)
    kind, rank = str(node.option("kind")), len(spec.nodes[node.inputs[0]].shape)
    place = node.dims[0] - rank if node.dims else 0
    match node.op:
        case "norm":
            return kind == "layer" and rank == 5
        case "reduce":
            return (kind, place) in {("min", -3), ("logsumexp", -2)}
        case "position":
            return (kind, place) == ("argmin", -3)
        case "softmax":
            return (kind, place) in {("log_softmax", -2), ("l1_normalize", -2), ("l2_normalize", -3)}
        case "scan":
            reserved = {("exclusive", -2, 0), ("reverse", -1, 1)}
            return (kind, place, node.number("is_product")) in reserved
        case "matmul":
            ranks = tuple(len(spec.nodes[at].shape) for at in node.inputs)
            return (node.option("layout"), ranks) in {("tt", (3, 3)), ("tn", (4, 4))}
        case "conv" | "pool":
            return _is_reserved_window(node)
        case _:
            return False


def has_usual_form(spec: ProgramSpec) -> bool:
    """Return whether a task may be one of other ranks, or of another head, that training has.

    A norm of rows is that whatever dimensions are before them, and so is a linear layer, which is a product too, with
    what follows it.
    """
    head = next(node for node in spec.nodes if node.op not in _VIEWS)
    if head.op == "norm":
        return len(head.dims) == 1
    if head.op == "matmul":
        return spec.level == 2 and head.option("layout") == "nt"
    rank = len(spec.nodes[head.inputs[0]].shape)
    return head.op == "linear" and (rank > 2 or not head.number("bias"))


def _is_reserved_window(node: Node) -> bool:
    window = node.window
    assert window is not None
    wide = tuple(side - window.rank for side, width in enumerate(window.kernel) if width > 1)
    if node.op == "pool":
        return node.option("kind") == "max" and window.rank == 3 and wide == (-2, -1)
    if window.is_transposed:
        return window.rank == 1 and node.number("groups") > 1
    side = (-2,) if node.number("groups") == 1 else (-1,)
    return window.rank == 2 and wide == side
