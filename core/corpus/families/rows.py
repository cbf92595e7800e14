"""Families that work on rows: reductions, argmax, softmax, norms, and those followed by a pointwise chain (Level 2).

Styles: a row a program with the row in one block (the next power of two); a row a program with a loop over blocks of
columns; and a tile of several rows a program, where rows are short enough.
"""

from __future__ import annotations

from attrs import evolve

from ...task import Example
from ..builder.drafts import ChainNames, Device, Draft, describe, forward_lines, kernel_lines, make_kernel, name_chain
from ..builder.draw import Draw
from ..builder.operations import GATE, MATRIX_STEPS, RESIDUAL, SUBTRACT, Applied, Operand, draw_chain
from ..builder.row_bodies import REDUCTIONS, SPELLINGS, RowBody, write_body
from ..builder.spec import Spec, draw_dtypes, draw_row_sizes
from ..builder.wording import ROW_NAMES, Kernel, Names, draw_names, finish

_EPSILONS = (1e-5, 1e-5, 1e-6, 1e-3)
_MAX_TILE_COLUMNS = 1024


_NORMS = ("layer_norm", "rms_norm")
_PRODUCERS = {
    "reduction": ("sum", "mean", "max", "min", "l2norm", "sum_squares", "mean_squares", "logsumexp"),
    "argmax": ("argmax", "argmin"),
    "norm_chain": _NORMS,
    "norm_step": _NORMS,
    "reduction_chain": ("sum", "mean", "max", "min"),
}
"""By family, where it is not called like its only one."""


def draw_rows(draw: Draw, family: str) -> Spec:
    """Draw a reduction, a softmax or a norm over the last dimension, with a chain where the family has one."""
    producer = draw.choice(_PRODUCERS[family]) if family in _PRODUCERS else family
    *outer, column = draw_row_sizes(draw)
    chain: tuple[Applied, ...] = ()
    if family == "reduction_chain":
        # with few rows a clamp could hide all of them
        outer[-1] = evolve(outer[-1], small=4 * outer[-1].small, larger=4 * outer[-1].larger)
        chain = draw_chain(draw, (RESIDUAL, SUBTRACT, GATE), 1)
    elif family in ("norm_chain", "norm_step"):
        chain = draw_chain(draw, MATRIX_STEPS, 1)
    dtypes = draw_dtypes(draw)
    options: tuple[tuple[str, int | float], ...] = ()
    if producer in REDUCTIONS:
        options = (("keepdim", draw.below(2)),)
    elif producer in _NORMS:
        options = (("eps", draw.choice(_EPSILONS)), ("affine", int(draw.chance(0.75))))
    return Spec(
        producer=producer,
        sizes=(*outer, column),
        chain=chain,
        dtypes=dtypes,
        options=options,
    )


_ROOT = ("L2 norm", "torch.sqrt(torch.sum({x} * {x}, dim={d}{k}))")


def _input(spec: Spec, names: Names) -> str:
    """Return random values on which the producer shows: rows differ, and a norm's input is not normal already."""
    shape = names.shape
    ones = ", ".join((*names.dimensions[:-1], "1"))
    if spec.family == "reduction_chain":
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
    if spec.producer in _NORMS:
        return f"torch.randn({shape}) * 2 + 1"
    return f"torch.randn({shape})"


def write_rows(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a family that works on rows."""
    names = draw_names(draw, ROW_NAMES[len(spec.sizes)])
    chain = name_chain(spec.chain, draw)
    x, draft = names.x, Draft()
    draft.take(x, _input(spec, names))
    features = draw.choice(("dim", "dim", "features"))
    shape = names.shape
    if spec.producer in REDUCTIONS:
        expression, head = _write_reduction(spec, x)
        shape = ", ".join((*names.dimensions[:-1], *(["1"] if spec.option("keepdim") else [])))
    elif spec.producer in ("softmax", "log_softmax"):
        torch_name = draw.choice((f"torch.{spec.producer}", f"F.{spec.producer}"))
        expression = f"{torch_name}({x}, dim=-1)"
        head = f"{'Log-softmax' if spec.producer == 'log_softmax' else 'Softmax'} over the last dimension"
    else:
        expression, head = _write_norm(spec, names, draw, features, draft)
    draft.take_chain(chain, shape, features, (features, names.dimensions[-1]))
    reference = draft.reference(forward_lines(expression, spec.chain, x, chain))
    kernel = _write_kernel(spec, names, chain, draft, draw)
    return finish(spec, task_id, describe(head, spec.chain, chain), reference, kernel, names, draw)


def _write_reduction(spec: Spec, x: str) -> tuple[str, str]:
    """Return the reduction's expression and description."""
    keep = ", keepdim=True" if spec.option("keepdim") else ""
    text, expression = _ROOT if spec.producer == "l2norm" else SPELLINGS[spec.producer]
    head = f"{text} over the last dimension" + (", which is kept" if keep else "")
    if spec.family == "argmax":
        head += "; the lowest index wins ties (int64)"
    return expression.format(x=x, d="-1", k=keep), head


def _write_norm(spec: Spec, names: Names, draw: Draw, features: str, draft: Draft) -> tuple[str, str]:
    """Return the norm's expression and description; adds its weights to the draft."""
    x, eps, affine = names.x, spec.option("eps"), spec.option("affine")
    is_layer = spec.producer == "layer_norm"
    title = "Layer norm" if is_layer else "RMS norm"
    head = f"{title} over the last dimension, eps {eps!r}" + ("" if affine else ", no weights")
    normalised = f"{x} * torch.rsqrt(torch.mean({x} * {x}, dim=-1, keepdim=True) + {eps!r})"
    if not affine:
        return f"F.layer_norm({x}, {x}.shape[-1:], eps={eps!r})" if is_layer else normalised, head
    draft.parameters.append((features, names.dimensions[-1]))
    attribute = draw.choice(("norm", "norm", "ln" if is_layer else "rms"))
    if is_layer or draw.chance(0.6):
        module = "LayerNorm" if is_layer else "RMSNorm"
        draft.init.append(f"self.{attribute} = nn.{module}({features}, eps={eps!r})")
        draft.hold("weight", f"{attribute}.weight")
        if is_layer:
            draft.hold("beta", f"{attribute}.bias")
        return f"self.{attribute}({x})", head
    draft.init.append(f"self.weight = nn.Parameter(torch.ones({features}))")
    draft.hold("weight", "weight")
    return f"{normalised} * self.weight", head


def _write_kernel(spec: Spec, names: Names, chain: ChainNames, draft: Draft, draw: Draw) -> Kernel:
    is_tileable = spec.sizes[-1].declared <= _MAX_TILE_COLUMNS
    style = draw.choice(("row", "row", "loop", "tile") if is_tileable else ("row", "row", "row", "loop"))
    x, n, rows = names.x, draw.choice(("n_cols", "n_cols", "n")), draw.choice(("n_rows", "m"))
    result = names.beside(x).out
    body = RowBody(spec=spec, names=names, style=style, n=n, rows=rows)

    def load(operand: str, kind: Operand) -> str:
        is_reduction = spec.producer in REDUCTIONS
        return body.load_result(names.ptr(operand)) if is_reduction else body.load_operand(operand, kind)

    lines = write_body(spec.producer, body, result, kernel_lines(spec.chain, names.value, chain, draw, load))
    base = "fused_" + spec.producer if spec.chain else spec.producer
    name = draw.choice((base, base, "fused" if spec.chain else "row")) + names.suffix
    block = str(draw.choice((256, 512, 1024))) if style == "loop" else f"triton.next_power_of_2({n})"
    tile_rows = draw.choice((2, 4))
    warps = draw.choice((", num_warps=4", ", num_warps=8")) if draw.chance(0.2) else ""
    is_named = style != "loop" and draw.chance(0.3)
    constants = [(names.block, "block" if is_named else block)]
    device = Device(
        name=name,
        arguments=draft.pass_to(names.ptr, result, [n, rows] if style == "tile" else [n]),
        constants=(*constants, ("ROWS", str(tile_rows))) if style == "tile" else tuple(constants),
        body=tuple(lines),
    )
    host = [f"{n} = <{x}>.shape[-1]", f"{result} = {_allocate(spec, x)}", f"{rows} = <{x}>.numel() // {n}"]
    if is_named:
        host.append(f"block = {block}")
    host.append(device.launch(f"(triton.cdiv({rows}, {tile_rows}),)" if style == "tile" else f"({rows},)", warps))
    return make_kernel([device], host, draft.tensors, result, style)


def _allocate(spec: Spec, x: str) -> str:
    """Write the expression that allocates the result."""
    if spec.producer not in REDUCTIONS:
        return f"torch.empty_like(<{x}>)"
    shape = f"<{x}>.shape[:-1]" + (" + (1,)" if spec.option("keepdim") else "")
    dtype = "torch.int64" if spec.family == "argmax" else f"<{x}>.dtype"
    return f"torch.empty({shape}, device=<{x}>.device, dtype={dtype})"
