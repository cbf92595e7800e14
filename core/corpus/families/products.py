"""Matrix products: plain and transposed (Level 1), and products or linear layers with a fused epilogue (Level 2).

Styles: a grid of two dimensions or one that is divided; strides passed as arguments or written out for the layout.
The chain runs on the accumulator, so that nothing but the result is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from ...task import Example
from ..builder.drafts import ChainNames, Device, Draft, describe, forward_lines, kernel_lines, make_kernel, name_chain
from ..builder.draw import Draw
from ..builder.operations import MATRIX_STEPS, Operand, draw_chain, is_bounded
from ..builder.row_bodies import REDUCTIONS, SPELLINGS, RowBody, write_body
from ..builder.spec import Spec, draw_product_sizes
from ..builder.tiles import LAYOUTS, draw_tile, find_strides, place_factors, split_programs
from ..builder.wording import Kernel, Names, Reference, draw_names, finish

_TAILS = ("softmax", "log_softmax", "logsumexp", "sum", "mean", "max", "min")
_MAX_TILE_COLUMNS = 512
_NAMES = (
    *(("M", "K", "N"), ("ROWS", "INNER", "COLS"), ("batch_size", "in_features", "out_features")),
    *(("BATCH", "IN", "OUT"), ("B", "D_IN", "D_OUT")),
)


def draw_product_rows(draw: Draw, family: str) -> Spec:
    """Draw a product or a linear layer, one to three steps, then a reduction or a softmax of rows."""
    base = draw.choice(("linear", "linear", "linear", "nn", "nt"))
    chain = draw_chain(draw, MATRIX_STEPS, 1 if base == "linear" else 2)[: draw.between(1, 3)]
    # of values with a bound, the extreme of many is that bound everywhere
    tail = draw.choice([tail for tail in _TAILS if tail not in ("max", "min") or not is_bounded(chain)])
    return Spec(
        producer=f"{base}_{tail}",
        sizes=draw_product_sizes(draw),
        chain=chain,
        options=(("base", base), ("tail", tail), ("keepdim", draw.below(2) if tail in REDUCTIONS else 0)),
    )


def write_product_rows(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher in two kernels."""
    tail, keep = str(spec.option("tail")), bool(spec.option("keepdim"))
    names, text, reference, first = write_parts(evolve(spec, producer=str(spec.option("base"))), draw, "mid")
    *lines, last = reference.forward
    more, expression = SPELLINGS[tail]
    expression = expression.format(x=last.removeprefix("return "), d="-1", k=", keepdim=True" if keep else "")
    reference = evolve(reference, forward=[*lines, f"return {expression}"])
    text = f"{text[:-1]}, then {more.lower()} over the last dimension{', which is kept' if keep else ''}."
    names = names.beside(*reference.arguments)
    return finish(spec, task_id, text, reference, _add_rows(first, tail, keep, spec, names, draw), names, draw)


def _add_rows(first: Kernel, tail: str, keep: bool, spec: Spec, names: Names, draw: Draw) -> Kernel:
    """Add the kernel that reads the product's rows to the product's own."""
    is_short = spec.sizes[-1].declared <= _MAX_TILE_COLUMNS
    style = draw.choice(("row", "row", "tile") if is_short else ("row", "row", "loop"))
    result = names.out
    body = RowBody(spec=spec, names=evolve(names, x="mid"), style=style, n="N", rows="M")
    made = "torch.empty_like(mid)"
    if tail in REDUCTIONS:
        made = f"torch.empty({'(M, 1)' if keep else '(M,)'}, device=mid.device, dtype=mid.dtype)"
    name = draw.choice((tail, f"row_{tail}", "rows")) + names.suffix
    num_rows = draw.choice((2, 4))
    constants = [(names.block, str(draw.choice((256, 512))) if style == "loop" else "triton.next_power_of_2(N)")]
    constants += [("ROWS", str(num_rows))] if style == "tile" else []
    sizes = [("N", "N"), ("M", "M")] if style == "tile" else [("N", "N")]
    device = Device(
        name=name,
        arguments=((names.ptr("mid"), "mid"), (names.ptr(result), result), *sizes),
        constants=tuple(constants),
        body=tuple(write_body(tail, body, result)),
    )
    grid = f"(triton.cdiv(M, {num_rows}),)" if style == "tile" else "(M,)"

    def host(local: dict[str, str]) -> list[str]:
        return [*first.host(local), f"{result} = {made}", device.launch(grid)]

    return Kernel(
        source=f"{first.source}\n\n@triton.jit\n{device.source}",
        tensors=first.tensors,
        host=host,
        result=result,
        style=f"{first.style}-{style}",
    )


def draw_matmul(draw: Draw, family: str) -> Spec:
    """Draw a product of two matrices, either of which may come transposed."""
    return Spec(producer=draw.choice(("nn", "tn", "nt", "tt")), sizes=draw_product_sizes(draw))


def draw_matmul_chain(draw: Draw, family: str) -> Spec:
    """Draw a product of two matrices, then a chain."""
    return Spec(
        producer=draw.choice(("nn", "nn", "nt", "tn")),
        sizes=draw_product_sizes(draw),
        chain=draw_chain(draw, MATRIX_STEPS, 2),
    )


def draw_linear_chain(draw: Draw, family: str) -> Spec:
    """Draw a linear layer, then a chain."""
    return Spec(
        producer="linear" if draw.chance(0.8) else "linear_no_bias",
        sizes=draw_product_sizes(draw),
        chain=draw_chain(draw, MATRIX_STEPS, 1),
    )


def write_product(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a product or a linear layer."""
    names, description, reference, kernel = write_parts(spec, draw)
    return finish(spec, task_id, description, reference, kernel, names, draw)


def write_parts(spec: Spec, draw: Draw, result: str = "") -> tuple[Names, str, Reference, Kernel]:
    """Return the names, the description, the reference and the kernel of a product with its chain.

    Its matrix is called `result` where the solution goes on with it.
    """
    names = draw_names(draw, _NAMES)
    chain, draft = name_chain(spec.chain, draw), Draft()
    product = (_write_matmul if spec.producer in LAYOUTS else _write_linear)(spec, names, draft, draw)
    rows, _, columns = names.dimensions
    draft.take_chain(chain, f"{rows}, {columns}", product.features, (product.features, columns), is_last=True)
    value = product.a
    if spec.chain and spec.producer in LAYOUTS:
        value = draw.choice((product.a, "z"))
    reference = draft.reference(forward_lines(product.expression, spec.chain, value, chain))
    kernel = _write_kernel(spec, evolve(names, out=result) if result else names, chain, product, draft, draw)
    return names, describe(product.text, spec.chain, chain), reference, kernel


@frozen(kw_only=True)
class _Product:
    """A product as the reference writes it: its factors, their layout, and the name of its number of columns."""

    a: str
    b: str
    layout: str
    expression: str
    text: str
    features: str


def _write_matmul(spec: Spec, names: Names, draft: Draft, draw: Draw) -> _Product:
    """Write a product of two inputs into the draft."""
    rows, inner, columns = names.dimensions
    a, b = draw.choice((("a", "b"), ("a", "b"), ("x", "y"), ("x", "w")))
    layout = spec.producer
    expression, text = (part.format(a=a, b=b) for part in LAYOUTS[layout])
    if draw.chance(0.3):
        expression = "torch.matmul({}, {})".format(*expression.split(" @ "))
    # products of unit inputs would be too large for the chain's functions to show
    divided = f" / {inner}**0.5" if spec.chain else ""
    a_shape = f"{inner}, {rows}" if layout[0] == "t" else f"{rows}, {inner}"
    b_shape = f"{columns}, {inner}" if layout[1] == "t" else f"{inner}, {columns}"
    draft.take(a, f"torch.randn({a_shape}){divided}")
    draft.take(b, f"torch.randn({b_shape})")
    return _Product(a=a, b=b, layout=layout, expression=expression, text=f"Matrix product of {text}", features="n_out")


def _write_linear(spec: Spec, names: Names, draft: Draft, draw: Draw) -> _Product:
    """Write a linear layer into the draft."""
    rows, inner, columns = names.dimensions
    x = draw.choice(("x", "x", "x", "inp"))
    attribute = draw.choice(("linear", "linear", "fc", "proj"))
    has_bias = spec.producer == "linear"
    in_name, out_name = draw.choice((("in_features", "out_features"), ("d_in", "d_out")))
    draft.parameters += [(in_name, inner), (out_name, columns)]
    draft.init.append(f"self.{attribute} = nn.Linear({in_name}, {out_name}{'' if has_bias else ', bias=False'})")
    draft.take(x, f"torch.randn({rows}, {inner})")
    draft.hold("weight", f"{attribute}.weight")
    if has_bias:
        draft.hold("beta", f"{attribute}.bias")
    text = "Linear layer" + ("" if has_bias else " without bias")
    return _Product(a=x, b="weight", layout="nt", expression=f"self.{attribute}({x})", text=text, features=out_name)


def _write_kernel(spec: Spec, names: Names, chain: ChainNames, product: _Product, draft: Draft, draw: Draw) -> Kernel:
    a, b, layout = product.a, product.b, product.layout
    is_flat, is_strided = draw.chance(0.35), draw.chance(0.15 if spec.chain else 0.3)
    result = names.beside(*(name for name, _ in draft.tensors)).out
    tile, offsets = draw_tile(draw), names.offsets
    acc = draw.choice(("acc", "acc", "acc", names.value))
    rm, rn, rk = tile.rm, tile.rn, tile.rk
    strides = ("sam", "sak", "sbk", "sbn") if is_strided else find_strides(layout, "M", "K", "N")
    a_offsets, b_offsets = place_factors(tile, strides)
    head, row, column = split_programs(f"tl.cdiv(N, {tile.bn})", is_flat)
    lines = [
        *head,
        *tile.begin(acc, row, column),
        f"for k in range(0, K, {tile.bk}):",
        f"    {rk} = k + tl.arange(0, {tile.bk})",
        f"    {a} = tl.load({names.ptr(a)} + {a_offsets}, mask=({rm} < M) & ({rk}[None, :] < K), other=0.0)",
        f"    {b} = tl.load({names.ptr(b)} + {b_offsets}, mask=({rk}[:, None] < K) & ({rn} < N), other=0.0)",
        f'    {acc} += tl.dot({a}, {b}, input_precision="ieee")',
    ]

    def load(operand: str, kind: Operand) -> str:
        if kind is Operand.VECTOR:
            return f"tl.load({names.ptr(operand)} + {rn}, mask={rn} < N)"
        return f"tl.load({names.ptr(operand)} + {offsets}, mask=mask)"

    if spec.producer == "linear":
        lines.append(f"{acc} += {load('beta', Operand.VECTOR)}")
    lines += [
        f"{offsets} = {rm} * N + {rn}",
        f"mask = ({rm} < M) & ({rn} < N)",
        *kernel_lines(spec.chain, acc, chain, draw, load),
        f"tl.store({names.ptr(result)} + {offsets}, {acc}, mask=mask)",
    ]
    base = "matmul" if spec.producer in LAYOUTS else "linear"
    name = draw.choice((f"fused_{base}", base, "fused")) if spec.chain else draw.choice((base, "mm", "gemm"))
    blocks = draw.choice(((32, 32, 32), (64, 64, 32), (64, 32, 32), (32, 64, 32), (64, 64, 16), (16, 64, 32)))
    grid = f"(triton.cdiv(M, {blocks[0]}), triton.cdiv(N, {blocks[1]}))"
    if is_flat:
        grid = f"(triton.cdiv(M, {blocks[0]}) * triton.cdiv(N, {blocks[1]}),)"
    elif draw.chance(0.2):
        grid = f'lambda meta: (triton.cdiv(M, meta["{tile.bm}"]), triton.cdiv(N, meta["{tile.bn}"]))'
    passed = _pass_strides(product, strides) if is_strided else []
    device = Device(
        name=name + names.suffix,
        arguments=draft.pass_to(names.ptr, result, ["M", "N", "K", *passed], 2),
        constants=tuple(tile.constants(blocks)),
        body=tuple(lines),
    )
    host = [
        f"{'K, M' if layout[0] == 't' else 'M, K'} = <{a}>.shape",
        f"N = <{b}>.shape[{0 if layout[1] == 't' else 1}]",
        f"{result} = torch.empty((M, N), device=<{a}>.device, dtype=<{a}>.dtype)",
        f"grid = {grid}",
        device.launch("grid"),
    ]
    style = f"{'grid1d' if is_flat else 'grid2d'}-{'strided' if is_strided else 'packed'}"
    return make_kernel([device], host, draft.tensors, result, style)


def _pass_strides(product: _Product, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the strides of both factors by name: rows before inner, inner before columns."""
    factors = ((product.a, product.layout[0]), (product.b, product.layout[1]))
    values = [f"<{t}>.stride({axis})" for t, form in factors for axis in ((1, 0) if form == "t" else (0, 1))]
    return list(zip(names, values, strict=True))
