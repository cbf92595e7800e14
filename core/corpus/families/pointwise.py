"""Level 1: functions of one, two or three tensors, element by element.

Styles: a flat grid over the elements, with or without a named program id; a strip of several blocks a program; and,
for tensors of two dimensions or more, a grid of rows and column blocks.
"""

from __future__ import annotations

from ...task import Example
from ..builder.drafts import Device, Draft, make_kernel
from ..builder.draw import Draw
from ..builder.operations import BINARY, CELU, HARDSIGMOID, SOFTPLUS, UNARY, Operation, apply, make_operation
from ..builder.spec import Spec, draw_dtypes, draw_pointwise_sizes
from ..builder.wording import ROW_NAMES, Kernel, Names, draw_names, finish

_LAMBD = (("lambd", (0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75)),)
_BETA = (("beta", (0.5, 0.75, 1.25, 1.5, 1.702, 2.0)),)
_SCALE = (("scale", (0.3, 0.5, 0.7, 1.25, 1.5, 1.75, 2.5, 3.0)),)
_THRESHOLD = (("threshold", (0.1, 0.2, 0.3, 0.5)), ("value", (-1.0, -0.5, 0.0, 0.5, 2.0)))
_CUBIC = "({x} + 0.044715 * {x} * {x} * {x})"

ACTIVATIONS: tuple[Operation, ...] = (
    make_operation(
        "selu",
        "F",
        "SELU",
        "1.0507009873554805 * tl.where({x} > 0, {x}, 1.6732632423543772 * (tl.exp({x}) - 1.0))",
        "tl.where({x} > 0, 1.0507009873554805 * {x}, 1.7580993408473766 * (tl.exp({x}) - 1.0))",
    ),
    make_operation("mish", "F", "Mish", "{x} * (2.0 * tl.sigmoid(2.0 * (" + SOFTPLUS + ")) - 1.0)"),
    make_operation("hardsigmoid", "F", "hardsigmoid", HARDSIGMOID, "tl.minimum(tl.maximum({x} + 3.0, 0.0), 6.0) / 6.0"),
    make_operation("relu6", "F", "ReLU6", "tl.minimum(tl.maximum({x}, 0.0), 6.0)"),
    CELU,
    make_operation(
        "softshrink",
        "F",
        "softshrink with lambda {a}",
        "tl.where({x} > {a}, {x} - {a}, tl.where({x} < -{a}, {x} + {a}, 0.0))",
        "tl.maximum({x} - {a}, 0.0) + tl.minimum({x} + {a}, 0.0)",
        numbers=_LAMBD,
    ),
    make_operation(
        "hardshrink",
        "F",
        "hardshrink with lambda {a}",
        "tl.where(tl.abs({x}) > {a}, {x}, 0.0)",
        "tl.where(({x} > {a}) | ({x} < -{a}), {x}, 0.0)",
        numbers=_LAMBD,
    ),
    make_operation(
        "tanhshrink",
        "F",
        "tanhshrink",
        # a difference of nearly equal numbers below 0.3, where four terms of its series are exact
        "tl.where(tl.abs({x}) < 0.3, {x} * {x} * {x} * (0.33333333 - {x} * {x} * (0.13333333 - {x} * {x} * "
        "(0.05396825 - {x} * {x} * 0.02186949))), {x} - (2.0 * tl.sigmoid(2.0 * {x}) - 1.0))",
    ),
    make_operation(
        "threshold",
        "F",
        "{b} where a value is not above the threshold {a}",
        "tl.where({x} > {a}, {x}, {b})",
        numbers=_THRESHOLD,
    ),
    make_operation(
        "swish_beta",
        "{x} * torch.sigmoid({a} * {x})",
        "swish with beta {a}",
        "{x} * tl.sigmoid({a} * {x})",
        "{x} / (1.0 + tl.exp(-{a} * {x}))",
        numbers=_BETA,
    ),
    make_operation(
        "gelu_written",
        "0.5 * {x} * (1.0 + torch.tanh(0.7978845608028654 * ({x} + 0.044715 * {x} ** 3)))",
        "GELU by its tanh formula",
        "{x} * tl.sigmoid(1.5957691216 * " + _CUBIC + ")",
        "0.5 * {x} * (1.0 + 2.0 * tl.sigmoid(1.5957691216 * " + _CUBIC + ") - 1.0)",
    ),
    make_operation(
        "squared_relu", "torch.relu({x}) ** 2", "squared ReLU", "tl.maximum({x}, 0.0) * tl.maximum({x}, 0.0)"
    ),
    make_operation("gaussian", "torch.exp(-{x} * {x})", "Gaussian exp(-x^2)", "tl.exp(-{x} * {x})"),
    make_operation(
        "softplus_beta",
        "F.softplus({x}, beta={a})",
        "softplus with beta {a}",
        "tl.maximum({x}, 0.0) + tl.log(1.0 + tl.exp(-{a} * tl.abs({x}))) / {a}",
        numbers=_BETA,
    ),
    make_operation("scalar", "{x} * {a}", "multiplication by {a}", "{x} * {a}", "{a} * {x}", numbers=_SCALE),
)

_NAMES = {1: (("N",), ("SIZE",), ("n",), ("NUM",), ("LENGTH",)), **ROW_NAMES}
_SPREADS = {"relu6": 4, "hardsigmoid": 3, "mish": 2, "tanhshrink": 2}
_OPERATIONS = {"unary": (UNARY, 0.25), "binary": (BINARY, 0.25), "activation": (ACTIVATIONS, 0.3)}
"""By family, with the share of those whose number is an argument of `Model`."""


def draw_pointwise(draw: Draw, family: str) -> Spec:
    """Draw a function of one or two tensors."""
    operations, argument_share = _OPERATIONS[family]
    applied = apply(draw.choice(operations), draw, argument_share)
    spread = _SPREADS.get(applied.operation.name, 1)
    return Spec(
        producer=applied.operation.name,
        sizes=draw_pointwise_sizes(draw),
        chain=(applied,),
        dtypes=draw_dtypes(draw),
        options=(("spread", spread),) if spread > 1 else (),
    )


_OTHERS = {"x": ("y", "y", "other", "b"), "inp": ("other", "y"), "a": ("b", "b", "other")}


def write_pointwise(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a function of one or two tensors."""
    names = draw_names(draw, _NAMES[len(spec.sizes)])
    (applied,) = spec.chain
    inputs: tuple[str, ...] = (names.x,)
    if spec.family == "binary":
        inputs = (names.x, draw.choice(_OTHERS[names.x]))
    spread = f" * {spec.option('spread')}" if spec.option("spread") else ""
    draft = Draft()
    for name in inputs:
        draft.take(name, f"torch.randn({names.shape}){spread}")
    if applied.argument:
        draft.pass_number(applied.argument, repr(applied.values[0]))
    reference = draft.reference([f"return {applied.torch(names.x, inputs[-1])}"])
    description = f"Elementwise {applied.text(inputs[-1], names.x)}."
    kernel = _write_kernel(spec, inputs, names, draft, draw)
    return finish(spec, task_id, description, reference, kernel, names, draw)


def _write_kernel(spec: Spec, inputs: tuple[str, ...], names: Names, draft: Draft, draw: Draw) -> Kernel:
    style = draw.choice(("flat", "flat", "pid", "strip") + (("rows",) if len(spec.sizes) > 1 else ()))
    result = names.beside(*inputs).out
    n = draw.choice(("n_cols", "n")) if style == "rows" else draw.choice(("n", "n", "n_elements", "numel"))
    body = _write_body(spec, inputs, names, style, n, draw)
    name = draw.choice((spec.producer, spec.producer, "pointwise", "elementwise")) + names.suffix
    block = draw.choice((256, 512, 1024, 1024, 2048)) if style != "rows" else draw.choice((128, 256, 512, 1024))
    steps = draw.choice((2, 4))
    is_lambda = style != "rows" and draw.chance(0.25)
    warps = draw.choice((", num_warps=4", ", num_warps=8")) if draw.chance(0.15) else ""
    constants = [(names.block, str(block))] + ([("STEPS", str(steps))] if style == "strip" else [])
    device = Device(
        name=name,
        arguments=draft.pass_to(names.ptr, result, [n], len(inputs)),
        constants=tuple(constants),
        body=tuple(body),
    )
    first = f"<{inputs[0]}>"
    if style == "rows":
        grid = f"({first}.numel() // {n}, triton.cdiv({n}, {block}))"
    elif is_lambda:
        span = f'meta["{names.block}"]' + (' * meta["STEPS"]' if style == "strip" else "")
        grid = f"lambda meta: (triton.cdiv({n}, {span}),)"
    else:
        grid = f"(triton.cdiv({n}, {block * steps if style == 'strip' else block}),)"
    host = [
        f"{result} = torch.empty_like({first})",
        f"{n} = {first}.shape[-1]" if style == "rows" else f"{n} = {first}.numel()",
        f"grid = {grid}",
        device.launch("grid", warps),
    ]
    return make_kernel([device], host, draft.tensors, result, style)


def _write_body(spec: Spec, inputs: tuple[str, ...], names: Names, style: str, n: str, draw: Draw) -> list[str]:
    (applied,) = spec.chain
    offsets, size, columns = names.offsets, names.block, names.columns
    result = names.beside(*inputs).out
    value = applied.triton(inputs[0], draw, inputs[-1])
    store = f"tl.store({names.ptr(result)} + {offsets}, {{}}, mask=mask)"
    lines = [f"{name} = tl.load({names.ptr(name)} + {offsets}, mask=mask){spec.cast}" for name in inputs]
    lines += [store.format(value)] if draw.chance(0.3) else [f"{result} = {value}", store.format(result)]
    mask, span = f"mask = {offsets} < {n}", f"tl.arange(0, {size})"
    match style:
        case "flat":
            return [f"{offsets} = tl.program_id(0) * {size} + {span}", mask, *lines]
        case "pid":
            return ["pid = tl.program_id(axis=0)", f"{offsets} = pid * {size} + {span}", mask, *lines]
        case "strip":
            inner = [f"{offsets} = start + i * {size} + {span}", mask, *lines]
            head = [f"start = tl.program_id(0) * {size} * STEPS", "for i in range(STEPS):"]
            return head + [f"    {line}" for line in inner]
        case _:
            head = ["row = tl.program_id(0)", f"{columns} = tl.program_id(1) * {size} + {span}"]
            return [*head, f"mask = {columns} < {n}", f"{offsets} = row * {n} + {columns}", *lines]
