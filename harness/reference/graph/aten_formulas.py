"""Operators of elements that are formulas, written as what they consist of: who writes them out writes the same.

Those that PyTorch's own decompositions write as well are left to these (`aten_forms.DECOMPOSED`).
A formula gets the builder, the call and the values that it reads by the names of their arguments, and gives its result.
Those of whole dimensions are in `aten_reductions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from ....core.graphs.operation_graph import Operand
from .graph_builder import GraphBuilder, plain
from .operation_call import Call

Read = Mapping[str, Operand]
Formula = Callable[[GraphBuilder, Call, Read], Operand | None]
"""Gives nothing where the arguments make it another function."""


def _of_one(write: Callable[[GraphBuilder, Operand], Operand]) -> Formula:
    def formula(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
        return write(build, next(iter(read.values())))

    return formula


def _log_sigmoid(build: GraphBuilder, x: Operand) -> Operand:
    return build.total(minus=[build.softplus(build.total(minus=[x]))])


def _expm1(build: GraphBuilder, x: Operand) -> Operand:
    return build.total(build.apply("exp", x), number=True)


def _log1p(build: GraphBuilder, x: Operand) -> Operand:
    return build.apply("log", build.total(x, number=True))


def _threshold(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    x, limit, value = read["self"], float(call.given["threshold"]), float(call.given["value"])
    return build.choose(build.above(x, limit), x, build.constant(value))


def _masked_fill(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    value = call.given["value"]
    filled = read["value"] if "value" in read else build.constant(float(value))
    return build.choose(read["mask"], filled, read["self"])


def _where(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    if not {"condition", "self", "other"} <= set(read):
        return None
    return build.choose(read["condition"], read["self"], read["other"])


def _glu(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    halves = build.add(
        "split", [plain(read["self"])], [f"dim={call.given['dim'] % call.first.dim() - call.first.dim()}"]
    )
    return build.product(halves, build.sigmoid(evolve(halves, output=1)))


def _power(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    x, exponent = read.get("self"), call.given.get("exponent")
    if x is None or "exponent" in read:
        return None
    if exponent in (2, 3, 4):
        return build.product(*[x] * int(exponent))
    if exponent in (-1, -2):
        return build.product(under=[x] * -int(exponent))
    if exponent in (0.5, -0.5):
        root = build.apply("sqrt", x)
        return root if exponent > 0 else build.product(under=[root])
    return None


def _reciprocal(build: GraphBuilder, x: Operand) -> Operand:
    return build.product(under=[x])


def _rsqrt(build: GraphBuilder, x: Operand) -> Operand:
    return build.product(under=[build.apply("sqrt", x)])


def _negative(build: GraphBuilder, x: Operand) -> Operand:
    return build.total(minus=[x])


def scale(build: GraphBuilder, x: Operand, factor: Any) -> Operand:
    """The value times a number, as it was where that is one."""
    return x if factor == 1 else evolve(build.scale(plain(x), float(factor)), reach=x.reach)


def _add(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    alpha = call.given.get("alpha", 1)
    if call.number is not None:
        return build.total(*read.values(), number=True)
    return build.total(read["self"], scale(build, read["other"], alpha))


def _sub(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    one, other = read.get("self"), read.get("other")
    if call.name == "rsub":
        one, other = other, one
    alpha = call.given.get("alpha", 1)
    if one is None and other is not None:  # a number less a tensor
        return build.total(minus=[scale(build, other, alpha)], number=True)
    if other is None and one is not None:
        return build.total(scale(build, one, alpha) if call.name == "rsub" else one, number=True)
    assert one is not None
    assert other is not None
    return build.total(one, minus=[scale(build, other, alpha)])


def _mul(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    if call.number is not None:
        return build.scale(next(iter(read.values())), call.number)
    one, other = read["self"], read["other"]
    for mask, x in ((one, other), (other, one)):
        compared = build.comparisons.get(mask.source)
        if compared is not None and compared.number == 0 and compared.operand == plain(x):
            return build.clamp(x, "lower" if compared.is_above else "upper")
    return build.product(one, other)


def _div(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    if call.given.get("rounding_mode"):
        return None
    if call.number is not None:
        return build.scale(read["self"], 1 / call.number) if call.number else None
    return build.product(read["self"], under=[read["other"]])


def _lerp(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    span = build.total(read["end"], minus=[read["self"]])
    weight = read.get("weight")
    return build.total(
        read["self"], build.product(span, number=True) if weight is None else build.product(span, weight)
    )


FORMULAS: dict[str, Formula] = {
    "sigmoid": _of_one(lambda build, x: build.sigmoid(x)),
    "softplus": _of_one(lambda build, x: build.softplus(x)),
    "log_sigmoid_forward": _of_one(_log_sigmoid),
    "expm1": _of_one(_expm1),
    "log1p": _of_one(_log1p),
    "threshold": _threshold,
    "masked_fill": _masked_fill,
    "where": _where,
    "glu": _glu,
    "pow": _power,
    "reciprocal": _of_one(_reciprocal),
    "rsqrt": _of_one(_rsqrt),
    "neg": _of_one(_negative),
    "add": _add,
    "sub": _sub,
    "rsub": _sub,
    "mul": _mul,
    "div": _div,
    "number_over": lambda build, call, read: build.product(under=[read["self"]], number=True),
    "lerp": _lerp,
}
"""By the operator's name."""
