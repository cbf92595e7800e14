"""The reference side of convolutions: the module or function, its arguments, and the names of dimensions."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from .drafts import Draft
from .draw import Draw
from .spec import Spec
from .windows import Window, literal
from .wording import Names

_SIDE_NAMES = {
    1: (("L",), ("LENGTH",), ("length",), ("L",)),
    2: (("H", "W"), ("HEIGHT", "WIDTH"), ("height", "width"), ("H", "W")),
    3: (("D", "H", "W"), ("DEPTH", "HEIGHT", "WIDTH"), ("depth", "height", "width"), ("D", "H", "W")),
}
_LEADS = {
    False: (
        ("N", "C_IN", "C_OUT"),
        ("BATCH", "IN_CHANNELS", "OUT_CHANNELS"),
        ("batch_size", "in_channels", "out_channels"),
        ("B", "CI", "CO"),
    ),
    True: (("N", "C"), ("BATCH", "CHANNELS"), ("batch_size", "channels"), ("B", "C")),
}
CHANNEL_NAMES: dict[tuple[bool, int], tuple[tuple[str, ...], ...]] = {
    (has_one, rank): tuple((*lead, *sides) for lead, sides in zip(_LEADS[has_one], _SIDE_NAMES[rank], strict=True))
    for has_one in (False, True)
    for rank in (1, 2, 3)
}
"""Names of a batch's dimensions; one number of channels where filters are as many."""

BATCH_NORM = (("gamma", "weight"), ("delta", "bias"), ("mean", "running_mean"), ("var", "running_var"))
"""Local names of a batch norm's tensors."""

_TITLES = {
    "conv": "convolution",
    "grouped_conv": "grouped convolution",
    "depthwise_conv": "depthwise convolution",
    "pointwise_conv": "pointwise convolution",
    "separable_conv": "depthwise separable convolution",
    "conv_transpose": "transposed convolution",
}


@frozen(kw_only=True)
class Layer:
    """A convolution as it was written: local names of its tensors, and what a chain needs to know."""

    expression: str
    text: str
    weight: str
    bias: str
    """Nothing where there is none."""
    middle_bias: str = ""
    """The depthwise bias of a separable convolution."""
    filters_name: str
    """The number of filters in `__init__`."""
    features: tuple[tuple[str, str], ...]
    """The arguments of `Model` that give it."""
    result_shape: str


def write_layer(spec: Spec, kind: str, window: Window, names: Names, draft: Draft, draw: Draw) -> Layer:
    """Write the convolution into the draft."""
    rank, x = window.rank, names.x
    groups, multiplier, has_bias = (int(spec.option(name)) for name in ("groups", "multiplier", "bias"))
    is_depthwise = kind == "depthwise_conv"
    batch, channels = names.dimensions[:2]
    filters = names.dimensions[1 if is_depthwise else 2]
    sides = names.dimensions[-rank:]
    draft.take(x, f"torch.randn({', '.join((batch, channels, *sides))})")
    found = f"{multiplier} * {filters}" if multiplier > 1 else filters
    shape = ", ".join((batch, found, *(window.length(side, name) for side, name in enumerate(sides))))
    text = f"{rank}-D {_TITLES[kind]}, " + (window.text if kind != "pointwise_conv" else "kernel 1")
    text += f", {groups} groups" if groups > 1 else ""
    text += f", {multiplier} filters a channel" if multiplier > 1 else ""
    text += "" if has_bias else ", no bias"
    weight, bias = draw.choice(("weight", "weight", "w")), "beta" if has_bias else ""
    if spec.option("given"):
        return _write_function(kind, window, names, draft, draw, (weight, bias, found, groups), (text, shape))
    in_name, out_name = draw.choice((("in_channels", "out_channels"), ("c_in", "c_out")))
    if is_depthwise:
        in_name = out_name = draw.choice(("channels", "dim"))
    features = [(in_name, channels)] if is_depthwise else [(in_name, channels), (out_name, filters)]
    draft.parameters += features
    found_name = f"{multiplier} * {out_name}" if multiplier > 1 else out_name
    options = "1" if kind == "pointwise_conv" else _write_options(window, draft, draw)
    no_bias = "" if has_bias else ", bias=False"
    attribute = draw.choice(("conv", "conv", "layer" if kind != "conv_transpose" else "deconv"))
    middle_bias = ""
    if kind == "separable_conv":
        attribute, second = draw.choice((("depthwise", "pointwise"), ("dw", "pw")))
        draft.init += [
            f"self.{attribute} = nn.Conv{rank}d({in_name}, {in_name}, {options}, groups={in_name}{no_bias})",
            f"self.{second} = nn.Conv{rank}d({in_name}, {out_name}, 1{no_bias})",
        ]
        expression = f"self.{second}(self.{attribute}({x}))"
        weight, tensors = "pw", [("dw", f"{attribute}.weight"), ("pw", f"{second}.weight")]
        if has_bias:
            bias, middle_bias = "pw_beta", "dw_beta"
            tensors += [("dw_beta", f"{attribute}.bias"), ("pw_beta", f"{second}.bias")]
    else:
        grouped = f", groups={in_name}" if is_depthwise else f", groups={groups}" if groups > 1 else ""
        module = f"nn.ConvTranspose{rank}d" if kind == "conv_transpose" else f"nn.Conv{rank}d"
        draft.init.append(f"self.{attribute} = {module}({in_name}, {found_name}, {options}{grouped}{no_bias})")
        expression = f"self.{attribute}({x})"
        tensors = [(weight, f"{attribute}.weight")] + ([(bias, f"{attribute}.bias")] if has_bias else [])
    for local, name in tensors:
        draft.hold(local, name)
    return Layer(
        expression=expression,
        text=text,
        weight=weight,
        bias=bias,
        middle_bias=middle_bias,
        filters_name=found_name,
        features=tuple(features),
        result_shape=shape,
    )


def _write_options(window: Window, draft: Draft, draw: Draw) -> str:
    """Write the window as a module's arguments, some of them arguments of `Model` at times."""
    width, passed = literal(window.kernel), window.keywords()
    if draw.chance(0.3):
        draft.parameters.append(("kernel_size", width))
        width = "kernel_size"
        named = [(name, value) for name, value in passed if name in ("stride", "padding")]
        draft.parameters += named
        passed = [(name, name if (name, value) in named else value) for name, value in passed]
    return width + "".join(f", {name}={value}" for name, value in passed)


def _write_function(
    kind: str,
    window: Window,
    names: Names,
    draft: Draft,
    draw: Draw,
    parts: tuple[str, str, str, int],
    described: tuple[str, str],
) -> Layer:
    """Write the convolution as a function, its weights further inputs."""
    weight, bias, found, groups = parts
    channels = names.dimensions[1]
    is_depthwise, is_transposed = kind == "depthwise_conv", kind == "conv_transpose"
    few = f"{channels} // {groups}" if groups > 1 else channels
    many = f"{found} // {groups}" if groups > 1 else found
    lead = f"{found}, 1" if is_depthwise else f"{channels}, {many}" if is_transposed else f"{found}, {few}"
    taps = ", ".join(map(str, window.kernel))
    fan = str(window.taps) if is_depthwise else f"({few} * {window.taps})" if window.taps > 1 or " " in few else few
    draft.take(weight, f"torch.randn({lead}, {taps}) / {fan} ** 0.5")
    passed = [names.x, weight]
    if bias:
        bias = draw.choice(("bias", "b"))
        draft.take(bias, f"torch.randn({found})")
        passed.append(f"bias={bias}" if is_transposed or draw.chance(0.4) else bias)
    passed += [f"{name}={value}" for name, value in window.keywords()]
    if groups > 1 or is_depthwise:
        passed.append(f"groups={groups}" if groups > 1 else f"groups={names.x}.shape[1]")
    function = f"F.conv_transpose{window.rank}d" if is_transposed else f"F.conv{window.rank}d"
    return Layer(
        expression=f"{function}({', '.join(passed)})",
        text=f"{described[0]}; weights are given",
        weight=weight,
        bias=bias,
        filters_name="",
        features=(),
        result_shape=described[1],
    )


def norm_lines(acc: str, eps: str, style: str, load: Callable[[str], str]) -> list[str]:
    """Write a batch norm with running statistics on the accumulator, folded into one multiplication or as defined."""
    if style == "folded":
        return [
            f"factor = {load('gamma')} / tl.sqrt({load('var')} + {eps})",
            f"{acc} = {acc} * factor + ({load('delta')} - {load('mean')} * factor)",
        ]
    return [
        f"{acc} = ({acc} - {load('mean')}) / tl.sqrt({load('var')} + {eps})",
        f"{acc} = {acc} * {load('gamma')} + {load('delta')}",
    ]
