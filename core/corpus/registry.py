"""The table of families, by level and part, and the suites that they make."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve, frozen

from ..task import Example
from .builder.draw import Draw
from .builder.spec import Spec
from .composition.writing import write_program
from .families import operators
from .families.attention import draw_attention, write_attention
from .families.batch_norms import draw_batch_norm, draw_batch_norm_chain, draw_prelu, write_batch_norm
from .families.convolutions import (
    draw_convolution,
    draw_convolution_chain,
    draw_norm_activation,
    draw_transposed_chain,
    draw_two_stages,
    write_convolution,
)
from .families.group_norms import draw_group_norm, draw_group_norm_chain, write_group_norm
from .families.losses import draw_element_loss, draw_row_loss, write_element_loss, write_row_loss
from .families.matrix_vectors import draw_diagonal_matmul, draw_matvec, write_diagonal_matmul, write_matvec
from .families.networks import NETWORKS
from .families.pointwise import draw_activation, draw_binary, draw_unary, write_pointwise
from .families.pooling import draw_pooling, draw_pooling_chain, write_pooling
from .families.product_forms import draw_batched_matmul, draw_matmul_shapes, draw_structured_matmul, write_product_form
from .families.products import (
    draw_linear_chain,
    draw_matmul,
    draw_matmul_chain,
    draw_product_rows,
    write_product,
    write_product_rows,
)
from .families.rows import draw_map, draw_norm_chain, draw_reduction, draw_reduction_chain, write_rows
from .families.scans import draw_scan, write_scan
from .families.strips import draw_dim_argmax, draw_dim_reduction, draw_dim_softmax, draw_lp_norm, write_strips
from .families.totals import draw_frobenius_norm, draw_full_reduction, write_total
from .open_tasks.grammar import LESSONS, LONG_FAMILIES, OPEN_FAMILIES


@frozen(kw_only=True)
class Family:
    """A family of tasks: how its specs are drawn, and how they are written."""

    level: int
    draw: Callable[[Draw, str], Spec]
    write: Callable[[Spec, str, Draw], Example] | None
    """Writes the task and its teacher's solution; null where there is no teacher."""
    part: int = 1
    """1 for the families that the presets and the published results were made with, 2 for the others of `full`, 3 for
    those that came after models were trained on that, 4 for those that are composed at the sizes of benchmarks, 5 for
    those without teachers, 6 for longer ones."""


def _with_one_step(draw_chain: Callable[[Draw, str], Spec]) -> Callable[[Draw, str], Spec]:
    """Return the same producer with the first step of the chain alone: two operations."""

    def draw_short(draw: Draw, family: str) -> Spec:
        spec = draw_chain(draw, family)
        return evolve(spec, chain=spec.chain[:1])

    return draw_short


TABLE: dict[str, Family] = {
    "unary": Family(level=1, draw=draw_unary, write=write_pointwise),
    "binary": Family(level=1, draw=draw_binary, write=write_pointwise),
    "reduction": Family(level=1, draw=draw_reduction, write=write_rows),
    "argmax": Family(level=1, draw=draw_reduction, write=write_rows),
    "softmax": Family(level=1, draw=draw_map, write=write_rows),
    "log_softmax": Family(level=1, draw=draw_map, write=write_rows),
    "layer_norm": Family(level=1, draw=draw_map, write=write_rows),
    "rms_norm": Family(level=1, draw=draw_map, write=write_rows),
    "matmul": Family(level=1, draw=draw_matmul, write=write_product),
    "linear_chain": Family(level=2, draw=draw_linear_chain, write=write_product),
    "matmul_chain": Family(level=2, draw=draw_matmul_chain, write=write_product),
    "norm_chain": Family(level=2, draw=draw_norm_chain, write=write_rows),
    "reduction_chain": Family(level=2, draw=draw_reduction_chain, write=write_rows),
    "group_norm": Family(level=1, draw=draw_group_norm, write=write_group_norm, part=2),
    "instance_norm": Family(level=1, draw=draw_group_norm, write=write_group_norm, part=2),
    "layer_norm_nd": Family(level=1, draw=draw_group_norm, write=write_group_norm, part=2),
    "batch_norm": Family(level=1, draw=draw_batch_norm, write=write_batch_norm, part=2),
    "prelu": Family(level=1, draw=draw_prelu, write=write_batch_norm, part=2),
    "dim_reduction": Family(level=1, draw=draw_dim_reduction, write=write_strips, part=2),
    "dim_argmax": Family(level=1, draw=draw_dim_argmax, write=write_strips, part=2),
    "dim_softmax": Family(level=1, draw=draw_dim_softmax, write=write_strips, part=2),
    "l1_norm": Family(level=1, draw=draw_lp_norm, write=write_strips, part=2),
    "l2_norm": Family(level=1, draw=draw_lp_norm, write=write_strips, part=2),
    "channel_rms_norm": Family(level=1, draw=draw_lp_norm, write=write_strips, part=2),
    "cumulative_sum": Family(level=1, draw=draw_scan, write=write_scan, part=2),
    "cumulative_product": Family(level=1, draw=draw_scan, write=write_scan, part=2),
    "full_reduction": Family(level=1, draw=draw_full_reduction, write=write_total, part=2),
    "frobenius_norm": Family(level=1, draw=draw_frobenius_norm, write=write_total, part=2),
    "element_loss": Family(level=1, draw=draw_element_loss, write=write_element_loss, part=2),
    "row_loss": Family(level=1, draw=draw_row_loss, write=write_row_loss, part=2),
    "activation": Family(level=1, draw=draw_activation, write=write_pointwise, part=2),
    "batched_matmul": Family(level=1, draw=draw_batched_matmul, write=write_product_form, part=2),
    "matmul_shapes": Family(level=1, draw=draw_matmul_shapes, write=write_product_form, part=2),
    "structured_matmul": Family(level=1, draw=draw_structured_matmul, write=write_product_form, part=2),
    "matvec": Family(level=1, draw=draw_matvec, write=write_matvec, part=2),
    "diagonal_matmul": Family(level=1, draw=draw_diagonal_matmul, write=write_diagonal_matmul, part=2),
    "attention": Family(level=1, draw=draw_attention, write=write_attention, part=2),
    "batch_norm_chain": Family(level=2, draw=draw_batch_norm_chain, write=write_batch_norm, part=2),
    "group_norm_chain": Family(level=2, draw=draw_group_norm_chain, write=write_group_norm, part=2),
    "conv": Family(level=1, draw=draw_convolution, write=write_convolution, part=2),
    "depthwise_conv": Family(level=1, draw=draw_convolution, write=write_convolution, part=2),
    "pointwise_conv": Family(level=1, draw=draw_convolution, write=write_convolution, part=2),
    "grouped_conv": Family(level=1, draw=draw_convolution, write=write_convolution, part=2),
    "separable_conv": Family(level=1, draw=draw_convolution, write=write_convolution, part=2),
    "transposed_conv": Family(level=1, draw=draw_convolution, write=write_convolution, part=2),
    "conv_chain": Family(level=2, draw=draw_convolution_chain, write=write_convolution, part=2),
    "conv_norm_chain": Family(level=2, draw=draw_norm_activation, write=write_convolution, part=2),
    "transposed_conv_chain": Family(level=2, draw=draw_transposed_chain, write=write_convolution, part=2),
    "max_pool": Family(level=1, draw=draw_pooling, write=write_pooling, part=2),
    "avg_pool": Family(level=1, draw=draw_pooling, write=write_pooling, part=2),
    "conv_reduce_chain": Family(level=2, draw=draw_two_stages, write=write_convolution, part=2),
    "pooling_chain": Family(level=2, draw=draw_pooling_chain, write=write_pooling, part=2),
    "masked_product": Family(level=1, draw=draw_scan, write=write_scan, part=3),
    "product_rows": Family(level=2, draw=draw_product_rows, write=write_product_rows, part=3),
    "linear_step": Family(level=2, draw=_with_one_step(draw_linear_chain), write=write_product, part=3),
    "matmul_step": Family(level=2, draw=_with_one_step(draw_matmul_chain), write=write_product, part=3),
    "norm_step": Family(level=2, draw=_with_one_step(draw_norm_chain), write=write_rows, part=3),
    "conv_step": Family(level=2, draw=_with_one_step(draw_convolution_chain), write=write_convolution, part=3),
    "transposed_conv_step": Family(
        level=2, draw=_with_one_step(draw_transposed_chain), write=write_convolution, part=3
    ),
    "pooling_step": Family(level=2, draw=_with_one_step(draw_pooling_chain), write=write_pooling, part=3),
    "any_conv": Family(level=1, draw=operators.draw_convolution, write=write_program, part=4),
    "any_conv_transpose": Family(level=1, draw=operators.draw_transposed, write=write_program, part=4),
    "any_pool": Family(level=1, draw=operators.draw_pooling, write=write_program, part=4),
    "any_reduction": Family(level=1, draw=operators.draw_reduction, write=write_program, part=4),
    "any_position": Family(level=1, draw=operators.draw_position, write=write_program, part=4),
    "any_softmax": Family(level=1, draw=operators.draw_softmax, write=write_program, part=4),
    "any_norm": Family(level=1, draw=operators.draw_norm, write=write_program, part=4),
    "any_matmul": Family(level=1, draw=operators.draw_matmul, write=write_program, part=4),
    "any_attention": Family(level=1, draw=operators.draw_attention, write=write_program, part=4),
    "any_scan": Family(level=1, draw=operators.draw_scan, write=write_program, part=4),
    "any_separable_conv": Family(level=1, draw=operators.draw_separable, write=write_program, part=4),
    "any_scaling": Family(level=1, draw=operators.draw_scaling, write=write_program, part=4),
    "any_activation": Family(level=1, draw=operators.draw_activation, write=write_program, part=4),
    "conv_then": Family(level=2, draw=operators.draw_convolution_chain, write=write_program, part=4),
    "conv_transpose_then": Family(level=2, draw=operators.draw_transposed_chain, write=write_program, part=4),
    "linear_then": Family(level=2, draw=operators.draw_linear_chain, write=write_program, part=4),
    "matmul_then": Family(level=2, draw=operators.draw_product_chain, write=write_program, part=4),
    "pool_then": Family(level=2, draw=operators.draw_pooling_chain, write=write_program, part=4),
    "norm_then": Family(level=2, draw=operators.draw_norm_chain, write=write_program, part=4),
    **{name: Family(level=3, draw=draw, write=write_program, part=4) for name, draw in NETWORKS.items()},
    **{name: Family(level=level, draw=draw, write=write_program, part=4) for name, (level, draw) in LESSONS.items()},
    **{name: Family(level=level, draw=draw, write=None, part=5) for name, (level, draw) in OPEN_FAMILIES.items()},
    **{name: Family(level=level, draw=draw, write=None, part=6) for name, (level, draw) in LONG_FAMILIES.items()},
}


def families(*parts: int) -> dict[int, tuple[str, ...]]:
    """Return the families' names by level: of these parts, or all that have teachers; the levels that have one."""
    found: dict[int, list[str]] = {}
    for name, family in TABLE.items():
        if family.part in parts or (not parts and family.write is not None):
            found.setdefault(family.level, []).append(name)
    return {level: tuple(names) for level, names in sorted(found.items())}


FAMILIES: dict[int, tuple[str, ...]] = families(1)
"""The first part's families by level, which a stream takes where it is not told otherwise."""

ALL_FAMILIES: dict[int, tuple[str, ...]] = {level: names + families(2)[level] for level, names in FAMILIES.items()}
"""The families of the first two parts by level."""

SURFACES: dict[str, bool] = {"field": False, "dialects": True}
"""Suites whose programs are written in dialects, and whether in those that are held out."""

SHARES: dict[str, int] = {
    "any_conv": 5,
    "any_conv_transpose": 4,
    "any_pool": 2,
    "any_reduction": 3,
    "any_softmax": 2,
    "any_norm": 3,
    "any_matmul": 4,
    "any_scan": 2,
    "any_activation": 6,
    "element_loss": 2,
    "row_loss": 2,
    "structured_matmul": 2,
    "conv_then": 4,
    "conv_transpose_then": 3,
    "linear_then": 3,
    "matmul_then": 2,
}
"""How often a family has its turn in a suite of surfaces, where that is not once: about as benchmarks name them."""

SUPERSEDED: frozenset[str] = frozenset(
    [
        *("reduction", "argmax", "softmax", "log_softmax", "layer_norm", "rms_norm", "matmul", "group_norm"),
        *("instance_norm", "layer_norm_nd", "batch_norm", "dim_reduction", "dim_argmax", "dim_softmax", "l1_norm"),
        *("l2_norm", "channel_rms_norm", "cumulative_sum", "cumulative_product", "masked_product", "activation"),
        *("batched_matmul", "matmul_shapes", "attention", "conv", "depthwise_conv", "pointwise_conv", "grouped_conv"),
        *("separable_conv", "transposed_conv", "max_pool", "avg_pool", "unary"),
        *(name for name, family in TABLE.items() if family.level == 2 and family.part < 4),
    ]
)
"""Older families whose computations a composed family draws too. A suite of surfaces leaves them out: with two ways to
answer one question, a small model mixes them."""


def _take_turns(names: tuple[str, ...], suite: str) -> tuple[str, ...]:
    """Return the families of a level in their turns, those with several shares in every round but the last ones."""
    kept = [name for name in names if name not in SUPERSEDED]
    rounds = max(SHARES.get(name, 1) for name in kept)
    return tuple(f"{suite}_{name}" for turn in range(rounds) for name in kept if turn < SHARES.get(name, 1))


SUITES: dict[str, dict[int, tuple[str, ...]]] = {
    "core13": FAMILIES,
    "full": ALL_FAMILIES,
    "extended": families(1, 2, 3),
    **{suite: {level: _take_turns(names, suite) for level, names in families().items()} for suite in SURFACES},
    "open": families(5),
    "long": families(6),
}
"""The families of the suites: `core13` has the first part, `full` the first two and `extended` the first three, in the
canonical form; `field` and `dialects` have all that are not superseded, each task in a dialect (`surfaces`) that its
id decides.

`dialects:heldout` and `dialects:validation` are the tasks of `field:heldout` and `field:validation`, written in the
dialects that no training task has. `open` has the families without teachers, in the dialects of training, and `long`
longer ones; the two hold out the same compositions.
"""

TAUGHT: dict[str, str] = {"open": "field", "long": "field"}
"""The suite of whose pairs a supervised start trains, where the suite itself has no teachers."""

TAUGHT_SUITES: tuple[str, ...] = tuple(suite for suite in SUITES if suite not in TAUGHT)
