"""The inputs and heads of open tasks, at sizes that a verdict can afford: a few million elements at most.

A policy is judged on hundreds of answers a round, and what they are judged by is the code and not the size.
"""

from __future__ import annotations

from ..builder.draw import Draw
from ..builder.spec import draw_size
from ..composition.heads import add_convolution, add_tensor, draw_rank
from ..composition.program import Program
from ..composition.sizes import (
    draw_batch,
    draw_channels,
    draw_features,
    draw_pool_window,
    draw_rows,
    draw_sequence,
    draw_sides,
    least_side,
)
from ..composition.tensors import Shape
from .chain import OpenChain

MOST_ELEMENTS = 1 << 22
_PART = 1 / 8
"""Of the places that a convolution of the older families has at most."""


def begin(draw: Draw, rank: int, kind: str = "randn") -> OpenChain:
    """Begin a chain with a tensor of two to five dimensions."""
    program = Program()
    x = add_tensor(program, draw, rank, kind, MOST_ELEMENTS)
    axis = rank - 1 if rank < 4 else 1
    return OpenChain(program=program, draw=draw, x=x, axis=axis, is_image=rank > 3)


def begin_image(draw: Draw, multiple: int = 1) -> OpenChain:
    """Begin a chain with images of one to three sides."""
    program = Program()
    batch, channels = draw_batch(draw), draw_channels(draw, 8, 128, multiple)
    places = max(64.0, MOST_ELEMENTS / (batch.declared * channels.declared))
    sides = draw_sides(draw, draw_rank(draw), places)
    x = program.input(program.image(batch, channels, sides, "channels"))
    return OpenChain(program=program, draw=draw, x=x, axis=1, is_image=True)


def begin_pooling(draw: Draw, leads: float) -> OpenChain:
    """Begin a chain with a pooling of images, after a function of them with probability `leads`."""
    rank = draw_rank(draw)
    window = draw_pool_window(draw, rank, is_plain=draw.chance(0.4))
    program = Program()
    batch, channels = draw_batch(draw), draw_channels(draw, 8, 128)
    places = max(64.0, MOST_ELEMENTS / (batch.declared * channels.declared))
    sides = draw_sides(draw, rank, places, least_side(window))
    x = program.input(program.image(batch, channels, sides, "channels"))
    chain = OpenChain(program=program, draw=draw, x=x, axis=1, is_image=True)
    if draw.chance(leads):
        chain.lead()
    # the largest of bounded values is their bound, and that of values of both signs has one
    kind = "avg" if chain.is_bounded else draw.choice(("max", "avg"))
    chain.x = program.pool(chain.x, kind, window)
    chain.is_mixed = chain.is_mixed and kind == "avg"
    chain.used.add("pool")
    return chain


def begin_convolution(draw: Draw, kinds: tuple[str, ...], leads: float) -> OpenChain:
    """Begin a chain with a convolution of images, after a function of them with probability `leads`."""
    chain = OpenChain(program=Program(), draw=draw, x=-1, axis=1, is_image=True)

    def lead(x: int) -> int:
        chain.x = x
        if draw.chance(leads):
            chain.lead()
        return chain.x

    rank = draw.choice((1, 2, 2, 2, 2, 3))
    kind, is_plain = draw.choice(kinds), draw.chance(0.7)
    chain.x = add_convolution(chain.program, draw, kind, rank, is_plain, _PART, lead)
    return _mixed(chain)


def begin_linear(draw: Draw, leads: float) -> OpenChain:
    """Begin a chain with a linear layer of rows or of sequences, after a function of them with probability `leads`."""
    program = Program()
    inner = program.dim("in_features", draw_features(draw, 64, 2048))
    lead: Shape = (program.dim("batch", draw_rows(draw, 64, 2048)),)
    if draw.chance(0.25):
        lead = (program.dim("groups", draw_batch(draw)), program.dim("sequence", draw_sequence(draw, 8, 64)))
    outer = program.dim("out_features", draw_features(draw, 64, 2048))
    x = program.input((*lead, inner))
    chain = OpenChain(program=program, draw=draw, x=x, axis=len(lead))
    if draw.chance(leads):
        chain.lead()
    chain.x = program.linear(chain.x, outer, draw.chance(0.7))
    return _mixed(chain)


def begin_product(draw: Draw, leads: float) -> OpenChain:
    """Begin a chain with a product of two matrices or of two batches of them."""
    program = Program()
    m = program.dim("M", draw_size(draw, draw.size(32, 1024), (3, 5, 7), (17, 23), (33, 47)))
    k = program.dim("K", draw_size(draw, draw.size(32, 1024), (5, 7, 9), (35, 45), (66, 90)))
    n = program.dim("N", draw_size(draw, draw.size(32, 1024), (3, 5, 7), (19, 30), (35, 50)))
    lead: Shape = ()
    if draw.chance(0.35):
        lead = (program.dim("batch", draw_size(draw, draw.choice((4, 8, 16, 12)), (2,), (2, 2), (3, 3))),)
    layout = draw.choice(("nn", "nn", "nn", "nt", "tn", "tt"))
    left = (*lead, m, k) if layout[0] == "n" else (*lead, k, m)
    right = (*lead, k, n) if layout[1] == "n" else (*lead, n, k)
    names = draw.choice((("a", "b"), ("x", "w")))
    # products of unscaled inputs are large, and functions with a bound would be constant
    a = program.input(left, names[0], scale=k)
    b = program.input(right, names[1])
    chain = OpenChain(program=program, draw=draw, x=a, axis=len(left) - 1)
    if draw.chance(leads):
        chain.lead(binary=0.0)
    chain.x = program.matmul(chain.x, b, layout, name="x")
    chain.axis, chain.order = len(lead) + 1, chain.order + 1
    return _mixed(chain)


def _mixed(chain: OpenChain) -> OpenChain:
    """Return the chain after a head whose weights have both signs."""
    chain.is_mixed, chain.is_bounded, chain.is_large = True, False, False
    return chain
