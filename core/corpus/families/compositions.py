"""A head and two to six steps: convolutions, products, pooling or norms, then whatever the tensor allows."""

from __future__ import annotations

from ..builder.draw import Draw
from ..builder.operations import ACTIVATIONS, apply
from ..builder.spec import Spec
from ..composition.chains import Chain
from ..composition.program import Program
from ..composition.sizes import (
    MOST_ELEMENTS,
    draw_batch,
    draw_channels,
    draw_features,
    draw_pool_window,
    draw_rows,
    draw_sequence,
    draw_sides,
    least_side,
)
from ..composition.tensors import Shape, rename
from .operators import add_convolution, add_matmul, add_norm, draw_rank

_LENGTHS = (2,) * 5 + (3,) * 7 + (4,) * 5 + (5,) * 2 + (6,)


def _finish(chain: Chain, draw: Draw, family: str) -> Spec:
    """Draw the steps after a head."""
    head = chain.x
    if draw.chance(0.08):
        chain.program.nodes[head] = rename(chain.program.nodes[head], "skip")
        chain.add_skip(head, apply(draw.choice(ACTIVATIONS), draw))
        chain.num_steps = 2
    length = draw.choice(_LENGTHS)
    chain.extend(max(length, chain.num_steps), 2 if draw.chance(0.3) else 1)
    is_matrix = chain.rank == 2 and chain.axis == 1 and chain.soft < 0 and not chain.is_bounded
    if is_matrix and chain.program.shape(chain.x)[1].least > 2 and chain.num_kernels < 2 and draw.chance(0.12):
        chain.add_loss()
    return chain.program.finish(2, family)


def draw_convolution_chain(draw: Draw, family: str) -> Spec:
    """Draw a convolution of any kind but transposed, then steps."""
    program = Program()
    kind = draw.choice(("standard",) * 6 + ("depthwise", "pointwise", "grouped"))
    x = add_convolution(program, draw, kind, draw.choice((1, 2, 2, 2, 2, 3, 3)), is_plain=draw.chance(0.7))
    return _finish(Chain(program=program, draw=draw, x=x, axis=1, is_image=True), draw, family)


def draw_transposed_chain(draw: Draw, family: str) -> Spec:
    """Draw a transposed convolution, then steps."""
    program = Program()
    x = add_convolution(program, draw, "transposed", draw.choice((1, 2, 2, 2, 3, 3)), is_plain=draw.chance(0.7))
    return _finish(Chain(program=program, draw=draw, x=x, axis=1, is_image=True), draw, family)


def draw_linear_chain(draw: Draw, family: str) -> Spec:
    """Draw a linear layer of rows or of sequences, then steps."""
    program = Program()
    inner = program.dim("in_features", draw_features(draw, 64, 8192))
    most = max(64, MOST_ELEMENTS // inner.declared)
    if draw.chance(0.75):
        lead: Shape = (program.dim("batch", draw_rows(draw, 64, min(most, 8192))),)
    else:
        batch = program.dim("batch", draw_batch(draw))
        lead = (batch, program.dim("sequence", draw_sequence(draw, 16, max(16, min(1024, most // batch.declared)))))
    outer = program.dim("out_features", draw_features(draw, 64, 8192 if len(lead) == 1 else 2048))
    x = program.linear(program.input((*lead, inner)), outer, draw.chance(0.7))
    return _finish(Chain(program=program, draw=draw, x=x, axis=len(lead)), draw, family)


def draw_product_chain(draw: Draw, family: str) -> Spec:
    """Draw a matrix product, or a batch of them, then steps."""
    program = Program()
    is_batched = draw.chance(0.5)
    # products of unscaled inputs are large, and functions with a bound would be constant
    place = add_matmul(program, draw, "batched" if is_batched else "plain", scaled=1.0)
    chain = Chain(program=program, draw=draw, x=place, axis=2 if is_batched else 1, order=2)
    return _finish(chain, draw, family)


def draw_pooling_chain(draw: Draw, family: str) -> Spec:
    """Draw a pooling, then steps."""
    program = Program()
    rank, kind = draw_rank(draw), draw.choice(("max", "avg"))
    window = draw_pool_window(draw, rank)
    batch, channels = draw_batch(draw), draw_channels(draw, 16, 128, draw.choice((1, 1, 2, 4)))
    places = MOST_ELEMENTS / (batch.declared * channels.declared)
    shape = program.image(batch, channels, draw_sides(draw, rank, places, least_side(window)), "channels")
    x = program.pool(program.input(shape), kind, window)
    return _finish(Chain(program=program, draw=draw, x=x, axis=1, is_image=True), draw, family)


def draw_norm_chain(draw: Draw, family: str) -> Spec:
    """Draw a norm of images, rows or sequences, then steps."""
    program = Program()
    kind = draw.choice(("batch", "batch", "group", "instance", "layer", "rms"))
    groups = draw.choice((2, 4, 4, 8)) if kind == "group" else 1
    if kind in ("layer", "rms") and draw.chance(0.6):
        inner = program.dim("features", draw_features(draw, 64, 4096))
        most = max(64, MOST_ELEMENTS // inner.declared)
        x = program.input((program.dim("batch", draw_rows(draw, 64, min(most, 8192))), inner))
    else:
        batch, channels = draw_batch(draw), draw_channels(draw, 16, 128, groups)
        places = MOST_ELEMENTS / (batch.declared * channels.declared)
        sides = draw_sides(draw, draw.choice((1, 2, 2, 2, 3)), places)
        x = program.input(program.image(batch, channels, sides, "channels"))
    rank = len(program.shape(x))
    x = add_norm(program, draw, x, kind, groups)
    chain = Chain(program=program, draw=draw, x=x, axis=1, is_image=rank > 2, order=2, is_centred=kind != "rms")
    chain.used.add("norm")
    return _finish(chain, draw, family)
