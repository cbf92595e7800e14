"""A hash that decides whether two operation graphs are one computation, and a line that shows a graph.

The hash refines colours until they tell no more operations apart (Weisfeiler and Lehman). Two graphs that are the same
in normal form always have one hash. Two that differ could share one in theory, which would drop a training task too
many, never keep one too few.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from .normal_form import simplify
from .operation_graph import COMMUTATIVE, EVERYWHERE, INVERSES, LEAF, Operand, Operation, OperationGraph


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
    sign = operand.role if operand.role in INVERSES.values() else ""
    return f"{sign}{texts[operand.source]}{output}{reach}"


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
