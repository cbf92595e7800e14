"""The families of open tasks: heads with steps before and after them, at Level 1 two or three operations.

Every task has a mark that no program of a family with a teacher has (`kinship.is_open`): a step before the head, a
function that no other chain has, a step after an operator that elsewhere stands alone, or an earlier value again.
"""

from __future__ import annotations

from collections.abc import Callable

from ..builder.draw import Draw
from ..builder.operations import RESIDUAL
from ..builder.spec import Spec
from .chain import OpenChain
from .inputs import (
    MOST_ELEMENTS,
    begin,
    begin_convolution,
    begin_image,
    begin_linear,
    begin_pooling,
    begin_product,
    draw_tensor_rank,
)
from .kinship import count_elements, is_open
from .operations import LEADING, NEW_BINARY

_SHORT, _LONG = (0, 0, 1), (2, 2, 2, 3, 3, 4)


def _draw_map(draw: Draw) -> OpenChain:
    chain = begin(draw, draw_tensor_rank(draw))
    chain.add_new()
    chain.lengthen(draw.choice((1, 1, 2)))
    return chain


def _draw_reduction(draw: Draw) -> OpenChain:
    chain = begin(draw, draw_tensor_rank(draw))
    chain.lead()
    chain.head_of("reduce", "reduce", "reduce", "spread")
    chain.lengthen(draw.choice(_SHORT))
    return chain


def _draw_softmax(draw: Draw) -> OpenChain:
    chain = begin(draw, draw_tensor_rank(draw))
    leads = draw.chance(0.7)
    if leads:
        chain.lead()
    chain.head("softmax")
    chain.lengthen(draw.choice(_SHORT) if leads else 1)
    return chain


def _draw_norm(draw: Draw) -> OpenChain:
    """Draw a norm after a function, or with what it was of as a residual."""
    chain = _begin_any(draw)
    given, leads = chain.x, draw.chance(0.6)
    if leads:
        chain.lead(binary=0.0 if draw.chance(0.5) else 0.5)
    chain.head("normalize")
    if not leads or draw.chance(0.2):
        chain.combine(given)
    else:
        chain.lengthen(draw.choice(_SHORT))
    return chain


def _begin_any(draw: Draw) -> OpenChain:
    if draw.chance(0.5):
        return begin(draw, draw.choice((2, 2, 3)))
    return begin_image(draw, draw.choice((1, 2, 4, 4, 8)))


def _draw_scan(draw: Draw) -> OpenChain:
    chain = begin(draw, draw.choice((2, 2, 3, 4)))
    leads = draw.chance(0.6)
    if leads:
        chain.lead()
    chain.head("scan")
    chain.lengthen(draw.choice(_SHORT) if leads else 1)
    return chain


def _draw_position(draw: Draw) -> OpenChain:
    """Draw the position of an extreme of what does not rise with the input alone."""
    chain = begin(draw, draw_tensor_rank(draw))
    chain.take_one_of((RESIDUAL, *NEW_BINARY))
    chain.position()
    return chain


def _draw_pooling(draw: Draw) -> OpenChain:
    leads = draw.chance(0.6)
    chain = begin_pooling(draw, float(leads))
    if not leads:
        chain.add_new()
    return chain


def _draw_product(draw: Draw) -> OpenChain:
    leads = draw.chance(0.5)
    begins = begin_linear if draw.chance(0.4) else begin_product
    chain = begins(draw, float(leads))
    if not leads:
        chain.add_new()
    return chain


def _draw_relation(draw: Draw) -> OpenChain:
    """Draw a value together with its own reduction."""
    chain = begin(draw, draw_tensor_rank(draw))
    chain.relate(LEADING)
    return chain


def _finish(chain: OpenChain, leads: bool, more_kernels: int) -> OpenChain:
    """Add the steps of a chain, among them a new one where nothing came before the head."""
    draw = chain.draw
    num_steps = draw.choice(_LONG)
    before = num_steps if leads else draw.between(0, num_steps - 1)
    kernels = more_kernels if draw.chance(0.35) else 0
    chain.lengthen(before, kernels)
    if not leads:
        chain.add_new()
        chain.lengthen(num_steps - before - 1)
    return chain


def _draw_convolution_chain(draw: Draw) -> OpenChain:
    leads = draw.chance(0.4)
    kinds = ("standard",) * 5 + ("depthwise", "pointwise", "grouped")
    return _finish(begin_convolution(draw, kinds, float(leads)), leads, 1)


def _draw_transposed_chain(draw: Draw) -> OpenChain:
    leads = draw.chance(0.4)
    return _finish(begin_convolution(draw, ("transposed",), float(leads)), leads, 1)


def _draw_linear_chain(draw: Draw) -> OpenChain:
    leads = draw.chance(0.4)
    return _finish(begin_linear(draw, float(leads)), leads, 1)


def _draw_product_chain(draw: Draw) -> OpenChain:
    leads = draw.chance(0.4)
    return _finish(begin_product(draw, float(leads)), leads, 1)


def _draw_pooling_chain(draw: Draw) -> OpenChain:
    leads = draw.chance(0.6)
    return _finish(begin_pooling(draw, float(leads)), leads, 1)


def _draw_norm_chain(draw: Draw) -> OpenChain:
    """Draw a norm with a residual or after a function, then steps."""
    chain = _begin_any(draw)
    given, leads = chain.x, draw.chance(0.5)
    if leads:
        chain.lead()
    chain.head("normalize")
    combines = draw.chance(0.5) and chain.combine(given)
    return _finish(chain, leads or combines, 1)


def _draw_reduction_chain(draw: Draw) -> OpenChain:
    """Draw a reduction or a cumulative sum after a function, then steps, at times with another kernel."""
    chain = begin(draw, draw.choice((3, 3, 4, 4, 5, 2)))
    chain.lead()
    chain.head_of("reduce", "reduce", "reduce", "spread", "scan")
    return _finish(chain, True, 1)


def _draw_softmax_chain(draw: Draw) -> OpenChain:
    """Draw a softmax, of which at times what it was of is multiplied, then steps."""
    chain = begin(draw, draw_tensor_rank(draw))
    given, leads = chain.x, draw.chance(0.5)
    if leads:
        chain.lead()
    chain.head("softmax")
    combines = draw.chance(0.4) and chain.combine(given)
    if combines:
        chain.soft = -1
    return _finish(chain, leads or combines, 1)


def _draw_relation_chain(draw: Draw) -> OpenChain:
    """Draw a value together with its own reduction, then steps."""
    chain = begin(draw, draw_tensor_rank(draw))
    chain.relate(LEADING)
    return _finish(chain, True, 1)


_LEVELS: dict[int, dict[str, Callable[[Draw], OpenChain]]] = {
    1: {
        "open_map": _draw_map,
        "open_reduction": _draw_reduction,
        "open_softmax": _draw_softmax,
        "open_norm": _draw_norm,
        "open_scan": _draw_scan,
        "open_position": _draw_position,
        "open_pooling": _draw_pooling,
        "open_product": _draw_product,
        "open_relation": _draw_relation,
    },
    2: {
        "open_conv_chain": _draw_convolution_chain,
        "open_conv_transpose_chain": _draw_transposed_chain,
        "open_linear_chain": _draw_linear_chain,
        "open_product_chain": _draw_product_chain,
        "open_pooling_chain": _draw_pooling_chain,
        "open_norm_chain": _draw_norm_chain,
        "open_reduction_chain": _draw_reduction_chain,
        "open_softmax_chain": _draw_softmax_chain,
        "open_relation_chain": _draw_relation_chain,
    },
}


def _draw_marked(level: int, draw_chain: Callable[[Draw], OpenChain]) -> Callable[[Draw, str], Spec]:
    """Return the family's draws that have a mark and are small; most are, and the others are drawn anew."""

    def draw_one(draw: Draw, family: str) -> Spec:
        while True:
            spec = draw_chain(draw).program.finish(level, family)
            if is_open(spec) and count_elements(spec) <= 2 * MOST_ELEMENTS:
                return spec

    return draw_one


OPEN_FAMILIES: dict[str, tuple[int, Callable[[Draw, str], Spec]]] = {
    name: (level, _draw_marked(level, chain)) for level, chains in _LEVELS.items() for name, chain in chains.items()
}
"""By name: the level, and how a task is drawn."""
