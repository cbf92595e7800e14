"""Reductions, normalisations, positions of extremes and scans over any dimensions; and single elements."""

from __future__ import annotations

from attrs import evolve

from .launches import Epilogue, Function, Place
from .statistics import RowFunction, walk

WHOLE = 8192
"""Elements of a row that one load takes."""
LONG = 96
"""Elements at a stride from which on several are loaded at once."""


def find_layout(rank: int, dims: tuple[int, ...], row_length: int, function: RowFunction | None) -> str:
    """Return how rows over these dimensions lie: in one piece ("block" or "loop"), "strip" or "spread"."""
    is_neighbouring = dims == tuple(range(dims[0], dims[0] + len(dims)))
    gathers_products = function is not None and any(step.gather == "prod" for step in function.passes)
    if is_neighbouring and dims[-1] == rank - 1 and not gathers_products:
        return "block" if row_length <= WHOLE else "loop"
    if not is_neighbouring:
        return "spread inside" if dims[0] else "spread"
    return "tile" if row_length > LONG and not gathers_products else "strip"


def write_rows(
    name: str,
    function: RowFunction,
    rank: int,
    dims: tuple[int, ...],
    layout: str,
    argument: str,
    keeps: bool,
    eps: float,
    affine: tuple[tuple[str, str], ...],
    affine_axis: int,
    groups: int,
    epilogue: Epilogue,
) -> Function:
    """Write a reduction or a normalisation over `dims` of a tensor of `rank` dimensions.

    `affine` are a normalisation's weights as (name, argument), one value for each index along `affine_axis`, or for
    each element of a row where that is -1; `groups` are those that the channels are divided in, else 0.
    """
    tensors = [("x", argument), *affine]
    host, sizes, grid = _measure(rank, dims, layout, groups)
    place = _find_place(function, rank, dims, layout, keeps)

    def finish() -> list[str]:
        lines = []
        if affine:
            if affine_axis < 0:
                loads = [f"tl.load({local}_ptr + cols, mask=mask, other=0.0)" for local, _ in affine]
            else:
                loads = [epilogue.load_vector(local, affine_axis, place) for local, _ in affine]
            lines.append(f"acc = acc * {loads[0]}" + (f" + {loads[1]}" if len(loads) > 1 else ""))
        masked = f", mask={place.mask}" if place.mask else ""
        return [*lines, *epilogue.lines(place), f"tl.store(out_ptr + {place.offset}, acc{masked})"]

    body = [line.replace("EPS", repr(eps)) for line in walk(function, layout, finish)]
    block = {"block": "triton.next_power_of_2(R)", "strip": "256", "tile": "64"}.get(layout, "4096")
    return Function(
        name=name,
        tensors=(*tensors, *epilogue.parameters),
        host=tuple(host),
        shape="x.shape" if function.is_map else _reduced_shape(rank, dims, keeps),
        grid=grid,
        sizes=(*sizes, *epilogue.sizes()),
        constants=(("BLOCK", block), *((("ROWS", "32"),) if layout == "tile" else ())),
        body=tuple(body),
    )


def _measure(
    rank: int, dims: tuple[int, ...], layout: str, groups: int
) -> tuple[list[str], list[tuple[str, str]], str]:
    """Write the host's lines that measure rows, the kernel's sizes and the grid."""
    first, last = dims[0], dims[-1]
    if layout in ("block", "loop"):
        if groups:
            host = [f"rows = x.shape[0] * {groups}", "R = x.numel() // rows"]
        elif first == last:
            host = [f"R = x.shape[{first}]", "rows = x.numel() // R"]
        elif first == 0:
            host = ["rows, R = 1, x.numel()"]
        else:
            lead = " * ".join(f"x.shape[{dim}]" for dim in range(first))
            host = [f"rows = {lead}", "R = x.numel() // rows"]
        return host, [("R", "R")], "(rows,)"
    if layout in ("strip", "tile"):
        lengths = " * ".join(f"x.shape[{dim}]" for dim in dims)
        host = [f"R, B = {lengths}, x.stride({last})", "num = x.numel() // R"]
        block = 64 if layout == "tile" else 256
        return host, [("num", "num"), ("R", "R"), ("B", "B")], f"(triton.cdiv(num, {block}),)"
    # two runs of dimensions with others between them; the second reaches the end
    gap = next(dim for dim in range(first, last) if dim not in dims)
    resumed = next(dim for dim in dims if dim > gap)
    between = " * ".join(f"x.shape[{dim}]" for dim in range(gap, resumed))
    length = " * ".join(f"x.shape[{dim}]" for dim in range(resumed, rank))
    host, sizes = [f"B, P = {between}, {length}"], [("B", "B"), ("P", "P"), ("R", "R")]
    if layout == "spread":
        return [*host, "R = x.numel() // B"], sizes, "(B,)"
    pieces = " * ".join(f"x.shape[{dim}]" for dim in range(first, gap))
    host += [f"Q = {pieces}", "R = Q * P"]
    return host, [("Q", "Q"), *sizes], "(x.numel() // R,)"


def _find_place(function: RowFunction, rank: int, dims: tuple[int, ...], layout: str, keeps: bool) -> Place:
    if function.is_map:
        indices = []
        if layout in ("block", "loop") and dims == (rank - 1,):
            indices.append((rank - 1, "cols", "mask"))
        if layout == "strip" and len(dims) == 1:
            indices.append((dims[0], "r", ""))
        if layout == "tile" and len(dims) == 1:
            indices.append((dims[0], "r", "r < R"))
        if layout == "spread" and dims[0] == 0 and 1 not in dims and 2 in dims:
            indices.append((1, "row", ""))
        return Place(indices=tuple(indices))
    return Place() if layout in ("strip", "tile") else Place(offset="row", mask="")


def _reduced_shape(rank: int, dims: tuple[int, ...], keeps: bool) -> str:
    if len(dims) == rank and not keeps:
        return "()"
    parts: list[str] = []
    for dim in range(rank):
        if dim not in dims:
            parts.append(f"x.shape[{dim}]")
        elif keeps:
            parts.append("1")
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def write_position(name: str, is_max: bool, rank: int, dim: int, argument: str, keeps: bool) -> Function:
    """Write the position of the first extreme along a dimension."""
    host, sizes, grid = _measure(rank, (dim,), "strip", 0)
    compare = ">" if is_max else "<"
    start = '-float("inf")' if is_max else 'float("inf")'
    body = (
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < num",
        "first = offs // B * R * B + offs % B",
        f"best = tl.full((BLOCK,), {start}, dtype=tl.float32)",
        "at = tl.zeros((BLOCK,), dtype=tl.int64)",
        "for r in range(R):",
        "    x = tl.load(x_ptr + first + r * B, mask=mask, other=0.0)",
        f"    at = tl.where(x {compare} best, r, at)",
        f"    best = {'tl.maximum' if is_max else 'tl.minimum'}(best, x)",
        "tl.store(out_ptr + offs, at, mask=mask)",
    )
    return Function(
        name=name,
        tensors=(("x", argument),),
        host=tuple(host),
        shape=_reduced_shape(rank, (dim,), keeps),
        grid=grid,
        sizes=tuple(sizes),
        constants=(("BLOCK", "256"),),
        body=body,
        dtype="torch.int64",
    )


def write_scan(name: str, kind: str, dim: int, argument: str, mask: str, is_product: bool) -> Function:
    """Write a cumulative sum or product along a dimension: plain, "reverse", "exclusive" or "masked"."""
    unit = "1.0" if is_product else "0.0"
    combine = "acc = acc * x" if is_product else "acc += x"
    at = "first + (R - 1 - r) * B" if kind == "reverse" else "first + r * B"
    inner = [f"offs = {at}", f"x = tl.load(x_ptr + offs, mask=mask, other={unit})"]
    if kind == "masked":
        inner += ["keep = tl.load(m_ptr + offs, mask=mask, other=0)", f"x = tl.where(keep != 0, x, {unit})"]
    store = "tl.store(out_ptr + offs, acc, mask=mask)"
    inner += [store, combine] if kind == "exclusive" else [combine, store]
    host, sizes, grid = _measure(0, (dim,), "strip", 0)
    tensors = [("x", argument)] + ([("m", mask)] if kind == "masked" else [])
    return Function(
        name=name,
        tensors=tuple(tensors),
        host=tuple(host),
        shape="x.shape",
        grid=grid,
        sizes=tuple(sizes),
        constants=(("BLOCK", "256"),),
        body=(
            "pos = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "mask = pos < num",
            "first = pos // B * R * B + pos % B",
            f"acc = tl.full((BLOCK,), {unit}, dtype=tl.float32)",
            "for r in range(R):",
            *("    " + line for line in inner),
        ),
    )


def write_elements(name: str, argument: str, epilogue: Epilogue) -> Function:
    """Write pointwise steps as a kernel of their own."""
    body = [
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < num",
        "acc = tl.load(x_ptr + offs, mask=mask, other=0.0)",
        *epilogue.lines(Place()),
        "tl.store(out_ptr + offs, acc, mask=mask)",
    ]
    return Function(
        name=name,
        tensors=(("x", argument), *epilogue.parameters),
        host=("num = x.numel()",),
        shape="x.shape",
        grid="(triton.cdiv(num, 1024),)",
        sizes=(("num", "num"), *epilogue.sizes()),
        constants=(("BLOCK", "1024"),),
        body=tuple(body),
    )


def write_concatenation(name: str, arguments: tuple[str, str], rank: int) -> Function:
    """Write the concatenation of two tensors along the second dimension."""
    rest = "".join(f", x.shape[{dim}]" for dim in range(2, rank))
    return Function(
        name=name,
        tensors=(("x", arguments[0]), ("y", arguments[1])),
        host=("num = x.numel() + y.numel()", "XS, YS = x.stride(0), y.stride(0)"),
        shape=f"(x.shape[0], x.shape[1] + y.shape[1]{rest})",
        grid="(triton.cdiv(num, 1024),)",
        sizes=(("num", "num"), ("XS", "XS"), ("YS", "YS")),
        constants=(("BLOCK", "1024"),),
        body=(
            "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "mask = offs < num",
            "n = offs // (XS + YS)",
            "at = offs % (XS + YS)",
            "x = tl.load(x_ptr + n * XS + at, mask=mask & (at < XS), other=0.0)",
            "y = tl.load(y_ptr + n * YS + at - XS, mask=mask & (at >= XS), other=0.0)",
            "tl.store(out_ptr + offs, tl.where(at < XS, x, y), mask=mask)",
        ),
    )


def with_subtracted_target(function: Function, argument: str) -> Function:
    """Return the log-sum-exp of rows, less the element of each row that the class in `target` names."""
    line = "acc = acc - tl.load(x_ptr + row * R + tl.load(target_ptr + row))"
    body = [*function.body]
    body.insert(next(at for at, text in enumerate(body) if text.startswith("acc = ")) + 1, line)
    return evolve(function, tensors=(*function.tensors, ("target", argument)), body=tuple(body))
