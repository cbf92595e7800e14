"""Operators that are formulas, written as what they consist of: who writes them out writes the same.

Those that PyTorch's own decompositions write as well are left to these (`operation_call.DECOMPOSED`).
A formula gets the builder, the call and the values that it reads by the names of their arguments, and gives its result.
Those of elements come first, then those of whole dimensions: products, reductions, norms, losses, pooling, attention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from ....core.graphs.operation_graph import Operand
from .graph_builder import GraphBuilder, name_reach, name_spread, plain
from .operation_call import Call

Read = Mapping[str, Operand]
Formula = Callable[[GraphBuilder, Call, Read], Operand | None]
"""Gives nothing where the arguments make it another function."""


def _of_one(write: Callable[[GraphBuilder, Operand], Operand]) -> Formula:
    def formula(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
        return write(build, next(iter(read.values())))

    return formula


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


def _multiply(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    """A matrix product, of which one with a single row or column is one with a vector."""
    left, right = map(plain, read.values())
    name = "matmul" if call.name == "mm" else call.name
    shapes = [tensor.shape for _, tensor in call.tensors]
    if name == "bmm" and shapes[0][0] == 1:
        name = "matmul"
    if name == "matmul" and shapes[1][-1] == 1:
        name = "mv"
    elif name == "matmul" and shapes[0][-2] == 1:
        left, right, name = build.permute(right, (-1, -2)), left, "mv"
    return build.add(name, [left, right], [f"batch={call.num_outer}"] if call.num_outer > 1 else [])


def _reduce(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    name = f"a{call.name}" if call.name in ("max", "min") else call.name
    return build.reduce(name, read["self"], call.first.shape, call.reduced)


def _variance(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    _, variance = build.variance(*build.find_base(read["self"], call.first.shape, call.reduced))
    if call.given.get("correction", 1) != 0:
        variance = build.product(variance, number=True)
    return variance


def _norm(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    x, order = read["self"], call.given.get("ord", call.given.get("p", 2))
    order = 2 if order is None else order
    x, shape, dims = build.find_base(x, call.first.shape, call.reduced)
    if order == 2:
        return build.apply("sqrt", build.reduce("sum", build.product(x, x), shape, dims))
    if order == 1:
        return build.reduce("sum", build.apply("abs", x), shape, dims)
    return None


def _layer_norm(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    shape, dims = call.first.shape, range(-len(call.given["normalized_shape"]), 0)
    value = build.normalise(read["input"], shape, dims)

    def reach(name: str) -> Operand:
        own = call.given[name].shape
        return evolve(read[name], reach=name_reach(own, [1] * len(own), shape, build.is_given(read[name])))

    if "weight" in read:
        value = build.product(value, reach("weight"))
    return build.total(value, reach("bias")) if "bias" in read else value


def _cross_entropy(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    """Of probabilities and what they should be: PyTorch bounds the logarithms, which who writes it out does not."""
    if call.given["self"].shape != call.given["target"].shape or "weight" in read:
        return None
    x, y, shape = read["self"], read["target"], call.first.shape
    missed = build.product(build.total(minus=[y], number=True), build.apply("log", build.total(minus=[x], number=True)))
    value = build.total(minus=[build.total(build.product(y, build.apply("log", x)), missed)])
    reduction = {1: "mean", 2: "sum"}.get(call.given["reduction"])
    return value if reduction is None else build.reduce(reduction, value, shape, range(-len(shape), 0))


def _pool_all(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    """Pooling under one window as wide as its input is a reduction."""
    name = "amax" if "max" in call.name else "mean"
    rank = int(call.name.partition("pool")[2][:1])
    x = read["self"]
    sides = list(call.first.shape[-rank:])
    size = call.given.get("kernel_size", call.given.get("output_size"))
    wanted = list(size or ()) * (rank if size is not None and len(size) == 1 else 1)
    if wanted != (sides if "kernel_size" in call.given else [1] * rank) or any(call.given.get("padding") or ()):
        return None
    return build.reduce(name, x, call.first.shape, range(-rank, 0))


def _attention(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    query, key, value = (read[name] for name in ("query", "key", "value"))
    shape = (*call.given["query"].shape[:-1], call.given["key"].shape[-2])
    outer = [size for size in shape[:-2] if size != 1]
    batch = [f"batch={len(outer)}"] if len(outer) > 1 else []
    name = "bmm" if outer else "matmul"
    scores = build.add(name, [plain(query), build.permute(key, (-1, -2))], batch)
    scores = build.product(scores, number=True)
    mask = call.given.get("attn_bias", call.given.get("attn_mask"))
    if mask is not None:
        role = "attn_bias" if "attn_bias" in read else "attn_mask"
        reach = name_reach(mask.shape, mask.stride(), shape, build.is_given(read[role]))
        seen = evolve(read[role], reach=reach)
        is_chosen = str(mask.dtype) == "torch.bool"
        scores = build.choose(seen, scores, build.constant()) if is_chosen else build.total(scores, seen)
    if call.given.get("is_causal"):
        below = build.apply("tril", build.constant())
        scores = build.choose(evolve(below, reach=name_spread(shape, range(-len(shape), -2))), scores, build.constant())
    weights = build.softmax(scores, shape, -1)
    return build.add(name, [weights, plain(value)], batch)


_FORMULAS: dict[str, Formula] = {
    "sigmoid": _of_one(lambda build, x: build.sigmoid(x)),
    "softplus": _of_one(lambda build, x: build.softplus(x)),
    "log_sigmoid_forward": _of_one(lambda build, x: build.total(minus=[build.softplus(build.total(minus=[x]))])),
    "expm1": _of_one(lambda build, x: build.total(build.apply("exp", x), number=True)),
    "log1p": _of_one(lambda build, x: build.apply("log", build.total(x, number=True))),
    "threshold": _threshold,
    "masked_fill": _masked_fill,
    "where": _where,
    "glu": _glu,
    "pow": _power,
    "reciprocal": _of_one(lambda build, x: build.product(under=[x])),
    "rsqrt": _of_one(lambda build, x: build.product(under=[build.apply("sqrt", x)])),
    "neg": _of_one(lambda build, x: build.total(minus=[x])),
    "add": _add,
    **dict.fromkeys(("sub", "rsub"), _sub),
    "mul": _mul,
    "div": _div,
    "number_over": lambda build, call, read: build.product(under=[read["self"]], number=True),
    "lerp": _lerp,
    **dict.fromkeys(("mm", "bmm", "mv"), _multiply),
    **dict.fromkeys(("sum", "mean", "amax", "amin", "argmax", "argmin", "max", "min"), _reduce),
    "var": _variance,
    **dict.fromkeys(("linalg_vector_norm", "norm"), _norm),
    "logsumexp": lambda build, call, read: build.logsumexp(
        *build.find_base(read["self"], call.first.shape, call.reduced)
    ),
    "native_layer_norm": _layer_norm,
    "binary_cross_entropy": _cross_entropy,
    **{f"{kind}_pool{rank}d": _pool_all for kind in ("avg", "adaptive_max", "_adaptive_avg") for rank in (1, 2, 3)},
}
"""By the operator's name."""


def find_formula(name: str) -> Formula | None:
    """The formula of an operator, if it is one."""
    if name.startswith("_scaled_dot_product"):
        return _attention
    return _FORMULAS.get(name)
