"""Reductions, normalisations, positions of extremes and scans over any dimensions; and single elements."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from .launches import Epilogue, Function, Place
from .statistics import DOT, MAPS, PAIRS, REDUCTIONS, RowFunction, walk

_ROWS = "(32, 64) if B > 1 else (512, 4)"
"""Elements of a row and rows that a program takes at once: neighbours in memory come first."""


def write_reduction(
    kind: str, rank: int, dims: tuple[int, ...], keeps: bool, argument: str, epilogue: Epilogue
) -> Function:
    """Write a reduction over `dims` of a tensor of `rank` dimensions.

    Over one dimension it is one text whatever the rank and the dimension, which the function is given.
    """
    function, name = REDUCTIONS[kind], f"{kind}_reduce" if kind in ("sum", "max", "min") else kind
    if len(dims) == 1:
        return _write_along(name, function, dims[0], argument, keeps, (), "", epilogue)
    layout, host, sizes, grid = _measure(rank, dims)
    kept = "[1 if d in dim else n for d, n in enumerate(x.shape) if keepdim or d not in dim]"
    host = [f"shape = {kept}", "rows = torch.Size(shape).numel()", "R = x.numel() // rows", *host]
    made = _write(name, function, layout, host, sizes, grid, "shape", argument, epilogue)
    shown = f"dim=({', '.join(map(str, dims))})"
    return evolve(made, numbers=(("dim", shown), ("keepdim", f"keepdim={keeps}")))


def write_matvec(dim: int, keeps: bool, arguments: Sequence[str], epilogue: Epilogue) -> Function:
    """Write the sums along a dimension of a tensor times a vector, of which each `M` results have one."""
    made = _write_along("matvec", DOT, dim, arguments[0], keeps, (("v", arguments[1]),), "", epilogue)
    host = (*made.host, "M = num // (v.numel() // R)")
    return evolve(made, host=host, sizes=(*made.sizes, ("M", "M")))


def write_pair(kind: str, dim: int, arguments: Sequence[str], epilogue: Epilogue) -> Function:
    """Write a distance or a similarity of two tensors along a dimension."""
    return _write_along(kind, PAIRS[kind], dim, arguments[0], False, (("v", arguments[1]),), "", epilogue)


def write_map(kind: str, dim: int, argument: str, epilogue: Epilogue, eps: str = "", weight: str = "") -> Function:
    """Write a softmax, or a division by a norm, along one dimension; `weight` has a value for each index along it."""
    affine = (("weight", weight),) if weight else ()
    return _write_along("rms_norm" if kind == "rms" else kind, MAPS[kind], dim, argument, False, affine, eps, epilogue)


def write_norm(kind: str, num_dims: int, argument: str, module: str, epilogue: Epilogue) -> Function:
    """Write a batch, group, instance or layer norm, with its statistics and numbers from the module."""
    host, layout, place, sizes = ["R = x.numel() // rows"], "loop", Place(), [("R", "R")]
    match kind:
        case "batch":
            host, layout = ["rows, P = x.shape[1], x.stride(1)", *host], "spread"
            sizes, place = [("B", "rows"), ("P", "P"), *sizes], Place(indices=((1, "row", ""),))
        case "group":
            host.insert(0, "rows = x.shape[0] * layer.num_groups")
        case "instance":
            host.insert(0, "rows = x.shape[0] * x.shape[1]")
        case _:
            host = ["R = torch.Size(layer.normalized_shape).numel()", "rows = x.numel() // R"]
            place = Place(indices=((num_dims - 1, "cols", "mask"),))
    if kind == "layer":
        loads = [f"tl.load({local}_ptr + cols, mask=mask, other=0.0)" for local in ("weight", "bias")]
    else:
        loads = [epilogue.load_vector(local, 1, place) for local in ("weight", "bias")]
    lines = ["if weight_ptr is not None:", f"    acc = acc * {loads[0]}", f"    acc = acc + {loads[1]}"]
    name, function = f"{kind}_norm", MAPS["standardize"]
    made = _write(name, function, layout, host, sizes, "(rows,)", "x.shape", argument, epilogue, place, lines, "eps")
    return evolve(made, module=module, held=("weight", "bias"), sizes=(*made.sizes, ("eps", "layer.eps")))


def _write_along(
    name: str,
    function: RowFunction,
    dim: int,
    argument: str,
    keeps: bool,
    affine: tuple[tuple[str, str], ...],
    eps: str,
    epilogue: Epilogue,
) -> Function:
    gathers_products = any(step.gather == "prod" for step in function.passes)
    layout = "strip" if gathers_products else "tile"
    host = ["R, B = x.shape[dim], x.stride(dim)", "num = x.numel() // R"]
    shape, numbers = "x.shape", [("dim", f"dim={dim}")]
    if not function.is_map:
        host = ["dim = dim % x.dim()", *host, "shape = x.shape[:dim] + (1,) * keepdim + x.shape[dim + 1:]"]
        shape, numbers = "shape", [*numbers, ("keepdim", f"keepdim={keeps}")]
    host += [] if gathers_products else [f"ROWS, BLOCK = {_ROWS}"]
    sizes = [("num", "num"), ("R", "R"), ("B", "B")]
    grid = "(triton.cdiv(num, 256),)" if gathers_products else "(triton.cdiv(num, BLOCK),)"
    place = Place(indices=((dim, "r", "r < R"),)) if function.is_map else Place()
    first = [f"acc = acc * {epilogue.load_vector(local, dim, place)}" for local, _ in affine if function.is_map]
    made = _write(name, function, layout, host, sizes, grid, shape, argument, epilogue, place, first, eps)
    constants = (("BLOCK", "256"),) if gathers_products else (("BLOCK", "BLOCK"), ("ROWS", "ROWS"))
    return evolve(
        made,
        tensors=(made.tensors[0], *affine, *made.tensors[1:]),
        numbers=tuple(numbers),
        constants=constants,
    )


def _write(
    name: str,
    function: RowFunction,
    layout: str,
    host: Sequence[str],
    sizes: Sequence[tuple[str, str]],
    grid: str,
    shape: str,
    argument: str,
    epilogue: Epilogue,
    place: Place | None = None,
    first: Sequence[str] = (),
    eps: str = "",
) -> Function:
    if not function.is_map and layout not in ("strip", "tile"):
        place = Place(offset="row", mask="")
    where = place or Place()

    def finish() -> list[str]:
        masked = f", mask={where.mask}" if where.mask else ""
        return [*first, *epilogue.lines(where), f"tl.store(out_ptr + {where.offset}, acc{masked})"]

    body = [line.replace("EPS", eps) for line in walk(function, layout, finish)]
    return Function(
        name=name,
        tensors=(("x", argument), *epilogue.parameters),
        host=tuple(host),
        shape=shape,
        grid=grid,
        sizes=(*sizes, *epilogue.sizes()),
        constants=(("BLOCK", "256" if layout == "strip" else "4096"),),
        body=tuple(body),
    )


def _measure(rank: int, dims: tuple[int, ...]) -> tuple[str, list[str], list[tuple[str, str]], str]:
    """Return how rows over several dimensions lie, the host's lines that measure them, the kernel's sizes, the grid.

    `rows` and their length `R` are known by then.
    """
    first, last = dims[0], dims[-1]
    if dims == tuple(range(first, rank)):
        return "loop", [], [("R", "R")], "(rows,)"
    if dims == tuple(range(first, last + 1)):
        sizes = [("num", "rows"), ("R", "R"), ("B", "B")]
        return "strip", ["B = x.stride(dim[-1])"], sizes, "(triton.cdiv(rows, 256),)"
    # two runs of dimensions with others between them; the second reaches the end
    gap = next(dim for dim in range(first, last) if dim not in dims)
    resumed = next(dim for dim in dims if dim > gap)
    between = " * ".join(f"x.shape[{dim}]" for dim in range(gap, resumed))
    length = " * ".join(f"x.shape[{dim}]" for dim in range(resumed, rank))
    host, sizes = [f"B, P = {between}, {length}"], [("B", "B"), ("P", "P"), ("R", "R")]
    if not first:
        return "spread", host, sizes, "(rows,)"
    return "spread inside", host, [("Q", "R // P"), *sizes], "(rows,)"


def write_position(name: str, dim: int, argument: str, keeps: bool) -> Function:
    """Write the position of the first extreme along a dimension: "argmax" or "argmin"."""
    compare, start = (">", '-float("inf")') if name == "argmax" else ("<", 'float("inf")')
    body = (
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < num",
        "first = offs // B * R * B + offs % B",
        f"best = tl.full((BLOCK,), {start}, dtype=tl.float32)",
        "at = tl.zeros((BLOCK,), dtype=tl.int64)",
        "for r in range(R):",
        "    x = tl.load(x_ptr + first + r * B, mask=mask, other=0.0)",
        f"    at = tl.where(x {compare} best, r, at)",
        f"    best = {'tl.maximum' if name == 'argmax' else 'tl.minimum'}(best, x)",
        "tl.store(out_ptr + offs, at, mask=mask)",
    )
    return Function(
        name=name,
        tensors=(("x", argument),),
        numbers=(("dim", f"dim={dim}"), ("keepdim", f"keepdim={keeps}")),
        host=(
            "dim = dim % x.dim()",
            "R, B = x.shape[dim], x.stride(dim)",
            "num = x.numel() // R",
            "shape = x.shape[:dim] + (1,) * keepdim + x.shape[dim + 1:]",
        ),
        shape="shape",
        grid="(triton.cdiv(num, 256),)",
        sizes=(("num", "num"), ("R", "R"), ("B", "B")),
        constants=(("BLOCK", "256"),),
        body=body,
        dtype="torch.int64",
    )


def write_scan(kind: str, dim: int, argument: str, mask: str, is_product: bool) -> Function:
    """Write a cumulative sum or product along a dimension: plain, reverse, exclusive, both of these, or masked."""
    unit, name = ("1.0", "cumprod") if is_product else ("0.0", "cumsum")
    combine = "acc = acc * x" if is_product else "acc += x"
    at = "first + (R - 1 - r) * B" if "reverse" in kind else "first + r * B"
    inner = [f"offs = {at}", f"x = tl.load(x_ptr + offs, mask=mask, other={unit})"]
    if kind == "masked":
        inner += ["keep = tl.load(m_ptr + offs, mask=mask, other=0)", f"x = tl.where(keep != 0, x, {unit})"]
    store = "tl.store(out_ptr + offs, acc, mask=mask)"
    inner += [store, combine] if "exclusive" in kind else [combine, store]
    tensors = [("x", argument)] + ([("m", mask)] if kind == "masked" else [])
    return Function(
        name=f"{kind}_{name}" if "exclusive" in kind else name,
        tensors=tuple(tensors),
        numbers=(("dim", f"dim={dim}"),),
        host=("R, B = x.shape[dim], x.stride(dim)", "num = x.numel() // R"),
        shape="x.shape",
        grid="(triton.cdiv(num, 256),)",
        sizes=(("num", "num"), ("R", "R"), ("B", "B")),
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


def write_elements(argument: str, epilogue: Epilogue) -> Function:
    """Write pointwise steps as a kernel of their own."""
    body = [
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < num",
        "acc = tl.load(x_ptr + offs, mask=mask, other=0.0)",
        *epilogue.lines(Place()),
        "tl.store(out_ptr + offs, acc, mask=mask)",
    ]
    return Function(
        name="pointwise",
        tensors=(("x", argument), *epilogue.parameters),
        host=("num = x.numel()",),
        shape="x.shape",
        grid="(triton.cdiv(num, 1024),)",
        sizes=(("num", "num"), *epilogue.sizes()),
        constants=(("BLOCK", "1024"),),
        body=tuple(body),
    )


def write_concatenation(arguments: tuple[str, str], rank: int) -> Function:
    """Write the concatenation of two tensors along the second dimension."""
    rest = "".join(f", x.shape[{dim}]" for dim in range(2, rank))
    return Function(
        name="concat",
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


def write_cross_entropy(arguments: tuple[str, str], epilogue: Epilogue) -> Function:
    """Write the log-sum-exp of rows, less the element of each row that the class in `target` names."""
    host, sizes = ["rows, R = x.shape"], [("R", "R")]
    line = "acc = acc - tl.load(x_ptr + row * R + tl.load(target_ptr + row))"
    function, argument = REDUCTIONS["logsumexp"], arguments[0]
    made = _write("cross_entropy", function, "loop", host, sizes, "(rows,)", "(rows,)", argument, epilogue)
    body = [*made.body]
    body.insert(next(at for at, text in enumerate(body) if text.startswith("acc = ")) + 1, line)
    return evolve(made, tensors=(*made.tensors, ("target", arguments[1])), body=tuple(body))
