"""Functions with one value a channel: batch norm with running statistics or the batch's own, PReLU; with a chain.

With running statistics the function is pointwise, and its kernels find the channel of each element. The batch's own
statistics make a row of what one channel has in all samples, in as many pieces; `track_running_stats=False` leaves
nothing behind that a launch would have to update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from attrs import frozen

from ...task import Example
from ..builder.drafts import ChainNames, Device, Draft, describe, forward_lines, kernel_lines, make_kernel, name_chain
from ..builder.draw import Draw
from ..builder.operations import MATRIX_STEPS, Operand, draw_chain
from ..builder.row_bodies import RowBody, write_body
from ..builder.spec import DIMENSIONS, Spec, draw_dtypes, draw_image_sizes
from ..builder.wording import Kernel, Names, draw_names, finish

_EPSILONS = (1e-5, 1e-5, 1e-4, 1e-3)
_SLOPES = (0.1, 0.2, 0.25, 0.25, 0.3)
_MAX_WHOLE = 16384
_SUFFIX = {2: "1d", 3: "1d", 4: "2d", 5: "3d"}


def draw_batch_norm(draw: Draw, family: str) -> Spec:
    """Draw batch norm with running statistics, or with the batch's own; with a chain or not."""
    is_chain = family == "batch_norm_chain"
    producer = draw.choice(("running", "running", "batch"))
    rank = draw.choice((4, 4, 4, 2, 3, 5))
    return Spec(
        producer=producer,
        sizes=draw_image_sizes(draw, rank),
        # on minute inputs eps is larger than the batch's variance, and the result is as small as a product's
        chain=draw_chain(draw, MATRIX_STEPS, 2 if producer == "batch" else 1) if is_chain else (),
        dtypes=draw_dtypes(draw),
        options=(("eps", draw.choice(_EPSILONS)), ("affine", int(draw.chance(0.8)))),
    )


def draw_prelu(draw: Draw, family: str) -> Spec:
    """Draw a rectifier with a learned slope a channel, or one for all."""
    rank = draw.choice((4, 4, 2, 3, 5))
    return Spec(
        producer="prelu",
        sizes=draw_image_sizes(draw, rank),
        dtypes=draw_dtypes(draw),
        options=(("shared", int(draw.chance(0.25))), ("slope", draw.choice(_SLOPES))),
    )


def write_batch_norm(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a function with one value a channel."""
    rank = len(spec.sizes)
    names = draw_names(draw, DIMENSIONS[rank])
    chain = name_chain(spec.chain, draw)
    x, draft = names.x, Draft()
    draft.take(x, f"torch.randn({names.shape})" + (" * 2 + 1" if spec.producer != "prelu" else ""))
    if spec.producer == "prelu":
        expression, head, features = _write_prelu(spec, names, draw, draft)
    else:
        expression, head, features = _write_norm(spec, names, draw, draft)
    ones = ", 1" * (rank - 2)
    draft.take_chain(chain, names.shape, f"{features}{ones}", (features, names.dimensions[1]))
    reference = draft.reference(forward_lines(expression, spec.chain, x, chain))
    kernel = (_statistics_kernel if spec.producer == "batch" else _pointwise_kernel)(spec, names, chain, draft, draw)
    return finish(spec, task_id, describe(head, spec.chain, chain), reference, kernel, names, draw)


def _write_prelu(spec: Spec, names: Names, draw: Draw, draft: Draft) -> tuple[str, str, str]:
    slope = spec.option("slope")
    attribute = draw.choice(("prelu", "act", "activation"))
    draft.hold("weight", f"{attribute}.weight")
    if spec.option("shared"):
        draft.init.append(f"self.{attribute} = nn.PReLU(init={slope!r})")
        return f"self.{attribute}({names.x})", "PReLU with one slope", ""
    features = draw.choice(("channels", "num_parameters", "features"))
    draft.parameters.append((features, names.dimensions[1]))
    draft.init.append(f"self.{attribute} = nn.PReLU({features}, init={slope!r})")
    return f"self.{attribute}({names.x})", "PReLU with a slope for each channel (dimension 1)", features


def _write_norm(spec: Spec, names: Names, draw: Draw, draft: Draft) -> tuple[str, str, str]:
    """Write the norm's expression, its description, and the name that the number of channels has in `__init__`."""
    x, eps, affine = names.x, repr(spec.option("eps")), bool(spec.option("affine"))
    is_running = spec.producer == "running"
    features = draw.choice(("channels", "num_features", "features"))
    what = "running statistics" if is_running else "the batch's own statistics"
    head = f"Batch norm with {what}, eps {eps}" + ("" if affine else ", no weights")
    attribute = draw.choice(("bn", "bn", "norm"))
    is_module = draw.chance(0.75)
    if is_module or affine or is_running:  # a function of the batch alone has nothing to size
        draft.parameters.append((features, names.dimensions[1]))
    if is_module:
        more = ("" if affine else ", affine=False") + ("" if is_running else ", track_running_stats=False")
        draft.init.append(f"self.{attribute} = nn.BatchNorm{_SUFFIX[len(spec.sizes)]}({features}, eps={eps}{more})")
        if is_running:
            draft.init.append(f"self.{attribute}.eval()")
        _hold(draft, f"{attribute}.", is_running, affine)
        return f"self.{attribute}({x})", head, features
    if affine:
        draft.init.append(f"self.weight = nn.Parameter(torch.ones({features}))")
        draft.init.append(f"self.bias = nn.Parameter(torch.zeros({features}))")
    if is_running:
        draft.init.append(f'self.register_buffer("running_mean", torch.zeros({features}))')
        draft.init.append(f'self.register_buffer("running_var", torch.ones({features}))')
    _hold(draft, "", is_running, affine)
    statistics = "self.running_mean, self.running_var" if is_running else "None, None"
    weights = ", self.weight, self.bias" if affine else ""
    training = "" if is_running else ", training=True"
    return f"F.batch_norm({x}, {statistics}{weights}{training}, eps={eps})", head, features


def _hold(draft: Draft, prefix: str, is_running: bool, affine: bool) -> None:
    if affine:
        draft.hold("weight", f"{prefix}weight")
        draft.hold("beta", f"{prefix}bias")
    if is_running:
        draft.hold("mean", f"{prefix}running_mean")
        draft.hold("var", f"{prefix}running_var")


def _pointwise_kernel(spec: Spec, names: Names, chain: ChainNames, draft: Draft, draw: Draw) -> Kernel:
    """Write a kernel that reduces nothing: planes of a channel, or a flat range of elements."""
    x, size = names.x, names.block
    result = names.beside(x).out
    plane = draw.choice(("plane", "hw", "spatial"))
    has_sides = len(spec.sizes) > 2
    style = draw.choice(("plane", "plane", "flat")) if has_sides else draw.choice(("flat", "row"))
    body, sizes, channel = _find_channels(spec, names, style, plane)
    body += _pointwise_lines(spec, names, chain, channel, style, draw)
    base = "prelu" if spec.producer == "prelu" else draw.choice(("batch_norm", "bn"))
    name = ("fused_" + base if spec.chain and draw.chance(0.5) else base) + names.suffix
    block = str(draw.choice((256, 512, 1024) if style == "flat" else (128, 256, 512)))
    arguments = draft.pass_to(names.ptr, result, sizes)
    device = Device(name=name, arguments=arguments, constants=((size, block),), body=tuple(body))
    lengths = {
        "n": f"<{x}>.numel()",
        "channels": f"<{x}>.shape[1]",
        plane: f"<{x}>.numel() // (<{x}>.shape[0] * <{x}>.shape[1])",
    }
    host = [f"{result} = torch.empty_like(<{x}>)"]
    host += [f"{length} = {value}" for length, value in lengths.items() if length in sizes]
    rows = f"<{x}>.shape[0]" + (f" * <{x}>.shape[1]" if has_sides else "")
    grid = {
        "plane": f"({rows}, triton.cdiv({plane}, {block}))",
        "row": f"({rows}, triton.cdiv(channels, {block}))",
        "flat": f"(triton.cdiv(n, {block}),)",
    }[style]
    host.append(device.launch(grid))
    return make_kernel([device], host, draft.tensors, result, style)


def _find_channels(spec: Spec, names: Names, style: str, plane: str) -> tuple[list[str], list[str], str]:
    """Return the lines that find the elements and their channel, the sizes that they take, and the channel."""
    size, offsets, columns = names.block, names.offsets, names.columns
    has_sides, is_shared = len(spec.sizes) > 2, bool(spec.option("shared"))
    span = f"tl.arange(0, {size})"
    channels = [] if is_shared else ["channels"]
    match style:
        case "plane":
            body = ["row = tl.program_id(0)"] + ([] if is_shared else ["channel = row % channels"])
            body += [f"{columns} = tl.program_id(1) * {size} + {span}", f"mask = {columns} < {plane}"]
            return [*body, f"{offsets} = row * {plane} + {columns}"], [*channels, plane], "channel"
        case "row":
            body = ["row = tl.program_id(0)", f"{columns} = tl.program_id(1) * {size} + {span}"]
            body += [f"mask = {columns} < channels", f"{offsets} = row * channels + {columns}"]
            return body, ["channels"], columns
        case _:
            body = [f"{offsets} = tl.program_id(0) * {size} + {span}", f"mask = {offsets} < n"]
            if is_shared:
                return body, ["n"], ""
            body.append(f"channel = {f'{offsets} // {plane}' if has_sides else offsets} % channels")
            return body, ["n", "channels", *([plane] if has_sides else [])], "channel"


def _pointwise_lines(spec: Spec, names: Names, chain: ChainNames, channel: str, style: str, draw: Draw) -> list[str]:
    """Write the loads, the function with its chain, and the store."""
    x, v, offsets = names.x, names.value, names.offsets

    def load_vector(name: str) -> str:
        if spec.option("shared") and name == "weight":
            return f"tl.load({names.ptr(name)}){spec.cast}"
        mask = "" if style == "plane" else ", mask=mask"
        return f"tl.load({names.ptr(name)} + {channel}{mask}){spec.cast}"

    def load(operand: str, kind: Operand) -> str:
        if kind is Operand.VECTOR:
            return load_vector(operand)
        return f"tl.load({names.ptr(operand)} + {offsets}, mask=mask){spec.cast}"

    lines = [f"{x} = {load(x, Operand.TENSOR)}"]
    if spec.producer == "prelu":
        lines.append(f"{v} = tl.where({x} > 0, {x}, {load_vector('weight')} * {x})")
    else:
        lines += _normalise(spec, x, v, load_vector, draw)
    lines += kernel_lines(spec.chain, v, chain, draw, load)
    return [*lines, f"tl.store({names.ptr(names.beside(x).out)} + {offsets}, {v}, mask=mask)"]


def _normalise(spec: Spec, x: str, v: str, load_vector: Callable[[str], str], draw: Draw) -> list[str]:
    """Write a norm of `x` by running statistics: as the formula says, or with scale and shift folded first."""
    eps, affine = repr(spec.option("eps")), bool(spec.option("affine"))
    if draw.chance(0.5):
        lines = [f"{v} = ({x} - {load_vector('mean')}) / tl.sqrt({load_vector('var')} + {eps})"]
        if affine:
            lines.append(f"{v} = {v} * {load_vector('weight')} + {load_vector('beta')}")
        return lines
    top = load_vector("weight") if affine else "1.0"
    start = f"{load_vector('beta')} - " if affine else "-"
    return [
        f"norm_scale = {top} / tl.sqrt({load_vector('var')} + {eps})",
        f"norm_shift = {start}{load_vector('mean')} * norm_scale",
        f"{v} = {x} * norm_scale + norm_shift",
    ]


@frozen(kw_only=True)
class ChannelBody(RowBody):
    """A row body whose row is one channel: a piece in every sample."""

    plane: str

    @property
    def place(self) -> str:
        return self.names.offsets

    @property
    def locate(self) -> str:
        """Write the line that finds the elements of the channel."""
        columns, plane = self.names.columns, self.plane
        if not plane:
            return f"{self.names.offsets} = {columns} * channels + row"
        return f"{self.names.offsets} = ({columns} // {plane} * channels + row) * {plane} + {columns} % {plane}"

    def load_vector(self, pointer: str) -> str:
        """Write a load of the channel's value."""
        return f"tl.load({pointer} + row){self.spec.cast}"

    def whole(self, other: str) -> list[str]:
        """Write lines that load the whole channel."""
        rows = RowBody.whole(self, other)
        return [self.locate if line.startswith(f"{self.names.offsets} =") else line for line in rows]

    def sweep(self, other: str, lines: Sequence[str]) -> list[str]:
        """Write a loop over the channel's blocks."""
        first, columns, *rest = RowBody.sweep(self, other, lines)
        return [first, columns, f"    {self.locate}", *rest]


def _statistics_kernel(spec: Spec, names: Names, chain: ChainNames, draft: Draft, draw: Draw) -> Kernel:
    """Write one program for each channel, which reads it whole or in blocks."""
    sizes = [size.declared for size in spec.sizes]
    total = prod(sizes) // sizes[1]
    is_whole = total <= _MAX_WHOLE and draw.choice((True, False))
    x = names.x
    plane = draw.choice(("plane", "hw", "spatial")) if len(sizes) > 2 else ""
    n = draw.choice(("n", "total", "count"))
    result = names.beside(x).out
    style = "row" if is_whole else "loop"
    body = ChannelBody(spec=spec, names=names, style=style, n=n, rows="channels", plane=plane)
    lines = write_body(
        "layer_norm", body, result, kernel_lines(spec.chain, names.value, chain, draw, body.load_operand)
    )
    name = draw.choice(("batch_norm", "bn", "fused_bn" if spec.chain else "channel_norm")) + names.suffix
    arguments = draft.pass_to(names.ptr, result, [n, "channels", *([plane] if plane else [])])
    block = f"triton.next_power_of_2({n})" if is_whole else str(draw.choice((512, 1024, 2048)))
    device = Device(name=name, arguments=arguments, constants=((names.block, block),), body=tuple(lines))
    host = [f"{result} = torch.empty_like(<{x}>)", f"channels = <{x}>.shape[1]", f"{n} = <{x}>.numel() // channels"]
    if plane:
        host.append(f"{plane} = {n} // <{x}>.shape[0]")
    host.append(device.launch("(channels,)"))
    return make_kernel([device], host, draft.tensors, result, f"channel-{'whole' if is_whole else 'loop'}")
