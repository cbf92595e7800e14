"""Single operators, and chains of a head and two to six steps, at the sizes and in the shapes that benchmarks have.

Heads are convolutions, products, pooling or norms; then comes whatever the tensor allows.
"""

from __future__ import annotations

from ..builder.draw import Draw
from ..builder.operations import ACTIVATIONS, BIAS, GATE, SCALE, SUBTRACT, UNARY, Operand, apply, make_operation
from ..builder.spec import Size, draw_size
from ..builder.windows import square_window
from ..composition.chains import DIVIDE, LEARNED_SCALE, SOFT_CAP, Chain
from ..composition.heads import (
    MOST_ELEMENTS,
    add_convolution,
    add_image,
    add_matmul,
    add_norm,
    add_tensor,
    draw_batch,
    draw_channels,
    draw_features,
    draw_pool_window,
    draw_rank,
    draw_rows,
    draw_sequence,
    draw_sides,
    draw_tensor_rank,
    least_side,
)
from ..composition.program import Program, ProgramDraw, Shape, fixed, rename
from .pointwise import ACTIVATIONS as RARER


def draw_convolution(program: Program, draw: Draw) -> None:
    """Draw a convolution of any kind but transposed."""
    kind = draw.choice(("standard",) * 4 + ("depthwise", "depthwise", "pointwise", "grouped"))
    add_convolution(program, draw, kind, draw_rank(draw))


def draw_separable(program: Program, draw: Draw) -> None:
    """Draw a depthwise convolution and a pointwise one of its result."""
    rank = draw.choice((1, 2, 2, 2, 3))
    x = add_convolution(program, draw, "depthwise", rank)
    filters = program.dim("out_channels", draw_channels(draw, 8, 256 if rank < 3 else 64))
    program.convolution(x, filters, square_window(rank, 1), 1, bool(program.nodes[x].option("bias")))


def draw_transposed(program: Program, draw: Draw) -> None:
    """Draw a transposed convolution."""
    add_convolution(program, draw, draw.choice(("transposed",) * 4 + ("transposed grouped",)), draw_rank(draw))


def draw_pooling(program: Program, draw: Draw) -> None:
    """Draw max or average pooling."""
    rank, kind = draw_rank(draw), draw.choice(("max", "avg"))
    window = draw_pool_window(draw, rank, has_dilation=kind == "max")
    x = add_image(program, draw, lambda _: rank, 16, 256, window=window, most_places=1 << 18)
    program.pool(x, kind, window)


def draw_dims(draw: Draw, rank: int) -> tuple[int, ...]:
    """Draw dimensions to reduce: mostly one, at times several, or all."""
    if draw.chance(0.65) or rank == 2:
        return (draw.between(1 if draw.chance(0.7) else 0, rank - 1),)
    if rank == 3:
        return draw.choice(((1, 2), (0, 1)))
    last = rank - 1
    return draw.choice(
        (tuple(range(2, rank)), tuple(range(1, rank)), (last - 1, last), (1, last), (0, *range(2, rank)))
    )


def draw_reduction(program: Program, draw: Draw) -> None:
    """Draw a reduction over any dimensions."""
    rank, kind = (
        draw_tensor_rank(draw),
        draw.choice(("sum", "mean", "max", "min", "prod", "logsumexp", "var", "std", "l1", "l2")),
    )
    dims = draw_dims(draw, rank)
    if kind == "prod":
        dims = dims[:1]
    most = 1 << 22 if kind == "prod" else MOST_ELEMENTS
    x = add_tensor(program, draw, rank, "positive" if kind == "prod" else "randn", most)
    program.reduce(x, kind, dims, draw.chance(0.4))


def draw_position(program: Program, draw: Draw) -> None:
    """Draw the position of an extreme along any dimension."""
    rank = draw_tensor_rank(draw)
    x = add_tensor(program, draw, rank)
    program.position(x, draw.choice(("argmax", "argmin")), draw.between(0, rank - 1), draw.chance(0.3))


def draw_softmax(program: Program, draw: Draw) -> None:
    """Draw a softmax, a log-softmax or a division by a norm along any dimension."""
    rank = draw_tensor_rank(draw)
    x = add_tensor(program, draw, rank)
    kind = draw.choice(("softmax", "softmax", "log_softmax", "l2_normalize", "l1_normalize"))
    program.softmax(x, draw.between(1, rank - 1), kind)


def draw_norm(program: Program, draw: Draw) -> None:
    """Draw a normalisation of any kind, with weights or without."""
    kind = draw.choice(("batch", "batch", "group", "instance", "layer", "layer", "rms"))
    rank = draw.choice((4, 4, 3, 5)) if kind in ("group", "instance") else draw.choice((2, 3, 4, 4, 5))
    groups = draw.choice((2, 3, 4, 4, 8)) if kind == "group" else 1
    if kind == "group":
        x = add_image(program, draw, lambda _: rank - 2, 16, 256, groups)
    else:
        x = add_tensor(program, draw, rank if kind != "batch" or rank != 3 else 4)
    add_norm(program, draw, x, kind, groups)


def draw_matmul(program: Program, draw: Draw) -> None:
    """Draw a product of matrices of any shape: square, tall, wide, long inside, batched, or tensors by a matrix."""
    add_matmul(
        program, draw, draw.choice(("plain",) * 5 + ("batched", "batched", "heads", "tensor", "tensor4", "tensor4"))
    )


def draw_attention(program: Program, draw: Draw) -> None:
    """Draw attention: of one sequence, causal or not, of another sequence, or with a mask that is added."""
    batch = draw_batch(draw)
    heads = Size(declared=draw.choice((4, 8, 12, 16)), tiny=2, small=2, larger=3)
    width = Size(declared=draw.choice((32, 64, 64, 128, 40)), tiny=draw.choice((3, 5)), small=9, larger=19)
    most = max(64, MOST_ELEMENTS // (batch.declared * heads.declared * width.declared))
    length = draw_sequence(draw, 64, min(2048, most))
    lead = (program.dim("batch", batch), program.dim("heads", heads))
    kind = draw.choice(("plain", "causal", "causal", "cross", "masked"))
    queries = program.dim("sequence", length)
    keys = program.dim("keys", draw_sequence(draw, 64, min(2048, most))) if kind == "cross" else queries
    features = program.dim("width_of_head", width)
    q = program.input((*lead, queries, features), "q")
    k = program.input((*lead, keys, features), "k")
    v = program.input((*lead, keys, features), "v")
    mask = program.input((queries, keys), "mask") if kind == "masked" else -1
    program.attention(q, k, v, kind == "causal", mask=mask)


def draw_scan(program: Program, draw: Draw) -> None:
    """Draw a cumulative sum or product along any dimension: plain, reverse, exclusive or masked."""
    rank = draw.choice((2, 2, 3, 4))
    is_product = draw.chance(0.25)
    kinds = ("plain", "plain", "reverse", "masked", "exclusive", "exclusive")
    kind = draw.choice(kinds if is_product else (*kinds, "exclusive", "reverse_exclusive"))
    x = add_tensor(program, draw, rank, "positive" if is_product else "randn", 1 << 23)
    mask = program.input(program.shape(x), "mask", kind="mask") if kind == "masked" else -1
    program.scan(x, kind, draw.between(1, rank - 1), is_product, mask)


def draw_matvec(program: Program, draw: Draw) -> None:
    """Draw a matrix times a vector, from either side, as a vector or as a matrix of one row or column; or a batch."""
    kind = draw.choice(("right", "right", "right", "right", "left", "left", "batch", "shared"))
    inner = draw.size(256, 131072 if kind in ("right", "left") else 4096)
    rows = draw.size(16, max(16, min(16384, MOST_ELEMENTS // inner)))
    k = program.dim("K", draw_size(draw, inner, (5, 7, 9), (35, 45), (66, 90)))
    m = program.dim("M", draw_size(draw, rows, (3, 5, 7), (17, 23), (33, 47)))
    a, v = draw.choice((("a", "b"), ("mat", "vec"), ("matrix", "vector"), ("A", "x"), ("w", "x")))
    one = (fixed(1),) if kind in ("right", "left") and draw.chance(0.35) else ()
    if kind == "left":
        place = program.input((*one, k), v)
        program.matvec(program.input((k, m), a), place, 0, bool(one))
        return
    lead: Shape = ()
    if kind != "right":
        batch = draw_size(draw, draw.size(2, max(2, min(64, MOST_ELEMENTS // (rows * inner)))), (2, 3), (2, 3), (4, 5))
        lead = (program.dim("batch", batch),)
    place = program.input((*lead, m, k), a)
    program.matvec(place, program.input((*(lead if kind == "batch" else ()), k, *one), v), len(lead) + 1, bool(one))


_FROM = make_operation("difference", "{v} - {x}", "what {v} exceeds it by", operand=Operand.TENSOR)
_MARGINS = (("margin", (0.1, 0.2, 0.25, 0.3, 0.5, 0.75, 1.0)),)
_MARGIN = make_operation("margin", "{x} + {a}", "add the margin {a}", numbers=_MARGINS)
_UP_TO = make_operation("up_to_margin", "{a} - {x}", "subtract it from the margin {a}", numbers=_MARGINS)
_BEYOND = {one.name: one for one in ACTIVATIONS if one.name in ("relu", "softplus", "square")}


def draw_margin_loss(program: Program, draw: Draw) -> None:
    """Draw a loss of distances or similarities of rows: of triplets with a margin, or of pairs and signs."""
    shape = (program.dim("batch", draw_rows(draw, 128, 8192)), program.dim("features", draw_features(draw, 64, 1024)))
    kind = draw.choice(("squared_distance", "l2_distance", "l2_distance", "l1_distance", "cosine", "cosine"))
    if draw.chance(0.65):
        anchor, near, far = (program.input(shape, name) for name in ("anchor", "positive", "negative"))
        first = program.pair(anchor, near, kind, draw.choice(("d_pos", "pos", "near")))
        x = program.pair(anchor, far, kind, draw.choice(("d_neg", "neg", "far")))
        x = program.point(x, apply(SUBTRACT if kind == "cosine" else _FROM, draw), "tensor", "gap", other=first)
        x = program.point(x, apply(_MARGIN, draw), name="loss")
    else:
        left, right = (program.input(shape, name) for name in draw.choice((("x1", "x2"), ("a", "b"), ("u", "v"))))
        signs = program.input(shape[:1], draw.choice(("target", "y")), kind="signs")
        x = program.pair(left, right, "cosine", draw.choice(("score", "sim")))
        x = program.point(x, apply(GATE, draw), "tensor", "loss", other=signs)
        x = program.point(x, apply(_UP_TO, draw))
    for name in draw.choice((("relu",), ("relu",), ("softplus",), ("relu", "square"))):
        x = program.point(x, apply(_BEYOND[name], draw))
    program.reduce(x, draw.choice(("mean", "mean", "sum")), (0,))


def draw_scaling(program: Program, draw: Draw) -> None:
    """Draw a tensor times a number that is an input beside it."""
    x = add_tensor(program, draw, draw.choice((2, 2, 2, 3, 4)))
    program.nodes[x] = rename(program.nodes[x], draw.choice(("a", "x")))
    value = draw.choice((0.5, 2.5, 3.0, 1.25, 3.14, 0.1, -2.0))
    number = program.input((), draw.choice(("s", "scale", "alpha")), kind=f"number:{value}")
    program.point(x, apply(LEARNED_SCALE, draw), "number", other=number)


WRITTEN_OUT = (
    make_operation(
        "new_gelu",
        "0.5 * {x} * (1.0 + torch.tanh(0.7978845608 * ({x} + 0.044715 * {x} * {x} * {x})))",
        "GELU by its approximation with tanh, written out",
        "{x} * tl.sigmoid(1.5957691216 * ({x} + 0.044715 * {x} * {x} * {x}))",
    ),
    make_operation("swish", "{x} * torch.sigmoid({x})", "swish", "{x} * tl.sigmoid({x})"),
    make_operation(
        "softsign_written_out", "{x} / (1.0 + torch.abs({x}))", "softsign, written out", "{x} / (1.0 + tl.abs({x}))"
    ),
)


def draw_activation(program: Program, draw: Draw) -> None:
    """Draw a pointwise function of a large tensor."""
    x = add_tensor(program, draw, draw_tensor_rank(draw))
    operations = {operation.name: operation for operation in (*ACTIVATIONS, *UNARY, *RARER, *WRITTEN_OUT, SOFT_CAP)}
    program.point(x, apply(draw.choice(tuple(operations.values())), draw))


_LOGITS = ((SOFT_CAP,), (SOFT_CAP,), (BIAS, SOFT_CAP), (DIVIDE, SOFT_CAP), (SCALE,), (DIVIDE,), ())
"""Steps between a linear layer and the cross entropy of what it makes."""
_LENGTHS = (2,) * 5 + (3,) * 7 + (4,) * 5 + (5,) * 2 + (6,)


def _finish(chain: Chain) -> None:
    """Draw the steps after a head."""
    draw, head = chain.draw, chain.x
    if chain.rank == 2 and chain.order < 2 and draw.chance(0.2):
        for operation in draw.choice(_LOGITS):
            chain.take(operation)
        chain.add_loss()
        return
    if chain.rank == 5 and draw.chance(0.4):
        chain.extend(draw.below(3), 1)
        chain.num_steps += chain.reduce_depth()
    if chain.x == head and draw.chance(0.08):
        chain.program.nodes[head] = rename(chain.program.nodes[head], "skip")
        chain.add_skip(head, apply(draw.choice(ACTIVATIONS), draw))
        chain.num_steps = 2
    length = draw.choice(_LENGTHS)
    chain.extend(max(length, chain.num_steps), draw.choice((1, 1, 1, 1, 2, 2, 2, 3)))
    is_matrix = chain.rank == 2 and chain.axis == 1 and chain.soft < 0 and not chain.is_bounded
    if is_matrix and chain.program.shape(chain.x)[1].least > 2 and chain.num_kernels < 2 and draw.chance(0.12):
        chain.add_loss()


def draw_convolution_chain(program: Program, draw: Draw) -> None:
    """Draw a convolution of any kind but transposed, then steps."""
    kind = draw.choice(("standard",) * 6 + ("depthwise", "pointwise", "grouped"))
    x = add_convolution(program, draw, kind, draw.choice((1, 2, 2, 2, 2, 3, 3)), is_plain=draw.chance(0.7))
    _finish(Chain(program=program, draw=draw, x=x, axis=1, is_image=True))


def draw_transposed_chain(program: Program, draw: Draw) -> None:
    """Draw a transposed convolution, then steps."""
    x = add_convolution(program, draw, "transposed", draw.choice((1, 2, 2, 2, 3, 3)), is_plain=draw.chance(0.7))
    _finish(Chain(program=program, draw=draw, x=x, axis=1, is_image=True))


def draw_linear_chain(program: Program, draw: Draw) -> None:
    """Draw a linear layer of rows or of sequences, then steps."""
    inner = program.dim("in_features", draw_features(draw, 64, 8192))
    most = max(64, MOST_ELEMENTS // inner.declared)
    if draw.chance(0.75):
        lead: Shape = (program.dim("batch", draw_rows(draw, 64, min(most, 8192))),)
    else:
        batch = program.dim("batch", draw_batch(draw))
        lead = (batch, program.dim("sequence", draw_sequence(draw, 16, max(16, min(1024, most // batch.declared)))))
    outer = program.dim("out_features", draw_features(draw, 64, 8192 if len(lead) == 1 else 2048))
    x = program.linear(program.input((*lead, inner)), outer, draw.chance(0.7))
    _finish(Chain(program=program, draw=draw, x=x, axis=len(lead)))


def draw_product_chain(program: Program, draw: Draw) -> None:
    """Draw a matrix product, or a batch of them, then steps."""
    is_batched = draw.chance(0.5)
    # products of unscaled inputs are large, and functions with a bound would be constant
    place = add_matmul(program, draw, "batched" if is_batched else "plain", scaled=1.0)
    chain = Chain(program=program, draw=draw, x=place, axis=2 if is_batched else 1, order=2)
    _finish(chain)


def draw_pooling_chain(program: Program, draw: Draw) -> None:
    """Draw a pooling, then steps."""
    rank, kind = draw_rank(draw), draw.choice(("max", "avg"))
    window = draw_pool_window(draw, rank)
    batch, channels = draw_batch(draw), draw_channels(draw, 16, 128, draw.choice((1, 1, 2, 4)))
    places = MOST_ELEMENTS / (batch.declared * channels.declared)
    shape = program.image(batch, channels, draw_sides(draw, rank, places, least_side(window)), "channels")
    x = program.pool(program.input(shape), kind, window)
    _finish(Chain(program=program, draw=draw, x=x, axis=1, is_image=True))


def draw_norm_chain(program: Program, draw: Draw) -> None:
    """Draw a norm of images, rows or sequences, then steps."""
    kind = draw.choice(("batch", "batch", "group", "instance", "layer", "rms"))
    groups = draw.choice((2, 4, 4, 8)) if kind == "group" else 1
    if kind in ("layer", "rms") and draw.chance(0.6):
        inner = program.dim("features", draw_features(draw, 64, 4096))
        most = max(64, MOST_ELEMENTS // inner.declared)
        x = program.input((program.dim("batch", draw_rows(draw, 64, min(most, 8192))), inner))
    else:
        x = add_image(program, draw, lambda draw: draw.choice((1, 2, 2, 2, 3)), 16, 128, groups)
    rank = len(program.shape(x))
    x = add_norm(program, draw, x, kind, groups)
    chain = Chain(program=program, draw=draw, x=x, axis=1, is_image=rank > 2, order=2, is_centred=kind != "rms")
    chain.used.add("norm")
    _finish(chain)


OPERATORS: dict[str, ProgramDraw] = {
    "any_conv": draw_convolution,
    "any_conv_transpose": draw_transposed,
    "any_pool": draw_pooling,
    "any_reduction": draw_reduction,
    "any_position": draw_position,
    "any_softmax": draw_softmax,
    "any_norm": draw_norm,
    "any_matmul": draw_matmul,
    "any_matvec": draw_matvec,
    "any_margin_loss": draw_margin_loss,
    "any_attention": draw_attention,
    "any_scan": draw_scan,
    "any_separable_conv": draw_separable,
    "any_scaling": draw_scaling,
    "any_activation": draw_activation,
}
CHAINS: dict[str, ProgramDraw] = {
    "conv_then": draw_convolution_chain,
    "conv_transpose_then": draw_transposed_chain,
    "linear_then": draw_linear_chain,
    "matmul_then": draw_product_chain,
    "pool_then": draw_pooling_chain,
    "norm_then": draw_norm_chain,
}
