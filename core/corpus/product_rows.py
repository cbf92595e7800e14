"""Level 2: a product or a linear layer, a chain, then what needs whole rows of the result: a reduction or a softmax.

The chain lives in the product's kernel. A row is written by several of its programs, so that a second kernel, one of
the row families', reads it.
"""

from __future__ import annotations

from attrs import evolve

from ..task import Example
from .draw import Draw
from .operations import MATRIX_STEPS, Applied, draw_chain
from .products import write_parts
from .row_bodies import MAPS, REDUCTIONS, RowBody
from .spec import Spec, draw_product_sizes
from .wording import Kernel, Names, finish

_TAILS = {
    "softmax": ("softmax over the last dimension", "torch.softmax({x}, dim=-1)"),
    "log_softmax": ("log-softmax over the last dimension", "torch.log_softmax({x}, dim=-1)"),
    "logsumexp": ("log-sum-exp over the last dimension", "torch.logsumexp({x}, dim=-1{k})"),
    "sum": ("sum over the last dimension", "torch.sum({x}, dim=-1{k})"),
    "mean": ("mean over the last dimension", "torch.mean({x}, dim=-1{k})"),
    "max": ("maximum over the last dimension", "torch.amax({x}, dim=-1{k})"),
    "min": ("minimum over the last dimension", "torch.amin({x}, dim=-1{k})"),
}
_BOUNDED = ("rectify", "clamp", "squash")
_MAX_TILE_COLUMNS = 512


def draw_product_rows(draw: Draw, family: str) -> Spec:
    """A product or a linear layer, one to three steps, then a reduction or a softmax of rows."""
    base = draw.choice(("linear", "linear", "linear", "nn", "nt"))
    chain = draw_chain(draw, MATRIX_STEPS, 1 if base == "linear" else 2)[: draw.between(1, 3)]
    # of values with a bound, the extreme of many is that bound everywhere
    tail = draw.choice([tail for tail in _TAILS if tail not in ("max", "min") or not _is_bounded(chain)])
    return Spec(
        level=2,
        family=family,
        producer=f"{base}_{tail}",
        sizes=draw_product_sizes(draw),
        chain=chain,
        options=(("base", base), ("tail", tail), ("keepdim", draw.below(2) if tail in REDUCTIONS else 0)),
    )


def _is_bounded(chain: tuple[Applied, ...]) -> bool:
    return any(applied.operation.result == "one" or applied.operation.group in _BOUNDED for applied in chain)


def write_product_rows(spec: Spec, task_id: str, draw: Draw) -> Example:
    """The task and a teacher in two kernels."""
    tail, keep = str(spec.option("tail")), bool(spec.option("keepdim"))
    names, text, reference, first = write_parts(evolve(spec, producer=str(spec.option("base"))), draw, "mid")
    *lines, last = reference.forward
    more, expression = _TAILS[tail]
    expression = expression.format(x=last.removeprefix("return "), k=", keepdim=True" if keep else "")
    reference = evolve(reference, forward=(*lines, f"return {expression}"))
    text = f"{text[:-1]}, then {more}{', which is kept' if keep else ''}."
    names = names.beside(*reference.arguments)
    return finish(spec, task_id, text, reference, _add_rows(first, tail, keep, spec, names, draw), names, draw)


def _add_rows(first: Kernel, tail: str, keep: bool, spec: Spec, names: Names, draw: Draw) -> Kernel:
    """The product's kernel, and the one that reads its rows."""
    is_short = spec.sizes[-1].declared <= _MAX_TILE_COLUMNS
    style = draw.choice(("row", "row", "tile") if is_short else ("row", "row", "loop"))
    result, pointer = names.out, names.ptr("mid")
    body = RowBody(
        style=style,
        x="mid",
        value=names.value,
        columns=names.columns,
        offsets=names.offsets,
        block=names.block,
        n="N",
        rows="M",
        pointer=pointer,
        cast="",
        eps="0.0",
        affine=False,
        weight="",
        beta="",
    )
    if tail in REDUCTIONS:
        lines = REDUCTIONS[tail](body) + body.finish_reduction((), names.ptr(result))
        made = f"torch.empty({'(M, 1)' if keep else '(M,)'}, device=mid.device, dtype=mid.dtype)"
    else:
        lines = MAPS[tail](body) + body.finish_map((), names.ptr(result))
        made = "torch.empty_like(mid)"
    name = draw.choice((tail, f"row_{tail}", "rows")) + names.suffix
    sizes = ["N", "M"] if style == "tile" else ["N"]
    num_rows = draw.choice((2, 4))
    constants = [(names.block, str(draw.choice((256, 512))) if style == "loop" else "triton.next_power_of_2(N)")]
    constants += [("ROWS", str(num_rows))] if style == "tile" else []
    parameters = [pointer, names.ptr(result), *sizes, *(f"{constant}: tl.constexpr" for constant, _ in constants)]
    source = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    grid = f"(triton.cdiv(M, {num_rows}),)" if style == "tile" else "(M,)"
    passed = ["mid", result, *sizes, *(f"{constant}={value}" for constant, value in constants)]

    def host(local: dict[str, str]) -> list[str]:
        return [*first.host(local), f"{result} = {made}", f"{name}[{grid}]({', '.join(passed)})"]

    return Kernel(
        source=f"{first.source}\n\n@triton.jit\n{source}",
        tensors=first.tensors,
        host=host,
        result=result,
        style=f"{first.style}-{style}",
    )
