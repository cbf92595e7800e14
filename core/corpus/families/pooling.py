"""Maximum and average pooling over one to three sides, alone and with a chain.

An average divides by the window's width or, where padding does not count, by the elements that it found. Maxima of
random values are nearly all positive, so that a chain's input is shifted: a ReLU after them must show.
"""

from __future__ import annotations

from ...task import Example
from ..builder.convolution_kernels import Spots, drop_unused
from ..builder.convolution_words import CHANNEL_NAMES
from ..builder.drafts import ChainNames, Device, Draft, describe, forward_lines, kernel_lines, make_kernel, name_chain
from ..builder.draw import Draw
from ..builder.operations import MATRIX_STEPS, Applied, Operand, draw_chain
from ..builder.spec import Spec, draw_dtypes
from ..builder.window_code import WindowCode, draw_code
from ..builder.windows import (
    Window,
    draw_batch,
    draw_channels,
    draw_pooling_window,
    draw_rank,
    draw_sides,
    literal,
    read_window,
)
from ..builder.wording import Kernel, Names, draw_names, finish

_MOST_ELEMENTS = 2_000_000


def draw_pooling(draw: Draw, family: str) -> Spec:
    """Draw pooling by the family's kind, or any with a chain."""
    kind, chain = family, tuple[Applied, ...]()
    if family in ("pooling_chain", "pooling_step"):
        kind = draw.choice(("max_pool", "max_pool", "avg_pool"))
        chain = draw_chain(draw, MATRIX_STEPS, 1)
    rank = draw_rank(draw)
    window = draw_pooling_window(draw, rank, (1, 1, 1, 2) if kind == "max_pool" and draw.chance(0.3) else ())
    batch, channels = draw_batch(draw), draw_channels(draw, 4, {1: 256, 2: 128, 3: 32}[rank], few=2)
    sides = draw_sides(draw, window, _MOST_ELEMENTS / batch.declared / channels.declared / 2)
    counts_padding = kind == "max_pool" or not any(window.padding) or draw.chance(0.6)
    return Spec(
        producer=f"{kind}{rank}d",
        sizes=(batch, channels, *sides),
        chain=chain,
        dtypes=draw_dtypes(draw),
        options=(*window.options, ("counts_padding", int(counts_padding))),
    )


def write_pooling(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for pooling, with what follows it."""
    window, is_max = read_window(spec), spec.producer.startswith("max")
    names = draw_names(draw, CHANNEL_NAMES[True, window.rank])
    chain, draft, x, rank = name_chain(spec.chain, draw), Draft(), names.x, window.rank
    sides = names.dimensions[2:]
    lead = ", ".join(names.dimensions[:2])
    draft.take(x, f"torch.randn({names.shape})" + (_tail(window, is_max) if spec.chain else ""))
    keywords = [] if window.stride == window.kernel else [("stride", literal(window.stride))]
    keywords += [(name, value) for name, value in window.keywords() if name in ("padding", "dilation")]
    if not spec.option("counts_padding"):
        keywords.append(("count_include_pad", "False"))
    head = _head(window, is_max, bool(spec.option("counts_padding")))
    expression = _write_module(window, is_max, keywords, draft, draw, x)
    shape = ", ".join((lead, *(window.length(side, name) for side, name in enumerate(sides))))
    features = draw.choice(("channels", "num_channels"))
    draft.take_chain(chain, shape, f"{features}{', 1' * rank}", (features, names.dimensions[1]))
    reference = draft.reference(forward_lines(expression, spec.chain, x, chain))
    kernel = _write_kernel(spec, window, is_max, names, draft, chain, draw)
    return finish(spec, task_id, describe(head, spec.chain, chain), reference, kernel, names, draw)


def _tail(window: Window, is_max: bool) -> str:
    """Return the input's shift or scale that gives results of both signs and about unit scale."""
    if is_max:
        return (
            " - 0.5" if window.taps < 4 else " - 1.0" if window.taps < 7 else " - 1.5" if window.taps < 13 else " - 2.0"
        )
    return " * 2" if window.taps < 13 else " * 4"


def _head(window: Window, is_max: bool, counts_padding: bool) -> str:
    text = f"{window.rank}-D {'max' if is_max else 'average'} pooling, {window.text}"
    if max(window.stride) == 1:
        text += ", stride 1"
    if is_max or not any(window.padding):
        return text
    return text + (", padding counts as zeros" if counts_padding else ", padding does not count")


def _write_module(
    window: Window, is_max: bool, keywords: list[tuple[str, str]], draft: Draft, draw: Draw, x: str
) -> str:
    """Write the pooling into the draft; its expression."""
    rank, width = window.rank, literal(window.kernel)
    options = "".join(f", {name}={value}" for name, value in keywords)
    if draw.chance(0.25):
        return f"F.{'max' if is_max else 'avg'}_pool{rank}d({x}, {width}{options})"
    if draw.chance(0.35):
        draft.parameters.append(("kernel_size", width))
        width, options = "kernel_size", ""
        for name, value in keywords:
            if name in ("stride", "padding"):
                draft.parameters.append((name, value))
                value = name
            options += f", {name}={value}"
    attribute = draw.choice(("pool", "pool", "maxpool" if is_max else "avgpool"))
    draft.init.append(f"self.{attribute} = nn.{'Max' if is_max else 'Avg'}Pool{rank}d({width}{options})")
    return f"self.{attribute}({x})"


def _write_kernel(
    spec: Spec, window: Window, is_max: bool, names: Names, draft: Draft, chain: ChainNames, draw: Draw
) -> Kernel:
    code = draw_code(draw, window)
    is_flat = window.taps > 9 or draw.chance(0.5)
    x, offsets, value = names.x, names.offsets, draw.choice(("acc", "acc", names.value))
    result = names.beside(x).out
    total, place = draw.choice(("total", "num", "numel")), draw.choice(("p", "p", "q", "spot"))
    if window.rank == 1:
        place = code.place(0)
    spots = Spots(code=code, is_flat=is_flat, offsets=offsets, block=names.block, place=place, total=total)

    def load(operand: str, kind: Operand) -> str:
        if kind is Operand.VECTOR:
            return f"tl.load({names.ptr(operand)} + c{', mask=mask' if is_flat else ''}){spec.cast}"
        return f"tl.load({names.ptr(operand)} + {offsets}, mask=mask){spec.cast}"

    lines = [
        *spots.begin(),
        *(["c = row % C"] if chain.vectors else []),
        *_sum(spec, code, names, value, is_max, draw),
        *spots.locate(),
        *kernel_lines(spec.chain, value, chain, draw, load),
        f"tl.store({names.ptr(result)} + {offsets}, {value}, mask=mask)",
    ]
    block = spots.draw_block(draw)
    grid, sizes = spots.spread("N * C", block)
    sizes += [(name, name) for name in ("C", *code.axes, *code.outs)]
    base = f"{'max' if is_max else 'avg'}_pool"
    base = draw.choice((base, f"{base}{window.rank}d", f"fused_{base}" if spec.chain else "pool"))
    device = Device(
        name=base + names.suffix,
        arguments=draft.pass_to(names.ptr, result, drop_unused(sizes, lines)),
        constants=(*code.constants, (names.block, str(block))),
        body=tuple(lines),
    )
    lengths = ", ".join(window.length(side, axis) for side, axis in enumerate(code.axes))
    outs = ", ".join(code.outs)
    host = [
        f"N, C, {', '.join(code.axes)} = <{x}>.shape",
        f"{outs} = {lengths}",
        f"{result} = torch.empty((N, C, {outs}), device=<{x}>.device, dtype=<{x}>.dtype)",
        device.launch(grid),
    ]
    style = f"{'flat' if is_flat else 'planes'}{'-named' if code.is_named else ''}"
    return make_kernel([device], host, draft.tensors, result, style)


def _sum(spec: Spec, code: WindowCode, names: Names, value: str, is_max: bool, draw: Draw) -> list[str]:
    """Return the loops over the window's taps, and what an average is divided by."""
    x, size = names.x, names.block
    is_counted = not spec.option("counts_padding")
    mask, other = "inside" if code.is_guarded else "mask", '-float("inf")' if is_max else "0.0"
    body = [f"{x} = tl.load({names.ptr(x)} + {code.address('row')}, mask={mask}, other={other}){spec.cast}"]
    body.append(f"{value} = tl.maximum({value}, {x})" if is_max else f"{value} += {x}")
    start = f"tl.full(({size},), {other}, dtype=tl.float32)" if is_max else f"tl.zeros(({size},), dtype=tl.float32)"
    lines = [f"{value} = {start}"]
    if is_counted:
        lines.append(f"count = tl.zeros(({size},), dtype=tl.float32)")
        body.append("count += tl.where(inside, 1.0, 0.0)")
    head = draw.choice(("range", "range", "tl.static_range")) if code.window.taps <= 9 else "range"
    lines += code.loop_taps(head, "mask" if code.is_guarded else "", body)
    if is_counted:
        lines.append(f"{value} = {value} / tl.maximum(count, 1.0)")
    elif not is_max:
        lines.append(f"{value} = {value} / {code.taps}")
    return lines
