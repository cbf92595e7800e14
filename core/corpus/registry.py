"""The table of families, by level and part, and the suites that they make."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve, frozen

from ..task import Example
from .builder.draw import Draw
from .builder.spec import Spec
from .composition.program import ProgramDraw, draw_programs
from .composition.writing import write_program
from .families import (
    attention,
    batch_norms,
    convolutions,
    group_norms,
    losses,
    matrix_vectors,
    operators,
    pointwise,
    pooling,
    product_forms,
    products,
    rows,
    scans,
    strips,
    totals,
)
from .families.networks import NETWORKS
from .open_tasks.grammar import LESSONS, LONG_FAMILIES, OPEN_FAMILIES, SpecDraw

Write = Callable[[Spec, str, Draw], Example]
"""Writes a task with this id, and its teacher's solution."""


@frozen
class Family:
    """A family of tasks: how its specs are drawn, and how they are written (null where there is no teacher)."""

    part: int
    """1 for the families that the presets and the published results were made with, 2 for the others of `full`, 3 for
    those that came after models were trained on that, 4 for those that are composed at the sizes of benchmarks, 5 for
    those without teachers, 6 for longer ones."""
    level: int
    write: Write | None
    draw: SpecDraw

    def draw_spec(self, draw: Draw, name: str) -> Spec:
        """Draw a task of the family, which has this name."""
        return evolve(self.draw(draw, name), level=self.level, family=name)


def _each(part: int, level: int, write: Write, draw: SpecDraw, *names: str) -> dict[str, Family]:
    """Return families that one function draws."""
    return dict.fromkeys(names, Family(part, level, write, draw))


def _with_one_step(draw_chain: SpecDraw) -> SpecDraw:
    """Return the same producer with the first step of the chain alone: two operations."""

    def draw_short(draw: Draw, family: str) -> Spec:
        spec = draw_chain(draw, family)
        return evolve(spec, chain=spec.chain[:1])

    return draw_short


def _composed(level: int, draws: dict[str, ProgramDraw]) -> dict[str, Family]:
    """Return families whose programs are composed."""
    return {name: Family(4, level, write_program, draw_programs(draw)) for name, draw in draws.items()}


TABLE: dict[str, Family] = {
    **_each(1, 1, pointwise.write_pointwise, pointwise.draw_pointwise, "unary", "binary"),
    **_each(1, 1, rows.write_rows, rows.draw_rows, "reduction", "argmax", "softmax", "log_softmax"),
    **_each(1, 1, rows.write_rows, rows.draw_rows, "layer_norm", "rms_norm"),
    "matmul": Family(1, 1, products.write_product, products.draw_matmul),
    "linear_chain": Family(1, 2, products.write_product, products.draw_linear_chain),
    "matmul_chain": Family(1, 2, products.write_product, products.draw_matmul_chain),
    **_each(1, 2, rows.write_rows, rows.draw_rows, "norm_chain", "reduction_chain"),
    **_each(2, 1, group_norms.write_group_norm, group_norms.draw_group_norm, "group_norm", "instance_norm"),
    "layer_norm_nd": Family(2, 1, group_norms.write_group_norm, group_norms.draw_group_norm),
    "batch_norm": Family(2, 1, batch_norms.write_batch_norm, batch_norms.draw_batch_norm),
    "prelu": Family(2, 1, batch_norms.write_batch_norm, batch_norms.draw_prelu),
    **_each(2, 1, strips.write_strips, strips.draw_strips, "dim_reduction", "dim_argmax", "dim_softmax"),
    **_each(2, 1, strips.write_strips, strips.draw_strips, "l1_norm", "l2_norm", "channel_rms_norm"),
    **_each(2, 1, scans.write_scan, scans.draw_scan, "cumulative_sum", "cumulative_product"),
    "full_reduction": Family(2, 1, totals.write_total, totals.draw_full_reduction),
    "frobenius_norm": Family(2, 1, totals.write_total, totals.draw_frobenius_norm),
    "element_loss": Family(2, 1, losses.write_element_loss, losses.draw_element_loss),
    "row_loss": Family(2, 1, losses.write_row_loss, losses.draw_row_loss),
    "activation": Family(2, 1, pointwise.write_pointwise, pointwise.draw_pointwise),
    "batched_matmul": Family(2, 1, product_forms.write_product_form, product_forms.draw_batched_matmul),
    "matmul_shapes": Family(2, 1, product_forms.write_product_form, product_forms.draw_matmul_shapes),
    "structured_matmul": Family(2, 1, product_forms.write_product_form, product_forms.draw_structured_matmul),
    "matvec": Family(2, 1, matrix_vectors.write_matvec, matrix_vectors.draw_matvec),
    "diagonal_matmul": Family(2, 1, matrix_vectors.write_diagonal_matmul, matrix_vectors.draw_diagonal_matmul),
    "attention": Family(2, 1, attention.write_attention, attention.draw_attention),
    "batch_norm_chain": Family(2, 2, batch_norms.write_batch_norm, batch_norms.draw_batch_norm),
    "group_norm_chain": Family(2, 2, group_norms.write_group_norm, group_norms.draw_group_norm),
    **_each(2, 1, convolutions.write_convolution, convolutions.draw_convolution, "conv", "depthwise_conv"),
    **_each(2, 1, convolutions.write_convolution, convolutions.draw_convolution, "pointwise_conv", "grouped_conv"),
    **_each(2, 1, convolutions.write_convolution, convolutions.draw_convolution, "separable_conv", "transposed_conv"),
    "conv_chain": Family(2, 2, convolutions.write_convolution, convolutions.draw_convolution_chain),
    "conv_norm_chain": Family(2, 2, convolutions.write_convolution, convolutions.draw_norm_activation),
    "transposed_conv_chain": Family(2, 2, convolutions.write_convolution, convolutions.draw_transposed_chain),
    **_each(2, 1, pooling.write_pooling, pooling.draw_pooling, "max_pool", "avg_pool"),
    "conv_reduce_chain": Family(2, 2, convolutions.write_convolution, convolutions.draw_two_stages),
    "pooling_chain": Family(2, 2, pooling.write_pooling, pooling.draw_pooling),
    "masked_product": Family(3, 1, scans.write_scan, scans.draw_scan),
    "product_rows": Family(3, 2, products.write_product_rows, products.draw_product_rows),
    "linear_step": Family(3, 2, products.write_product, _with_one_step(products.draw_linear_chain)),
    "matmul_step": Family(3, 2, products.write_product, _with_one_step(products.draw_matmul_chain)),
    "norm_step": Family(3, 2, rows.write_rows, _with_one_step(rows.draw_rows)),
    "conv_step": Family(3, 2, convolutions.write_convolution, _with_one_step(convolutions.draw_convolution_chain)),
    "transposed_conv_step": Family(
        3, 2, convolutions.write_convolution, _with_one_step(convolutions.draw_transposed_chain)
    ),
    "pooling_step": Family(3, 2, pooling.write_pooling, _with_one_step(pooling.draw_pooling)),
    **_composed(1, operators.OPERATORS),
    **_composed(2, operators.CHAINS),
    **_composed(3, NETWORKS),
    **{name: Family(4, level, write_program, draw) for name, (level, draw) in LESSONS.items()},
    **{name: Family(5, level, None, draw) for name, (level, draw) in OPEN_FAMILIES.items()},
    **{name: Family(6, level, None, draw) for name, (level, draw) in LONG_FAMILIES.items()},
}
"""By name, in the order of their turns."""


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
    "any_matmul": 6,
    "any_matvec": 3,
    "any_margin_loss": 2,
    "any_scan": 3,
    "any_activation": 10,
    "element_loss": 2,
    "row_loss": 2,
    "structured_matmul": 2,
    "conv_then": 4,
    "conv_transpose_then": 3,
    "linear_then": 3,
    "matmul_then": 2,
    "mlp": 3,
    "residual_block": 2,
    "small_classifier": 2,
    "conv_stack": 2,
}
"""How often a family has its turn in a suite of surfaces, where that is not once: about as benchmarks name them."""

SUPERSEDED: frozenset[str] = frozenset(
    [
        *("reduction", "argmax", "softmax", "log_softmax", "layer_norm", "rms_norm", "matmul", "group_norm"),
        *("instance_norm", "layer_norm_nd", "batch_norm", "dim_reduction", "dim_argmax", "dim_softmax", "l1_norm"),
        *("l2_norm", "channel_rms_norm", "cumulative_sum", "cumulative_product", "masked_product", "activation"),
        *("batched_matmul", "matmul_shapes", "attention", "matvec", "conv", "depthwise_conv", "pointwise_conv"),
        "grouped_conv",
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
