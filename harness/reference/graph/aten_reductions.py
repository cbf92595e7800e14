"""Operators of whole dimensions that are formulas: products, reductions, norms, losses, pooling of all, attention."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from ....core.graphs.operation_graph import Operand
from .aten_formulas import FORMULAS, Formula, Read, scale
from .dimensions import name_reach, name_spread
from .graph_builder import GraphBuilder, plain
from .operation_call import Call


def _addmm(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    names = {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec")}[call.name]
    made = multiply(build, call, read[names[0]], read[names[1]])
    return build.total(scale(build, read["self"], call.given["beta"]), scale(build, made, call.given["alpha"]))


def multiply(build: GraphBuilder, call: Call, left: Operand, right: Operand) -> Operand:
    """A matrix product, of which one with a single row or column is one with a vector."""
    left, right = plain(left), plain(right)
    name = {"addmm": "matmul", "mm": "matmul", "baddbmm": "bmm", "addmv": "mv"}.get(call.name, call.name)
    shapes = [tensor.shape for _, tensor in call.tensors[-2:]]
    if name == "bmm" and shapes[0][0] == 1:
        name = "matmul"
    if name == "matmul" and shapes[1][-1] == 1:
        name = "mv"
    elif name == "matmul" and shapes[0][-2] == 1:
        left, right, name = build.permute(right, (-1, -2)), left, "mv"
    return build.add(name, [left, right], [f"batch={call.num_outer}"] if call.num_outer > 1 else [])


def _matmul(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    left, right = read.values()
    return multiply(build, call, left, right)


def _dot(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    return build.reduce("sum", build.product(*read.values()), call.first.shape, [-1])


def _reduce(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    return build.reduce(call.name, read["self"], call.first.shape, call.reduced)


def _extreme(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    return build.reduce(f"a{call.name}", read["self"], call.first.shape, call.reduced)


def _variance(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    _, variance = build.variance(*build.find_base(read["self"], call.first.shape, call.reduced))
    if call.given.get("correction", 1) != 0:
        variance = build.product(variance, number=True)
    return variance if call.name == "var" else build.apply("sqrt", variance)


def _norm(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    x, order = read["self"], call.given.get("ord", call.given.get("p", 2))
    order = 2 if order is None else order
    x, shape, dims = build.find_base(x, call.first.shape, call.reduced)
    if order == 2:
        return build.apply("sqrt", build.reduce("sum", build.product(x, x), shape, dims))
    if order == 1:
        return build.reduce("sum", build.apply("abs", x), shape, dims)
    return None


def _softmax(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    return build.softmax(read["self"], call.first.shape, call.reduced[0])


def _log_softmax(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    x, shape, dims = read["self"], call.first.shape, call.reduced
    return build.total(plain(x), minus=[evolve(build.logsumexp(x, shape, dims), reach=name_spread(shape, dims))])


def _logsumexp(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    return build.logsumexp(*build.find_base(read["self"], call.first.shape, call.reduced))


def _layer_norm(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    shape, dims = call.first.shape, range(-len(call.given["normalized_shape"]), 0)
    return _weigh(build, build.normalise(read["input"], shape, dims), call, read)


def _weigh(build: GraphBuilder, value: Operand, call: Call, read: Read, axis: int | None = None) -> Operand:
    """A norm's value with its weight and bias, which vary along the last dimensions, or along `axis` from the end."""
    shape = call.first.shape

    def reach(name: str) -> Operand:
        tensor = call.given[name]
        own = tensor.shape if axis is None else (*tensor.shape, *[1] * (-axis - 1))
        return evolve(read[name], reach=name_reach(own, [1] * len(own), shape, build.is_given(read[name])))

    if "weight" in read:
        value = build.product(value, reach("weight"))
    return build.total(value, reach("bias")) if "bias" in read else value


def _batch_norm(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
    if call.given.get("training") or not {"running_mean", "running_var"} <= set(read):
        return None
    shape, axis = call.first.shape, 1 - call.first.dim()
    if build.is_given(read["running_mean"]):
        mean = evolve(read["running_mean"], reach=str(axis) if call.first.dim() > 1 else read["running_mean"].reach)
    else:
        return None
    others = [dim for dim in range(-len(shape), 0) if dim != axis]
    root = build.apply("sqrt", build.total(plain(read["running_var"]), number=True))
    value = build.product(
        build.total(plain(read["input"]), minus=[mean]), under=[evolve(root, reach=name_spread(shape, others))]
    )
    return _weigh(build, value, call, read, axis)


def _loss(write: Callable[[GraphBuilder, Operand, Operand], Operand]) -> Formula:
    """A loss of elements, as they are, averaged or summed."""

    def formula(build: GraphBuilder, call: Call, read: Read) -> Operand | None:
        if call.given["self"].shape != call.given["target"].shape:
            return None
        value = write(build, read["self"], read["target"])
        reduction = {1: "mean", 2: "sum"}.get(call.given["reduction"])
        shape = call.first.shape
        return value if reduction is None else build.reduce(reduction, value, shape, range(-len(shape), 0))

    return formula


def _squared_error(build: GraphBuilder, x: Operand, y: Operand) -> Operand:
    difference = build.total(x, minus=[y])
    return build.product(difference, difference)


def _soft_margin(build: GraphBuilder, x: Operand, y: Operand) -> Operand:
    return build.softplus(build.total(minus=[build.product(x, y)]))


def _cross_entropy(build: GraphBuilder, x: Operand, y: Operand) -> Operand:
    """Of probabilities and what they should be."""
    missed = build.product(build.total(minus=[y], number=True), build.apply("log", build.total(minus=[x], number=True)))
    return build.total(minus=[build.total(build.product(y, build.apply("log", x)), missed)])


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
    "addmm": _addmm,
    "baddbmm": _addmm,
    "addmv": _addmm,
    "mm": _matmul,
    "bmm": _matmul,
    "mv": _matmul,
    "dot": _dot,
    "sum": _reduce,
    "mean": _reduce,
    "amax": _reduce,
    "amin": _reduce,
    "argmax": _reduce,
    "argmin": _reduce,
    "max": _extreme,
    "min": _extreme,
    "var": _variance,
    "std": _variance,
    "linalg_vector_norm": _norm,
    "norm": _norm,
    "_softmax": _softmax,
    "_safe_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "native_layer_norm": _layer_norm,
    "native_batch_norm": _batch_norm,
    "_native_batch_norm_legit": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "cudnn_batch_norm": _batch_norm,
    "mse_loss": _loss(_squared_error),
    "soft_margin_loss": _loss(_soft_margin),
    "binary_cross_entropy": _loss(_cross_entropy),
    **{f"{kind}_pool{rank}d": _pool_all for kind in ("avg", "adaptive_max", "_adaptive_avg") for rank in (1, 2, 3)},
}
"""By the operator's name."""


def find_formula(name: str) -> Formula | None:
    """The formula of an operator, if it is one."""
    if name.startswith("_scaled_dot_product"):
        return _attention
    return _REDUCING.get(name) or FORMULAS.get(name)
