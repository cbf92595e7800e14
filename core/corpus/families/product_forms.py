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
from ..builder.wording import Kernel, Names, draw_names_among, finish

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
_LAYOUTS = {
    "nn": ("{a} @ {b}", "{a} and {b}"),
    "nt": ("{a} @ {b}.transpose(-2, -1)", "{a} and {b} transposed"),
    "tn": ("{a}.transpose(-2, -1) @ {b}", "{a} transposed and {b}"),
    "tt": ("{a}.transpose(-2, -1) @ {b}.transpose(-2, -1)", "{a} transposed and {b} transposed"),
}


def draw_batched_matmul(draw: Draw, family: str) -> Spec:
    """Products of batches of matrices, or of a batch and one matrix."""
    producer = draw.choice(("batch", "batch", "batch", "heads", "shared", "einsum"))
    layout = draw.choice(("nn", "nn", "nt", "tn", "tt")) if producer in ("batch", "heads") else "nn"
    count = Size(declared=draw.between(2, 16), tiny=draw.choice((2, 3)), small=draw.between(2, 3), larger=4)
    more = Size(declared=draw.between(2, 8), tiny=2, small=2, larger=3)
    outer = {"batch": (count,), "heads": (count, more), "shared": (count,), "einsum": (count, more)}[producer]
    return Spec(
        level=1,
        family=family,
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
    """Products of square, tall, wide, thin or deep matrices."""
    producer = draw.choice(("square", "tall", "wide", "small_k", "large_k", "irregular"))
    if producer == "square":
        return Spec(level=1, family=family, producer=producer, sizes=(_draw_side(draw),), options=(("layout", "nn"),))
    rows, inner, columns = {
        "tall": ((2048, 16384), (16, 64), (16, 64)),
        "wide": ((16, 64), (16, 64), (2048, 16384)),
        "small_k": ((256, 1024), (16, 32), (256, 1024)),
        "large_k": ((32, 128), (2048, 8192), (32, 128)),
        "irregular": ((129, 1023), (129, 1023), (129, 1023)),
    }[producer]
    layout = draw.choice(("nn", "nn", "nt", "tn")) if producer in ("tall", "wide") else "nn"
    return Spec(
        level=1,
        family=family,
        producer=producer,
        sizes=_draw_matrix(draw, rows, inner, columns),
        options=(("layout", layout),),
    )


def draw_structured_matmul(draw: Draw, family: str) -> Spec:
    """Products of triangular or symmetric matrices."""
    producer = draw.choice(("upper", "lower", "upper_left", "lower_left", "symmetric", "symmetric"))
    sizes = (_draw_side(draw),) if producer in ("upper", "lower") else (_draw_side(draw), _draw_side(draw))
    return Spec(level=1, family=family, producer=producer, sizes=sizes, options=(("layout", "nn"),))


def _draw_side(draw: Draw) -> Size:
    return draw_size(draw, draw.size(128, 768), (3, 5, 7, 9), (35, 45), (67, 75))


@frozen(kw_only=True)
class _Form:
    """What a product is made of: shapes of the factors and the expression."""

    kind: str
    a_shape: str
    b_shape: str
    expressions: tuple[str, ...]
    text: str


def _find_form(spec: Spec, names: Names, a: str, b: str) -> _Form:
    d = names.dimensions
    layout = str(spec.option("layout"))
    expressions: tuple[str, ...]
    if spec.producer in ("batch", "heads"):
        *outer, m, k, n = d
        lead = ", ".join(outer)
        expression, text = (part.format(a=a, b=b) for part in _LAYOUTS[layout])
        left, right = expression.split(" @ ")
        call = f"torch.bmm({left}, {right})" if spec.producer == "batch" else f"torch.matmul({left}, {right})"
        return _Form(
            kind="batch",
            a_shape=f"{lead}, {k}, {m}" if layout[0] == "t" else f"{lead}, {m}, {k}",
            b_shape=f"{lead}, {n}, {k}" if layout[1] == "t" else f"{lead}, {k}, {n}",
            expressions=(expression, call),
            text=f"Batched matrix product of {text}",
        )
    if spec.producer == "shared":
        batch, m, k, n = d
        expressions = (f"torch.matmul({a}, {b})", f"{a} @ {b}")
        return _Form(
            kind="flat",
            a_shape=f"{batch}, {m}, {k}",
            b_shape=f"{k}, {n}",
            expressions=expressions,
            text=f"Product of the batch of matrices {a} and the matrix {b}",
        )
    if spec.producer == "einsum":
        *outer, k, n = d
        return _Form(
            kind="flat",
            a_shape=f"{', '.join(outer)}, {k}",
            b_shape=f"{k}, {n}",
            expressions=(f'torch.einsum("bijl,lk->bijk", {a}, {b})', f"torch.matmul({a}, {b})"),
            text=f"Product of the four-dimensional {a} and the matrix {b} over the last dimension of {a}",
        )
    if len(d) < 3:
        n, columns = d[0], d[-1]
        expressions, text = {
            "square": ((f"{a} @ {b}", f"torch.matmul({a}, {b})"), f"Product of the square matrices {a} and {b}"),
            "upper": ((f"torch.triu({a}) @ torch.triu({b})",), f"Product of the upper triangles of {a} and {b}"),
            "lower": ((f"torch.tril({a}) @ torch.tril({b})",), f"Product of the lower triangles of {a} and {b}"),
            "upper_left": ((f"torch.triu({a}) @ {b}",), f"Product of the upper triangle of {a} and {b}"),
            "lower_left": ((f"torch.tril({a}) @ {b}",), f"Product of the lower triangle of {a} and {b}"),
            "symmetric": (
                (f"(({a} + {a}.T) / 2) @ {b}", f"torch.matmul(0.5 * ({a} + {a}.T), {b})"),
                f"Product of the symmetric part of {a} and {b}",
            ),
        }[spec.producer]
        return _Form(
            kind=spec.producer, a_shape=f"{n}, {n}", b_shape=f"{n}, {columns}", expressions=expressions, text=text
        )
    m, k, n = d
    expression, text = (part.format(a=a, b=b).replace("transpose(-2, -1)", "T") for part in _LAYOUTS[layout])
    shape = {
        "tall": "many rows",
        "wide": "many columns",
        "small_k": "a small inner dimension",
        "large_k": "a large inner dimension",
        "irregular": "sizes that are no powers of two",
    }[spec.producer]
    return _Form(
        kind="plain",
        a_shape=f"{k}, {m}" if layout[0] == "t" else f"{m}, {k}",
        b_shape=f"{n}, {k}" if layout[1] == "t" else f"{k}, {n}",
        expressions=(expression, "torch.matmul({}, {})".format(*expression.split(" @ "))),
        text=f"Matrix product of {text}, with {shape}",
    )


def write_product_form(spec: Spec, task_id: str, draw: Draw) -> Example:
    """The task and a teacher for a matrix product of another form."""
    kind = spec.producer if spec.family == "batched_matmul" else ("square", "by_square", "matrix")[len(spec.sizes) - 1]
    names = draw_names_among(draw, _NAMES[kind])
    a, b = draw.choice((("a", "b"), ("a", "b"), ("x", "y"), ("x", "w")))
    form = _find_form(spec, names, a, b)
    draft = Draft()
    draft.take(a, f"torch.randn({form.a_shape})")
    draft.take(b, f"torch.randn({form.b_shape})")
    forward = [f"return {draw.choice(form.expressions)}"]
    kernel = _kernel(spec, names, form, (a, b), draft, draw)
    return finish(spec, task_id, f"{form.text}.", draft.reference(forward), kernel, names, draw)


def _steps(indices: str, stride: str) -> str:
    return indices + ("" if stride == "1" else f" * {stride}")


def _kernel(spec: Spec, names: Names, form: _Form, factors: tuple[str, str], draft: Draft, draw: Draw) -> Kernel:
    a, b = factors
    layout = str(spec.option("layout"))
    result = names.beside(*factors).out
    rm, rn, rk = draw.choice((("rm", "rn", "rk"), ("rm", "rn", "rk"), ("offs_m", "offs_n", "offs_k")))
    bm, bn, bk = draw.choice((("BM", "BN", "BK"), ("BM", "BN", "BK"), ("BLOCK_M", "BLOCK_N", "BLOCK_K")))
    acc = draw.choice(("acc", "acc", names.value))
    m, k, n = {1: ("n", "n", "n"), 2: ("n", "n", "m")}.get(len(spec.sizes), ("M", "K", "N"))
    is_batch = form.kind == "batch"
    is_first = is_batch and draw.chance(0.5)
    axes = ("1", "2", "0") if is_first else ("0", "1", "2")
    is_flat = not is_batch and draw.chance(0.35)
    lines: list[str] = []
    if is_flat:
        lines += ["pid = tl.program_id(0)", f"num_n = tl.cdiv({n}, {bn})"]
        row, column = "(pid // num_n)", "(pid % num_n)"
    else:
        row, column = f"tl.program_id({axes[0]})", f"tl.program_id({axes[1]})"
    if is_batch:
        lines.append(f"batch = tl.program_id({axes[2]})")
    tile = {"upper": (row, column), "lower": (row, column), "upper_left": (row, ""), "lower_left": (row, "")}.get(
        form.kind
    )
    if tile is not None:
        lines.append(f"pid_m = {row.strip('()') if is_flat else row}")
        row = "pid_m"
        if tile[1]:
            lines.append(f"pid_n = {column.strip('()') if is_flat else column}")
            column = "pid_n"
    a_strides = ("1", m) if layout[0] == "t" else (k, "1")
    b_strides = ("1", k) if layout[1] == "t" else (n, "1")
    a_lead, b_lead, out_lead = (
        (f"batch * {m} * {k} + ", f"batch * {k} * {n} + ", f"batch * {m} * {n} + ") if is_batch else ("", "", "")
    )
    inner, outer = f"{rk}[None, :]", f"{rk}[:, None]"
    a_mask, b_mask = f"({rm} < {m}) & ({inner} < {k})", f"({outer} < {k}) & ({rn} < {n})"
    start, stop = "0", k
    if form.kind.startswith("upper"):
        a_mask += f" & ({inner} >= {rm})"
        start = f"pid_m * {bm} // {bk} * {bk}"
    if form.kind.startswith("lower"):
        a_mask += f" & ({inner} <= {rm})"
        stop = f"tl.minimum({k}, (pid_m + 1) * {bm})"
    if form.kind == "upper":
        b_mask += f" & ({rn} >= {outer})"
        stop = f"tl.minimum({k}, (pid_n + 1) * {bn})"
    if form.kind == "lower":
        b_mask += f" & ({rn} <= {outer})"
        start = f"pid_n * {bn} // {bk} * {bk}"
    a_place = f"{a_lead}{_steps(rm, a_strides[0])} + {_steps(inner, a_strides[1])}"
    b_place = f"{b_lead}{_steps(outer, b_strides[0])} + {_steps(rn, b_strides[1])}"
    lines += [
        f"{rm} = {row} * {bm} + tl.arange(0, {bm})[:, None]",
        f"{rn} = {column} * {bn} + tl.arange(0, {bn})[None, :]",
        f"{acc} = tl.zeros(({bm}, {bn}), dtype=tl.float32)",
        f"for k in range({start}, {stop}, {bk}):",
        f"    {rk} = k + tl.arange(0, {bk})",
        f"    {a} = tl.load({names.ptr(a)} + {a_place}, mask={a_mask}, other=0.0)",
    ]
    if form.kind == "symmetric":
        mirrored = f"{_steps(inner, k)} + {rm}"
        lines.append(f"    mirror = tl.load({names.ptr(a)} + {mirrored}, mask={a_mask}, other=0.0)")
        lines.append(f"    {a} = 0.5 * ({a} + mirror)")
    lines += [
        f"    {b} = tl.load({names.ptr(b)} + {b_place}, mask={b_mask}, other=0.0)",
        f'    {acc} += tl.dot({a}, {b}, input_precision="ieee")',
        f"tl.store({names.ptr(result)} + {out_lead}{rm} * {n} + {rn}, {acc}, mask=({rm} < {m}) & ({rn} < {n}))",
    ]
    blocks = draw.choice(_BLOCKS.get(spec.producer, _BLOCKS[""]))
    sizes = list(dict.fromkeys((m, n, k)))
    device = Device(
        name=draw.choice(("matmul", "mm", "gemm", "bmm" if is_batch else spec.producer + "_matmul")) + names.suffix,
        arguments=(
            (names.ptr(a), f"<{a}>"),
            (names.ptr(b), f"<{b}>"),
            (names.ptr(result), result),
            *((size, size) for size in sizes),
        ),
        constants=tuple(zip((bm, bn, bk), map(str, blocks), strict=True)),
        body=tuple(lines),
    )
    programs_m, programs_n = f"triton.cdiv({m}, {blocks[0]})", f"triton.cdiv({n}, {blocks[1]})"
    host = _host(spec, form, a, b, result, layout)
    if is_batch:
        grid = f"(batch, {programs_m}, {programs_n})" if is_first else f"({programs_m}, {programs_n}, batch)"
    else:
        grid = f"({programs_m} * {programs_n},)" if is_flat else f"({programs_m}, {programs_n})"
    return make_kernel([device], [*host, device.launch(grid)], draft.tensors, result, _style(form, is_flat, is_first))


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
