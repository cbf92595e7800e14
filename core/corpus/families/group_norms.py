"""Norms over contiguous parts of a sample: group and instance norm, layer norm over channels and sides; with a chain.

Each part of a sample lies in one piece, so these are the row families' kernels with another meaning of a row; only
what has one value a channel is found otherwise, by the row and the place in it.
"""

from __future__ import annotations

from math import prod

from attrs import frozen

from ...task import Example
from ..builder.drafts import ChainNames, Device, Draft, describe, forward_lines, kernel_lines, make_kernel, name_chain
from ..builder.draw import Draw
from ..builder.operations import MATRIX_STEPS, draw_chain
from ..builder.row_bodies import RowBody, write_body
from ..builder.spec import DIMENSIONS, Spec, draw_dtypes, draw_image_sizes
from ..builder.wording import Kernel, Names, draw_names, finish

_EPSILONS = (1e-5, 1e-5, 1e-6, 1e-3)
_GROUPS = (2, 2, 4, 4, 3, 6, 8)
_MAX_WHOLE = 16384
_MAX_TILE = 512
_MAX_SAMPLE = 65536


def draw_group_norm(draw: Draw, family: str) -> Spec:
    """Draw group norm, instance norm, or layer norm over a whole sample, of one to three sides; with a chain or not."""
    is_chain = family == "group_norm_chain"
    producer = draw.choice(("group_norm", "group_norm", "instance_norm")) if is_chain else family
    rank = draw.choice((4, 4, 4, 3, 5))
    groups = draw.choice(_GROUPS) if producer == "group_norm" else 1
    return Spec(
        producer=producer,
        sizes=draw_image_sizes(draw, rank, groups, _MAX_SAMPLE),
        # on minute inputs eps is larger than the variance, and the result is as small as a product's
        chain=draw_chain(draw, MATRIX_STEPS, 2) if is_chain else (),
        dtypes=draw_dtypes(draw),
        options=(
            ("eps", draw.choice(_EPSILONS)),
            ("affine", int(draw.chance(0.5 if producer == "instance_norm" else 0.8))),
            ("groups", groups),
        ),
    )


@frozen(kw_only=True)
class PartBody(RowBody):
    """A row body whose vectors have one value a channel, of which `parts` rows cover a sample."""

    parts: str
    """Rows a sample, or nothing where a row is a sample and vectors have a value a column."""
    side: str
    """Elements a channel."""

    @property
    def is_channel_wise(self) -> bool:
        """Return whether a row is one channel."""
        return self.spec.producer == "instance_norm"

    @property
    def channels(self) -> str:
        row = "rows" if self.style == "tile" else "row"
        if self.is_channel_wise:
            return f"{row} % {self.parts}"
        return f"{row} % {self.parts} * ({self.n} // {self.side}) + {self.names.columns} // {self.side}"

    def load_vector(self, pointer: str) -> str:
        """Write a load of one value a channel."""
        if not self.parts:
            return RowBody.load_vector(self, pointer)
        if not self.is_channel_wise:
            mask = f", mask={self.mask}"
        else:
            mask = f", mask=rows < {self.rows}" if self.style == "tile" else ""
        return f"tl.load({pointer} + channel{mask}){self.spec.cast}"


def write_group_norm(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a norm over parts of a sample."""
    names = draw_names(draw, DIMENSIONS[len(spec.sizes)])
    chain = name_chain(spec.chain, draw)
    x, draft = names.x, Draft()
    sides = len(spec.sizes) - 2
    draft.take(x, f"torch.randn({names.shape}) * 2 + 1")
    expression, head, features = _write_norm(spec, names, draw, draft)
    ones = ", 1" * sides
    draft.take_chain(chain, names.shape, f"{features}{ones}", (features, names.dimensions[1]))
    reference = draft.reference(forward_lines(expression, spec.chain, x, chain))
    kernel = _write_kernel(spec, names, chain, draft, draw)
    return finish(spec, task_id, describe(head, spec.chain, chain), reference, kernel, names, draw)


def _write_norm(spec: Spec, names: Names, draw: Draw, draft: Draft) -> tuple[str, str, str]:
    """Write the norm's expression, its description, and the name that the number of channels has in `__init__`."""
    x, eps, affine = names.x, repr(spec.option("eps")), bool(spec.option("affine"))
    sides = len(spec.sizes) - 2
    features = draw.choice(("channels", "num_features", "features"))
    tail = f", eps {eps}" + ("" if affine else ", no weights")
    attribute = draw.choice(("norm", "norm", {"group_norm": "gn", "instance_norm": "inorm"}.get(spec.producer, "ln")))
    no_affine = "" if affine else ", affine=False"
    match spec.producer:
        case "group_norm":
            groups = spec.option("groups")
            head = f"Group norm with {groups} groups{tail}"
            if draw.chance(0.4):
                draft.parameters += [("num_groups", str(groups)), (features, names.dimensions[1])]
                first = "num_groups"
            else:
                draft.parameters.append((features, names.dimensions[1]))
                first = str(groups)
            draft.init.append(f"self.{attribute} = nn.GroupNorm({first}, {features}, eps={eps}{no_affine})")
        case "instance_norm":
            head = f"Instance norm over {_SIDES[sides]}{tail}"
            if not affine:
                return f"F.instance_norm({x}, eps={eps})", head, features
            draft.parameters.append((features, names.dimensions[1]))
            draft.init.append(f"self.{attribute} = nn.InstanceNorm{sides}d({features}, eps={eps}, affine=True)")
        case _:
            head = f"Layer norm over every dimension but the first{tail}"
            if not affine:
                return f"F.layer_norm({x}, {x}.shape[1:], eps={eps})", head, features
            lengths = ("channels", *("depth", "height", "width")[3 - sides :])
            draft.parameters += list(zip(lengths, names.dimensions[1:], strict=True))
            draft.init.append(f"self.{attribute} = nn.LayerNorm(({', '.join(lengths)}), eps={eps})")
    if affine:
        draft.hold("weight", f"{attribute}.weight")
        draft.hold("beta", f"{attribute}.bias")
    return f"self.{attribute}({x})", head, features


_SIDES = {1: "the last dimension", 2: "the last two dimensions", 3: "the last three dimensions"}


def _row_length(spec: Spec) -> int:
    """Return the declared elements of a row."""
    side = prod(size.declared for size in spec.sizes[2:])
    if spec.producer == "instance_norm":
        return side
    return side * spec.sizes[1].declared // int(spec.option("groups"))


def _write_kernel(spec: Spec, names: Names, chain: ChainNames, draft: Draft, draw: Draw) -> Kernel:
    length = _row_length(spec)
    styles = ("row", "row", "loop") + (("tile",) if length <= _MAX_TILE else ())
    style = draw.choice(styles) if length <= _MAX_WHOLE else "loop"
    x, result = names.x, names.beside(names.x).out
    n, rows, side = draw.choice((("n", "m", "hw"), ("n_cols", "n_rows", "spatial"), ("length", "num", "plane")))
    parts = {"layer_norm_nd": "", "group_norm": "groups"}.get(spec.producer, "channels")
    body = PartBody(spec=spec, names=names, style=style, n=n, rows=rows, parts=parts, side=side)
    finds_channels = bool(parts and (chain.vectors or spec.option("affine")))
    lines = _write_body(body, result, chain, finds_channels, draw)
    base = draw.choice((spec.producer.removesuffix("_nd"), "norm"))
    name = ("fused_" + base if spec.chain and draw.chance(0.5) else base) + names.suffix
    sizes: list[str | tuple[str, str]] = [n, rows] if style == "tile" else [n]
    if finds_channels:
        sizes.append((parts, str(spec.option("groups")) if parts == "groups" else "channels"))
        sizes += [] if body.is_channel_wise else [side]
    block = f"triton.next_power_of_2({n})" if style != "loop" else str(draw.choice((256, 512, 1024, 2048)))
    tile_rows = draw.choice((2, 4))
    constants = [(names.block, block)] + ([("ROWS", str(tile_rows))] if style == "tile" else [])
    arguments = draft.pass_to(names.ptr, result, sizes)
    device = Device(name=name, arguments=arguments, constants=tuple(constants), body=tuple(lines))
    grid = f"(triton.cdiv({rows}, {tile_rows}),)" if style == "tile" else f"({rows},)"
    warps = draw.choice((", num_warps=4", ", num_warps=8")) if draw.chance(0.2) else ""
    host = [f"{result} = torch.empty_like(<{x}>)", *_host_lengths(spec, x, n, rows, side, side in sizes)]
    return make_kernel([device], [*host, device.launch(grid, warps)], draft.tensors, result, style)


def _write_body(body: PartBody, result: str, chain: ChainNames, finds_channels: bool, draw: Draw) -> list[str]:
    """Write the norm, the chain and the store."""
    steps = kernel_lines(body.spec.chain, body.names.value, chain, draw, body.load_operand)
    lines = write_body("layer_norm", body, result, steps)
    return _name_channels(lines, body) if finds_channels else lines


def _name_channels(lines: list[str], body: PartBody) -> list[str]:
    """Write the lines with the channel found where rows and columns are known: once, or in the sweep that needs it."""
    if body.style == "loop" and not body.is_channel_wise:
        last = max(at for at, line in enumerate(lines) if line.startswith(f"    {body.names.columns} ="))
        return [*lines[: last + 1], f"    channel = {body.channels}", *lines[last + 1 :]]
    row = "rows =" if body.style == "tile" else "row ="
    wanted = row if body.is_channel_wise else f"{body.names.columns} ="
    at = next(at for at, line in enumerate(lines) if line.startswith(wanted))
    return [*lines[: at + 1], f"channel = {body.channels}", *lines[at + 1 :]]


def _host_lengths(spec: Spec, x: str, n: str, rows: str, side: str, uses_side: bool) -> list[str]:
    match spec.producer:
        case "instance_norm":
            lines = [f"channels = <{x}>.shape[1]", f"{rows} = <{x}>.shape[0] * channels"]
            return [*lines, f"{n} = <{x}>.numel() // {rows}"]
        case "group_norm":
            lines = [f"{rows} = <{x}>.shape[0] * {spec.option('groups')}", f"{n} = <{x}>.numel() // {rows}"]
            if uses_side:
                lines.append(f"{side} = <{x}>.numel() // (<{x}>.shape[0] * <{x}>.shape[1])")
            return lines
        case _:
            return [f"{rows} = <{x}>.shape[0]", f"{n} = <{x}>.numel() // {rows}"]
