"""Small networks: modules of several layers, whose teachers are several launches that share kernels."""

from __future__ import annotations

from ..builder.draw import Draw
from ..builder.operations import ACTIVATIONS, GATE, RELU, RESIDUAL, Applied, Operation, apply
from ..builder.spec import Size, draw_size
from ..builder.windows import Window, square_window
from ..composition.chains import RELU6
from ..composition.heads import draw_batch, draw_channels, draw_colors, draw_features, draw_rows, draw_sides
from ..composition.program import Program, ProgramDraw, Shape

Memory = dict[str, Applied]
"""The activations of a network by name: all of a name have the same numbers."""
_BY_NAME = {operation.name: operation for operation in ACTIVATIONS}
_USUAL = tuple(_BY_NAME[name] for name in ("relu", "relu", "relu", "gelu", "silu", "leaky_relu", "sigmoid", "elu"))
_PLACES = 1 << 22
"""Elements of a widest layer, about."""


def _window(rank: int, width: int, stride: int = 1, padding: int | None = None) -> Window:
    return square_window(rank, width, stride, width // 2 if padding is None else padding)


def _draw_rows_and_width(program: Program, draw: Draw, role: str = "in_features") -> Shape:
    width = program.dim(role, draw_features(draw, 64, 2048))
    return (program.dim("batch", draw_rows(draw, 64, 4096)), width)


def _draw_image(program: Program, draw: Draw, channels: Size, role: str = "in_channels", least: int = 0) -> Shape:
    batch = draw_batch(draw)
    places = max(64.0, _PLACES / (batch.declared * max(16, channels.declared)))
    return program.image(batch, channels, draw_sides(draw, 2, places, least), role)


def _activate(program: Program, draw: Draw, x: int, operation: Operation, memory: Memory) -> int:
    """Add an activation with the numbers that the network's others of this name have."""
    applied = memory.setdefault(operation.name, apply(operation, draw))
    return program.point(x, applied)


def draw_mlp(program: Program, draw: Draw) -> None:
    """Draw two to five linear layers with one activation between them."""
    memory = Memory()
    x = program.input(_draw_rows_and_width(program, draw))
    operation, has_bias = draw.choice(_USUAL), draw.chance(0.8)
    depth = draw.choice((2, 3, 3, 4, 4, 5))
    roles = ("hidden", "second_hidden", "third_hidden", "fourth_hidden")
    for role in roles[: depth - 1]:
        if role == "hidden" or draw.chance(0.5):
            hidden = program.dim(role, draw_features(draw, 64, 2048))
        x = _activate(program, draw, program.linear(x, hidden, has_bias), operation, memory)
    program.linear(x, program.dim("out_features", draw_features(draw, 10, 1024)), has_bias)


def draw_gated_mlp(program: Program, draw: Draw) -> None:
    """Draw a gated feed-forward layer: one branch, activated, multiplies the other."""
    shape = _draw_rows_and_width(program, draw, "features")
    hidden, has_bias = program.dim("hidden", draw_features(draw, 64, 4096)), draw.chance(0.4)
    x = program.input(shape)
    if draw.chance(0.3):
        x = program.norm(x, "rms", "h", eps=1e-6, affine=1, dims="1")
    up = program.linear(x, hidden, has_bias, "up")
    gate = program.linear(x, hidden, has_bias, "gate")
    gate = program.point(gate, apply(draw.choice([_BY_NAME[name] for name in ("silu", "gelu", "sigmoid")]), draw))
    x = program.point(gate, apply(GATE, draw), "tensor", name="h", other=up)
    program.linear(x, shape[1], has_bias, "y")


def draw_feed_forward(program: Program, draw: Draw) -> None:
    """Draw a transformer's feed-forward layer: a norm, two linear layers, and the input again."""
    batch = program.dim("batch", draw_batch(draw))
    length = program.dim("sequence", draw_size(draw, draw.size(32, 512), (3, 5), (5, 7), (9, 11)))
    features = program.dim("features", draw_features(draw, 64, 1024))
    hidden = program.dim("hidden", draw_features(draw, 128, 4096))
    x = program.input((batch, length, features))
    is_before = draw.chance(0.7)
    kind, eps = draw.choice(("layer", "layer", "rms")), draw.choice((1e-5, 1e-6))
    h = program.norm(x, kind, "h", eps=eps, affine=1, dims="2") if is_before else x
    h = program.linear(h, hidden, draw.chance(0.7), "h")
    h = program.point(h, apply(draw.choice([_BY_NAME[name] for name in ("relu", "gelu", "silu", "square")]), draw))
    h = program.linear(h, features, draw.chance(0.7))
    h = program.point(h, apply(RESIDUAL, draw), "tensor", other=x)
    if not is_before:
        program.norm(h, kind, eps=eps, affine=1, dims="2")


def draw_attention_block(program: Program, draw: Draw) -> None:
    """Draw self-attention or attention to another sequence: projections, attention, the output's projection."""
    heads = draw.choice((2, 4, 4, 8))
    width = draw.choice((16, 32, 64))
    batch = program.dim("batch", draw_batch(draw))
    length = program.dim("sequence", draw_size(draw, draw.size(32, 512), (3, 5), (5, 7), (9, 11)))
    features = program.dim("features", Size(declared=heads * width, tiny=heads * 2, small=heads * 3, larger=heads * 5))
    is_cross = draw.chance(0.25)
    x = program.input((batch, length, features))
    if is_cross:
        keys = program.dim("keys", draw_size(draw, draw.size(32, 512), (3, 5), (6, 8), (10, 12)))
        source = program.input((batch, keys, features), "context")
        normed = x
    else:
        has_norm = draw.chance(0.5)
        normed = program.norm(x, "layer", "h", eps=1e-5, affine=1, dims="2") if has_norm else x
        source = normed
    has_bias = draw.chance(0.6)
    q = program.linear(normed, features, has_bias, "q")
    k = program.linear(source, features, has_bias, "k")
    v = program.linear(source, features, has_bias, "v")
    h = program.attention(q, k, v, not is_cross and draw.chance(0.6), heads, name="h")
    h = program.linear(h, features, has_bias)
    if draw.chance(0.6):
        program.point(h, apply(RESIDUAL, draw), "tensor", other=x)


def _normalize(program: Program, x: int, running: int) -> int:
    return program.norm(x, "batch", eps=1e-5, affine=1, running=running)


def draw_residual_block(program: Program, draw: Draw) -> None:
    """Draw two convolutions with batch norms around a shortcut, which is projected where the shape changes."""
    stride = draw.choice((1, 1, 2))
    changes = stride > 1 or draw.chance(0.3)
    shape = _draw_image(program, draw, draw_channels(draw, 16, 128), least=8)
    filters = program.dim("out_channels", draw_channels(draw, 16, 128)) if changes else shape[1]
    x = program.input(shape)
    h = _normalize(program, program.convolution(x, filters, _window(2, 3, stride), bias=False, name="h"), 0)
    h = program.point(h, apply(RELU, draw))
    skip = x
    if changes:
        skip = program.convolution(x, filters, _window(2, 1, stride), bias=False, name="skip")
    h = _normalize(program, program.convolution(h, filters, _window(2, 3), bias=False), 0)
    h = program.point(h, apply(RESIDUAL, draw), "tensor", other=skip)
    program.point(h, apply(RELU, draw))


def draw_bottleneck(program: Program, draw: Draw) -> None:
    """Draw an inverted bottleneck: wider by a pointwise convolution, depthwise, and narrow again."""
    shape = _draw_image(program, draw, draw_channels(draw, 16, 64), least=6)
    factor = draw.choice((2, 4, 6))
    wide = shape[1].map(f"# * {factor}", lambda length: length * factor)
    operation, stride, running = draw.choice((RELU6, RELU6, _BY_NAME["silu"], RELU)), draw.choice((1, 1, 2)), 0
    x = program.input(shape)
    h = _normalize(program, program.convolution(x, wide, _window(2, 1), bias=False, name="h"), running)
    memory = Memory()
    h = _activate(program, draw, h, operation, memory)
    window = _window(2, draw.choice((3, 3, 5)), stride)
    h = _normalize(program, program.convolution(h, wide, window, -1, bias=False), running)
    h = _activate(program, draw, h, operation, memory)
    keeps = stride == 1 and draw.chance(0.7)
    filters = shape[1] if keeps else program.dim("out_channels", draw_channels(draw, 16, 64))
    h = _normalize(program, program.convolution(h, filters, _window(2, 1), bias=False), running)
    if keeps:
        program.point(h, apply(RESIDUAL, draw), "tensor", other=x)


def draw_squeeze_excite(program: Program, draw: Draw) -> None:
    """Draw channels that are weighted by what their means say, after a convolution or not."""
    shape = _draw_image(program, draw, draw_channels(draw, 32, 256), "channels", least=6)
    x = program.input(shape)
    if draw.chance(0.4):
        x = program.convolution(x, shape[1], _window(2, 3), bias=draw.chance(0.5), name="h")
    few = program.dim("hidden", draw_size(draw, draw.choice((4, 8, 16, 32)), (2, 3), (3, 4), (5, 6)))
    has_bias = draw.chance(0.5)
    gate = program.linear(program.reduce(x, "mean", (2, 3), name="s"), few, has_bias)
    gate = program.linear(program.point(gate, apply(RELU, draw)), shape[1], has_bias)
    gate = program.point(gate, apply(_BY_NAME["sigmoid"], draw))
    program.point(x, apply(GATE, draw), "plane", name="y", other=gate)


def draw_classifier(program: Program, draw: Draw) -> None:
    """Draw two convolutions with pooling, then two linear layers, as the first networks for digits had."""
    colors = draw_colors(draw)
    batch = Size(declared=draw.choice((64, 128, 256, 512)), tiny=2, small=2, larger=3)
    width, padding = draw.choice(((3, 0), (5, 0), (3, 1), (5, 2)))
    side = draw.choice((28, 32, 32, 36, 40, 48))
    # four times what is left of a side for each pooling, and what the convolutions take
    lost = width - 1 - 2 * padding
    sides = (Size(declared=side, tiny=4 + 3 * lost, small=6 + 3 * lost, larger=8 + 3 * lost),) * 2
    x = program.input(program.image(batch, colors, sides))
    operation, memory = draw.choice((*_USUAL, _BY_NAME["tanh"])), Memory()
    pool = draw.choice(("max", "max", "avg"))
    for role, bounds in (("channels", (6, 32)), ("out_channels", (12, 64))):
        x = program.convolution(x, program.dim(role, draw_channels(draw, *bounds)), _window(2, width, 1, padding))
        x = _activate(program, draw, x, operation, memory)
        x = program.pool(x, pool, _window(2, 2, 2, 0))
    x = program.flatten(x)
    hidden = program.dim("hidden", draw_features(draw, 32, 256))
    x = _activate(program, draw, program.linear(x, hidden), operation, memory)
    program.linear(x, program.dim("classes", draw_features(draw, 8, 200)))


def draw_dense_block(program: Program, draw: Draw) -> None:
    """Draw convolutions whose results are added to the channels."""
    shape = _draw_image(program, draw, draw_channels(draw, 8, 64), least=6)
    growth = program.dim("growth", draw_channels(draw, 8, 32))
    has_norm, has_bias = draw.chance(0.5), draw.chance(0.5)
    x = program.input(shape)
    for _ in range(draw.choice((2, 2, 3))):
        h = x
        if has_norm:
            h = program.norm(x, "batch", "h", eps=1e-5, affine=1, running=0)
            h = program.point(h, apply(RELU, draw))
            h = program.convolution(h, growth, _window(2, 3), bias=has_bias)
        else:
            h = program.convolution(x, growth, _window(2, 3), bias=has_bias, name="h")
            h = program.point(h, apply(RELU, draw))
        x = program.concatenate(x, h, "x")


def draw_recurrent_cell(program: Program, draw: Draw) -> None:
    """Draw a step of a recurrent network: two linear layers, their sum, an activation, and at times an output."""
    shape = _draw_rows_and_width(program, draw)
    hidden = program.dim("hidden", draw_features(draw, 64, 2048))
    x, h = program.input(shape), program.input((shape[0], hidden), "h")
    kind = draw.choice(("plain", "plain", "gated"))
    has_bias = draw.chance(0.7)
    left = program.linear(x, hidden, has_bias, "u")
    right = program.linear(h, hidden, has_bias, "v")
    right = program.point(right, apply(RESIDUAL, draw), "tensor", other=left)
    y = program.point(right, apply(_BY_NAME[draw.choice(("tanh", "relu", "sigmoid"))], draw))
    if kind == "gated":
        z = program.linear(x, hidden, has_bias, "z")
        z = program.point(z, apply(_BY_NAME["sigmoid"], draw))
        y = program.point(z, apply(GATE, draw), "tensor", name="y", other=y)
        y = program.point(y, apply(RESIDUAL, draw), "tensor", other=h)
    if draw.chance(0.5):
        program.linear(y, program.dim("out_features", draw_features(draw, 16, 512)), has_bias, "out")


def draw_patch_embedding(program: Program, draw: Draw) -> None:
    """Draw an image cut into patches: a convolution as wide as its stride, and at times a norm of each patch."""
    patch = draw.choice((2, 4, 8, 16))
    batch = draw_batch(draw)
    sides = Size(declared=patch * draw.choice((8, 14, 16)), tiny=2 * patch, small=2 * patch, larger=3 * patch)
    if patch > 8:
        sides = Size(declared=sides.declared, tiny=patch, small=patch + 2, larger=2 * patch)
    shape = program.image(batch, draw_colors(draw), (sides, sides))
    features = program.dim("features", draw_features(draw, 64, 768))
    x = program.convolution(program.input(shape), features, _window(2, patch, patch, 0), bias=draw.chance(0.7))
    x = program.tokens(x)
    if draw.chance(0.7):
        x = program.norm(x, draw.choice(("layer", "layer", "rms")), eps=1e-5, affine=1, dims="2")
    if draw.chance(0.5):
        program.linear(x, program.dim("out_features", draw_features(draw, 64, 768)), draw.chance(0.7))


def draw_convolution_stack(program: Program, draw: Draw) -> None:
    """Draw two convolutions with a norm and an activation each, and at times means that a linear layer reads."""
    memory = Memory()
    shape = _draw_image(program, draw, draw_colors(draw) if draw.chance(0.5) else draw_channels(draw, 8, 64), least=8)
    operation, kind = draw.choice(_USUAL), draw.choice(("batch", "batch", "instance", "none"))
    x, has_bias = program.input(shape), kind == "none" or draw.chance(0.3)
    strides = draw.choice(((1, 1), (2, 2), (1, 1), (2, 2), (1, 2), (2, 1)))
    for role, stride in zip(("channels", "out_channels"), strides, strict=True):
        filters = program.dim(role, draw_channels(draw, 16, 128))
        x = program.convolution(x, filters, _window(2, 3, stride), bias=has_bias)
        if kind != "none":
            x = program.norm(x, kind, eps=1e-5, affine=int(kind == "batch"), running=0)
        x = _activate(program, draw, x, operation, memory)
    if draw.chance(0.7):
        x = program.reduce(x, "mean", (2, 3))
        program.linear(x, program.dim("classes", draw_features(draw, 10, 500)))


def draw_separable_block(program: Program, draw: Draw) -> None:
    """Draw a depthwise convolution and a pointwise one, each with a norm and an activation."""
    memory = Memory()
    shape = _draw_image(program, draw, draw_channels(draw, 16, 128), least=6)
    operation, running = draw.choice(_USUAL), int(draw.chance(0.6))
    window = _window(2, draw.choice((3, 3, 5, 7)), draw.choice((1, 1, 2)))
    x = program.convolution(program.input(shape), shape[1], window, -1, bias=False)
    x = _activate(program, draw, _normalize(program, x, running), operation, memory)
    filters = program.dim("out_channels", draw_channels(draw, 16, 256))
    x = program.convolution(x, filters, _window(2, 1), bias=False)
    _activate(program, draw, _normalize(program, x, running), operation, memory)


def draw_fire_module(program: Program, draw: Draw) -> None:
    """Draw a narrow pointwise convolution, and two wider ones of its result side by side."""
    shape = _draw_image(program, draw, draw_channels(draw, 16, 128), least=6)
    few = program.dim("channels", draw_channels(draw, 8, 32))
    wide = program.dim("out_channels", draw_channels(draw, 16, 96))
    x = program.input(shape)
    s = program.convolution(x, few, _window(2, 1), name="s")
    s = program.point(s, apply(RELU, draw))
    left = program.point(program.convolution(s, wide, _window(2, 1), name="left"), apply(RELU, draw))
    right = program.point(program.convolution(s, wide, _window(2, 3), name="right"), apply(RELU, draw))
    program.concatenate(left, right, "y")


NETWORKS: dict[str, ProgramDraw] = {
    "mlp": draw_mlp,
    "gated_mlp": draw_gated_mlp,
    "feed_forward": draw_feed_forward,
    "attention_block": draw_attention_block,
    "residual_block": draw_residual_block,
    "inverted_bottleneck": draw_bottleneck,
    "squeeze_excite": draw_squeeze_excite,
    "small_classifier": draw_classifier,
    "dense_block": draw_dense_block,
    "recurrent_cell": draw_recurrent_cell,
    "patch_embedding": draw_patch_embedding,
    "conv_stack": draw_convolution_stack,
    "separable_block": draw_separable_block,
    "fire_module": draw_fire_module,
}
