"""Matrix products of other forms: batched, with a shared matrix, of extreme shapes, triangular, symmetric, diagonal.

All are one tiled kernel: what differs is where a batch begins, how a tile is found, which tiles of the inner dimension
there are, and what an element is made of. A triangular factor is taken as such in `forward`, so that what lies on
its other side never counts, whatever the inputs hold; its empty tiles are skipped.
"""

from __future__ import annotations

from attrs import frozen

from ...task import Example
from ..builder.drafts import Device, Draft, make_kernel
from ..builder.draw import Draw
from ..builder.spec import Size, Spec, draw_size
from ..builder.tiles import LAYOUTS, Tile, draw_tile, find_strides, place_factors, scale, split_programs
from ..builder.wording import Kernel, Names, draw_names, finish

_MATRIX = (("M", "K", "N"), ("ROWS", "INNER", "COLS"), ("m", "k", "n"))
_SQUARE = (("N",), ("SIZE",), ("n",), ("DIM",))
_BY_SQUARE = (("N", "M"), ("SIZE", "COLS"), ("n", "m"), ("DIM", "WIDTH"))
_NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "matrix": _MATRIX,
    "square": _SQUARE,
    "by_square": _BY_SQUARE,
    "batch": (("B", "M", "K", "N"), ("BATCH", "ROWS", "INNER", "COLS"), ("batch_size", "m", "k", "n")),
    "heads": (
        ("B", "H", "M", "K", "N"),
        ("BATCH", "HEADS", "ROWS", "INNER", "COLS"),
        ("batch_size", "heads", "m", "k", "n"),
    ),
    "shared": (("B", "M", "K", "N"), ("BATCH", "SEQ", "D_IN", "D_OUT"), ("batch_size", "seq_len", "in_dim", "out_dim")),
    "einsum": (("B", "I", "J", "L", "K"), ("BATCH", "HEIGHT", "WIDTH", "INNER", "OUTER"), ("b", "i", "j", "l", "k")),
}


def draw_batched_matmul(draw: Draw, family: str) -> Spec:
    """Draw products of batches of matrices, or of a batch and one matrix."""
    producer = draw.choice(("batch", "batch", "batch", "heads", "shared", "einsum"))
    layout = draw.choice(("nn", "nn", "nt", "tn", "tt")) if producer in ("batch", "heads") else "nn"
    count = Size(declared=draw.between(2, 16), tiny=draw.choice((2, 3)), small=draw.between(2, 3), larger=4)
    more = Size(declared=draw.between(2, 8), tiny=2, small=2, larger=3)
    outer = {"batch": (count,), "heads": (count, more), "shared": (count,), "einsum": (count, more)}[producer]
    return Spec(
        producer=producer,
        sizes=(*outer, *_draw_matrix(draw, (32, 256), (32, 256), (32, 256))),
        options=(("layout", layout),),
    )


def _draw_matrix(
    draw: Draw, rows: tuple[int, int], inner: tuple[int, int], columns: tuple[int, int]
) -> tuple[Size, ...]:
    def size(declared: int, small: tuple[int, int], larger: tuple[int, int]) -> Size:
        if declared < 40:
            small, larger = (5, 7), (9, 12)
        return draw_size(draw, declared, (3, 5, 6, 7), small, larger)

    return (
        size(draw.size(*rows), (17, 23), (33, 43)),
        size(draw.size(*inner), (25, 35), (66, 80)),
        size(draw.size(*columns), (17, 24), (35, 45)),
    )


def draw_matmul_shapes(draw: Draw, family: str) -> Spec:
    """Draw products of square, tall, wide, thin or deep matrices."""
    producer = draw.choice(("square", "tall", "wide", "small_k", "large_k", "irregular"))
    if producer == "square":
        return Spec(producer=producer, sizes=(_draw_side(draw),), options=(("layout", "nn"),))
    rows, inner, columns = {
        "tall": ((2048, 16384), (16, 64), (16, 64)),
        "wide": ((16, 64), (16, 64), (2048, 16384)),
        "small_k": ((256, 1024), (16, 32), (256, 1024)),
        "large_k": ((32, 128), (2048, 8192), (32, 128)),
        "irregular": ((129, 1023), (129, 1023), (129, 1023)),
    }[producer]
    layout = draw.choice(("nn", "nn", "nt", "tn")) if producer in ("tall", "wide") else "nn"
    return Spec(
        producer=producer,
        sizes=_draw_matrix(draw, rows, inner, columns),
        options=(("layout", layout),),
    )


def draw_structured_matmul(draw: Draw, family: str) -> Spec:
    """Draw products of triangular or symmetric matrices."""
    producer = draw.choice(("upper", "lower", "upper_left", "lower_left", "symmetric", "symmetric"))
    sizes = (_draw_side(draw),) if producer in ("upper", "lower") else (_draw_side(draw), _draw_side(draw))
    return Spec(producer=producer, sizes=sizes, options=(("layout", "nn"),))


def _draw_side(draw: Draw) -> Size:
    return draw_size(draw, draw.size(128, 768), (3, 5, 7, 9), (35, 45), (67, 75))


@frozen(kw_only=True)
class _Form:
    """A product's kind, the shapes of its factors, and its expressions."""

    kind: str
    a_shape: str
    b_shape: str
    expressions: tuple[str, ...]
    text: str


def _find_form(spec: Spec, names: Names, a: str, b: str) -> _Form:
    d, layout = names.dimensions, str(spec.option("layout"))
    if spec.producer in ("batch", "heads"):
        *outer, m, k, n = d
        lead = ", ".join(outer)
        expression, text = (part.format(a=a, b=b) for part in LAYOUTS[layout])
        expression = expression.replace(".T", ".transpose(-2, -1)")
        function = "torch.bmm" if spec.producer == "batch" else "torch.matmul"
        return _Form(
            kind="batch",
            a_shape=f"{lead}, {k}, {m}" if layout[0] == "t" else f"{lead}, {m}, {k}",
            b_shape=f"{lead}, {n}, {k}" if layout[1] == "t" else f"{lead}, {k}, {n}",
            expressions=(expression, "{}({}, {})".format(function, *expression.split(" @ "))),
            text=f"Batched matrix product of {text}",
        )
    if spec.producer in _FORMS:
        expressions, text = _FORMS[spec.producer]
        is_square = len(d) < 3
        a_shape = f"{d[0]}, {d[0]}" if is_square else ", ".join(d[:-1])
        b_shape = f"{d[0]}, {d[-1]}" if is_square else ", ".join(d[-2:])
        return _Form(
            kind="flat" if spec.producer in ("shared", "einsum") else spec.producer,
            a_shape=a_shape,
            b_shape=b_shape,
            expressions=tuple(expression.format(a=a, b=b) for expression in expressions),
            text=text.format(a=a, b=b),
        )
    m, k, n = d
    expression, text = (part.format(a=a, b=b) for part in LAYOUTS[layout])
    return _Form(
        kind="plain",
        a_shape=f"{k}, {m}" if layout[0] == "t" else f"{m}, {k}",
        b_shape=f"{n}, {k}" if layout[1] == "t" else f"{k}, {n}",
        expressions=(expression, "torch.matmul({}, {})".format(*expression.split(" @ "))),
        text=f"Matrix product of {text}, with {_SHAPES[spec.producer]}",
    )


_SHAPES = {
    "tall": "many rows",
    "wide": "many columns",
    "small_k": "a small inner dimension",
    "large_k": "a large inner dimension",
    "irregular": "sizes that are no powers of two",
}
_FORMS: dict[str, tuple[tuple[str, ...], str]] = {
    "shared": (
        ("torch.matmul({a}, {b})", "{a} @ {b}"),
        "Product of the batch of matrices {a} and the matrix {b}",
    ),
    "einsum": (
        ('torch.einsum("bijl,lk->bijk", {a}, {b})', "torch.matmul({a}, {b})"),
        "Product of the four-dimensional {a} and the matrix {b} over the last dimension of {a}",
    ),
    "square": (("{a} @ {b}", "torch.matmul({a}, {b})"), "Product of the square matrices {a} and {b}"),
    "upper": (("torch.triu({a}) @ torch.triu({b})",), "Product of the upper triangles of {a} and {b}"),
    "lower": (("torch.tril({a}) @ torch.tril({b})",), "Product of the lower triangles of {a} and {b}"),
    "upper_left": (("torch.triu({a}) @ {b}",), "Product of the upper triangle of {a} and {b}"),
    "lower_left": (("torch.tril({a}) @ {b}",), "Product of the lower triangle of {a} and {b}"),
    "symmetric": (
        ("(({a} + {a}.T) / 2) @ {b}", "torch.matmul(0.5 * ({a} + {a}.T), {b})"),
        "Product of the symmetric part of {a} and {b}",
    ),
}
"""Expressions and text of the products that have one layout."""


def write_product_form(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a matrix product of another form."""
    kind = spec.producer if spec.family == "batched_matmul" else ("square", "by_square", "matrix")[len(spec.sizes) - 1]
    names = draw_names(draw, _NAMES[kind])
    a, b = draw.choice((("a", "b"), ("a", "b"), ("x", "y"), ("x", "w")))
    form = _find_form(spec, names, a, b)
    draft = Draft()
    draft.take(a, f"torch.randn({form.a_shape})")
    draft.take(b, f"torch.randn({form.b_shape})")
    forward = [f"return {draw.choice(form.expressions)}"]
    kernel = _write_kernel(spec, names, form, (a, b), draft, draw)
    return finish(spec, task_id, f"{form.text}.", draft.reference(forward), kernel, names, draw)


def _write_kernel(spec: Spec, names: Names, form: _Form, factors: tuple[str, str], draft: Draft, draw: Draw) -> Kernel:
    a, b = factors
    layout = str(spec.option("layout"))
    result = names.beside(*factors).out
    tile, acc = draw_tile(draw), draw.choice(("acc", "acc", names.value))
    m, k, n = {1: ("n", "n", "n"), 2: ("n", "n", "m")}.get(len(spec.sizes), ("M", "K", "N"))
    is_batch = form.kind == "batch"
    is_first = is_batch and draw.chance(0.5)
    is_flat = not is_batch and draw.chance(0.35)
    head, row, column = _find_tile(form.kind, tile, n, is_flat, is_first)
    limits = _limit_tiles(form.kind, tile, m, k, n)
    a_place, b_place = place_factors(tile, find_strides(layout, m, k, n))
    a_lead, b_lead, out_lead = (
        (f"batch * {m} * {k} + ", f"batch * {k} * {n} + ", f"batch * {m} * {n} + ") if is_batch else ("", "", "")
    )
    lines = [
        *head,
        *tile.begin(acc, row, column),
        f"for k in range({limits.start}, {limits.stop}, {tile.bk}):",
        f"    {tile.rk} = k + tl.arange(0, {tile.bk})",
        f"    {a} = tl.load({names.ptr(a)} + {a_lead}{a_place}, mask={limits.a_mask}, other=0.0)",
    ]
    if form.kind == "symmetric":
        mirrored = f"{scale(f'{tile.rk}[None, :]', k)} + {tile.rm}"
        lines.append(f"    mirror = tl.load({names.ptr(a)} + {mirrored}, mask={limits.a_mask}, other=0.0)")
        lines.append(f"    {a} = 0.5 * ({a} + mirror)")
    out_place, out_mask = f"{out_lead}{tile.rm} * {n} + {tile.rn}", f"({tile.rm} < {m}) & ({tile.rn} < {n})"
    lines += [
        f"    {b} = tl.load({names.ptr(b)} + {b_lead}{b_place}, mask={limits.b_mask}, other=0.0)",
        f'    {acc} += tl.dot({a}, {b}, input_precision="ieee")',
        f"tl.store({names.ptr(result)} + {out_place}, {acc}, mask={out_mask})",
    ]
    blocks = draw.choice(_BLOCKS.get(spec.producer, _BLOCKS[""]))
    device = Device(
        name=draw.choice(("matmul", "mm", "gemm", "bmm" if is_batch else spec.producer + "_matmul")) + names.suffix,
        arguments=draft.pass_to(names.ptr, result, list(dict.fromkeys((m, n, k))), 2),
        constants=tuple(tile.constants(blocks)),
        body=tuple(lines),
    )
    programs = [f"triton.cdiv({m}, {blocks[0]})", f"triton.cdiv({n}, {blocks[1]})"]
    if is_batch:
        programs.insert(0 if is_first else 2, "batch")
    grid = f"({' * '.join(programs)},)" if is_flat else f"({', '.join(programs)})"
    host = _host(spec, form, a, b, result, layout)
    return make_kernel([device], [*host, device.launch(grid)], draft.tensors, result, _style(form, is_flat, is_first))


def _find_tile(kind: str, tile: Tile, n: str, is_flat: bool, is_first: bool) -> tuple[list[str], str, str]:
    """Return the lines that find a program's tile, its row and its column; `is_first` puts the batch's axis first."""
    lines, row, column = split_programs(f"tl.cdiv({n}, {tile.bn})", is_flat)
    if kind == "batch":
        lines.append(f"batch = tl.program_id({0 if is_first else 2})")
        if is_first:
            row, column = "tl.program_id(1)", "tl.program_id(2)"
    if kind.startswith(("upper", "lower")):
        lines.append(f"pid_m = {row[1:-1] if is_flat else row}")
        row = "pid_m"
    if kind in ("upper", "lower"):
        lines.append(f"pid_n = {column[1:-1] if is_flat else column}")
        column = "pid_n"
    return lines, row, column


@frozen(kw_only=True)
class _Limits:
    """The inner indices that a tile takes, and the masks of both factors."""

    start: str
    stop: str
    a_mask: str
    b_mask: str


def _limit_tiles(kind: str, tile: Tile, m: str, k: str, n: str) -> _Limits:
    """Leave out a triangular factor's empty tiles, and mask the empty part of the others."""
    inner, outer = f"{tile.rk}[None, :]", f"{tile.rk}[:, None]"
    a_mask, b_mask = f"({tile.rm} < {m}) & ({inner} < {k})", f"({outer} < {k}) & ({tile.rn} < {n})"
    start, stop = "0", k
    if kind.startswith("upper"):
        a_mask += f" & ({inner} >= {tile.rm})"
        start = f"pid_m * {tile.bm} // {tile.bk} * {tile.bk}"
    if kind.startswith("lower"):
        a_mask += f" & ({inner} <= {tile.rm})"
        stop = f"tl.minimum({k}, (pid_m + 1) * {tile.bm})"
    if kind == "upper":
        b_mask += f" & ({tile.rn} >= {outer})"
        stop = f"tl.minimum({k}, (pid_n + 1) * {tile.bn})"
    if kind == "lower":
        b_mask += f" & ({tile.rn} <= {outer})"
        start = f"pid_n * {tile.bn} // {tile.bk} * {tile.bk}"
    return _Limits(start=start, stop=stop, a_mask=a_mask, b_mask=b_mask)


_BLOCKS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "": ((32, 32, 32), (64, 64, 32), (64, 32, 32), (32, 64, 32), (16, 64, 32)),
    "tall": ((64, 16, 32), (64, 32, 32), (128, 32, 16), (128, 16, 32)),
    "wide": ((16, 64, 32), (32, 64, 32), (32, 128, 16), (16, 128, 32)),
    "small_k": ((64, 64, 16), (64, 32, 16), (32, 64, 16), (64, 64, 32)),
    "large_k": ((32, 32, 64), (16, 32, 128), (32, 32, 128), (16, 16, 128)),
}


def _style(form: _Form, is_flat: bool, is_first: bool) -> str:
    if form.kind == "batch":
        return "batch-first" if is_first else "batch-last"
    return f"{form.kind}-{'grid1d' if is_flat else 'grid2d'}"


def _host(spec: Spec, form: _Form, a: str, b: str, result: str, layout: str) -> list[str]:
    if len(spec.sizes) == 1:
        return [f"n = <{a}>.shape[0]", f"{result} = torch.empty_like(<{a}>)"]
    if len(spec.sizes) == 2:
        return [f"n, m = <{b}>.shape", f"{result} = torch.empty_like(<{b}>)"]
    where = f"device=<{a}>.device, dtype=<{a}>.dtype"
    left, right = ("K, M" if layout[0] == "t" else "M, K"), (-2 if layout[1] == "t" else -1)
    if form.kind == "flat":
        return [
            f"K, N = <{b}>.shape",
            f"M = <{a}>.numel() // K",
            f"{result} = torch.empty(<{a}>.shape[:-1] + (N,), {where})",
        ]
    if form.kind != "batch":
        right += 2
        return [f"{left} = <{a}>.shape", f"N = <{b}>.shape[{right}]", f"{result} = torch.empty((M, N), {where})"]
    if spec.producer == "heads":
        return [
            f"{left} = <{a}>.shape[-2:]",
            f"N = <{b}>.shape[{right}]",
            f"batch = <{a}>.shape[0] * <{a}>.shape[1]",
            f"{result} = torch.empty(<{a}>.shape[:2] + (M, N), {where})",
        ]
    return [
        f"batch, {left} = <{a}>.shape",
        f"N = <{b}>.shape[{right}]",
        f"{result} = torch.empty((batch, M, N), {where})",
    ]
