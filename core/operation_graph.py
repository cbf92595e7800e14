"""What a program computes, as a graph that neither names nor numbers change, and a hash that decides equality.

Two tasks are equal here when one becomes the other by renaming and by other constants. Constants are sizes and every
number that is no choice of an operation: slopes, bounds, epsilons, window and group sizes, strides, paddings. What is
left is the operations, how they are connected, which dimensions they reduce over, mask, reverse or broadcast along, and
their named modes. The order of what an addition or a product adds up or multiplies is left out too, with its brackets.

The hash refines colours until they tell no more operations apart (Weisfeiler and Lehman), after equal operations on
equal operands were merged. Two graphs that are the same always have one hash. Two that differ could share one in
theory, which would drop a training task too many, never keep one too few.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import evolve, field, frozen

LEAF = "tensor"
"""The operation of what is given: inputs, parameters and constant tensors alike."""

EVERYWHERE = "all"
"""The reach of an operand that has its own element for each element of the result."""

COMMUTATIVE = frozenset(
    {"add", "mul", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or", "logical_xor"}
    | {"bitwise_and", "bitwise_or", "bitwise_xor"}
)
ASSOCIATIVE = frozenset({"add", "mul", "maximum", "minimum"})


def _sort_attributes(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(texts)))


@frozen(kw_only=True)
class Operand:
    """A value that an operation reads: one output of an earlier operation.

    `role` is the argument's name; `reach` says along which dimensions, counted from the end, the value varies.
    """

    source: int
    output: int = 0
    role: str = ""
    reach: str = EVERYWHERE


@frozen(kw_only=True)
class Operation:
    """One step: its name, what it reads, and the attributes that are no constants, such as "dim=-1"."""

    name: str
    operands: tuple[Operand, ...] = ()
    attributes: tuple[str, ...] = field(default=(), converter=_sort_attributes)


@frozen(kw_only=True)
class OperationGraph:
    """Operations in an order in which each reads earlier ones only; `results` are what the program returns."""

    operations: tuple[Operation, ...]
    results: tuple[Operand, ...]

    def __attrs_post_init__(self) -> None:
        for place, operation in enumerate(self.operations):
            if any(not 0 <= operand.source < place for operand in operation.operands):
                raise ValueError(f"operation {place} reads one that does not come before it")
        if any(not 0 <= result.source < len(self.operations) for result in self.results):
            raise ValueError("a result is no operation's")


def simplify(graph: OperationGraph) -> OperationGraph:
    """The graph without what the results do not need, equal operations merged, sums and products in one step each."""
    plain = _merge_equals(graph)
    # sums that were merged may leave what they add up with one reader, and so in one step with it
    while (simpler := _merge_equals(_flatten(plain))) != plain:
        plain = simpler
    return plain


def hash_graph(graph: OperationGraph) -> str:
    """Sixteen hex digits that graphs share exactly when they are equal up to the order of operations."""
    plain = simplify(graph)
    colours = _refine(plain)
    results = [f"{colours[result.source]}.{result.output}" for result in plain.results]
    return _digest([*sorted(colours), "->", *results])


def describe_graph(graph: OperationGraph) -> str:
    """The simplified graph in one line: `x` are given tensors, `v` are values; an expression for what is read once."""
    plain = simplify(graph)
    uses = Counter(operand.source for operation in plain.operations for operand in operation.operands)
    uses.update(result.source for result in plain.results)
    texts: list[str] = []
    statements: list[str] = []
    num_given = 0
    for place, operation in enumerate(plain.operations):
        if operation.name == LEAF:
            texts.append(f"x{num_given}")
            num_given += 1
            continue
        parts = [_reference(texts, operand) for operand in operation.operands]
        text = f"{operation.name}({', '.join([*parts, *operation.attributes])})"
        if uses[place] > 1:
            name = f"v{len(statements)}"
            statements.append(f"{name} = {text}")
            text = name
        texts.append(text)
    return "; ".join([*statements, ", ".join(_reference(texts, result) for result in plain.results)])


def _reference(texts: Sequence[str], operand: Operand) -> str:
    output = f".{operand.output}" if operand.output else ""
    reach = "" if operand.reach == EVERYWHERE else f"[{operand.reach}]"
    return f"{texts[operand.source]}{output}{reach}"


def _find_needed(graph: OperationGraph) -> set[int]:
    needed = {result.source for result in graph.results}
    for place in range(len(graph.operations) - 1, -1, -1):
        if place in needed:
            needed.update(operand.source for operand in graph.operations[place].operands)
    return needed


def _merge_equals(graph: OperationGraph) -> OperationGraph:
    """The graph of what results need, equal operations on equal operands merged; given tensors stay apart."""
    needed = _find_needed(graph)
    kept: list[Operation] = []
    places: dict[int, int] = {}
    known: dict[Operation, int] = {}
    for place, operation in enumerate(graph.operations):
        if place not in needed:
            continue
        moved = evolve(operation, operands=_order(operation.name, _move(operation.operands, places)))
        if moved.name == LEAF or moved not in known:
            known[moved] = len(kept)
            kept.append(moved)
        places[place] = known[moved]
    return OperationGraph(operations=tuple(kept), results=_move(graph.results, places))


def _move(operands: Iterable[Operand], places: dict[int, int]) -> tuple[Operand, ...]:
    return tuple(evolve(operand, source=places[operand.source]) for operand in operands)


def _order(name: str, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    if name not in COMMUTATIVE:
        return operands
    plain = (evolve(operand, role="") for operand in operands)
    return tuple(sorted(plain, key=lambda operand: (operand.source, operand.output, operand.reach)))


def _flatten(graph: OperationGraph) -> OperationGraph:
    """Sums of sums and products of products, where the inner one is read once, as one operation of many operands."""
    uses = Counter(operand.source for operation in graph.operations for operand in operation.operands)
    uses.update(result.source for result in graph.results)
    flat: list[Operation] = []
    for operation in graph.operations:
        if operation.name not in ASSOCIATIVE:
            flat.append(operation)
            continue
        operands: list[Operand] = []
        attributes = list(operation.attributes)
        for operand in operation.operands:
            inner = flat[operand.source]
            if inner.name == operation.name and uses[operand.source] == 1 and operand.reach == EVERYWHERE:
                operands += inner.operands
                attributes += inner.attributes
            else:
                operands.append(operand)
        flat.append(Operation(name=operation.name, operands=tuple(operands), attributes=tuple(attributes)))
    return OperationGraph(operations=tuple(flat), results=graph.results)


def _refine(graph: OperationGraph) -> list[str]:
    """A colour for each operation, the same for two where neither what they read nor what reads them differs."""
    readers: list[list[tuple[int, Operand]]] = [[] for _ in graph.operations]
    for place, operation in enumerate(graph.operations):
        for operand in operation.operands:
            readers[operand.source].append((place, operand))
    colours: list[str] = []
    for operation in graph.operations:
        colours.append(_digest([operation.name, *operation.attributes, *_describe_operands(operation, colours)]))
    num_classes = 0
    # a round of refinement that splits no class is the last: the next one would see what it saw
    while len(set(colours)) > num_classes:
        num_classes = len(set(colours))
        colours = [
            _digest(
                [
                    colours[place],
                    "<",
                    *_describe_operands(operation, colours),
                    ">",
                    *_describe_readers(readers[place], colours),
                ]
            )
            for place, operation in enumerate(graph.operations)
        ]
    return colours


def _describe_operands(operation: Operation, colours: Sequence[str]) -> list[str]:
    texts = [f"{o.role}:{colours[o.source]}.{o.output}[{o.reach}]" for o in operation.operands]
    return sorted(texts) if operation.name in COMMUTATIVE else texts


def _describe_readers(readers: Sequence[tuple[int, Operand]], colours: Sequence[str]) -> list[str]:
    return sorted(f"{o.role}:{colours[place]}.{o.output}[{o.reach}]" for place, o in readers)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
