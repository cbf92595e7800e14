"""Convolutions of one to three sides: standard, grouped, depthwise, pointwise, separable and transposed; with a chain.

One renderer for all of them: the window, the channels and the groups decide the module, and the kernel is chosen as a
good engineer would: an implicit matrix product where channels are many, direct sums where a filter sees few of them.
A batch norm that only applies its running statistics, and every step of a chain, lives in the convolution's kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import evolve

from ...task import Example
from ..builder.convolution_kernels import (
    Epilogue,
    KernelParts,
    Wording,
    direct_kernel,
    pointwise_kernel,
    product_kernel,
    separable_kernel,
)
from ..builder.convolution_words import BATCH_NORM, CHANNEL_NAMES, Layer, norm_lines, write_layer
from ..builder.drafts import Device, Draft, describe, kernel_lines, make_kernel, name_chain, reference_lines
from ..builder.draw import Draw
from ..builder.operations import ACTIVATIONS, MATRIX_STEPS, RELU, Applied, Operand, apply, draw_chain, is_bounded
from ..builder.spec import Size, Spec, draw_dtypes
from ..builder.tails import TAILS, Tail, write_tail
from ..builder.window_code import WindowCode, draw_code
from ..builder.windows import (
    Window,
    draw_batch,
    draw_channels,
    draw_rank,
    draw_sides,
    draw_window,
    read_window,
    square_window,
)
from ..builder.wording import Kernel, Names, draw_names, finish

_MOST_OPERATIONS = 4e9
_MOST_ELEMENTS = 2_000_000
_MOST_DEPTHWISE = 500_000
"""PyTorch takes long over each group in float64."""
_MOST_BEFORE_TAIL = 200_000
_FEW_CHANNELS = 4
"""Of a filter: sums are direct up to so many."""


def draw_convolution(draw: Draw, family: str) -> Spec:
    """Draw one convolution of the family's kind."""
    kind = {"transposed_conv": "conv_transpose"}.get(family, family)
    return _draw(draw, kind, draw_rank(draw), ())


def draw_convolution_chain(draw: Draw, family: str) -> Spec:
    """Draw a convolution, mostly a standard one, then a chain."""
    kind = draw.choice(("conv",) * 6 + ("depthwise_conv", "pointwise_conv", "grouped_conv", "separable_conv"))
    return _draw(draw, kind, draw_rank(draw), draw_chain(draw, MATRIX_STEPS, 1))


def draw_transposed_chain(draw: Draw, family: str) -> Spec:
    """Draw a transposed convolution, then a chain."""
    return _draw(draw, "conv_transpose", draw_rank(draw), draw_chain(draw, MATRIX_STEPS, 1))


def draw_norm_activation(draw: Draw, family: str) -> Spec:
    """Draw a convolution, a batch norm in evaluation mode, then an activation or a chain."""
    kind = draw.choice(("conv",) * 4 + ("depthwise_conv", "pointwise_conv"))
    rank = draw_rank(draw)
    chain: tuple[Applied, ...]
    if draw.chance(0.5):
        chain = (apply(RELU if draw.chance(0.5) else draw.choice(ACTIVATIONS), draw),)
    else:
        chain = draw_chain(draw, MATRIX_STEPS, 1)
    spec = _draw(draw, kind, rank, chain)
    norm = (("norm", draw.choice((1e-5, 1e-5, 1e-5, 1e-3))),)
    return evolve(spec, producer=f"{spec.producer}_norm", options=(*spec.options, *norm))


def draw_two_stages(draw: Draw, family: str) -> Spec:
    """Draw a convolution with one or two steps after it, then what reads several of its results."""
    kind = draw.choice(("conv",) * 4 + ("conv_transpose", "pointwise_conv"))
    chain = draw_chain(draw, MATRIX_STEPS, 1)[: draw.between(1, 2)]
    spec = _draw(draw, kind, draw_rank(draw), chain, _MOST_BEFORE_TAIL)
    # of values with a bound, the least one over many channels is that bound everywhere
    tail = draw.choice([tail for tail in TAILS if not (is_bounded(chain) and tail == "channel_min")])
    return evolve(spec, producer=f"{spec.producer}_{tail}", options=(*spec.options, ("tail", tail)))


def _draw(draw: Draw, kind: str, rank: int, chain: tuple[Applied, ...], most: int = 0) -> Spec:
    is_direct = kind in ("depthwise_conv", "grouped_conv", "separable_conv")
    window = draw_window(draw, rank, kind == "conv_transpose", is_direct)
    if kind == "pointwise_conv":
        window = square_window(rank, 1)
    groups = multiplier = 1
    if kind == "grouped_conv" or (kind == "conv_transpose" and not chain and draw.chance(0.2)):
        groups = draw.choice((2, 2, 3, 4, 4, 8))
    widest = {1: 256, 2: 128, 3: 48}[rank]
    if kind == "depthwise_conv":
        multiplier = draw.choice((1, 1, 1, 1, 2, 3))
        channels = draw_channels(draw, 8, 2 * widest, few=2)
        filters = None
        work = 2.0 * window.taps * channels.declared * multiplier
        wide = channels.declared * multiplier
    else:
        # so that the inner index of a product stays below a thousand or so
        few = widest
        if kind not in ("pointwise_conv", "separable_conv"):
            few = max(8 * groups, min(widest, 1000 * groups // window.taps))
        if kind == "grouped_conv" and draw.chance(0.5):
            few = min(few, 4 * groups)
        channels = draw_channels(draw, 3, few, groups) if draw.chance(0.8) or groups > 1 else _color_channels(draw)
        filters = draw_channels(draw, 8, widest, groups, few=4)
        taps = window.taps if kind != "separable_conv" else 1
        work = 2.0 * taps * channels.declared * filters.declared / groups
        wide = max(channels.declared, filters.declared)
    batch = draw_batch(draw)
    # the operations and elements that a batch may have, as places of the result
    elements = _MOST_DEPTHWISE if kind in ("depthwise_conv", "separable_conv") else most or _MOST_ELEMENTS
    places = min(_MOST_OPERATIONS / work, elements / wide) / batch.declared
    sides = draw_sides(draw, window, max(1.0, places))
    return Spec(
        producer=f"{kind}{rank}d",
        sizes=(batch, channels, *(() if filters is None else (filters,)), *sides),
        chain=chain,
        dtypes=draw_dtypes(draw) if kind == "depthwise_conv" else ("float32",),
        options=(
            *window.options,
            ("groups", groups),
            ("multiplier", multiplier),
            ("bias", int(draw.chance(0.6))),
            ("given", int(not chain and kind != "separable_conv" and draw.chance(0.15))),
        ),
    )


def _color_channels(draw: Draw) -> Size:
    return Size(declared=draw.choice((2, 3, 3, 4)), tiny=2, small=3, larger=draw.choice((4, 5)))


_KIND = re.compile(r"(\w+?)[123]d")


def _kind(spec: Spec) -> str:
    return _KIND.match(spec.producer)[1]  # type: ignore[index]


def write_convolution(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a convolution, with what follows it."""
    kind, window = _kind(spec), read_window(spec)
    names = draw_names(draw, CHANNEL_NAMES[kind == "depthwise_conv", window.rank])
    chain = name_chain(spec.chain, draw)
    draft = Draft()
    x = names.x
    layer = write_layer(spec, kind, window, names, draft, draw)
    head, forward = layer.text, [f"{x} = {layer.expression}"]
    eps = spec.option("norm")
    if eps:
        attribute = draw.choice(("bn", "bn", "norm"))
        shown = "" if eps == 1e-5 else f", eps={eps!r}"
        draft.init.append(f"self.{attribute} = nn.BatchNorm{window.rank}d({layer.filters_name}{shown}).eval()")
        for local, name in BATCH_NORM:
            draft.hold(local, f"{attribute}.{name}")
        forward.append(f"{x} = self.{attribute}({x})")
        head += f", then batch norm with its running statistics, eps {eps!r}"
    ones = ", 1" * window.rank
    if spec.chain:
        draft.take_chain(chain, layer.result_shape, f"{layer.filters_name}{ones}", layer.features[-1])
    forward += reference_lines(spec.chain, x, chain)
    if spec.option("tail", ""):
        forward.append(f"{x} = <tail>")
    forward.append(f"return {x}")
    is_one_line = not spec.chain and not eps
    style = draw.choice(("folded", "plain"))

    def follow(acc: str, load: Callable[[str, Operand], str]) -> list[str]:
        lines = [f"{acc} += {load(layer.bias, Operand.VECTOR)}"] if layer.bias else []
        if eps:
            lines += norm_lines(acc, repr(eps), style, lambda name: load(name, Operand.VECTOR))
        return lines + kernel_lines(spec.chain, acc, chain, draw, load)

    kernel, last = _write_kernel(spec, window, names, draft, layer, follow, chain.argument, draw)
    text = describe(head, spec.chain, chain)
    if last is not None:
        forward = [line.replace("<tail>", last.expression) for line in forward]
        text = f"{text[:-1]}, then {last.text}."
    reference = draft.reference([f"return {layer.expression}"] if is_one_line else forward)
    return finish(spec, task_id, text, reference, kernel, names, draw)


def _write_kernel(
    spec: Spec,
    window: Window,
    names: Names,
    draft: Draft,
    layer: Layer,
    follow: Epilogue,
    argument: str,
    draw: Draw,
) -> tuple[Kernel, Tail | None]:
    """Write the kernels, and the last of them where a step reads several of the convolution's results."""
    kind = _kind(spec)
    code = draw_code(draw, window)
    x, result = names.x, names.beside(names.x).out
    has_own_filters = kind != "depthwise_conv" or int(spec.option("multiplier")) > 1
    filters = draw.choice(("F", "F", "OC", "CO")) if has_own_filters else "C"
    words = Wording(
        x=x,
        x_pointer=names.ptr(x),
        weight=layer.weight,
        weight_pointer=names.ptr(layer.weight),
        out_pointer=names.ptr(result),
        filters=filters,
        acc=draw.choice(("acc", "acc", "acc", names.value)),
        offsets=names.offsets,
        block=names.block,
        cast=spec.cast,
        pointer=names.ptr,
    )
    base = {"conv": "conv", "depthwise_conv": "depthwise", "conv_transpose": "deconv"}.get(kind, kind)
    base = draw.choice((f"{base}{window.rank}d", base, "conv"))
    base = (draw.choice((f"fused_{base}", base, "fused")) if spec.level == 2 else base) + names.suffix
    outs = code.axes if kind == "pointwise_conv" else code.outs
    host = _host_lengths(spec, code, layer, x, filters if has_own_filters else "")
    allocate = f"torch.empty(({{}}), device=<{x}>.device, dtype=<{x}>.dtype)"
    middle = allocate.format(", ".join(("N", "{}", *outs)))
    tail = None
    if name := str(spec.option("tail", "")):
        tail = write_tail(name, x, outs, filters, names, result, draw)
        host += [*tail.host, f"mid = {middle.format(filters)}"]
        words = evolve(words, out_pointer=names.ptr("mid"))
    shape = ("N", filters, *outs) if tail is None else tail.shape
    host.append(f"{result} = {allocate.format(', '.join(shape))}")
    read = [name for name, _ in draft.tensors if name not in (x, layer.weight, argument)]
    devices: list[tuple[Device, KernelParts]] = []
    first = x
    if kind == "separable_conv" and not draw.chance(0.75):
        devices.append(_depthwise_device(code, words, layer, names, draw))
        host.append(f"mid = {middle.format('C')}")
        read = [name for name in read if name not in ("dw", "dw_beta")]
        words, first, base = evolve(words, x="mid", x_pointer=names.ptr("mid")), "mid", f"pointwise{names.suffix}"
        kind = "pointwise_conv"
    elif kind == "separable_conv":
        read = ["dw", *(name for name in read if name != "dw")]
    parts = _write_parts(spec, kind, code, words, layer, follow, draw)
    written = result if tail is None else "mid"
    devices.append((_device(base, (first, layer.weight, written, *read), names, parts, argument), parts))
    kernels, styles = [device for device, _ in devices], [parts.style for _, parts in devices]
    host += [device.launch(parts.grid) for device, parts in devices]
    if tail is not None:
        kernels.append(tail.device)
        host.append(tail.device.launch(tail.grid))
    if code.is_named and _kind(spec) != "pointwise_conv":
        styles.append("named")
    return make_kernel(kernels, host, draft.tensors, result, "-".join(styles)), tail


def _host_lengths(spec: Spec, code: WindowCode, layer: Layer, x: str, filters: str) -> list[str]:
    """Write the host's lines for all lengths; `filters` is empty where they are as many as channels."""
    kind, groups = _kind(spec), int(spec.option("groups"))
    lines = [f"N, C, {', '.join(code.axes)} = <{x}>.shape"]
    if filters:
        is_second = kind == "conv_transpose"
        count = f"<{layer.weight}>.shape[{int(is_second)}]"
        lines.append(f"{filters} = {f'{groups} * {count}' if is_second and groups > 1 else count}")
    if kind != "pointwise_conv":
        lengths = (code.window.length(side, axis) for side, axis in enumerate(code.axes))
        lines.append(f"{', '.join(code.outs)} = {', '.join(lengths)}")
    return lines


def _depthwise_device(
    code: WindowCode, words: Wording, layer: Layer, names: Names, draw: Draw
) -> tuple[Device, KernelParts]:
    """Write the first kernel of a separable convolution in two, which stores its result in `mid`."""
    pointer = names.ptr
    inner = evolve(words, weight="dw", weight_pointer=pointer("dw"), out_pointer=pointer("mid"), filters="C", acc="acc")

    def add_bias(acc: str, load: Callable[[str, Operand], str]) -> list[str]:
        return [f"{acc} += {load(layer.middle_bias, Operand.VECTOR)}"] if layer.middle_bias else []

    parts = direct_kernel(code, inner, 0, 1, add_bias, draw)
    bias = [layer.middle_bias] if layer.middle_bias else []
    return _device("depthwise" + names.suffix, (words.x, "dw", "mid", *bias), names, parts), parts


def _write_parts(
    spec: Spec, kind: str, code: WindowCode, words: Wording, layer: Layer, follow: Epilogue, draw: Draw
) -> KernelParts:
    """Choose the kernel by kind and by how many channels a filter sees."""
    groups, channels = int(spec.option("groups")), spec.sizes[1].declared
    match kind:
        case "pointwise_conv":
            outs = code.axes if _kind(spec) == kind else code.outs
            return pointwise_kernel(words, " * ".join(outs), channels, follow, draw)
        case "separable_conv":
            depthwise = evolve(words, weight="dw", weight_pointer=words.pointer("dw"))
            bias = layer.middle_bias and words.pointer(layer.middle_bias)
            pointers = (layer.weight, words.pointer(layer.weight), bias)
            return separable_kernel(code, depthwise, pointers, channels, follow, draw)
        case "depthwise_conv":
            return direct_kernel(code, words, 0, int(spec.option("multiplier")), follow, draw)
        case _ if groups > 1 and kind != "conv_transpose" and channels // groups <= _FEW_CHANNELS:
            return direct_kernel(code, words, groups, 1, follow, draw)
        case _:
            return product_kernel(code, words, groups, channels // groups, follow, draw)


def _device(name: str, tensors: tuple[str, ...], names: Names, parts: KernelParts, argument: str = "") -> Device:
    """Return a kernel with its name; `mid` and the result are the launching function's own."""
    read = {names.out, "out", "mid"}
    arguments = [(names.ptr(tensor), tensor if tensor in read else f"<{tensor}>") for tensor in tensors]
    arguments += parts.sizes
    if argument:
        arguments.append((argument, f"<{argument}>"))
    return Device(name=name, arguments=tuple(arguments), constants=tuple(parts.constants), body=tuple(parts.lines))
