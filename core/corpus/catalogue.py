"""The catalogue: families by level, rendering by id, and splits that share no task.

A task's split comes from a hash of what it computes, not of how it is worded. At Level 1 that is the function, its
numbers and its sizes; at Level 2 it is the chain of operations alone, so a held-out Level 2 task is a composition
that no training task has, at any size. `novelty` says which held-out tasks no training task equals in any wording.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from attrs import evolve, frozen

from ..task import Example, Task
from .builder.draw import MASK_64, Draw, mix
from .builder.spec import Spec
from .composition.kinship import (
    OPERATORS_WITH_RESERVED,
    find_older,
    goes_on,
    has_tail,
    is_reserved_operator,
    normalize,
)
from .composition.tensors import ProgramSpec
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
from .novelty import RESERVED, find_kin, is_reserved
from .surfaces import draw_dialect, write_surface


class Split(StrEnum):
    """Which tasks a model may see: 90%, 5% and 5% of them."""

    TRAIN = "train"
    VALIDATION = "validation"
    HELDOUT = "heldout"


@frozen(kw_only=True)
class Family:
    """A family of tasks: how its specs are drawn, and how they are written."""

    level: int
    draw: Callable[[Draw, str], Spec]
    write: Callable[[Spec, str, Draw], Example]
    part: int = 1
    """1 for the families that the presets and the published results were made with, 2 for the others of `full`, 3 for
    those that came after models were trained on that, 4 for those that are composed at the sizes of benchmarks."""


def _with_one_step(draw_chain: Callable[[Draw, str], Spec]) -> Callable[[Draw, str], Spec]:
    """Return the same producer with the first step of the chain alone: two operations."""

    def draw_short(draw: Draw, family: str) -> Spec:
        spec = draw_chain(draw, family)
        return evolve(spec, chain=spec.chain[:1])

    return draw_short


_FAMILIES: dict[str, Family] = {
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
    "any_activation": Family(level=1, draw=operators.draw_activation, write=write_program, part=4),
    "conv_then": Family(level=2, draw=operators.draw_convolution_chain, write=write_program, part=4),
    "conv_transpose_then": Family(level=2, draw=operators.draw_transposed_chain, write=write_program, part=4),
    "linear_then": Family(level=2, draw=operators.draw_linear_chain, write=write_program, part=4),
    "matmul_then": Family(level=2, draw=operators.draw_product_chain, write=write_program, part=4),
    "pool_then": Family(level=2, draw=operators.draw_pooling_chain, write=write_program, part=4),
    "norm_then": Family(level=2, draw=operators.draw_norm_chain, write=write_program, part=4),
    **{name: Family(level=3, draw=draw, write=write_program, part=4) for name, draw in NETWORKS.items()},
}


def families(*parts: int) -> dict[int, tuple[str, ...]]:
    """Return the families' names by level: of these parts, or all of them; the levels are those that have one."""
    found: dict[int, list[str]] = {}
    for name, family in _FAMILIES.items():
        if not parts or family.part in parts:
            found.setdefault(family.level, []).append(name)
    return {level: tuple(names) for level, names in sorted(found.items())}


FAMILIES: dict[int, tuple[str, ...]] = families(1)
"""The first part's families by level, which a stream takes where it is not told otherwise."""

ALL_FAMILIES: dict[int, tuple[str, ...]] = {level: names + families(2)[level] for level, names in FAMILIES.items()}
"""The families of the first two parts by level."""

_SURFACES: dict[str, bool] = {"field": False, "dialects": True}
"""Suites of all families whose programs are written in dialects, and whether in those that are held out."""

SUITES: dict[str, dict[int, tuple[str, ...]]] = {
    "core13": FAMILIES,
    "full": ALL_FAMILIES,
    "extended": families(1, 2, 3),
    **{
        suite: {level: tuple(f"{suite}_{name}" for name in names) for level, names in families().items()}
        for suite in _SURFACES
    },
}
"""The families of the suites: `core13` has the first part, `full` the first two and `extended` the first three, in the
canonical form; `field` and `dialects` have all, each task in a dialect (`surfaces`) that its id decides.

`dialects:heldout` and `dialects:validation` are the tasks of `field:heldout` and `field:validation`, written in the
dialects that no training task has.
"""

NAMED: dict[str, str] = {
    "gemm-bias-relu": "l2-matmul_chain-1f7dccd9dae75348",
    "conv-bn-relu": "l2-conv_norm_chain-5a9569b7c19e2233",
}
"""Tasks for training that go by a name: the two that the study ran reinforcement learning on."""

_ID = re.compile(r"l([1-3])-([a-z0-9_]+)-([0-9a-f]{16})")


def is_corpus_id(task_id: str) -> bool:
    """Return whether the id, or name, is that of a task of this corpus."""
    match = _ID.fullmatch(NAMED.get(task_id, task_id))
    return match is not None and _is_family(match[2], int(match[1]))


def _is_family(name: str, level: int) -> bool:
    family = _FAMILIES.get(_split_name(name)[1])
    return family is not None and family.level == level


def _split_name(name: str) -> tuple[str, str]:
    """Return the suite of surfaces that a family's name begins with, if any, and the family's own name."""
    if name in _FAMILIES:
        return "", name
    suite, _, own = name.partition("_")
    return (suite, own) if suite in _SURFACES else ("", name)


def _parse(task_id: str) -> tuple[str, int]:
    match = _ID.fullmatch(task_id)
    if match is None or not _is_family(match[2], int(match[1])):
        raise ValueError(f"no task of the corpus: {task_id!r}")
    return match[2], int(match[3], 16)


def _draw_spec(name: str, seed: int) -> Spec:
    _, own = _split_name(name)
    return _FAMILIES[own].draw(Draw(seed), own)


def _write(spec: Spec, task_id: str, name: str, seed: int) -> Example:
    # names and style come from a stream of their own, so that new wordings leave the tasks as they are
    example = _FAMILIES[spec.family].write(spec, task_id, Draw(mix(seed ^ 0x5DEECE66D)))
    suite, _ = _split_name(name)
    if not suite:
        return example
    draw = Draw(mix(seed ^ 0x2545F4914F6CDD1D))
    return write_surface(example, draw_dialect(draw, _SURFACES[suite]), draw)


def has_heldout_dialect(task_id: str) -> bool:
    """Return whether a task is written in a dialect that no training task has; raises ValueError for other suites'."""
    suite, _ = _split_name(_parse(task_id)[0])
    return _SURFACES.get(suite, False)


def render(task_id: str) -> Example:
    """Render the example of an id, such as "l1-softmax-00c0ffee12345678", or a name; raises ValueError for others."""
    task_id = NAMED.get(task_id, task_id)
    name, seed = _parse(task_id)
    return _write(_draw_spec(name, seed), task_id, name, seed)


def _digest(identity: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(identity).encode(), digest_size=8).digest(), "big")


def _split_program(spec: ProgramSpec) -> Split:
    """Split a composed task: what an older family may hold out of training is held out here too."""
    if spec.level == 1:
        return Split.HELDOUT if is_reserved_operator(spec) else _split_composition(spec.identity)
    if spec.level == 3:
        # networks of a kind are few, and their sizes many
        return _split_composition(spec.identity)
    own = _split_composition(("composed", *normalize(spec)))
    if own is not Split.TRAIN or goes_on(spec):
        return own
    if has_tail(spec):
        return Split.HELDOUT
    older = (composition for old in find_older(spec) for composition in find_kin(old))
    return own if all(_split_composition(found) is Split.TRAIN for found in older) else Split.HELDOUT


def _split(spec: Spec) -> Split:
    if isinstance(spec, ProgramSpec):
        return _split_program(spec)
    return Split.HELDOUT if is_reserved(spec) else _split_composition(spec.composition)


def _split_composition(composition: tuple[object, ...]) -> Split:
    percent = _digest(composition) % 100
    if percent < 90:
        return Split.TRAIN
    return Split.VALIDATION if percent < 95 else Split.HELDOUT


def split_of(task: Task) -> Split:
    """Return the split that a task of the corpus belongs to; raises ValueError for a task of another suite."""
    return _split(_draw_spec(*_parse(task.task_id)))


def is_novel(task: Task) -> bool:
    """Return whether no training task of the corpus equals this one; raises ValueError for a task of another suite."""
    return _is_novel(_draw_spec(*_parse(task.task_id)))


def _is_novel(spec: Spec) -> bool:
    if isinstance(spec, ProgramSpec):
        if spec.level == 1:
            return is_reserved_operator(spec)
        return spec.level == 2 and _split(spec) is Split.HELDOUT and goes_on(spec)
    if spec.level == 1:
        return is_reserved(spec)
    own = _split(spec) is Split.HELDOUT
    return own and all(_split_composition(composition) is not Split.TRAIN for composition in find_kin(spec))


def examples(split: Split, level: int, seed: int, families: Sequence[str] | None = None) -> Iterator[Example]:
    """Yield distinct examples of a split and level without end, families in turn; the same for the same seed.

    Where no families are named they are the first part's.
    """
    return (_write(*drawn) for drawn in _stream(level, seed, families, lambda spec: _split(spec) is split))


def example_ids(split: Split, level: int, seed: int, families: Sequence[str] | None = None) -> Iterator[str]:
    """Yield the ids of `examples`, which `render` writes: most of an example's time is its writing."""
    drawn = _stream(level, seed, families, lambda spec: _split(spec) is split)
    return (task_id for _, task_id, _, _ in drawn)


def novel_examples(level: int, seed: int, families: Sequence[str] | None = None) -> Iterator[Example]:
    """Return distinct held-out examples that no training task equals, as `examples` gives them.

    None at Level 1 where no family has a reserved structure, as in the first part, and none at Level 3.
    """
    chosen = [
        name
        for name in (FAMILIES[level] if families is None else families)
        if level == 2 or _split_name(name)[1] in (*RESERVED, *OPERATORS_WITH_RESERVED)
    ]
    return (_write(*drawn) for drawn in _stream(level, seed, chosen, _is_novel)) if chosen else iter(())


def _stream(
    level: int, seed: int, families: Sequence[str] | None, is_wanted: Callable[[Spec], bool]
) -> Iterator[tuple[Spec, str, str, int]]:
    """Yield what `_write` takes: a spec, its id, its family's name and its seed."""
    chosen = tuple(families) if families is not None else FAMILIES[level]
    unknown = [name for name in chosen if not _is_family(name, level)]
    if unknown or not chosen:
        raise ValueError(f"no family of level {level}: {', '.join(unknown) or '(none given)'}")
    # a family's stream is the same in all suites: they have the same tasks in different words
    streams = {name: Draw(_digest((seed, level, _split_name(name)[1]))) for name in chosen}
    seen: set[int] = set()
    while True:
        for name in chosen:
            while True:
                render_seed = streams[name].bits() & MASK_64
                spec = _draw_spec(name, render_seed)
                if is_wanted(spec) and (identity := _digest(spec.identity)) not in seen:
                    break
            seen.add(identity)
            yield spec, f"l{level}-{name}-{render_seed:016x}", name, render_seed
