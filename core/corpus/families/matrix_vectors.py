"""Products that need no tiles of products: a matrix and a vector, and a diagonal matrix and a matrix."""

from __future__ import annotations

from ...task import Example
from ..builder.drafts import Device, Draft, make_kernel
from ..builder.draw import Draw
from ..builder.spec import Size, Spec, draw_size
from ..builder.wording import Kernel, Names, draw_names, finish

_MATRIX = (("M", "K"), ("ROWS", "COLS"), ("m", "k"), ("OUT", "IN"))


def draw_matvec(draw: Draw, family: str) -> Spec:
    """Draw a matrix times a vector, a vector times a matrix, or a batch of the first."""
    producer = draw.choice(("vector", "column", "left", "batch"))
    sizes: tuple[Size, ...] = (
        draw_size(draw, draw.size(128, 4096), (3, 5, 7), (17, 25), (35, 45)),
        draw_size(draw, draw.size(128, 4096), (5, 7, 9), (70, 90), (270, 330)),
    )
    if producer == "batch":
        batch = Size(declared=draw.between(2, 16), tiny=draw.choice((2, 3)), small=2, larger=3)
        sizes = (
            batch,
            draw_size(draw, draw.size(32, 512), (3, 5), (9, 13), (19, 25)),
            draw_size(draw, draw.size(64, 512), (5, 7), (40, 60), (140, 190)),
        )
    return Spec(producer=producer, sizes=sizes)


def draw_diagonal_matmul(draw: Draw, family: str) -> Spec:
    """Draw a diagonal matrix times a matrix, from either side."""
    return Spec(
        producer=draw.choice(("left", "left", "right")),
        sizes=(
            draw_size(draw, draw.size(64, 512), (3, 5, 7), (15, 21), (33, 45)),
            draw_size(draw, draw.size(64, 512), (3, 5, 7), (27, 37), (57, 77)),
        ),
    )


def write_matvec(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a matrix and a vector."""
    dimensions = (
        _MATRIX
        if spec.producer != "batch"
        else tuple((b, *d) for b, d in zip(("B", "BATCH", "b", "B"), _MATRIX, strict=True))
    )
    names = draw_names(draw, dimensions)
    a, x = draw.choice((("a", "x"), ("a", "b"), ("w", "x"), ("mat", "vec")))
    draft = Draft()
    shape, (m, k) = names.shape, names.dimensions[-2:]
    expressions: tuple[str, ...]
    if spec.producer == "left":
        draft.take(x, f"torch.randn({m})")
        draft.take(a, f"torch.randn({shape})")
        expressions = (f"{x} @ {a}", f"torch.matmul({x}, {a})", f"{a}.T @ {x}", f"torch.mv({a}.T, {x})")
        text = f"Product of the vector {x} and the matrix {a}."
    else:
        vector = {"vector": k, "column": f"{k}, 1", "batch": f"{names.dimensions[0]}, {k}"}[spec.producer]
        draft.take(a, f"torch.randn({shape})")
        draft.take(x, f"torch.randn({vector})")
        expressions, text = {
            "vector": ((f"torch.mv({a}, {x})", f"{a} @ {x}"), f"Product of the matrix {a} and the vector {x}."),
            "column": (
                (f"torch.matmul({a}, {x})", f"{a} @ {x}"),
                f"Product of the matrix {a} and the matrix {x} of one column.",
            ),
            "batch": (
                (f"torch.bmm({a}, {x}.unsqueeze(-1)).squeeze(-1)", f'torch.einsum("bmk,bk->bm", {a}, {x})'),
                f"Products of a batch of matrices {a} and a batch of vectors {x}.",
            ),
        }[spec.producer]
    forward = [f"return {draw.choice(expressions)}"]
    kernel = (_left_kernel if spec.producer == "left" else _row_kernel)(spec, names, a, x, draft, draw)
    return finish(spec, task_id, text, draft.reference(forward), kernel, names, draw)


def _row_kernel(spec: Spec, names: Names, a: str, x: str, draft: Draft, draw: Draw) -> Kernel:
    """Write a kernel whose program takes one row, or a tile of rows, and passes over the columns."""
    style = draw.choice(("row", "tile"))
    result = names.beside(a, x).out
    columns, size = names.columns, names.block
    batch = spec.producer == "batch"
    if style == "row":
        vector = f"row // M * K + {columns}" if batch else columns
        body = [
            "row = tl.program_id(0)",
            f"acc = tl.zeros(({size},), dtype=tl.float32)",
            f"for start in range(0, K, {size}):",
            f"    {columns} = start + tl.arange(0, {size})",
            f"    {a} = tl.load({names.ptr(a)} + row * K + {columns}, mask={columns} < K, other=0.0)",
            f"    {x} = tl.load({names.ptr(x)} + {vector}, mask={columns} < K, other=0.0)",
            f"    acc += {a} * {x}",
            f"tl.store({names.ptr(result)} + row, tl.sum(acc, axis=0))",
        ]
        constants = [(size, str(draw.choice((256, 512, 1024))))]
        sizes = ["M", "K"] if batch else ["K"]
        grid = "(batch * M,)" if batch else "(M,)"
    else:
        lead = ["batch = tl.program_id(1)"] if batch else []
        place = (
            f"(batch * M + rows)[:, None] * K + {columns}[None, :]"
            if batch
            else f"rows[:, None] * K + {columns}[None, :]"
        )
        vector = f"batch * K + {columns}" if batch else columns
        target = "batch * M + rows" if batch else "rows"
        body = [
            *lead,
            "rows = tl.program_id(0) * ROWS_PER + tl.arange(0, ROWS_PER)",
            "acc = tl.zeros((ROWS_PER,), dtype=tl.float32)",
            f"for start in range(0, K, {size}):",
            f"    {columns} = start + tl.arange(0, {size})",
            f"    mask = (rows[:, None] < M) & ({columns}[None, :] < K)",
            f"    {a} = tl.load({names.ptr(a)} + {place}, mask=mask, other=0.0)",
            f"    {x} = tl.load({names.ptr(x)} + {vector}, mask={columns} < K, other=0.0)",
            f"    acc += tl.sum({a} * {x}[None, :], axis=1)",
            f"tl.store({names.ptr(result)} + {target}, acc, mask=rows < M)",
        ]
        rows = draw.choice((8, 16, 32))
        constants = [("ROWS_PER", str(rows)), (size, str(draw.choice((64, 128, 256))))]
        sizes = ["M", "K"]
        grid = f"(triton.cdiv(M, {rows}), batch)" if batch else f"(triton.cdiv(M, {rows}),)"
    device = _device(names, draw, draft, result, sizes, constants, body)
    unpacked = "batch, M, K" if batch else "M, K"
    shape = {"vector": "(M,)", "column": "(M, 1)", "batch": "(batch, M)"}[spec.producer]
    host = [
        f"{unpacked} = <{a}>.shape",
        f"{result} = torch.empty({shape}, device=<{a}>.device, dtype=<{a}>.dtype)",
        device.launch(grid),
    ]
    return make_kernel([device], host, draft.tensors, result, f"{style}-{'batch' if batch else 'single'}")


def _device(
    names: Names,
    draw: Draw,
    draft: Draft,
    result: str,
    sizes: list[str],
    constants: list[tuple[str, str]],
    body: list[str],
) -> Device:
    return Device(
        name=draw.choice(("matvec", "mv", "gemv")) + names.suffix,
        arguments=draft.pass_to(names.ptr, result, sizes, 2),
        constants=tuple(constants),
        body=tuple(body),
    )


def _left_kernel(spec: Spec, names: Names, a: str, x: str, draft: Draft, draw: Draw) -> Kernel:
    """Write a kernel whose program takes a strip of columns and passes over the rows, by tiles or one by one."""
    style = draw.choice(("tile", "tile", "walk")) if spec.sizes[0].declared <= 512 else "tile"
    result = names.beside(a, x).out
    columns, size = names.columns, names.block
    start = f"{columns} = tl.program_id(0) * {size} + tl.arange(0, {size})"
    body = [start, f"acc = tl.zeros(({size},), dtype=tl.float32)"]
    if style == "walk":
        body += [
            "for k in range(K):",
            f"    {a} = tl.load({names.ptr(a)} + k * N + {columns}, mask={columns} < N, other=0.0)",
            f"    acc += tl.load({names.ptr(x)} + k) * {a}",
        ]
        constants = [(size, str(draw.choice((64, 128, 256))))]
    else:
        body += [
            "for start in range(0, K, DEPTH):",
            "    rows = start + tl.arange(0, DEPTH)",
            f"    mask = (rows[:, None] < K) & ({columns}[None, :] < N)",
            f"    {a} = tl.load({names.ptr(a)} + rows[:, None] * N + {columns}[None, :], mask=mask, other=0.0)",
            f"    {x} = tl.load({names.ptr(x)} + rows, mask=rows < K, other=0.0)",
            f"    acc += tl.sum({x}[:, None] * {a}, axis=0)",
        ]
        constants = [("DEPTH", str(draw.choice((32, 64)))), (size, str(draw.choice((32, 64, 128))))]
    body.append(f"tl.store({names.ptr(result)} + {columns}, acc, mask={columns} < N)")
    device = _device(names, draw, draft, result, ["K", "N"], constants, body)
    host = [
        f"K, N = <{a}>.shape",
        f"{result} = torch.empty((N,), device=<{a}>.device, dtype=<{a}>.dtype)",
        device.launch(f"(triton.cdiv(N, {constants[-1][1]}),)"),
    ]
    return make_kernel([device], host, draft.tensors, result, f"strip-{style}")


def write_diagonal_matmul(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a diagonal matrix and a matrix: no more than a scaling of rows or columns."""
    names = draw_names(draw, (("N", "M"), ("ROWS", "COLS"), ("n", "m"), ("M", "N")))
    d, b = draw.choice((("a", "b"), ("d", "x"), ("diag", "mat"), ("scale", "x")))
    draft = Draft()
    is_left = spec.producer == "left"
    draft.take(d, f"torch.randn({names.dimensions[0 if is_left else 1]})")
    draft.take(b, f"torch.randn({names.shape})")
    expressions: tuple[str, ...] = (f"torch.diag({d}) @ {b}", f"torch.matmul(torch.diag({d}), {b})")
    text = f"Product of the diagonal matrix of {d} and {b}."
    if not is_left:
        expressions = (f"{b} @ torch.diag({d})", f"torch.matmul({b}, torch.diag({d}))")
        text = f"Product of {b} and the diagonal matrix of {d}."
    forward = [f"return {draw.choice(expressions)}"]
    kernel = _diagonal_kernel(spec, names, d, b, draft, draw)
    return finish(spec, task_id, text, draft.reference(forward), kernel, names, draw)


def _diagonal_kernel(spec: Spec, names: Names, d: str, b: str, draft: Draft, draw: Draw) -> Kernel:
    is_left = spec.producer == "left"
    style = draw.choice(("flat", "rows", "tile"))
    result = names.beside(d, b).out
    columns, offsets, size = names.columns, names.offsets, names.block
    match style:
        case "flat":
            body = [f"{offsets} = tl.program_id(0) * {size} + tl.arange(0, {size})", f"mask = {offsets} < total"]
            place = f"{offsets} // n_cols" if is_left else f"{offsets} % n_cols"
            factor = f"tl.load({names.ptr(d)} + {place}, mask=mask)"
            sizes, block = ["total", "n_cols"], str(draw.choice((512, 1024)))
            grid, constants = f"(triton.cdiv(total, {block}),)", [(size, block)]
        case "rows":
            body = ["row = tl.program_id(0)", f"{columns} = tl.arange(0, {size})", f"mask = {columns} < n_cols"]
            body.append(f"{offsets} = row * n_cols + {columns}")
            factor = f"tl.load({names.ptr(d)} + row)" if is_left else f"tl.load({names.ptr(d)} + {columns}, mask=mask)"
            sizes, grid = ["n_cols"], "(n_rows,)"
            constants = [(size, "triton.next_power_of_2(n_cols)")]
        case _:
            rows, width = draw.choice(((8, 128), (16, 64), (32, 32)))
            body = [
                "rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)[:, None]",
                f"{columns} = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)[None, :]",
                f"mask = (rows < n_rows) & ({columns} < n_cols)",
                f"{offsets} = rows * n_cols + {columns}",
            ]
            index, bound = ("rows", "n_rows") if is_left else (columns, "n_cols")
            factor = f"tl.load({names.ptr(d)} + {index}, mask={index} < {bound})"
            sizes, constants = ["n_rows", "n_cols"], [("TILE_M", str(rows)), ("TILE_N", str(width))]
            grid = f"(triton.cdiv(n_rows, {rows}), triton.cdiv(n_cols, {width}))"
    body += [
        f"{b} = tl.load({names.ptr(b)} + {offsets}, mask=mask)",
        f"tl.store({names.ptr(result)} + {offsets}, {factor} * {b}, mask=mask)",
    ]
    device = Device(
        name=draw.choice(("diag_matmul", "scale_rows" if is_left else "scale_cols", "diagonal")) + names.suffix,
        arguments=draft.pass_to(names.ptr, result, sizes, 2),
        constants=tuple(constants),
        body=tuple(body),
    )
    host = [f"n_rows, n_cols = <{b}>.shape"] + ([f"total = <{b}>.numel()"] if style == "flat" else [])
    host += [f"{result} = torch.empty_like(<{b}>)", device.launch(grid)]
    return make_kernel([device], host, draft.tensors, result, f"diagonal-{style}")
