"""Families along any dimension: reductions, argmax, softmax, and division by the L1, L2 or RMS norm.

Along the last dimension the kernels are the row families'; along another one a program takes neighbouring lanes, so
that its loads stay contiguous.
"""

from __future__ import annotations

from attrs import evolve

from ...task import Example
from ..builder.drafts import Device, Draft, make_kernel
from ..builder.draw import Draw
from ..builder.row_bodies import MAPS, REDUCTIONS, SPELLINGS, RowBody, write_body
from ..builder.spec import DIMENSIONS as IMAGES
from ..builder.spec import Size, Spec, draw_dtypes, draw_size
from ..builder.strip_bodies import StripBody, can_walk, spread_lanes, write_strip, write_walk
from ..builder.wording import ROW_NAMES, Kernel, Names, draw_names, finish

_PRODUCERS = {
    "dim_reduction": ("sum", "mean", "max", "min", "l2norm", "sum_squares", "mean_squares", "logsumexp"),
    "dim_argmax": ("argmax", "argmin"),
    "dim_softmax": ("softmax", "log_softmax"),
    "l1_norm": ("l1", "l1_mean", "l1_clamped"),
    "l2_norm": ("l2", "l2_clamped"),
    "channel_rms_norm": ("rms",),
}
_EPSILONS = (1e-5, 1e-5, 1e-6, 1e-3)
_MAX_WHOLE = 256
_MAX_WALK = 128
_MAX_ELEMENTS = 1_000_000

_NAMES = {
    2: ROW_NAMES[2],
    3: (("B", "M", "N"), ("BATCH", "SEQ", "DIM"), ("batch_size", "dim1", "dim2"), ("B", "T", "D")),
    4: IMAGES[4],
}


def draw_strips(draw: Draw, family: str) -> Spec:
    """Draw a function of the family along a dimension, which is the last one for some divisions by a norm alone."""
    eps = (("eps", draw.choice(_EPSILONS)),) if family == "channel_rms_norm" else ()
    producer = draw.choice(_PRODUCERS[family])
    keepdim = (("keepdim", draw.below(2)),) if producer in REDUCTIONS else ()
    if draw.chance(0.4 if family in ("l1_norm", "l2_norm") else 0.0):
        rank = draw.choice((2, 2, 3))
        dim = rank - 1
    else:
        rank, dim = draw.choice(((2, 0), (3, 0), (3, 1), (3, 1), (4, 1)))
    return Spec(
        producer=producer,
        sizes=_draw_sizes(draw, rank, dim),
        dtypes=draw_dtypes(draw),
        options=(*eps, *keepdim, ("dim", dim)),
    )


def _draw_sizes(draw: Draw, rank: int, dim: int) -> tuple[Size, ...]:
    """Draw sizes of which the one at `dim` is worked along; the lanes after it are a few hundred at small sizes."""
    if dim == rank - 1:
        along = draw_size(draw, draw.size(256, 8192), (5, 7, 9, 11), (130, 190), (520, 640))
    else:
        along = draw_size(draw, draw.size(16, 512), (3, 5, 6, 7), (20, 30), (35, 50))
    few = ((2, 3, 4), (3, 4), (5, 6)) if rank > 2 else ((3, 5, 7), (9, 14), (19, 25))
    budget, others = _MAX_ELEMENTS // along.declared, []
    for at in range(rank - 1):
        is_outer = at < dim
        most = budget if at == rank - 2 else max(4, int(budget**0.5))
        low, high = (2, 64) if is_outer and dim < rank - 1 else (16, 2048)
        if dim == rank - 1 or not is_outer:
            low = min(low, max(2, most))
        declared = draw.size(low, max(low, min(high, most)))
        budget = max(4, budget // declared)
        others.append(draw_size(draw, declared, *few))
    return (*others[:dim], along, *others[dim:])


_EXPRESSIONS = {
    **SPELLINGS,
    "l1": ("Division by the L1 norm", "{x} / torch.sum(torch.abs({x}), dim={d}, keepdim=True)"),
    "l1_mean": ("Division by the mean absolute value", "{x} / torch.mean(torch.abs({x}), dim={d}, keepdim=True)"),
    "l1_clamped": ("Division by the L1 norm, at least 1e-12,", "F.normalize({x}, p=1.0, dim={d})"),
    "l2": ("Division by the L2 norm", "{x} / torch.norm({x}, p=2, dim={d}, keepdim=True)"),
    "l2_clamped": ("Division by the L2 norm, at least 1e-12,", "F.normalize({x}, dim={d})"),
    "rms": ("RMS norm, eps {eps},", "{x} / torch.sqrt(torch.mean({x} * {x}, dim={d}, keepdim=True) + {eps})"),
}


def write_strips(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a family along any dimension."""
    rank, dim = len(spec.sizes), int(spec.option("dim"))
    names = draw_names(draw, _NAMES[rank])
    x, draft = names.x, Draft()
    draft.take(x, _input(spec, names, dim))
    keep = ", keepdim=True" if spec.option("keepdim") else ""
    spelled = draw.choice((str(dim), str(dim), str(dim - rank)))
    text, expression = _EXPRESSIONS[spec.producer]
    eps = repr(spec.option("eps"))
    head = f"{text.format(eps=eps)} along dimension {dim}" + (", which is kept" if keep else "")
    if spec.producer in ("argmax", "argmin"):
        head += "; the lowest index wins ties (int64)"
    if draw.chance(0.3):
        draft.parameters.append(("dim", spelled))
        draft.init.append("self.dim = dim")
        spelled = "self.dim"
    forward = (f"return {expression.format(x=x, d=spelled, k=keep, eps=eps)}",)
    kernel = (_row_kernel if dim == rank - 1 else _strip_kernel)(spec, names, draft, draw)
    return finish(spec, task_id, f"{head}.", draft.reference(forward), kernel, names, draw)


def _input(spec: Spec, names: Names, dim: int) -> str:
    """Return random values on which the producer shows: what is worked along differs from its neighbours."""
    shape = names.shape
    ones = ", ".join("1" if at == dim else name for at, name in enumerate(names.dimensions))
    match spec.producer:
        case "l2norm" | "sum_squares" | "mean_squares" | "l1" | "l1_mean" | "l1_clamped" | "l2" | "l2_clamped":
            return f"torch.randn({shape}) * torch.rand({ones})"
        case "logsumexp":
            return f"torch.randn({shape}) + torch.randn({ones})"
        case "rms":
            return f"torch.randn({shape}) * 2 + 1"
        case _:
            return f"torch.randn({shape})"


def _write_lines(producer: str, body: StripBody, result: str) -> list[str]:
    if producer not in REDUCTIONS:
        return write_strip(MAPS[producer], body) + body.finish_map((), body.names.ptr(result))
    lines = write_walk(producer, body) if body.style == "walk" else write_strip(REDUCTIONS[producer], body)
    return lines + body.finish_reduction((), body.names.ptr(result))


def _row_kernel(spec: Spec, names: Names, draft: Draft, draw: Draw) -> Kernel:
    style = draw.choice(("row", "row", "loop"))
    x = names.x
    n, rows = draw.choice((("n_cols", "n_rows"), ("n", "m"), ("length", "rows")))
    result = names.beside(x).out
    body = RowBody(spec=spec, names=names, style=style, n=n, rows=rows)
    block = f"triton.next_power_of_2({n})" if style == "row" else str(draw.choice((256, 512, 1024)))
    device = Device(
        name=draw.choice((spec.family, "normalize", "row")) + names.suffix,
        arguments=draft.pass_to(names.ptr, result, [n]),
        constants=((names.block, block),),
        body=tuple(write_body(spec.producer, body, result)),
    )
    host = [f"{result} = torch.empty_like(<{x}>)", f"{n} = <{x}>.shape[-1]", f"{rows} = <{x}>.numel() // {n}"]
    return make_kernel([device], [*host, device.launch(f"({rows},)")], draft.tensors, result, style)


def _strip_kernel(spec: Spec, names: Names, draft: Draft, draw: Draw) -> Kernel:
    dim, rank, declared = int(spec.option("dim")), len(spec.sizes), spec.sizes[int(spec.option("dim"))].declared
    styles = ["loop"] + (["row", "row"] if declared <= _MAX_WHOLE else [])
    if can_walk(spec.producer) and declared <= _MAX_WALK:
        styles += ["walk", "walk"]
    style = draw.choice(styles)
    x = names.x
    n, inner, outer = draw.choice((("n", "inner", "outer"), ("length", "stride", "batch"), ("n", "d", "b")))
    block, lanes = draw.choice((("BLOCK_N", "BLOCK_D"), ("BLOCK_N", "LANES"), ("BN", "BD")))
    result = names.beside(x).out
    columns = draw.choice(("k", "k", "r", "pos")) if names.offsets != "pos" else "k"
    body = StripBody(
        spec=spec,
        names=evolve(names, columns=columns, block=block),
        style=style,
        n=n,
        rows="",
        lane=draw.choice(("lane", "cols", "j")),
        lanes=lanes,
        inner=inner,
        has_outer=dim > 0,
    )
    width = draw.choice({"row": (16, 32, 64), "loop": (32, 64, 128), "walk": (64, 128, 256)}[style])
    depth = {"row": f"triton.next_power_of_2({n})", "loop": str(draw.choice((16, 32, 64)))}.get(style, "")
    constants = ([(block, depth)] if depth else []) + [(lanes, str(width))]
    device = Device(
        name=draw.choice((spec.family, spec.producer, "strip")) + names.suffix,
        arguments=draft.pass_to(names.ptr, result, [n, inner]),
        constants=tuple(constants),
        body=tuple(_write_lines(spec.producer, body, result)),
    )
    host, grid = spread_lanes(x, dim, rank, (n, inner, outer), width)
    if spec.producer in REDUCTIONS:
        dtype = "torch.int64" if spec.producer in ("argmax", "argmin") else f"<{x}>.dtype"
        pieces = [f"<{x}>.shape[:{dim}]"] if dim else []
        pieces += ["(1,)"] if spec.option("keepdim") else []
        shape = " + ".join([*pieces, f"<{x}>.shape[{dim + 1}:]"])
        host.append(f"{result} = torch.empty({shape}, device=<{x}>.device, dtype={dtype})")
    else:
        host.append(f"{result} = torch.empty_like(<{x}>)")
    host.append(device.launch(grid))
    return make_kernel([device], host, draft.tensors, result, f"strip-{style}")
