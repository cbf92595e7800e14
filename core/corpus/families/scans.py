"""Cumulative sums and products: forward, reverse, exclusive, masked; along the last dimension or another.

A row's scan is one block or several; several carry the total of what came before (or after, where the scan is
reverse) from block to block. Along another dimension a program walks down its lanes with a running value.
"""

from __future__ import annotations

from ...task import Example
from ..builder.drafts import Device, Draft, make_kernel
from ..builder.draw import Draw
from ..builder.spec import DIMENSIONS as IMAGES
from ..builder.spec import Size, Spec, draw_dtypes, draw_size
from ..builder.strip_bodies import spread_lanes
from ..builder.wording import ROW_NAMES, Kernel, Names, draw_names, finish

_NAMES = {
    2: (("M", "N"), ("ROWS", "COLS"), ("batch_size", "length"), ("BATCH", "DIM"), ("B", "T")),
    3: ROW_NAMES[3],
    4: IMAGES[4],
}
_PRODUCTS = ("cumulative_product", "masked_product")
_MAX_WHOLE = 4096
_MAX_ELEMENTS = 1_000_000


def draw_scan(draw: Draw, family: str) -> Spec:
    """Draw a cumulative sum or product of one of the forms."""
    is_product = family in _PRODUCTS
    forms = ("plain", "plain", "reverse", "exclusive") + (() if is_product else ("masked", "masked"))
    rank, dim = draw.choice(((2, 1), (2, 1), (3, 2), (3, 1), (2, 0)))
    return Spec(
        producer="masked" if family == "masked_product" else draw.choice(forms),
        sizes=_draw_sizes(draw, rank, dim, 512 if is_product else 4096),
        dtypes=("float32",) if is_product else draw_dtypes(draw),
        options=(("dim", dim),),
    )


def _draw_sizes(draw: Draw, rank: int, dim: int, most: int) -> tuple[Size, ...]:
    if dim == rank - 1:
        along = draw_size(draw, draw.size(128, most), (5, 7, 9), (70, 110), (270, 350))
    else:
        along = draw_size(draw, draw.size(16, 128), (3, 4, 5), (12, 20), (25, 35))
    few = ((2, 3), (2, 3), (4, 5)) if rank > 2 else ((3, 5, 7), (7, 10), (12, 15))
    others = []
    budget = _MAX_ELEMENTS // along.declared
    for at in range(rank - 1):
        high = 2048 if at == rank - 2 else 32
        declared = draw.size(8, max(8, min(high, budget)))
        budget = max(8, budget // declared)
        others.append(draw_size(draw, declared, *few))
    return (*others[:dim], along, *others[dim:])


def write_scan(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a cumulative sum or product."""
    rank, dim = len(spec.sizes), int(spec.option("dim"))
    names = draw_names(draw, _NAMES[rank])
    x, draft = names.x, Draft()
    is_product = spec.family in _PRODUCTS
    function = "torch.cumprod" if is_product else "torch.cumsum"
    shape = names.shape
    draft.take(x, f"torch.randn({shape}) * 0.1 + 1.0" if is_product else f"torch.randn({shape})")
    mask = ""
    if spec.producer == "masked":
        mask = draw.choice(("mask", "mask", "keep"))
        draft.take(mask, f"torch.rand({shape}) < {draw.choice((0.3, 0.5, 0.7))}")
    spelled = draw.choice((str(dim), str(dim), str(dim - rank)))
    number = spelled
    if draw.chance(0.3):
        draft.parameters.append(("dim", spelled))
        draft.init.append("self.dim = dim")
        spelled = "self.dim"
    what = f"Cumulative {'product' if is_product else 'sum'} along dimension {dim}"
    match spec.producer:
        case "plain":
            forward = [f"return {function}({x}, dim={spelled})"]
        case "masked":
            neutral = "1.0" if is_product else "0.0"
            direct = f"torch.where({mask}, {x}, {neutral})" if is_product else f"{x} * {mask}"
            kept = draw.choice((direct, f"{x}.masked_fill(~{mask}, {neutral})"))
            forward = [f"return {function}({kept}, dim={spelled})"]
            what += f" of the values where {mask} is true"
        case "reverse":
            if draw.chance(0.5):
                forward = [f"return {function}({x}.flip({spelled}), dim={spelled}).flip({spelled})"]
            else:
                flipped = f"torch.flip({x}, dims=[{spelled}])"
                forward = [f"return torch.flip({function}({flipped}, dim={spelled}), dims=[{spelled}])"]
            what += ", from the end"
        case _:
            first = f"{x}.narrow({number}, 0, 1)"
            start = f"torch.{'ones' if is_product else 'zeros'}_like({first})"
            rest = f"{x}.narrow({number}, 0, {x}.shape[{number}] - 1)"
            forward = [f"{x} = torch.cat([{start}, {rest}], dim={spelled})", f"return {function}({x}, dim={spelled})"]
            what += f", exclusive: each place has the {'product' if is_product else 'sum'} of those before it"
    kernel = (_row_kernel if dim == rank - 1 else _walk_kernel)(spec, names, mask, draft, draw)
    return finish(spec, task_id, f"{what}.", draft.reference(forward), kernel, names, draw)


def _row_kernel(spec: Spec, names: Names, mask: str, draft: Draft, draw: Draw) -> Kernel:
    """Write a program for each row; its blocks in turn where it has several."""
    is_product, form = spec.family in _PRODUCTS, spec.producer
    style = draw.choice(("row", "row", "loop")) if spec.sizes[-1].declared <= _MAX_WHOLE else "loop"
    x, v, columns, size = names.x, names.value, names.columns, names.block
    n, rows = draw.choice((("n_cols", "n_rows"), ("n", "m"), ("length", "rows")))
    result = names.beside(x).out
    cast = spec.cast
    scan, neutral, sign = ("tl.cumprod", "1.0", "*") if is_product else ("tl.cumsum", "0.0", "+")
    reverse = ", reverse=True" if form == "reverse" else ""
    valid, place = f"{columns} < {n}", f"row * {n} + {columns}"
    # an exclusive scan is the scan of what lies one place to the left
    load_mask, load_place = (f"({columns} > 0) & ({valid})", f"{place} - 1") if form == "exclusive" else (valid, place)
    inner = [f"{x} = tl.load({names.ptr(x)} + {load_place}, mask={load_mask}, other={neutral}){cast}"]
    if mask:
        inner.append(f"{mask} = tl.load({names.ptr(mask)} + {place}, mask={valid}, other=0)")
        inner.append(f"{x} = tl.where({mask} != 0, {x}, {neutral})")
    store = f"tl.store({names.ptr(result)} + {place}, {v}, mask={valid})"
    if style == "row":
        body = ["row = tl.program_id(0)", f"{columns} = tl.arange(0, {size})", *inner]
        body += [f"{v} = {scan}({x}, axis=0{reverse})", store]
        block = f"triton.next_power_of_2({n})"
    else:
        carry = draw.choice(("carry", "total", "prefix"))
        total = f"tl.sum({x}, axis=0)" if not is_product else ""
        body = ["row = tl.program_id(0)", f"{carry} = {neutral}", f"for start in range(0, {n}, {size}):"]
        begin = f"tl.cdiv({n}, {size}) * {size} - {size} - start" if form == "reverse" else "start"
        inner.insert(0, f"{columns} = {begin} + tl.arange(0, {size})")
        inner += [f"{v} = {carry} {sign} {scan}({x}, axis=0{reverse})", store]
        if is_product:
            last = "0" if form == "reverse" else f"{size} - 1"
            inner.append(f"{carry} = tl.sum(tl.where(tl.arange(0, {size}) == {last}, {v}, 0.0), axis=0)")
        else:
            inner.append(f"{carry} += {total}")
        body += [f"    {line}" for line in inner]
        block = str(draw.choice((128, 256, 512)))
    device = Device(
        name=draw.choice((spec.family, "scan", spec.family.replace("cumulative_", "cum"))) + names.suffix,
        arguments=draft.pass_to(names.ptr, result, [n]),
        constants=((size, block),),
        body=tuple(body),
    )
    host = [f"{result} = torch.empty_like(<{x}>)", f"{n} = <{x}>.shape[-1]", f"{rows} = <{x}>.numel() // {n}"]
    return make_kernel([device], [*host, device.launch(f"({rows},)")], draft.tensors, result, f"scan-{style}")


def _walk_kernel(spec: Spec, names: Names, mask: str, draft: Draft, draw: Draw) -> Kernel:
    """Write a program for each strip of lanes, which takes one place after the other."""
    is_product, form, dim = spec.family in _PRODUCTS, spec.producer, int(spec.option("dim"))
    x, columns, size, offsets = names.x, names.columns, names.block, names.offsets
    n, inner, outer = draw.choice((("n", "inner", "outer"), ("length", "stride", "batch"), ("n", "d", "b")))
    step = draw.choice(("k", "i", "t")) if names.value != "t" else "k"
    result = names.beside(x).out
    acc = draw.choice(("acc", "acc", "running"))
    cast = spec.cast
    valid = f"{columns} < {inner}"
    is_spelled = draw.chance(0.5)
    start = f"{columns} = tl.program_id({int(dim > 0)}) * {size} + tl.arange(0, {size})"
    body = (["row = tl.program_id(0)"] if dim else []) + [start]
    neutral = "1.0" if is_product else "0.0"
    start = f"tl.full(({size},), 1.0, dtype=tl.float32)" if is_product else f"tl.zeros(({size},), dtype=tl.float32)"
    body.append(f"{acc} = {start}")
    loop = f"for {step} in range({n}):"
    at = f"({n} - 1 - {step})" if form == "reverse" else step
    if form == "reverse" and is_spelled:
        loop, at = f"for {step} in range({n} - 1, -1, -1):", step
    row = f"(row * {n} + {at})" if dim else at
    lines = [f"{offsets} = {row} * {inner} + {columns}"]
    value = f"tl.load({names.ptr(x)} + {offsets}, mask={valid}){cast}"
    store = f"tl.store({names.ptr(result)} + {offsets}, {acc}, mask={valid})"
    if mask:
        lines.append(f"{mask} = tl.load({names.ptr(mask)} + {offsets}, mask={valid}, other=0)")
        value = f"tl.where({mask} != 0, {value}, {neutral})"
    update = f"{acc} {'*' if is_product else '+'}= {value}"
    lines += [store, update] if form == "exclusive" else [update, store]
    body += [loop, *(f"    {line}" for line in lines)]
    width = draw.choice((64, 128, 256))
    device = Device(
        name=draw.choice((spec.family, "scan", spec.family.replace("cumulative_", "cum"))) + names.suffix,
        arguments=draft.pass_to(names.ptr, result, [n, inner]),
        constants=((size, str(width)),),
        body=tuple(body),
    )
    lengths, grid = spread_lanes(x, dim, len(spec.sizes), (n, inner, outer), width)
    host = [f"{result} = torch.empty_like(<{x}>)", *lengths, device.launch(grid)]
    return make_kernel([device], host, draft.tensors, result, "scan-walk" + ("-down" if is_spelled else ""))
