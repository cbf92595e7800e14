"""Operation graphs: what their hash tells apart, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.graphs.graph_hash import describe_graph, hash_graph
from tritonrl.core.graphs.normal_form import simplify
from tritonrl.core.graphs.operation_graph import LEAF, Operand, Operation, OperationGraph

ARITIES = {"exp": 1, "sub": 2, "matmul": 2, "eq": 2, "add": 2, "mul": 2}
"""`eq` is commutative alone, `add` and `mul` are associative too."""
TREE_ARITIES = {name: ARITIES[name] for name in ("exp", "sub", "eq")}


def _graph(num_given: int, steps: Sequence[tuple[str, Sequence[int]]], results: Sequence[int] = ()) -> OperationGraph:
    """That many given tensors, then steps of a name and places; the result is the last step where none is named."""
    operations = [Operation(name=LEAF)] * num_given
    for name, places in steps:
        operations.append(Operation(name=name, operands=tuple(Operand(source=place) for place in places)))
    ends = results or [len(operations) - 1]
    return OperationGraph(operations=tuple(operations), results=tuple(Operand(source=end) for end in ends))


@st.composite
def graphs(draw: Any, arities: dict[str, int] = ARITIES, max_steps: int = 8) -> OperationGraph:
    """A few given tensors and steps on earlier places."""
    num_given = draw(st.integers(1, 3))
    steps: list[tuple[str, list[int]]] = []
    for place in range(num_given, num_given + draw(st.integers(1, max_steps))):
        name = draw(st.sampled_from(sorted(arities)))
        steps.append((name, [draw(st.integers(0, place - 1)) for _ in range(arities[name])]))
    return _graph(num_given, steps)


def _rename(graph: OperationGraph, order: Sequence[int]) -> OperationGraph:
    """The same graph with its operations in another order: the first of `order` that can come next, and so on."""
    left = list(order)
    places: dict[int, int] = {}
    written: list[Operation] = []
    while left:
        free = next(p for p in left if all(o.source in places for o in graph.operations[p].operands))
        left.remove(free)
        operation = graph.operations[free]
        moved = tuple(evolve(o, source=places[o.source]) for o in operation.operands)
        places[free] = len(written)
        written.append(evolve(operation, operands=moved))
    results = tuple(evolve(result, source=places[result.source]) for result in graph.results)
    return OperationGraph(operations=tuple(written), results=results)


def _expression(graph: OperationGraph, place: int, names: dict[int, int]) -> str:
    """What a place computes as text, its given tensors going by `names`."""
    operation = graph.operations[place]
    if operation.name == LEAF:
        return f"x{names[place]}"
    parts = [_expression(graph, operand.source, names) for operand in operation.operands]
    return f"{operation.name}({', '.join(sorted(parts) if operation.name == 'eq' else parts)})"


def _smallest_expression(graph: OperationGraph) -> str:
    """The first in the alphabet of the result's expressions under all names of the given tensors."""
    leaves = [place for place, operation in enumerate(graph.operations) if operation.name == LEAF]
    end = graph.results[0].source
    return min(
        _expression(graph, end, dict(zip(leaves, order, strict=True))) for order in permutations(range(3), len(leaves))
    )


@given(graphs(), st.randoms(use_true_random=False))
def test_hash_does_not_see_names_or_the_order_of_operands(graph: OperationGraph, random: Any) -> None:
    """Operations written down in another order, with the operands of sums and products swapped, have the same hash."""
    order = random.sample(range(len(graph.operations)), len(graph.operations))
    renamed = _rename(graph, order)
    swapped = tuple(
        evolve(operation, operands=operation.operands[::-1]) if operation.name in ("eq", "add", "mul") else operation
        for operation in renamed.operations
    )
    assert hash_graph(evolve(renamed, operations=swapped)) == hash_graph(graph)


@given(graphs(TREE_ARITIES, 4), graphs(TREE_ARITIES, 4))
@settings(max_examples=300)
def test_hash_is_equal_exactly_for_equal_expressions(first: OperationGraph, second: OperationGraph) -> None:
    """Two graphs share a hash exactly when some names of the given tensors make their results one expression."""
    equal = _smallest_expression(first) == _smallest_expression(second)
    assert (hash_graph(first) == hash_graph(second)) == equal


def test_hash_tells_every_small_expression_apart() -> None:
    """Of all graphs with two steps on two given tensors, as many hashes as there are expressions up to names."""
    found = [
        _graph(2, [(first, places), (second, [*more, 2][: TREE_ARITIES[second]][::-1])])
        for first, second in product(TREE_ARITIES, repeat=2)
        for places in product(range(2), repeat=TREE_ARITIES[first])
        for more in product(range(3), repeat=TREE_ARITIES[second] - 1)
    ]
    expressions = {_smallest_expression(graph) for graph in found}
    assert len(expressions) > 15
    assert len({hash_graph(graph) for graph in found}) == len(expressions)


@given(graphs())
def test_simplifying_twice_changes_nothing(graph: OperationGraph) -> None:
    """What is simplified is simple."""
    assert simplify(simplify(graph)) == simplify(graph)


@given(st.permutations(range(5)), st.lists(st.integers(0, 8), min_size=4, max_size=4), st.sampled_from(["add", "mul"]))
def test_brackets_of_a_sum_do_not_count(order: list[int], picks: list[int], name: str) -> None:
    """Five summands give one hash in every order and under every bracketing."""
    waiting = list(order)
    steps = []
    for number, pick in enumerate(picks):
        one = waiting.pop(pick % len(waiting))
        other = waiting.pop(pick // 2 % len(waiting))
        steps.append((name, [one, other]))
        waiting.append(5 + number)
    plain = _graph(5, [(name, [0, 1]), (name, [5, 2]), (name, [6, 3]), (name, [7, 4])])
    assert hash_graph(_graph(5, steps)) == hash_graph(plain)


def test_brackets_do_not_count_where_two_sums_share_a_part() -> None:
    """Two sums of the same, bracketed in two ways around a sum that both read, are one value."""
    one_way = [("add", [0, 1]), ("add", [4, 2]), ("add", [5, 3])]
    twice = _graph(4, [*one_way, ("add", [2, 3]), ("add", [4, 7]), ("matmul", [6, 8])])
    once = _graph(4, [*one_way, ("matmul", [6, 6])])
    assert hash_graph(twice) == hash_graph(once)


def _signed(name: str, *places: int, roles: str, attributes: tuple[str, ...] = ()) -> Operation:
    """An operation on these places, each with a role: "-" or "/", or "." for none."""
    operands = [Operand(source=place, role=role.strip(".")) for place, role in zip(places, roles, strict=True)]
    return Operation(name=name, operands=tuple(operands), attributes=attributes)


def _of(*operations: Operation, num_given: int = 3) -> OperationGraph:
    given = (Operation(name=LEAF),) * num_given
    last = Operand(source=num_given + len(operations) - 1)
    return OperationGraph(operations=(*given, *operations), results=(last,))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # a - (b - c) and c + a - b
        (
            [_signed("add", 1, 2, roles=".-"), _signed("add", 0, 3, roles=".-")],
            [_signed("add", 2, 0, roles=".."), _signed("add", 3, 1, roles=".-")],
        ),
        # a / (b / c) and a * c / b
        (
            [_signed("mul", 1, 2, roles="./"), _signed("mul", 0, 3, roles="./")],
            [_signed("mul", 0, 2, roles=".."), _signed("mul", 3, 1, roles="./")],
        ),
        # (-a) * b * c and -(a * b * c)
        (
            [_signed("add", 0, roles="-"), _signed("mul", 3, 1, 2, roles="...")],
            [_signed("mul", 0, 1, 2, roles="..."), _signed("add", 3, roles="-")],
        ),
        # a - 2 * b and a + 3 * b, which are one up to constants
        (
            [_signed("mul", 1, roles=".", attributes=("number",)), _signed("add", 0, 3, roles=".-")],
            [_signed("mul", 1, roles=".", attributes=("number",)), _signed("add", 0, 3, roles="..")],
        ),
        # (a + b) - b and a
        (
            [_signed("add", 0, 1, roles=".."), _signed("add", 3, 1, roles=".-"), _signed("exp", 4, roles=".")],
            [_signed("exp", 0, roles=".")],
        ),
    ],
)
def test_signs_and_quotients_have_one_form(one: list[Operation], other: list[Operation]) -> None:
    """Differences are sums and quotients are products, whatever their brackets; signs go outwards and cancel."""
    assert hash_graph(_of(*one)) == hash_graph(_of(*other))


def test_a_sum_of_nothing_ends_simplifying() -> None:
    """What is left of x - x under a sum is simple in finite time."""
    nothing = _of(_signed("add", 0, 0, roles=".-"), Operation(name="sum", operands=(Operand(source=3),)))
    assert simplify(simplify(nothing)) == simplify(nothing)


@given(st.integers(2, 6))
def test_hash_sees_where_a_branch_begins(depth: int) -> None:
    """What is subtracted from a chain's end gives another hash for each place of the chain that it comes from."""
    chain = [("exp", [place]) for place in range(depth)]
    assert len({hash_graph(_graph(1, [*chain, ("sub", [depth, start])])) for start in range(depth + 1)}) == depth + 1


CHANGES = {
    "name": Operation(name="amax", operands=(Operand(source=0),), attributes=("dim=-1",)),
    "dimension": Operation(name="sum", operands=(Operand(source=0),), attributes=("dim=-2",)),
    "reach": Operation(name="sum", operands=(Operand(source=0, reach="-1"),), attributes=("dim=-1",)),
    "output": Operation(name="sum", operands=(Operand(source=0, output=1),), attributes=("dim=-1",)),
    "role": Operation(name="sum", operands=(Operand(source=0, role="weight"),), attributes=("dim=-1",)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_hash_sees_each_part_of_an_operation(change: str) -> None:
    """Another name, dimension, reach, output or role is another graph."""
    plain = Operation(name="sum", operands=(Operand(source=0),), attributes=("dim=-1",))
    hashes = {
        hash_graph(OperationGraph(operations=(Operation(name=LEAF), operation), results=(Operand(source=1),)))
        for operation in (plain, CHANGES[change])
    }
    assert len(hashes) == 2


def test_what_no_result_needs_is_left_out() -> None:
    """A step and a tensor that nothing reads change neither the hash nor the description."""
    plain = _graph(1, [("exp", [0])])
    wasteful = _graph(2, [("exp", [0]), ("sub", [0, 1])], results=[2])
    assert hash_graph(wasteful) == hash_graph(plain)
    assert describe_graph(wasteful) == describe_graph(plain) == "exp(x0)"


def test_a_value_that_is_read_twice_is_described_once() -> None:
    """Equal steps are one value with a name; a value that is read once stands where it is read."""
    graph = _graph(2, [("exp", [0]), ("exp", [0]), ("sub", [2, 1]), ("matmul", [4, 3])])
    assert describe_graph(graph) == "v0 = exp(x0); matmul(sub(v0, x1), v0)"


@pytest.mark.parametrize(("reads", "result"), [(1, 1), (5, 1), (-1, 1), (0, 2), (0, -1)])
def test_graph_reads_earlier_operations_only(reads: int, result: int) -> None:
    """An operation that reads itself, a later or no operation is refused, and so is a result that is none."""
    with pytest.raises(ValueError, match=r"does not come before|no operation's"):
        _graph(1, [("exp", [reads])], results=[result])
