"""What a program computes, as a graph that neither names nor numbers change.

Two tasks are equal here when one becomes the other by renaming and by other constants. Constants are sizes and every
number that is no choice of an operation: slopes, bounds, epsilons, window and group sizes, strides, paddings. What is
left is the operations, how they are connected, which dimensions they reduce over, mask, reverse or broadcast along, and
their named modes. `normal_form` says which graphs are one computation, and `graph_hash` gives each a hash.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

LEAF = "tensor"
"""The operation of what is given: inputs, parameters and constant tensors alike."""

EVERYWHERE = "all"
"""The reach of an operand that has its own element for each element of the result."""

NUMBER = "number"
"""The attribute of an operation that has a number among what it adds, multiplies or compares."""

NEGATED = "-"
"""The role of what a sum subtracts."""

UNDER = "/"
"""The role of what a product divides by."""

INVERSES = {"add": NEGATED, "mul": UNDER}
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

    `role` is the argument's name, or whether a sum subtracts it or a product divides by it; `reach` says along which
    dimensions, counted from the end, the value varies.
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
