"""Totals over a whole tensor in two steps, always in the same order: partial sums, then one program that adds them.

The partial sums of a launch go to a temporary; the second launch reads them all. An atomic addition would need one
launch only, and give another last digit in each run. Families: reductions of all elements, and division by the
Frobenius norm, where each program of the second launch adds the partial sums for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...task import Example
from ..builder.drafts import Device, Draft, make_kernel
from ..builder.draw import Draw
from ..builder.spec import DIMENSIONS as IMAGES
from ..builder.spec import Size, Spec, draw_dtypes, draw_size
from ..builder.wording import ROW_NAMES, Kernel, Names, draw_names, finish

MAX_ELEMENTS = 500_000

DIMENSIONS: dict[int, tuple[tuple[str, ...], ...]] = {
    1: (("N",), ("SIZE",), ("LENGTH",), ("n",)),
    **ROW_NAMES,
    4: IMAGES[4][:3],
}


def draw_total_sizes(draw: Draw, rank: int) -> tuple[Size, ...]:
    """Draw sizes of a tensor of at most half a million elements; small has 700 or so."""
    small = {
        1: ((500, 800),),
        2: ((15, 21), (35, 45)),
        3: ((4, 5), (9, 11), (14, 19)),
        4: ((3, 3), (4, 5), (7, 8), (7, 8)),
    }
    larger = {
        1: ((2100, 3300),),
        2: ((33, 45), (57, 77)),
        3: ((6, 8), (15, 17), (21, 27)),
        4: ((4, 4), (6, 7), (11, 12), (11, 12)),
    }
    lows = {1: (4096,), 2: (32, 64), 3: (4, 16, 32), 4: (2, 4, 8, 8)}[rank]
    sizes: list[Size] = []
    budget = MAX_ELEMENTS
    for at, low in enumerate(lows):
        share = max(low, int(budget ** (1 / (rank - at)) * (1 if at == rank - 1 else 2)))
        declared = draw.size(low, max(low, min(share, budget)))
        budget = max(1, budget // declared)
        sizes.append(draw_size(draw, declared, (3, 5, 7) if rank < 3 else (2, 3), small[rank][at], larger[rank][at]))
    return tuple(sizes)


def finish_total(names: Names, scale: str, arguments: list[tuple[str, str]], block: int) -> Device:
    """Write the second launch's kernel: one program adds the partial sums, and stores their total by `scale`."""
    result, partial, num = names.out, "partial", "num"
    return Device(
        name=f"finish{names.suffix}",
        arguments=((names.ptr(partial), partial), (names.ptr(result), result), (num, num), *arguments),
        constants=((names.block, str(block)),),
        body=(
            f"acc = tl.zeros(({names.block},), dtype=tl.float32)",
            f"for start in range(0, {num}, {names.block}):",
            f"    {names.offsets} = start + tl.arange(0, {names.block})",
            f"    acc += tl.load({names.ptr(partial)} + {names.offsets}, mask={names.offsets} < {num}, other=0.0)",
            f"tl.store({names.ptr(result)}, {scale.format(total='tl.sum(acc, axis=0)')})",
        ),
    )


_TOTALS: dict[str, tuple[str, str, str, str]] = {
    "sum": ("Sum", "torch.sum({x})", "{x}", "{total}"),
    "mean": ("Mean", "torch.mean({x})", "{x}", "{total} / n"),
    "sum_squares": ("Sum of squares", "torch.sum({x} * {x})", "{x} * {x}", "{total}"),
    "mean_squares": ("Mean of squares", "torch.mean({x} * {x})", "{x} * {x}", "{total} / n"),
    "l1norm": ("L1 norm", "torch.sum(torch.abs({x}))", "tl.abs({x})", "{total}"),
    "frobenius": ("Frobenius norm", "torch.norm({x})", "{x} * {x}", "tl.sqrt({total})"),
}
"""Text, expression, what an element adds, and what becomes of the total."""


def draw_full_reduction(draw: Draw, family: str) -> Spec:
    """Draw a reduction of all elements to one number."""
    rank = draw.choice((1, 2, 2, 3, 4))
    producer = draw.choice(tuple(_TOTALS))
    return Spec(producer=producer, sizes=draw_total_sizes(draw, rank))


def draw_frobenius_norm(draw: Draw, family: str) -> Spec:
    """Draw division of a tensor by its Frobenius norm."""
    rank = draw.choice((2, 2, 3, 4))
    return Spec(
        producer="normalise",
        sizes=draw_total_sizes(draw, rank),
        dtypes=draw_dtypes(draw),
    )


def write_total(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a total, or for division by the Frobenius norm."""
    names = draw_names(draw, DIMENSIONS[len(spec.sizes)])
    x, draft = names.x, Draft()
    if spec.producer == "normalise":
        draft.take(x, f"torch.randn({names.shape})")
        norm = draw.choice((f"torch.norm({x})", f'torch.norm({x}, p="fro")', f"torch.sqrt(torch.sum({x} * {x}))"))
        forward = [f"norm = {norm}", f"return {x} / norm"] if draw.chance(0.5) else [f"return {x} / {norm}"]
        text = "Division of a tensor by its Frobenius norm."
    else:
        head, expression, _, _ = _TOTALS[spec.producer]
        # a mean over many elements hardly depends on which they are: so inputs differ as a whole from draw to draw
        spread = " + torch.randn(1)" if spec.producer in ("sum", "mean") else " * (0.5 + torch.rand(1))"
        draft.take(x, f"torch.randn({names.shape}){spread}")
        forward = [f"return {expression.format(x=x)}"]
        text = f"{head} of all elements."
    kernel = _kernel(spec, names, draft, draw)
    return finish(spec, task_id, text, draft.reference(forward), kernel, names, draw)


def sum_parts(names: Names, tensors: list[str], value: list[str], item: str, style: str, cast: str) -> list[str]:
    """Write the body of a kernel of partial sums: of a block each, or of blocks that lie `num` programs apart.

    `value` are lines from what was loaded to `item`, which is nothing where the mask is false.
    """
    offsets, size = names.offsets, names.block
    loads = [f"{t} = tl.load({names.ptr(t)} + {offsets}, mask=mask, other=0.0){cast}" for t in tensors]
    if style == "block":
        body = ["pid = tl.program_id(0)", f"{offsets} = pid * {size} + tl.arange(0, {size})", f"mask = {offsets} < n"]
        body += [*loads, *value, f"tl.store({names.ptr('partial')} + pid, tl.sum({item}, axis=0))"]
        return body
    inner = [f"{offsets} = start + tl.arange(0, {size})", f"mask = {offsets} < n", *loads, *value, f"acc += {item}"]
    return [
        "pid = tl.program_id(0)",
        f"acc = tl.zeros(({size},), dtype=tl.float32)",
        f"for start in range(pid * {size}, n, num * {size}):",
        *(f"    {line}" for line in inner),
        f"tl.store({names.ptr('partial')} + pid, tl.sum(acc, axis=0))",
    ]


def part_launch(
    names: Names,
    device_name: str,
    tensors: list[str],
    body: list[str],
    style: str,
    draw: Draw,
    more: Sequence[tuple[str, str]] = (),
) -> tuple[Device, list[str]]:
    """Return the kernel of `num` partial sums, and the host's lines that size and launch it."""
    block = draw.choice((1024, 2048, 4096) if style == "block" else (512, 1024))
    arguments = [(names.ptr(t), f"<{t}>") for t in tensors]
    arguments += [(names.ptr("partial"), "partial"), ("n", "n")] + ([("num", "num")] if style == "strided" else [])
    arguments += more
    device = Device(
        name=device_name, arguments=tuple(arguments), constants=((names.block, str(block)),), body=tuple(body)
    )
    programs = f"triton.cdiv(n, {block})"
    if style == "strided":
        programs = f"min({programs}, {draw.choice((32, 64, 128))})"
    first = f"<{tensors[0]}>"
    host = [
        f"n = {first}.numel()",
        f"num = {programs}",
        f"partial = torch.empty((num,), device={first}.device, dtype=torch.float32)",
        device.launch("(num,)"),
    ]
    return device, host


def _kernel(spec: Spec, names: Names, draft: Draft, draw: Draw) -> Kernel:
    x, cast = names.x, spec.cast
    style = draw.choice(("block", "strided"))
    element = "{x} * {x}" if spec.producer == "normalise" else _TOTALS[spec.producer][2]
    name = draw.choice(("partial_sum", "partial", f"{spec.family}_part")) + names.suffix
    body = sum_parts(names, [x], [], element.format(x=x), style, cast)
    first, host = part_launch(names, name, [x], body, style, draw)
    result = names.out
    if spec.producer != "normalise":
        scale = _TOTALS[spec.producer][3]
        more = [("n", "n")] if "/ n" in scale else []
        second = finish_total(names, scale, more, draw.choice((256, 512, 1024)))
        host.append(f"{result} = torch.empty((), device=<{x}>.device, dtype=<{x}>.dtype)")
        host.append(second.launch("(1,)"))
        return make_kernel([first, second], host, draft.tensors, result, f"total-{style}")
    offsets, size = names.offsets, names.block
    width = draw.choice((1024, 2048))
    second = Device(
        name=draw.choice(("normalize", "scale", "divide")) + names.suffix,
        arguments=(
            (names.ptr(x), f"<{x}>"),
            (names.ptr("partial"), "partial"),
            (names.ptr(result), result),
            ("n", "n"),
            ("num", "num"),
        ),
        constants=((size, str(width)), ("PARTS", "triton.next_power_of_2(num)")),
        body=(
            "part = tl.arange(0, PARTS)",
            f"total = tl.sum(tl.load({names.ptr('partial')} + part, mask=part < num, other=0.0), axis=0)",
            f"{offsets} = tl.program_id(0) * {size} + tl.arange(0, {size})",
            f"mask = {offsets} < n",
            f"{x} = tl.load({names.ptr(x)} + {offsets}, mask=mask){cast}",
            f"tl.store({names.ptr(result)} + {offsets}, {x} / tl.sqrt(total), mask=mask)",
        ),
    )
    host += [f"{result} = torch.empty_like(<{x}>)", second.launch(f"(triton.cdiv(n, {width}),)")]
    return make_kernel([first, second], host, draft.tensors, result, f"total-{style}")
