"""The reference side of composed tasks: modules with their arguments, and the statements of `forward`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import Factory, define

from ..builder.draw import Draw
from ..builder.windows import literal
from .program import Node, ProgramSpec, Shape
from .spellings import MATRIX_VECTORS, PAIRS, write_scan

_SMALL_CAPITALS: dict[str, tuple[str, str]] = {
    "batch": ("batch_size", "B"),
    "in_channels": ("in_channels", "C_IN"),
    "out_channels": ("out_channels", "C_OUT"),
    "channels": ("channels", "C"),
    "length": ("length", "L"),
    "depth": ("depth", "D"),
    "height": ("height", "H"),
    "width": ("width", "W"),
    "in_features": ("in_features", "D_IN"),
    "out_features": ("out_features", "D_OUT"),
    "hidden": ("hidden_size", "HIDDEN"),
    "sequence": ("seq_len", "SEQ"),
    "keys": ("kv_len", "KV"),
    "heads": ("num_heads", "HEADS"),
    "width_of_head": ("head_dim", "HEAD_DIM"),
    "features": ("dim", "DIM"),
    "classes": ("num_classes", "CLASSES"),
}
_ATTRIBUTES = {"conv": "conv", "pool": "pool", "linear": "fc", "norm": "norm", "dropout": "drop"}
_OWNED = 0.1
"""Of the tasks with a layer that may: its weights are the model's own, as in `F.linear(x, self.weight, self.bias)`."""
_FILLING = ("nn.init.xavier_uniform_(self.weight)", "nn.init.kaiming_uniform_(self.weight)")


@define
class Wording:
    """The names of one rendering, and what has been written of the reference."""

    constants: dict[str, str]
    """By role, as the module calls them."""
    arguments: dict[str, str]
    """By role, as `__init__` calls them."""
    used: list[str] = Factory(list)
    """The roles that `__init__` needs."""
    attributes: dict[int, str] = Factory(dict)
    """What holds a node's module, or its parameter."""
    init: list[str] = Factory(list)
    forward: list[str] = Factory(list)
    same: set[int] = Factory(set)
    """Convolutions whose padding is called "same"."""
    own: int = -1
    """The layer that is a function of the model's own weights, if one is."""
    dims: dict[int, str] = Factory(dict)
    """How a node's one dimension is written, where not as its place."""

    def outside(self, text: str) -> str:
        """Write an expression of roles for the module's top level."""
        return text.format(**self.constants)

    def inside(self, text: str) -> str:
        """Write an expression of roles for `__init__`."""
        for role in self.arguments:
            if f"{{{role}}}" in text and role not in self.used:
                self.used.append(role)
        return text.format(**self.arguments)

    def write_dim(self, place: int, dim: int, rank: int, draw: Draw) -> str:
        """Write the dimension of a node, the last one at times as -1, others seldom from the end."""
        if draw.chance(0.3 if dim == rank - 1 else 0.1):
            self.dims[place] = str(dim - rank)
        return self.dims.get(place, str(dim))

    def hold(self, place: int, value: str) -> str:
        """Keep a module or a parameter under the node's attribute."""
        self.init.append(f"self.{self.attributes[place]} = {value}")
        return f"self.{self.attributes[place]}"


def draw_wording(spec: ProgramSpec, draw: Draw) -> Wording:
    """Draw the names of a task's constants, and number the attributes of its layers."""
    style = int(draw.chance(0.25))
    names = {role: _SMALL_CAPITALS.get(role, (role, role.upper())) for role in spec.roles}
    wording = Wording(
        constants={role: pair[style] for role, pair in names.items()},
        arguments={role: pair[0] for role, pair in names.items()},
    )
    wanted = [_attribute(node) for node in spec.nodes]
    able = [place for place, node in enumerate(spec.nodes) if _may_own_weights(node)]
    if able and spec.level < 3 and not {"weight", "bias", "gain"} & {*wanted} and draw.chance(_OWNED):
        wording.own = able[0]
        wanted[able[0]] = "weight"
    totals, seen = Counter(name for name in wanted if name), Counter[str]()
    for place, name in enumerate(wanted):
        if name:
            seen[name] += 1
            wording.attributes[place] = name if totals[name] == 1 else f"{name}{seen[name]}"
    return wording


def _attribute(node: Node) -> str:
    if node.op == "norm" and node.option("kind") == "batch":
        return "bn"
    if node.op == "conv" and node.window is not None and node.window.is_transposed:
        return "deconv"
    if node.op == "point":
        has_parameter = node.option("operand") in ("channel", "scalar")
        return node.applied.operation.name if node.applied and has_parameter else ""
    if node.op == "norm" and node.option("kind") == "rms":
        return "weight" if node.option("affine") else ""
    return _ATTRIBUTES.get(node.op, "")


def write_forward(spec: ProgramSpec, wording: Wording, draw: Draw) -> None:
    """Write the modules and the statements of the reference into the wording."""
    for place, node in enumerate(spec.nodes):
        if node.op == "input":
            continue
        names = [spec.nodes[at].name for at in node.inputs]
        shape, *others = (spec.nodes[at].shape for at in node.inputs)
        wording.forward.append(f"{node.name} = {_express(place, node, names, shape, others, wording, draw)}")
    result = spec.nodes[-1].name
    if len(wording.forward) == 1:
        wording.forward[0] = f"return {wording.forward[0].partition(' = ')[2]}"
    else:
        wording.forward.append(f"return {result}")


def _express(
    place: int, node: Node, names: Sequence[str], shape: Shape, others: Sequence[Shape], wording: Wording, draw: Draw
) -> str:
    x = names[0]
    match node.op:
        case "conv" | "linear" if place == wording.own:
            at = -1 if node.op == "linear" else 1
            inner, outer = wording.inside(shape[at].text), wording.inside(node.shape[at].text)
            weight, lines, text = _write_own_layer(node, x, inner, outer, draw)
            wording.hold(place, weight)
            wording.init += lines
            return text
        case "conv":
            return f"{wording.hold(place, _write_convolution(place, node, shape, wording, draw))}({x})"
        case "pool":
            return f"{wording.hold(place, _write_pool(node))}({x})"
        case "linear":
            bias = "" if node.option("bias") else ", bias=False"
            inner, outer = wording.inside(shape[-1].text), wording.inside(node.shape[-1].text)
            return f"{wording.hold(place, f'nn.Linear({inner}, {outer}{bias})')}({x})"
        case "matmul":
            return _write_product(node, names, (len(shape), len(others[0])), draw)
        case "point":
            return _write_point(place, node, names, shape, wording, draw)
        case "reduce" | "position":
            return _write_reduction(place, node, x, len(shape), wording, draw)
        case "softmax":
            return _write_softmax(node, x, wording.write_dim(place, node.dims[0], len(shape), draw), draw)
        case "norm":
            return _write_norm(place, node, x, shape, wording, draw)
        case "scan":
            shown = wording.write_dim(place, node.dims[0], len(shape), draw)
            *before, text = write_scan(node, names, len(shape), shown, draw)
            wording.forward += before
            return text
        case "pair":
            shown = wording.write_dim(place, node.dims[0], len(shape), draw)
            return draw.choice(PAIRS[str(node.option("kind"))]).format(x=x, v=names[1], d=shown)
        case "matvec":
            text = draw.choice(MATRIX_VECTORS[len(shape), node.dims[0], len(others[0])])
            shown = wording.write_dim(place, node.dims[0], len(shape), draw) if "{d}" in text else ""
            return text.format(a=x, v=names[1], d=shown)
        case "attention":
            return _write_attention(node, names)
        case "flatten":
            return f"torch.flatten({x}, 1)"
        case "tokens":
            return f"{x}.flatten(2).transpose(1, 2)"
        case "concat":
            return f"torch.cat([{x}, {names[1]}], dim=1)"
        case "dropout":
            module = f"nn.Dropout({node.option('probability')!r}).eval()"
            return f"{wording.hold(place, module)}({x})"
        case "cross_entropy":
            return f'F.cross_entropy({x}, {names[1]}, reduction="none")'
        case _:
            raise ValueError(f"no such operation: {node.op}")


def _may_own_weights(node: Node) -> bool:
    """Return whether a layer is a function of weights, a stride and a padding that are the same on all sides."""
    window = node.window
    if node.op != "conv" or window is None:
        return node.op == "linear"
    is_plain = not window.is_transposed and node.number("groups") == 1 and set(window.dilation) == {1}
    return is_plain and len(set(window.stride)) == 1 and len(set(window.padding)) == 1


def _write_own_layer(node: Node, x: str, inner: str, outer: str, draw: Draw) -> tuple[str, list[str], str]:
    """Return the parameter that `self.weight` is, the constructor's lines after it, and the function of both."""
    window = node.window
    sides = "".join(f", {length}" for length in window.kernel) if window is not None else ""
    is_filled = draw.chance(0.4)
    scale = draw.choice(("0.02", "0.05") if window is None else ("0.05", "0.1"))
    value = f"torch.empty({outer}, {inner}{sides})" if is_filled else f"torch.randn({outer}, {inner}{sides}) * {scale}"
    given, lines = f"{x}, self.weight", list[str]()
    if node.option("bias"):
        lines.append(f"self.bias = nn.Parameter(torch.randn({outer}))")
        given += ", self.bias"
    if is_filled:
        lines.append(draw.choice(_FILLING))
    if window is None:
        return f"nn.Parameter({value})", lines, f"F.linear({given})"
    numbers = f"stride={window.stride[0]}, padding={window.padding[0]}"
    return f"nn.Parameter({value})", lines, f"F.conv{window.rank}d({given}, {numbers})"


def _write_convolution(place: int, node: Node, shape: Shape, wording: Wording, draw: Draw) -> str:
    window = node.window
    assert window is not None
    keywords = dict(window.keywords())
    if window.keeps_sides and draw.chance(0.35):
        wording.same.add(place)
        keywords["padding"] = '"same"'
    inner, outer = wording.inside(shape[1].text), wording.inside(node.shape[1].text)
    groups = node.number("groups")
    words = [inner, outer, literal(window.kernel), *(f"{name}={value}" for name, value in keywords.items())]
    if groups != 1:
        words.append(f"groups={inner if groups < 0 else groups}")
    if not node.option("bias"):
        words.append("bias=False")
    return f"nn.Conv{'Transpose' if window.is_transposed else ''}{window.rank}d({', '.join(words)})"


def _write_pool(node: Node) -> str:
    window = node.window
    assert window is not None
    words = [literal(window.kernel)]
    words += [f"{name}={value}" for name, value in window.keywords() if name != "stride"]
    if window.stride != window.kernel:
        words.insert(1, f"stride={literal(window.stride)}")
    return f"nn.{'Max' if node.option('kind') == 'max' else 'Avg'}Pool{window.rank}d({', '.join(words)})"


_PRODUCTS = {(2, 2): ("matmul", "matmul", "mm"), (3, 3): ("matmul", "bmm")}


def _write_product(node: Node, names: Sequence[str], ranks: tuple[int, int], draw: Draw) -> str:
    layout = str(node.option("layout"))
    turned = [
        (f"{name}.T" if rank == 2 else f"{name}.transpose(-2, -1)") if way == "t" else name
        for name, way, rank in zip(names, layout, ranks, strict=True)
    ]
    if ranks[0] == 4 and layout == "nn" and node.option("is_shared", 0) and draw.chance(0.5):
        letters = draw.choice(("bijl,lk->bijk", "bhmk,kn->bhmn", "abcd,de->abce"))
        return f'torch.einsum("{letters}", {names[0]}, {names[1]})'
    if draw.chance(0.4):
        return f"{turned[0]} @ {turned[1]}"
    return f"torch.{draw.choice(_PRODUCTS.get(ranks, ('matmul',)))}({turned[0]}, {turned[1]})"


_SCALARS = (
    *("torch.randn(1)", "torch.randn(1)", "torch.tensor(0.5)", "torch.tensor(1.5)", "torch.tensor(2.5)"),
    *("torch.full((1,), 0.75)", "torch.full((1,), 1.25)"),
)
"""Values with which a learned number begins: none is one, so that leaving it out shows."""
_VECTORS: dict[str, tuple[str, ...]] = {
    "gain": ("torch.randn({})", "torch.randn({})", "torch.rand({}) + 0.5"),
    "weight": ("torch.randn({})", "torch.ones({})"),
}
_DRAWN = ("torch.randn({})",)


def _hold_vector(place: int, axis: int, shape: Shape, wording: Wording, draw: Draw) -> str:
    """Keep a vector along a dimension, with ones for the others or without; return what `forward` reads."""
    length, num_after = wording.inside(shape[axis].text), len(shape) - 1 - axis
    value = f"nn.Parameter({draw.choice(_VECTORS.get(wording.attributes[place].rstrip('0123456789'), _DRAWN))})"
    after = ", 1" * num_after
    way = draw.below(10) if num_after else 9
    if way == 0:
        return f"{wording.hold(place, value.format(length))}.view({'1, ' * axis}-1{after})"
    if way == 1:
        return f"{wording.hold(place, value.format(length))}[{'None, ' * axis}:{', None' * num_after}]"
    before = "1, " * axis if way < 4 else ""
    return wording.hold(place, value.format(f"{before}{length}{after}"))


def _write_point(place: int, node: Node, names: Sequence[str], shape: Shape, wording: Wording, draw: Draw) -> str:
    applied, kind = node.applied, node.option("operand")
    assert applied is not None
    operand = names[1] if len(names) > 1 else ""
    if kind == "scalar":
        operand = wording.hold(place, f"nn.Parameter({draw.choice(_SCALARS)})")
    elif kind == "channel":
        operand = _hold_vector(place, node.number("axis"), shape, wording, draw)
    elif kind == "plane":
        operand += f"[:, :, {', '.join(['None'] * (len(shape) - 2))}]"
    formulas = _FORMULAS.get(applied.operation.name, ())
    if formulas and draw.chance(0.3):
        return draw.choice(formulas).format(x=names[0])
    return applied.torch(names[0], operand)


_FORMULAS: dict[str, tuple[str, ...]] = {
    "silu": ("{x} * torch.sigmoid({x})", "{x} * torch.sigmoid({x})", "torch.sigmoid({x}) * {x}"),
    "mish": ("{x} * torch.tanh(F.softplus({x}))",),
    "hardswish": ("{x} * F.relu6({x} + 3) / 6",),
}
"""Activations as people write them out."""
_FUNCTIONS = {"max": "amax", "min": "amin"}


def _write_reduction(place: int, node: Node, x: str, rank: int, wording: Wording, draw: Draw) -> str:
    kind, dims = str(node.option("kind")), node.dims
    keeps = ", keepdim=True" if node.option("keeps") else ", keepdim=False" if draw.chance(0.06) else ""
    if kind == "mean" and node.option("keeps") and rank > 2 and dims == tuple(range(2, rank)) and draw.chance(0.25):
        return f"F.adaptive_avg_pool{rank - 2}d({x}, 1)"
    if rank == 1:
        return f"torch.{kind}({x})"
    if len(dims) == 1:
        shown = wording.write_dim(place, dims[0], rank, draw)
    else:
        inner = ", ".join(map(str, dims))
        shown = f"[{inner}]" if draw.chance(0.4) else f"({inner})"
    if kind in ("max", "min") and len(dims) == 1 and draw.chance(0.6):
        return f"torch.{kind}({x}, dim={shown}{keeps})" + draw.choice(("[0]", ".values"))
    if kind in ("l1", "l2"):
        return f"torch.norm({x}, p={kind[1]}, dim={shown}{keeps})"
    return f"torch.{_FUNCTIONS.get(kind, kind)}({x}, dim={shown}{keeps})"


def _write_softmax(node: Node, x: str, dim: str, draw: Draw) -> str:
    kind = str(node.option("kind"))
    if not kind.endswith("normalize"):
        return f"torch.{kind}({x}, dim={dim})"
    if draw.chance(0.5):
        norm = f"torch.norm({x}, p=2" if kind == "l2_normalize" else f"torch.sum(torch.abs({x})"
        return f"{x} / {norm}, dim={dim}, keepdim=True)"
    return f"F.normalize({x}, p={kind[1]}, dim={dim})"


def _write_norm(place: int, node: Node, x: str, shape: Shape, wording: Wording, draw: Draw) -> str:
    kind, sides = str(node.option("kind")), len(shape) - 2
    eps = "" if node.option("eps") == 1e-5 else f", eps={node.option('eps')!r}"
    if kind == "rms":
        dim = node.dims[0]
        mean = f"torch.mean({x} * {x}, dim={dim}, keepdim=True)"
        root = f"{mean} + {node.option('eps')!r}"
        value = f"{x} / torch.sqrt({root})" if draw.chance(0.5) else f"{x} * torch.rsqrt({root})"
        if not node.option("affine"):
            return value
        return f"{value} * {_hold_vector(place, dim, shape, wording, draw)}"
    channels = wording.inside(shape[1].text) if kind != "layer" else ""
    no_affine = "" if node.option("affine") else ", affine=False"
    match kind:
        case "batch":
            module = f"nn.BatchNorm{max(1, sides)}d({channels}{eps}{no_affine})"
            module += ".eval()" if node.option("running") else ""
        case "group":
            module = f"nn.GroupNorm({node.option('groups')}, {channels}{eps}{no_affine})"
        case "instance":
            affine = ", affine=True" if node.option("affine") else ""
            module = f"nn.InstanceNorm{sides}d({channels}{eps}{affine})"
        case _:
            lengths = [wording.inside(shape[dim].text) for dim in node.dims]
            affine = "" if node.option("affine") else ", elementwise_affine=False"
            shown = lengths[0] if len(lengths) == 1 else f"({', '.join(lengths)})"
            module = f"nn.LayerNorm({shown}{eps}{affine})"
    return f"{wording.hold(place, module)}({x})"


def _write_attention(node: Node, names: Sequence[str]) -> str:
    q, k, v = names[:3]
    causal = ", is_causal=True" if node.option("is_causal") else ""
    masked = f", attn_mask={names[3]}" if len(names) > 3 else ""
    heads = node.number("num_heads")
    if not heads:
        return f"F.scaled_dot_product_attention({q}, {k}, {v}{masked}{causal})"
    split = [f"{name}.unflatten(-1, ({heads}, -1)).transpose(1, 2)" for name in (q, k, v)]
    return f"F.scaled_dot_product_attention({', '.join(split)}{causal}).transpose(1, 2).flatten(2)"
