"""Families that work on rows: reductions, argmax, softmax, norms, and those followed by a pointwise chain (Level 2).

Styles: a row a program with the row in one block (the next power of two); a row a program with a loop over blocks of
columns; and a tile of several rows a program, where rows are short enough.
"""

from __future__ import annotations

from attrs import evolve

from ...task import Example
from ..builder.chain import ChainNames, describe, kernel_lines, name_chain, reference_lines
from ..builder.draw import Draw
from ..builder.operations import GATE, MATRIX_STEPS, RESIDUAL, SUBTRACT, Operand, draw_chain
from ..builder.row_bodies import MAPS, REDUCTIONS, RowBody
from ..builder.spec import Spec, draw_dtypes, draw_row_sizes
from ..builder.wording import Kernel, Names, Reference, draw_names, finish

_EPSILONS = (1e-5, 1e-5, 1e-6, 1e-3)
_MAX_TILE_COLUMNS = 1024


def draw_reduction(draw: Draw, family: str) -> Spec:
    """A reduction over the last dimension."""
    producer = (
        draw.choice(("argmax", "argmin"))
        if family == "argmax"
        else draw.choice(("sum", "mean", "max", "min", "l2norm", "sum_squares", "mean_squares", "logsumexp"))
    )
    return Spec(
        level=1,
        family=family,
        producer=producer,
        sizes=draw_row_sizes(draw),
        dtypes=draw_dtypes(draw),
        options=(("keepdim", draw.below(2)),),
    )


def draw_map(draw: Draw, family: str) -> Spec:
    """Softmax, log-softmax or a norm over the last dimension."""
    return Spec(
        level=1,
        family=family,
        producer=family,
        sizes=draw_row_sizes(draw),
        dtypes=draw_dtypes(draw),
        options=_norm_options(draw, family),
    )


def _norm_options(draw: Draw, producer: str) -> tuple[tuple[str, str | int | float], ...]:
    if producer not in ("layer_norm", "rms_norm"):
        return ()
    return (("eps", draw.choice(_EPSILONS)), ("affine", int(draw.chance(0.75))))


def draw_norm_chain(draw: Draw, family: str) -> Spec:
    """A norm, then a chain."""
    producer = draw.choice(("layer_norm", "rms_norm"))
    return Spec(
        level=2,
        family=family,
        producer=producer,
        sizes=draw_row_sizes(draw),
        chain=draw_chain(draw, MATRIX_STEPS, 1),
        dtypes=draw_dtypes(draw),
        options=_norm_options(draw, producer),
    )


def draw_reduction_chain(draw: Draw, family: str) -> Spec:
    """A reduction, then a chain on its result; with few rows a clamp could hide all of them."""
    producer = draw.choice(("sum", "mean", "max", "min"))
    *outer, column = draw_row_sizes(draw)
    outer[-1] = evolve(outer[-1], small=4 * outer[-1].small, larger=4 * outer[-1].larger)
    return Spec(
        level=2,
        family=family,
        producer=producer,
        sizes=(*outer, column),
        chain=draw_chain(draw, (RESIDUAL, SUBTRACT, GATE), 1),
        dtypes=draw_dtypes(draw),
        options=(("keepdim", draw.below(2)),),
    )


_REDUCTION_TEXT = {
    "sum": ("Sum", "torch.sum({x}, dim=-1{k})"),
    "mean": ("Mean", "torch.mean({x}, dim=-1{k})"),
    "max": ("Maximum", "torch.amax({x}, dim=-1{k})"),
    "min": ("Minimum", "torch.amin({x}, dim=-1{k})"),
    "l2norm": ("L2 norm", "torch.sqrt(torch.sum({x} * {x}, dim=-1{k}))"),
    "sum_squares": ("Sum of squares", "torch.sum({x} * {x}, dim=-1{k})"),
    "mean_squares": ("Mean of squares", "torch.mean({x} * {x}, dim=-1{k})"),
    "logsumexp": ("Log-sum-exp", "torch.logsumexp({x}, dim=-1{k})"),
    "argmax": ("Index of the maximum", "torch.argmax({x}, dim=-1{k})"),
    "argmin": ("Index of the minimum", "torch.argmin({x}, dim=-1{k})"),
}


def _input(spec: Spec, names: Names) -> str:
    """Random values on which the producer shows: rows differ, and a norm's input is not normal already."""
    shape = names.shape
    ones = ", ".join((*names.dimensions[:-1], "1"))
    if spec.level == 2 and "keepdim" in dict(spec.options):
        columns = names.dimensions[-1]
        match spec.producer:
            case "sum":
                return f"torch.randn({shape}) / {columns}**0.5"
            case "mean":
                return f"torch.randn({shape}) + torch.randn({ones})"
            case _:
                return f"torch.randn({shape}) * 0.2 + torch.randn({ones})"
    if spec.producer in ("l2norm", "sum_squares", "mean_squares"):
        return f"torch.randn({shape}) * torch.rand({ones})"
    if spec.producer == "logsumexp":
        return f"torch.randn({shape}) + torch.randn({ones})"
    if spec.producer in ("layer_norm", "rms_norm"):
        return f"torch.randn({shape}) * 2 + 1"
    return f"torch.randn({shape})"


def write_rows(spec: Spec, task_id: str, draw: Draw) -> Example:
    """The task and a teacher for a family that works on rows."""
    names = draw_names(draw, "rows", len(spec.sizes))
    chain = name_chain(spec.chain, draw)
    x = names.x
    parameters: list[tuple[str, str]] = []
    init: list[str] = []
    tensors: list[tuple[str, str]] = []
    features = draw.choice(("dim", "dim", "features"))
    is_reduction = spec.producer in REDUCTIONS
    if is_reduction:
        keep = ", keepdim=True" if spec.option("keepdim") else ""
        text, expression = _REDUCTION_TEXT[spec.producer]
        expression = expression.format(x=x, k=keep)
        head = f"{text} over the last dimension" + (", which is kept" if keep else "")
        if spec.family == "argmax":
            head += "; the lowest index wins ties (int64)"
    elif spec.producer in ("softmax", "log_softmax"):
        torch_name = draw.choice((f"torch.{spec.producer}", f"F.{spec.producer}"))
        expression = f"{torch_name}({x}, dim=-1)"
        head = f"{'Log-softmax' if spec.producer == 'log_softmax' else 'Softmax'} over the last dimension"
    else:
        expression, head = _write_norm(spec, names, draw, features, parameters, init, tensors)
    vectors = [*chain.vectors]
    if vectors and not parameters:
        parameters.append((features, names.dimensions[-1]))
    init += [f"self.{vector} = nn.Parameter(torch.randn({features}))" for vector in vectors]
    tensors += [(vector, f"self.{vector}") for vector in vectors]
    if chain.argument:
        parameters.append((chain.argument, chain.argument_value))
        init.append(f"self.{chain.argument} = {chain.argument}")
    arguments = (x, chain.tensor) if chain.tensor else (x,)
    tensors = [(argument, argument) for argument in arguments] + tensors
    if chain.argument:
        tensors.append((chain.argument, f"self.{chain.argument}"))
    forward = [f"{x} = {expression}", *reference_lines(spec.chain, x, chain), f"return {x}"]
    inputs = [_input(spec, names)]
    if chain.tensor:
        shape = names.shape
        if is_reduction:
            shape = ", ".join((*names.dimensions[:-1], *(["1"] if spec.option("keepdim") else [])))
        inputs.append(f"torch.randn({shape})")
    reference = Reference(
        parameters=tuple(parameters),
        init=tuple(init),
        arguments=arguments,
        forward=tuple(forward) if spec.chain else (f"return {expression}",),
        inputs=tuple(inputs),
    )
    kernel = _kernel(spec, names, chain, tuple(tensors), draw)
    return finish(spec, task_id, describe(head, spec.chain, chain), reference, kernel, names, draw)


def _write_norm(
    spec: Spec,
    names: Names,
    draw: Draw,
    features: str,
    parameters: list[tuple[str, str]],
    init: list[str],
    tensors: list[tuple[str, str]],
) -> tuple[str, str]:
    """The norm's expression and description; adds what it needs to the lists."""
    x, eps, affine = names.x, spec.option("eps"), spec.option("affine")
    is_layer = spec.producer == "layer_norm"
    title = "Layer norm" if is_layer else "RMS norm"
    head = f"{title} over the last dimension, eps {eps!r}" + ("" if affine else ", no weights")
    if not affine:
        if is_layer:
            return f"F.layer_norm({x}, {x}.shape[-1:], eps={eps!r})", head
        return f"{x} * torch.rsqrt(torch.mean({x} * {x}, dim=-1, keepdim=True) + {eps!r})", head
    parameters.append((features, names.dimensions[-1]))
    attribute = draw.choice(("norm", "norm", "ln" if is_layer else "rms"))
    if is_layer or draw.chance(0.6):
        module = "LayerNorm" if is_layer else "RMSNorm"
        init.append(f"self.{attribute} = nn.{module}({features}, eps={eps!r})")
        tensors.append(("weight", f"self.{attribute}.weight"))
        if is_layer:
            tensors.append(("beta", f"self.{attribute}.bias"))
        return f"self.{attribute}({x})", head
    init.append(f"self.weight = nn.Parameter(torch.ones({features}))")
    tensors.append(("weight", "self.weight"))
    return f"{x} * torch.rsqrt(torch.mean({x} * {x}, dim=-1, keepdim=True) + {eps!r}) * self.weight", head


def _kernel(spec: Spec, names: Names, chain: ChainNames, tensors: tuple[tuple[str, str], ...], draw: Draw) -> Kernel:
    columns = spec.sizes[-1].declared
    is_tileable = columns <= _MAX_TILE_COLUMNS
    style = draw.choice(("row", "row", "loop", "tile") if is_tileable else ("row", "row", "row", "loop"))
    is_reduction = spec.producer in REDUCTIONS
    x, n, size = names.x, draw.choice(("n_cols", "n_cols", "n")), names.block
    rows = draw.choice(("n_rows", "m"))
    result = names.beside(x).out
    pointer = names.ptr(x)
    body = RowBody(
        style=style,
        x=x,
        value=names.value,
        columns=names.columns,
        offsets=names.offsets,
        block=size,
        n=n,
        rows=rows,
        pointer=pointer,
        cast=".to(tl.float32)" if spec.casts else "",
        eps=repr(spec.option("eps")),
        affine=bool(spec.option("affine")),
        weight=names.ptr("weight"),
        beta=names.ptr("beta"),
    )

    def load(operand: str, kind: Operand) -> str:
        if is_reduction:
            return body.load_result(names.ptr(operand))
        return body.load_vector(names.ptr(operand)) if kind is Operand.VECTOR else body.load(names.ptr(operand))

    steps = kernel_lines(spec.chain, names.value, chain, draw, load)
    lines = (REDUCTIONS if is_reduction else MAPS)[spec.producer](body)
    lines += (
        body.finish_reduction(steps, names.ptr(result)) if is_reduction else body.finish_map(steps, names.ptr(result))
    )
    base = "fused_" + spec.producer if spec.chain else spec.producer
    name = draw.choice((base, base, "fused" if spec.chain else "row")) + names.suffix
    is_float = [local for local, _ in tensors if local == chain.argument]
    pointers = [names.ptr(local) for local, _ in tensors if local != chain.argument]
    pointers.insert(1, names.ptr(result))
    sizes = [n, rows] if style == "tile" else [n]
    constants = [f"{size}: tl.constexpr"] + (["ROWS: tl.constexpr"] if style == "tile" else [])
    source = f"def {name}({', '.join((*pointers, *sizes, *is_float, *constants))}):\n"
    source += "".join(f"    {line}\n" for line in lines)
    blocks = {"row": f"triton.next_power_of_2({n})", "tile": f"triton.next_power_of_2({n})"}
    block = blocks.get(style) or str(draw.choice((256, 512, 1024)))
    tile_rows = draw.choice((2, 4))
    warps = draw.choice((", num_warps=4", ", num_warps=8")) if draw.chance(0.2) else ""
    keepdim = bool(spec.option("keepdim"))
    named_block = style != "loop" and draw.chance(0.3)

    def host(local: dict[str, str]) -> list[str]:
        first = local[x]
        lines = [f"{n} = {first}.shape[-1]"]
        if is_reduction:
            shape = f"({first}.shape[:-1] + (1,))" if keepdim else f"{first}.shape[:-1]"
            shape = shape[1:-1] if keepdim else shape
            dtype = "torch.int64" if spec.family == "argmax" else f"{first}.dtype"
            lines.append(f"{result} = torch.empty({shape}, device={first}.device, dtype={dtype})")
        else:
            lines.append(f"{result} = torch.empty_like({first})")
        count = f"{first}.numel() // {n}"
        lines.append(f"{rows} = {count}")
        chosen = block
        if named_block:
            lines.append(f"block = {block}")
            chosen = "block"
        constants = f"{size}={chosen}" + (f", ROWS={tile_rows}" if style == "tile" else "") + warps
        values = [local[name] for name, _ in tensors if name != chain.argument]
        values.insert(1, result)
        values += [n, rows] if style == "tile" else [n]
        values += [local[chain.argument]] if chain.argument else []
        grid = f"(triton.cdiv({rows}, {tile_rows}),)" if style == "tile" else f"({rows},)"
        lines.append(f"{name}[{grid}]({', '.join(values)}, {constants})")
        return lines

    return Kernel(source=source, tensors=tensors, host=host, result=result, style=style)
