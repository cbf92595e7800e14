"""Matrix products: plain and transposed (Level 1), and products or linear layers with a fused epilogue (Level 2).

Styles: a grid of two dimensions or one that is divided; strides passed as arguments or written out for the layout.
The chain runs on the accumulator, so that nothing but the result is stored.
"""

from __future__ import annotations

from attrs import evolve

from ...task import Example
from ..builder.chain import ChainNames, describe, kernel_lines, name_chain, reference_lines
from ..builder.draw import Draw
from ..builder.operations import MATRIX_STEPS, Applied, Operand, draw_chain
from ..builder.row_bodies import MAPS, REDUCTIONS, RowBody
from ..builder.spec import Spec, draw_product_sizes
from ..builder.wording import Kernel, Names, Reference, draw_names, finish

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


_LAYOUTS = {
    "nn": ("{a} @ {b}", "Matrix product of {a} and {b}"),
    "tn": ("{a}.T @ {b}", "Matrix product of {a} transposed and {b}"),
    "nt": ("{a} @ {b}.T", "Matrix product of {a} and {b} transposed"),
    "tt": ("{a}.T @ {b}.T", "Matrix product of {a} transposed and {b} transposed"),
}


def draw_matmul(draw: Draw, family: str) -> Spec:
    """A product of two matrices, either of which may come transposed."""
    return Spec(level=1, family=family, producer=draw.choice(tuple(_LAYOUTS)), sizes=draw_product_sizes(draw))


def draw_matmul_chain(draw: Draw, family: str) -> Spec:
    """A product of two matrices, then a chain."""
    return Spec(
        level=2,
        family=family,
        producer=draw.choice(("nn", "nn", "nt", "tn")),
        sizes=draw_product_sizes(draw),
        chain=draw_chain(draw, MATRIX_STEPS, 2),
    )


def draw_linear_chain(draw: Draw, family: str) -> Spec:
    """A linear layer, then a chain."""
    return Spec(
        level=2,
        family=family,
        producer="linear" if draw.chance(0.8) else "linear_no_bias",
        sizes=draw_product_sizes(draw),
        chain=draw_chain(draw, MATRIX_STEPS, 1),
    )


def write_product(spec: Spec, task_id: str, draw: Draw) -> Example:
    """The task and a teacher for a product or a linear layer."""
    names, description, reference, kernel = write_parts(spec, draw)
    return finish(spec, task_id, description, reference, kernel, names, draw)


def write_parts(spec: Spec, draw: Draw, result: str = "") -> tuple[Names, str, Reference, Kernel]:
    """The names, the description, the reference and the kernel of a product with its chain.

    Its matrix is called `result` where the solution goes on with it.
    """
    names = draw_names(draw, "product", 3)
    chain = name_chain(spec.chain, draw)
    rows, inner, columns = names.dimensions
    parameters: list[tuple[str, str]] = []
    init: list[str] = []
    if spec.producer in _LAYOUTS:
        a, b = draw.choice((("a", "b"), ("a", "b"), ("x", "y"), ("x", "w")))
        layout = spec.producer
        expression, head = _LAYOUTS[layout][0].format(a=a, b=b), _LAYOUTS[layout][1].format(a=a, b=b)
        if draw.chance(0.3):
            left, right = expression.split(" @ ")
            expression = f"torch.matmul({left}, {right})"
        scale = f" / {inner}**0.5" if spec.chain else ""
        a_shape = f"{inner}, {rows}" if layout[0] == "t" else f"{rows}, {inner}"
        b_shape = f"{columns}, {inner}" if layout[1] == "t" else f"{inner}, {columns}"
        inputs = [f"torch.randn({a_shape}){scale}", f"torch.randn({b_shape})"]
        tensors = [(a, a), (b, b)]
        arguments = [a, b]
        result_name = "n_out"
    else:
        a, b, layout = draw.choice(("x", "x", "x", "inp")), "weight", "nt"
        attribute = draw.choice(("linear", "linear", "fc", "proj"))
        has_bias = spec.producer == "linear"
        in_name, result_name = draw.choice((("in_features", "out_features"), ("d_in", "d_out")))
        parameters = [(in_name, inner), (result_name, columns)]
        init = [f"self.{attribute} = nn.Linear({in_name}, {result_name}{'' if has_bias else ', bias=False'})"]
        expression, head = f"self.{attribute}({a})", "Linear layer" + ("" if has_bias else " without bias")
        inputs = [f"torch.randn({rows}, {inner})"]
        tensors = [(a, a), (b, f"self.{attribute}.weight")]
        if has_bias:
            tensors.append(("beta", f"self.{attribute}.bias"))
        arguments = [a]
    if chain.vectors and not parameters:
        parameters.append((result_name, columns))
    init += [f"self.{vector} = nn.Parameter(torch.randn({result_name}))" for vector in chain.vectors]
    tensors += [(vector, f"self.{vector}") for vector in chain.vectors]
    if chain.tensor:
        tensors.append((chain.tensor, chain.tensor))
        arguments.append(chain.tensor)
        inputs.append(f"torch.randn({rows}, {columns})")
    if chain.argument:
        parameters.append((chain.argument, chain.argument_value))
        init.append(f"self.{chain.argument} = {chain.argument}")
        tensors.append((chain.argument, f"self.{chain.argument}"))
    forward: tuple[str, ...] = (f"return {expression}",)
    if spec.chain:
        value = a if spec.producer not in _LAYOUTS else draw.choice((a, "z"))
        forward = (f"{value} = {expression}", *reference_lines(spec.chain, value, chain), f"return {value}")
    reference = Reference(
        parameters=tuple(parameters),
        init=tuple(init),
        arguments=tuple(arguments),
        forward=forward,
        inputs=tuple(inputs),
    )
    written = evolve(names, out=result) if result else names
    kernel = _kernel(spec, written, chain, (a, b, layout), tuple(tensors), draw)
    return names, describe(head, spec.chain, chain), reference, kernel


def _kernel(
    spec: Spec,
    names: Names,
    chain: ChainNames,
    product: tuple[str, str, str],
    tensors: tuple[tuple[str, str], ...],
    draw: Draw,
) -> Kernel:
    a, b, layout = product
    is_flat, is_strided = draw.chance(0.35), draw.chance(0.15 if spec.chain else 0.3)
    result = names.beside(*dict(tensors)).out
    rm, rn, rk = draw.choice((("rm", "rn", "rk"), ("rm", "rn", "rk"), ("offs_m", "offs_n", "offs_k")))
    bm, bn, bk = draw.choice((("BM", "BN", "BK"), ("BM", "BN", "BK"), ("BLOCK_M", "BLOCK_N", "BLOCK_K")))
    acc = draw.choice(("acc", "acc", "acc", names.value))
    mask = "mask"
    a_strides = ("sam", "sak") if is_strided else (("1", "M") if layout[0] == "t" else ("K", "1"))
    b_strides = ("sbk", "sbn") if is_strided else (("1", "K") if layout[1] == "t" else ("N", "1"))
    a_offsets = f"{_step(rm, a_strides[0])} + {_step(f'{rk}[None, :]', a_strides[1])}"
    b_offsets = f"{_step(f'{rk}[:, None]', b_strides[0])} + {_step(rn, b_strides[1])}"
    lines = ["pid = tl.program_id(0)"] if is_flat else []
    if is_flat:
        lines.append(f"num_n = tl.cdiv(N, {bn})")
    row, column = ("pid // num_n", "pid % num_n") if is_flat else ("tl.program_id(0)", "tl.program_id(1)")
    lines += [
        f"{rm} = {row if not is_flat else f'({row})'} * {bm} + tl.arange(0, {bm})[:, None]",
        f"{rn} = {column if not is_flat else f'({column})'} * {bn} + tl.arange(0, {bn})[None, :]",
        f"{acc} = tl.zeros(({bm}, {bn}), dtype=tl.float32)",
        f"for k in range(0, K, {bk}):",
        f"    {rk} = k + tl.arange(0, {bk})",
        f"    {a} = tl.load({names.ptr(a)} + {a_offsets}, mask=({rm} < M) & ({rk}[None, :] < K), other=0.0)",
        f"    {b} = tl.load({names.ptr(b)} + {b_offsets}, mask=({rk}[:, None] < K) & ({rn} < N), other=0.0)",
        f'    {acc} += tl.dot({a}, {b}, input_precision="ieee")',
    ]

    def load(operand: str, kind: Operand) -> str:
        if kind is Operand.VECTOR:
            return f"tl.load({names.ptr(operand)} + {rn}, mask={rn} < N)"
        return f"tl.load({names.ptr(operand)} + {names.offsets}, mask={mask})"

    if spec.producer == "linear":
        lines.append(f"{acc} += {load('beta', Operand.VECTOR)}")
    lines += [
        f"{names.offsets} = {rm} * N + {rn}",
        f"{mask} = ({rm} < M) & ({rn} < N)",
        *kernel_lines(spec.chain, acc, chain, draw, load),
        f"tl.store({names.ptr(result)} + {names.offsets}, {acc}, mask={mask})",
    ]
    base = "matmul" if spec.producer in _LAYOUTS else "linear"
    name = draw.choice((f"fused_{base}", base, "fused")) if spec.chain else draw.choice((base, "mm", "gemm"))
    name += names.suffix
    strides = [*a_strides, *b_strides] if is_strided else []
    pointers = [names.ptr(local) for local, _ in tensors if local != chain.argument]
    pointers.insert(2, names.ptr(result))
    is_float = [chain.argument] if chain.argument else []
    constants = [f"{block}: tl.constexpr" for block in (bm, bn, bk)]
    source = f"def {name}({', '.join((*pointers, 'M', 'N', 'K', *strides, *is_float, *constants))}):\n"
    source += "".join(f"    {line}\n" for line in lines)
    sizes = draw.choice(((32, 32, 32), (64, 64, 32), (64, 32, 32), (32, 64, 32), (64, 64, 16), (16, 64, 32)))
    is_lambda = not is_flat and draw.chance(0.2)

    def host(local: dict[str, str]) -> list[str]:
        left, right = local[a], local[b]
        a_shape, b_axis = ("K, M" if layout[0] == "t" else "M, K"), (0 if layout[1] == "t" else 1)
        lines = [f"{a_shape} = {left}.shape", f"N = {right}.shape[{b_axis}]"]
        lines.append(f"{result} = torch.empty((M, N), device={left}.device, dtype={left}.dtype)")
        if is_flat:
            lines.append(f"grid = (triton.cdiv(M, {sizes[0]}) * triton.cdiv(N, {sizes[1]}),)")
        elif is_lambda:
            lines.append(f'grid = lambda meta: (triton.cdiv(M, meta["{bm}"]), triton.cdiv(N, meta["{bn}"]))')
        else:
            lines.append(f"grid = (triton.cdiv(M, {sizes[0]}), triton.cdiv(N, {sizes[1]}))")
        values = [local[name] for name, _ in tensors if name != chain.argument]
        values.insert(2, result)
        values += ["M", "N", "K"]
        if is_strided:
            order = ((left, layout[0]), (right, layout[1]))
            values += [f"{t}.stride({axis})" for t, form in order for axis in ((1, 0) if form == "t" else (0, 1))]
        if chain.argument:
            values.append(local[chain.argument])
        blocks = ", ".join(f"{block}={size}" for block, size in zip((bm, bn, bk), sizes, strict=True))
        lines.append(f"{name}[grid]({', '.join(values)}, {blocks})")
        return lines

    style = f"{'grid1d' if is_flat else 'grid2d'}-{'strided' if is_strided else 'packed'}"
    return Kernel(source=source, tensors=tensors, host=host, result=result, style=style)


def _step(indices: str, stride: str) -> str:
    return indices + ("" if stride == "1" else f" * {stride}")
