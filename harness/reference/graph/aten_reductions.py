"""Operators of whole dimensions that are formulas: products, reductions, norms, losses, pooling of all, attention."""

from __future__ import annotations

from attrs import evolve

from ....core.graphs.operation_graph import Operand
from .aten_formulas import FORMULAS, Formula, Read
from .dimensions import name_reach, name_spread
from .graph_builder import GraphBuilder, plain
from .operation_call import Call


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
    return build.reduce(call.name, read["self"], call.first.shape, call.reduced)


def _extreme(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    return build.reduce(f"a{call.name}", read["self"], call.first.shape, call.reduced)


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


def _logsumexp(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    return build.logsumexp(*build.find_base(read["self"], call.first.shape, call.reduced))


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


_REDUCING: dict[str, Formula] = {
    "mm": _multiply,
    "bmm": _multiply,
    "mv": _multiply,
    "sum": _reduce,
    "mean": _reduce,
    "amax": _reduce,
    "amin": _reduce,
    "argmax": _reduce,
    "argmin": _reduce,
    "max": _extreme,
    "min": _extreme,
    "var": _variance,
    "linalg_vector_norm": _norm,
    "norm": _norm,
    "logsumexp": _logsumexp,
    "native_layer_norm": _layer_norm,
    "binary_cross_entropy": _cross_entropy,
    **{f"{kind}_pool{rank}d": _pool_all for kind in ("avg", "adaptive_max", "_adaptive_avg") for rank in (1, 2, 3)},
}
"""By the operator's name."""


def find_formula(name: str) -> Formula | None:
    """The formula of an operator, if it is one."""
    if name.startswith("_scaled_dot_product"):
        return _attention
    return _REDUCING.get(name) or FORMULAS.get(name)
