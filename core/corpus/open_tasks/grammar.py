"""Chains that are open tasks or teach their parts: at Level 1 two operations, at Level 2 three or four.

The suite `long` has those of Level 2 as its first level, and five or six operations as its second: no pair that teaches
their parts is as long.

Every chain has a mark that no program of an older family has (`membership.is_marked`): a function before the head, a
function that no older chain has, a step after an operator that elsewhere stands alone, or an earlier value again. The
hash of their operations says which are open tasks and which are pairs (`membership.is_open`). Open tasks have a family
for each kind of head; the pairs have few families, so that they are a small part of what a policy is taught.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial

from ..builder.draw import Draw
from ..builder.operations import apply
from ..builder.spec import Spec
from ..composition.heads import add_tensor, draw_tensor_rank
from ..composition.program import Program, ProgramSpec, draw_programs
from .chain import (
    FURTHER,
    LEADING,
    MOST_ELEMENTS,
    NEW_BINARY,
    NEW_UNARY,
    OpenChain,
    begin,
    begin_convolution,
    begin_image,
    begin_linear,
    begin_pooling,
    begin_product,
)
from .membership import count_elements, count_operations, is_marked, is_open

ChainDraw = Callable[[Draw], OpenChain]
HeadDraw = Callable[[Draw, float], OpenChain]
"""Begins a chain with a head, after a function with this probability."""
SpecDraw = Callable[[Draw, str], Spec]
NUM_OPERATIONS: dict[int, tuple[int, ...]] = {1: (2,), 2: (3, 3, 4)}
"""By level; one of them is drawn."""
LENGTHS_OF_LONG: dict[int, tuple[int, ...]] = {1: NUM_OPERATIONS[2], 2: (5, 6)}
"""How many operations a task of the suite `long` has, by level."""
_NUM_FURTHER = 2
"""Steps that a chain of five or six operations has beyond one of Level 2."""


def _draw_map(draw: Draw) -> OpenChain:
    chain = begin(draw, draw_tensor_rank(draw))
    chain.add_new()
    chain.lengthen(1)
    return chain


def _draw_reduction(draw: Draw) -> OpenChain:
    chain = begin(draw, draw_tensor_rank(draw))
    chain.lead()
    chain.head_of("reduce", "reduce", "reduce", "spread")
    return chain


def _draw_softmax(draw: Draw) -> OpenChain:
    return _draw_alone(draw, begin(draw, draw_tensor_rank(draw)), "softmax")


def _draw_scan(draw: Draw) -> OpenChain:
    return _draw_alone(draw, begin(draw, draw.choice((2, 2, 3, 4))), "scan")


def _draw_alone(draw: Draw, chain: OpenChain, kind: str) -> OpenChain:
    """Draw a head that stands alone elsewhere, with a function before it or a step after it."""
    leads = draw.chance(0.6)
    if leads:
        chain.lead()
    chain.head(kind)
    if not leads:
        chain.lengthen(1)
    return chain


def _draw_norm(draw: Draw) -> OpenChain:
    """Draw a norm after a function, or with what it was of as a residual."""
    chain = _begin_any(draw)
    given, leads = chain.x, draw.chance(0.7)
    if leads:
        chain.lead()
    chain.head("normalize")
    if not leads:
        chain.combine(given)
    return chain


def _begin_any(draw: Draw) -> OpenChain:
    if draw.chance(0.5):
        return begin(draw, draw.choice((2, 2, 3)))
    return begin_image(draw, draw.choice((1, 2, 4, 4, 8)))


def _begin_product(draw: Draw, leads: float) -> OpenChain:
    return (begin_linear if draw.chance(0.5) else begin_product)(draw, leads)


def _add_function(begins: HeadDraw, share: float) -> ChainDraw:
    """Return the draw of a head with a function before it, with probability `share`, or a new one after it."""

    def draw_chain(draw: Draw) -> OpenChain:
        leads = draw.chance(share)
        chain = begins(draw, float(leads))
        if not leads:
            chain.add_new()
        return chain

    return draw_chain


def _draw_relation(draw: Draw) -> OpenChain:
    """Draw a value together with its own reduction."""
    chain = begin(draw, draw_tensor_rank(draw))
    chain.relate(())
    return chain


def _finish(chain: OpenChain, has_mark: bool) -> OpenChain:
    """Add the steps of a chain, among them a new one where nothing has marked it."""
    draw = chain.draw
    missing = draw.choice(NUM_OPERATIONS[2]) - count_operations(chain.program.nodes)
    before = missing if has_mark else draw.between(0, max(0, missing - 1))
    chain.lengthen(before, int(draw.chance(0.25)))
    if not has_mark:
        chain.add_new()
        chain.lengthen(missing - before - 1)
    return chain


def _add_steps(begins: HeadDraw, share: float = 0.4) -> ChainDraw:
    """Return the draw of a head with a function before it, with probability `share`, and steps after it."""

    def draw_chain(draw: Draw) -> OpenChain:
        leads = draw.chance(share)
        return _finish(begins(draw, float(leads)), leads)

    return draw_chain


def _draw_norm_chain(draw: Draw) -> OpenChain:
    """Draw a norm with a residual or after a function, then steps."""
    chain = _begin_any(draw)
    given, leads = chain.x, draw.chance(0.5)
    if leads:
        chain.lead()
    chain.head("normalize")
    combines = draw.chance(0.5) and chain.combine(given)
    return _finish(chain, leads or combines)


def _draw_reduction_chain(draw: Draw) -> OpenChain:
    """Draw a reduction or a cumulative sum after a function, then steps, at times with another kernel."""
    chain = begin(draw, draw.choice((3, 3, 4, 4, 5, 2)))
    chain.lead()
    chain.head_of("reduce", "reduce", "reduce", "spread", "scan")
    return _finish(chain, True)


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
    return _finish(chain, leads or combines)


def _draw_relation_chain(draw: Draw) -> OpenChain:
    """Draw a value together with its own reduction, then steps."""
    chain = begin(draw, draw_tensor_rank(draw))
    chain.relate(LEADING)
    return _finish(chain, True)


_CHAINS: dict[int, dict[str, ChainDraw]] = {
    1: {
        "open_map": _draw_map,
        "open_reduction": _draw_reduction,
        "open_softmax": _draw_softmax,
        "open_norm": _draw_norm,
        "open_scan": _draw_scan,
        "open_pooling": _add_function(begin_pooling, 0.6),
        "open_product": _add_function(_begin_product, 0.5),
        "open_relation": _draw_relation,
    },
    2: {
        "open_conv_chain": _add_steps(begin_convolution),
        "open_conv_transpose_chain": _add_steps(partial(begin_convolution, kinds=("transposed",))),
        "open_linear_chain": _add_steps(begin_linear),
        "open_product_chain": _add_steps(begin_product),
        "open_pooling_chain": _add_steps(begin_pooling, 0.6),
        "open_norm_chain": _draw_norm_chain,
        "open_reduction_chain": _draw_reduction_chain,
        "open_softmax_chain": _draw_softmax_chain,
        "open_relation_chain": _draw_relation_chain,
    },
}
_LESSONS: dict[int, dict[str, tuple[str, ...]]] = {
    1: {
        "two_functions": ("open_map",),
        "function_and_rows": ("open_reduction", "open_softmax", "open_norm", "open_scan", "open_relation"),
        "function_and_layer": ("open_pooling", "open_product"),
    },
    2: {
        "functions_and_rows": (
            *("open_norm_chain", "open_reduction_chain", "open_softmax_chain", "open_relation_chain"),
        ),
        "functions_and_product": ("open_linear_chain", "open_product_chain", "open_pooling_chain"),
        "functions_and_conv": ("open_conv_chain", "open_conv_transpose_chain"),
    },
}
"""By level and name the chains that pairs are drawn as."""


def _with_further_steps(draw_chain: ChainDraw) -> ChainDraw:
    """Return the same draw with further steps, at times one with a kernel of its own."""

    def draw_longer(draw: Draw) -> OpenChain:
        chain = draw_chain(draw)
        chain.lengthen(_NUM_FURTHER, int(draw.chance(0.25)))
        return chain

    return draw_longer


def _draw_marked(chains: Sequence[ChainDraw], has_teacher: bool, lengths: Container[int]) -> SpecDraw:
    """Return the draws of a family that have a mark, are small, and belong to open tasks or to pairs."""

    def belongs(spec: ProgramSpec) -> bool:
        return (
            is_marked(spec)
            and is_open(spec) is not has_teacher
            and count_operations(spec.nodes) in lengths
            and count_elements(spec) <= 2 * MOST_ELEMENTS
        )

    def draw_one(draw: Draw, family: str) -> Spec:
        while True:
            spec = draw.choice(chains)(draw).program.finish()
            if belongs(spec):
                return spec

    return draw_one


def _draw_function(program: Program, draw: Draw) -> None:
    """Draw a function of one tensor that open tasks have as a step."""
    x = add_tensor(program, draw, draw_tensor_rank(draw))
    program.point(x, apply(draw.choice((*NEW_UNARY, *FURTHER)), draw))


def _draw_combination(program: Program, draw: Draw) -> None:
    """Draw a function of two tensors that open tasks have as a step."""
    x = add_tensor(program, draw, draw_tensor_rank(draw))
    other = program.input(program.shape(x), draw.choice(("r", "y", "other")))
    program.point(x, apply(draw.choice(NEW_BINARY), draw), "tensor", other=other)


OPEN_FAMILIES: dict[str, tuple[int, SpecDraw]] = {
    name: (level, _draw_marked((chain,), False, NUM_OPERATIONS[level]))
    for level, chains in _CHAINS.items()
    for name, chain in chains.items()
}
"""Tasks without teachers by name: the level, and how a task is drawn."""

LONG_FAMILIES: dict[str, tuple[int, SpecDraw]] = {
    name.replace("open", f"long{level}"): (
        level,
        _draw_marked((_with_further_steps(chain) if level == 2 else chain,), False, lengths),
    )
    for level, lengths in LENGTHS_OF_LONG.items()
    for name, chain in _CHAINS[2].items()
}
"""Longer tasks without teachers by name."""

LESSONS: dict[str, tuple[int, SpecDraw]] = {
    "any_function": (1, draw_programs(_draw_function)),
    "any_combination": (1, draw_programs(_draw_combination)),
    **{
        name: (level, _draw_marked([_CHAINS[level][one] for one in chains], True, NUM_OPERATIONS[level]))
        for level, families in _LESSONS.items()
        for name, chains in families.items()
    },
}
"""Pairs that teach what open tasks are made of: each function alone, and compositions that no open task has."""
