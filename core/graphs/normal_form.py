"""Which operation graphs are one computation: rules that write a graph in one of its forms.

Equal operations on equal operands are one. Sums of sums are one sum, whose operands are added or subtracted, and
products of products one product, whose operands are multiplied or divided by; what is added and subtracted again is
left out. Signs go outwards, and the sign of what a number multiplies is that number's. Scaling goes through matrix
products. What a stable softmax or log-sum-exp subtracts from an exponent cancels, as it does in mathematics.

The rules are equalities of real numbers up to constants, each written in one direction; none knows a function's name
beyond exponentials, logarithms, sums and clamping, since functions are written as their formulas when they are traced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import evolve

from .operation_graph import (
    ASSOCIATIVE,
    COMMUTATIVE,
    EVERYWHERE,
    INVERSES,
    LEAF,
    NEGATED,
    NUMBER,
    UNDER,
    Operand,
    Operation,
    OperationGraph,
)

NORMAL_FORM = 3
"""Which rules these are, those of operators' formulas among them: raised with them, so that no old hash is compared."""

_MOST_PASSES = 200
_PRODUCTS = ("matmul", "bmm", "mv")
_CHOICES = {"gelu": ("approximate=none",), "gelu tanh": ("approximate=tanh",)}
"""Activations as PyTorch calls them, by what they are called here."""


def simplify(graph: OperationGraph) -> OperationGraph:
    """The graph in normal form: without what the results do not need, and with every rule applied until none can be."""
    plain = _merge_equals(graph)
    # what a rule makes of an operation may be what another waits for; rules that undo each other would never end
    for _ in range(_MOST_PASSES):
        simpler = _merge_equals(_Rewriting(plain).finish())
        if simpler == plain:
            break
        plain = simpler
    return plain


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
    plain = (evolve(o, role=o.role if o.role == INVERSES.get(name) else "") for o in operands)
    return tuple(sorted(plain, key=lambda o: (o.source, o.output, o.reach, o.role)))


def _flip(operands: Iterable[Operand], inverse: str) -> tuple[Operand, ...]:
    return tuple(evolve(operand, role="" if operand.role == inverse else inverse) for operand in operands)


def _cancel(operands: Iterable[Operand]) -> list[Operand]:
    """The operands of a sum or product without pairs of one and its inverse."""
    left: list[Operand] = []
    for operand in operands:
        opposite = next((o for o in left if o.role != operand.role and evolve(o, role=operand.role) == operand), None)
        if opposite is None:
            left.append(operand)
        else:
            left.remove(opposite)
    return left


class _Rewriting:
    """One pass over a graph: each operation is written anew, or stands for a value that was there."""

    def __init__(self, graph: OperationGraph) -> None:
        self._graph = graph
        self._written: list[Operation] = []
        self._values: list[tuple[int, int]] = []
        """By place in the old graph: place in the new one and output, the latter added to the output that is read."""
        uses = Counter(operand.source for operation in graph.operations for operand in operation.operands)
        uses.update(result.source for result in graph.results)
        self._old_uses = uses
        self._uses: Counter[int] = Counter()

    def finish(self) -> OperationGraph:
        for place, operation in enumerate(self._graph.operations):
            moved = evolve(operation, operands=tuple(self._follow(operand) for operand in operation.operands))
            found = self._rewrite(moved)
            value = (self._write(found), 0) if isinstance(found, Operation) else (found.source, found.output)
            self._values.append(value)
            self._uses[value[0]] += self._old_uses[place]
        results = tuple(self._follow(result) for result in self._graph.results)
        return OperationGraph(operations=tuple(self._written), results=results)

    def _follow(self, operand: Operand) -> Operand:
        place, output = self._values[operand.source]
        return evolve(operand, source=place, output=output + operand.output)

    def _write(self, operation: Operation) -> int:
        self._written.append(operation)
        return len(self._written) - 1

    def _add(self, name: str, operands: Iterable[Operand], attributes: Sequence[str] = ()) -> Operand:
        """A new operation that one of this pass reads."""
        return Operand(source=self._write(Operation(name=name, operands=tuple(operands), attributes=tuple(attributes))))

    def _made_by(self, operand: Operand) -> Operation:
        return self._written[operand.source]

    def _rewrite(self, operation: Operation) -> Operation | Operand:
        if operation.name in ASSOCIATIVE:
            operation = self._flatten(operation)
        match operation.name:
            case "add":
                return self._sum(operation)
            case "mul":
                return self._product(operation)
            case "maximum" | "minimum":
                return self._unwrap(operation)
            case "clamp" if len(operation.operands) == 1 and self._made_by(operation.operands[0]).name == "clamp":
                return self._clamp(operation)
            case "exp":
                return self._exponential(operation)
            case "log":
                return self._logarithm(operation)
            case "sum" | "mean":
                return self._reduction(operation)
            case name if name in _PRODUCTS:
                return self._matrix_product(operation)
        return operation

    def _flatten(self, operation: Operation) -> Operation:
        """Sums of sums and products of products in one; of an inner one that others read too, a number or a sign."""
        inverse = INVERSES.get(operation.name, "")
        operands: list[Operand] = []
        attributes = list(operation.attributes)
        for operand in operation.operands:
            inner = self._made_by(operand)
            is_alone = self._uses[operand.source] == 1 or len(inner.operands) == 1
            if inner.name != operation.name or not is_alone or not self._can_spread(inner, operand.reach):
                operands.append(operand)
                continue
            is_inverse = bool(inverse) and operand.role == inverse
            parts = _flip(inner.operands, inverse) if is_inverse else inner.operands
            operands += parts if operand.reach == EVERYWHERE else (evolve(part, reach=operand.reach) for part in parts)
            attributes += inner.attributes
        # of what is added and subtracted nothing is left, and an extreme of equals is what they are
        operands = _cancel(operands) if inverse else list(dict.fromkeys(operands))
        return Operation(name=operation.name, operands=tuple(operands), attributes=tuple(attributes))

    def _can_spread(self, inner: Operation, reach: str) -> bool:
        """Whether what reads the result could as well read the operands; a given tensor's reach is its own."""
        return reach == EVERYWHERE or all(
            part.reach == EVERYWHERE and self._made_by(part).name != LEAF for part in inner.operands
        )

    def _sum(self, operation: Operation) -> Operation | Operand:
        # the sign of what a number multiplies is the number's
        operands = tuple(
            evolve(operand, role="")
            if operand.role == NEGATED and self._is_scaled(operand) and self._uses[operand.source] == 1
            else operand
            for operand in operation.operands
        )
        return self._unwrap(evolve(operation, operands=operands))

    def _is_scaled(self, operand: Operand) -> bool:
        made = self._made_by(operand)
        return made.name == "mul" and NUMBER in made.attributes

    def _product(self, operation: Operation) -> Operation | Operand:
        operands, is_negative = [], False
        for operand in operation.operands:
            inner = self._made_by(operand)
            if inner.name == "add" and len(inner.operands) == 1 and not inner.attributes:
                # negated, for a sum of one that is added stands for its operand
                is_negative = not is_negative
                operand = evolve(operand, source=inner.operands[0].source, output=inner.operands[0].output)
            operands.append(operand)
        known = self._name_activation(evolve(operation, operands=tuple(operands)))
        if not is_negative or NUMBER in operation.attributes:
            return self._unwrap(known)
        made = self._settle(known)
        self._uses[made.source] += 1
        return Operation(name="add", operands=(evolve(made, role=NEGATED, reach=EVERYWHERE),))

    def _name_activation(self, operation: Operation) -> Operation:
        """A product that holds GELU or hardswish written out, their factor among its numbers, as one of that."""
        if NUMBER not in operation.attributes:
            return operation
        for factor in operation.operands:
            name, x = self._find_gate(factor)
            if x is None or factor.role or evolve(factor, source=x.source, output=x.output) not in operation.operands:
                continue
            rest = list(operation.operands)
            rest.remove(factor)
            rest.remove(evolve(factor, source=x.source, output=x.output))
            made = self._add(name.partition(" ")[0], (x,), _CHOICES.get(name, ()))
            self._uses[made.source] += 1
            return Operation(name="mul", operands=(*rest, evolve(made, reach=factor.reach)))
        return operation

    def _find_gate(self, factor: Operand) -> tuple[str, Operand | None]:
        """The activation that is a value times this factor and a number, and that value; or nothing."""
        made = self._made_by(factor)
        if made.name == "clamp" and made.attributes == ("lower", "upper") and len(made.operands) == 1:
            return "hardswish", self._find_only(made.operands[0], "add")
        inner = self._find_only(factor, "add")
        if inner is None or self._made_by(inner).name not in ("erf", "tanh"):
            return "", None
        x = self._find_only(self._made_by(inner).operands[0], "mul")
        if x is None or self._made_by(inner).name == "erf":
            return "gelu", x
        return "gelu tanh", self._find_cubic(x)

    def _find_only(self, operand: Operand, name: str) -> Operand | None:
        """What a sum or a product adds to a number, or multiplies by one."""
        made = self._made_by(operand)
        is_plain = made.name == name and made.attributes == (NUMBER,) and len(made.operands) == 1
        return made.operands[0] if is_plain and made.operands[0] == Operand(source=made.operands[0].source) else None

    def _find_cubic(self, operand: Operand) -> Operand | None:
        """The value of which an operand is the sum with a multiple of its cube."""
        made = self._made_by(operand)
        for x in made.operands if made.name == "add" and len(made.operands) == 2 else ():
            (other,) = [part for part in made.operands if part is not x]
            cube = self._made_by(other)
            if cube.name == "mul" and cube.operands == (x, x, x) and cube.attributes == (NUMBER,):
                return x
        return None

    def _unwrap(self, operation: Operation) -> Operation | Operand:
        """A sum, a product or an extreme of one thing is that thing."""
        if len(operation.operands) == 1 and not operation.attributes:
            (only,) = operation.operands
            if not only.role and only.reach == EVERYWHERE:
                return only
        return operation

    def _settle(self, operation: Operation) -> Operand:
        """A sum or a product that is read, as what it is or written."""
        found = self._unwrap(operation)
        return Operand(source=self._write(found)) if isinstance(found, Operation) else found

    def _clamp(self, operation: Operation) -> Operation:
        """A clamp from one side of a clamp from the other, or again from the same, is one clamp."""
        (operand,) = operation.operands
        inner = self._made_by(operand)
        if len(inner.operands) > 1 or max(len(inner.attributes), len(operation.attributes)) > 1:
            return operation
        return Operation(name="clamp", operands=inner.operands, attributes=(*inner.attributes, *operation.attributes))

    def _exponential(self, operation: Operation) -> Operation:
        """exp(x - max(x)) and exp(x - log(y)) as quotients."""
        (operand,) = operation.operands
        inner = self._made_by(operand)
        if inner.name != "add" or NUMBER in inner.attributes:
            return operation
        kept, factors = [], []
        for part in inner.operands:
            made = self._made_by(part)
            role = UNDER if part.role == NEGATED else ""
            if made.name == "log":
                factors.append(evolve(made.operands[0], role=role, reach=part.reach))
            elif made.name == "amax" and role:
                exponential = self._add("exp", (evolve(part, role="", reach=EVERYWHERE),))
                factors.append(evolve(exponential, role=role, reach=part.reach))
            else:
                kept.append(part)
        if not factors or not kept:
            return operation
        rest = self._settle(Operation(name="add", operands=tuple(kept)))
        return Operation(name="mul", operands=(self._add("exp", (rest,)), *factors))

    def _logarithm(self, operation: Operation) -> Operation | Operand:
        """The logarithm of an exponential, or of a product that has one in it."""
        (operand,) = operation.operands
        inner = self._made_by(operand)
        if inner.name == "exp":
            return inner.operands[0]
        if inner.name != "mul" or inner.attributes:
            return operation
        if not any(self._made_by(part).name == "exp" or part.role == UNDER for part in inner.operands):
            return operation
        parts = [
            evolve(
                self._add("log", (evolve(part, role="", reach=EVERYWHERE),)),
                role=NEGATED if part.role == UNDER else "",
                reach=part.reach,
            )
            for part in inner.operands
        ]
        return Operation(name="add", operands=tuple(parts))

    def _reduction(self, operation: Operation) -> Operation:
        """A sum of a product without what is the same for all that is summed; a sign goes outwards."""
        (operand,) = operation.operands
        inner = self._made_by(operand)
        if (
            inner.name == "add"
            and inner.operands
            and not inner.attributes
            and all(part.role == NEGATED for part in inner.operands)
        ):
            rest = self._settle(evolve(inner, operands=_flip(inner.operands, NEGATED)))
            made = self._add(operation.name, (rest,), operation.attributes)
            return Operation(name="add", operands=(evolve(made, role=NEGATED),))
        dims = next((text.removeprefix("dim=") for text in operation.attributes if text.startswith("dim=")), "")
        same = (f"not {dims}", "nowhere")
        if inner.name != "mul" or not dims:
            return operation
        moved = [part for part in inner.operands if part.reach in same and self._made_by(part).name != LEAF]
        kept = [part for part in inner.operands if part not in moved]
        if not kept or not (moved or inner.attributes):
            return operation
        rest = self._settle(Operation(name="mul", operands=tuple(kept)))
        made = self._add(operation.name, (rest,), operation.attributes)
        parts = (made, *(evolve(part, reach=EVERYWHERE) for part in moved))
        return Operation(name="mul", operands=parts, attributes=inner.attributes)

    def _matrix_product(self, operation: Operation) -> Operation:
        """A product of scaled factors as the scaled product of them."""
        factors, is_scaled = [], False
        for operand in operation.operands:
            if self._is_scaled(operand) and self._uses[operand.source] == 1:
                is_scaled = True
                made = self._made_by(operand)
                operand = evolve(self._settle(Operation(name="mul", operands=made.operands)), role=operand.role)
            factors.append(operand)
        if not is_scaled:
            return operation
        made_of = self._add(operation.name, factors, operation.attributes)
        return Operation(name="mul", operands=(made_of,), attributes=(NUMBER,))
