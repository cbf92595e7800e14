"""Level 1: functions of one, two or three tensors, element by element.

Styles: a flat grid over the elements, with or without a named program id; a strip of several blocks a program; and,
for tensors of two dimensions or more, a grid of rows and column blocks.
"""

from __future__ import annotations

from ...task import Example
from ..builder.draw import Draw
from ..builder.operations import BINARY, UNARY, Operation, apply
from ..builder.spec import Spec, draw_dtypes, draw_pointwise_sizes
from ..builder.wording import Kernel, Names, Reference, draw_names, finish

_LAMBDAS = (0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75)
_ALPHAS = (0.5, 0.75, 1.25, 1.5, 2.0)
_BETAS = (0.5, 0.75, 1.25, 1.5, 1.702, 2.0)
_SCALES = (0.3, 0.5, 0.7, 1.25, 1.5, 1.75, 2.5, 3.0)
_SOFTPLUS = "tl.maximum({x}, 0.0) + tl.log(1.0 + tl.exp(-tl.abs({x})))"


def _operation(name: str, torch: str, text: str, *triton: str, **more: object) -> Operation:
    return Operation(name=name, torch=torch, triton=triton, text=text, **more)  # type: ignore[arg-type]


ACTIVATIONS: tuple[Operation, ...] = (
    _operation(
        "selu",
        "F.selu({x})",
        "SELU",
        "1.0507009873554805 * tl.where({x} > 0, {x}, 1.6732632423543772 * (tl.exp({x}) - 1.0))",
        "tl.where({x} > 0, 1.0507009873554805 * {x}, 1.7580993408473766 * (tl.exp({x}) - 1.0))",
    ),
    _operation("mish", "F.mish({x})", "Mish", "{x} * (2.0 * tl.sigmoid(2.0 * (" + _SOFTPLUS + ")) - 1.0)"),
    _operation(
        "hardsigmoid",
        "F.hardsigmoid({x})",
        "hardsigmoid",
        "tl.minimum(tl.maximum({x} / 6.0 + 0.5, 0.0), 1.0)",
        "tl.minimum(tl.maximum({x} + 3.0, 0.0), 6.0) / 6.0",
    ),
    _operation("relu6", "F.relu6({x})", "ReLU6", "tl.minimum(tl.maximum({x}, 0.0), 6.0)"),
    _operation(
        "celu",
        "F.celu({x}, {a})",
        "CELU with alpha {a}",
        "tl.where({x} > 0, {x}, {a} * (tl.exp({x} / {a}) - 1.0))",
        numbers=(_ALPHAS,),
        number_names=("alpha",),
    ),
    _operation(
        "softshrink",
        "F.softshrink({x}, {a})",
        "softshrink with lambda {a}",
        "tl.where({x} > {a}, {x} - {a}, tl.where({x} < -{a}, {x} + {a}, 0.0))",
        "tl.maximum({x} - {a}, 0.0) + tl.minimum({x} + {a}, 0.0)",
        numbers=(_LAMBDAS,),
        number_names=("lambd",),
    ),
    _operation(
        "hardshrink",
        "F.hardshrink({x}, {a})",
        "hardshrink with lambda {a}",
        "tl.where(tl.abs({x}) > {a}, {x}, 0.0)",
        "tl.where(({x} > {a}) | ({x} < -{a}), {x}, 0.0)",
        numbers=(_LAMBDAS,),
        number_names=("lambd",),
    ),
    _operation(
        "tanhshrink",
        "F.tanhshrink({x})",
        "tanhshrink",
        # a difference of nearly equal numbers below 0.3, where four terms of its series are exact
        "tl.where(tl.abs({x}) < 0.3, {x} * {x} * {x} * (0.33333333 - {x} * {x} * (0.13333333 - {x} * {x} * "
        "(0.05396825 - {x} * {x} * 0.02186949))), {x} - (2.0 * tl.sigmoid(2.0 * {x}) - 1.0))",
    ),
    _operation(
        "threshold",
        "F.threshold({x}, {a}, {b})",
        "{b} where a value is not above the threshold {a}",
        "tl.where({x} > {a}, {x}, {b})",
        numbers=((0.1, 0.2, 0.3, 0.5), (-1.0, -0.5, 0.0, 0.5, 2.0)),
        number_names=("threshold", "value"),
    ),
    _operation(
        "swish_beta",
        "{x} * torch.sigmoid({a} * {x})",
        "swish with beta {a}",
        "{x} * tl.sigmoid({a} * {x})",
        "{x} / (1.0 + tl.exp(-{a} * {x}))",
        numbers=(_BETAS,),
        number_names=("beta",),
    ),
    _operation(
        "gelu_written",
        "0.5 * {x} * (1.0 + torch.tanh(0.7978845608028654 * ({x} + 0.044715 * {x} ** 3)))",
        "GELU by its tanh formula",
        "{x} * tl.sigmoid(1.5957691216 * ({x} + 0.044715 * {x} * {x} * {x}))",
        "0.5 * {x} * (1.0 + 2.0 * tl.sigmoid(1.5957691216 * ({x} + 0.044715 * {x} * {x} * {x})) - 1.0)",
    ),
    _operation("squared_relu", "torch.relu({x}) ** 2", "squared ReLU", "tl.maximum({x}, 0.0) * tl.maximum({x}, 0.0)"),
    _operation("gaussian", "torch.exp(-{x} * {x})", "Gaussian exp(-x^2)", "tl.exp(-{x} * {x})"),
    _operation(
        "softplus_beta",
        "F.softplus({x}, beta={a})",
        "softplus with beta {a}",
        "tl.maximum({x}, 0.0) + tl.log(1.0 + tl.exp(-{a} * tl.abs({x}))) / {a}",
        numbers=(_BETAS,),
        number_names=("beta",),
    ),
    _operation(
        "scalar",
        "{x} * {a}",
        "multiplication by {a}",
        "{x} * {a}",
        "{a} * {x}",
        numbers=(_SCALES,),
        number_names=("scale",),
    ),
)

_SPREADS = {"relu6": 4, "hardsigmoid": 3, "mish": 2, "tanhshrink": 2}


def draw_activation(draw: Draw, family: str) -> Spec:
    """An activation of one tensor."""
    applied = apply(draw.choice(ACTIVATIONS), draw, 0.3)
    spread = _SPREADS.get(applied.operation.name, 1)
    return Spec(
        level=1,
        family=family,
        producer=applied.operation.name,
        sizes=draw_pointwise_sizes(draw),
        chain=(applied,),
        dtypes=draw_dtypes(draw),
        options=(("spread", spread),) if spread > 1 else (),
    )


def draw_unary(draw: Draw, family: str) -> Spec:
    """A function of one tensor."""
    applied = apply(draw.choice(UNARY), draw, 0.25)
    return Spec(
        level=1,
        family=family,
        producer=applied.operation.name,
        sizes=draw_pointwise_sizes(draw),
        chain=(applied,),
        dtypes=draw_dtypes(draw),
    )


def draw_binary(draw: Draw, family: str) -> Spec:
    """A function of two tensors."""
    applied = apply(draw.choice(BINARY), draw, 0.25)
    return Spec(
        level=1,
        family=family,
        producer=applied.operation.name,
        sizes=draw_pointwise_sizes(draw),
        chain=(applied,),
        dtypes=draw_dtypes(draw),
    )


_OTHERS = {"x": ("y", "y", "other", "b"), "inp": ("other", "y"), "a": ("b", "b", "other")}


def write_pointwise(spec: Spec, task_id: str, draw: Draw) -> Example:
    """The task and a teacher for a function of one or two tensors."""
    names = draw_names(draw, "pointwise", len(spec.sizes))
    (applied,) = spec.chain
    inputs: tuple[str, ...] = (names.x,)
    if spec.family == "binary":
        inputs = (names.x, draw.choice(_OTHERS[names.x]))
    expression = applied.torch(names.x, inputs[-1])
    if len(inputs) > 1:
        text = applied.operation.text.format(
            x=inputs[0], v=inputs[1], **dict(zip("ab", map(repr, applied.values), strict=False))
        )
        description = f"Elementwise {text}."
    else:
        description = f"Elementwise {applied.text()}."
    argument = applied.argument
    spread = f" * {spec.option('spread')}" if spec.option("spread") else ""
    reference = Reference(
        parameters=((argument, repr(applied.values[0])),) if argument else (),
        init=(f"self.{argument} = {argument}",) if argument else (),
        arguments=inputs,
        forward=(f"return {expression}",),
        inputs=tuple(f"torch.randn({names.shape}){spread}" for _ in inputs),
    )
    kernel = _kernel(spec, inputs, names, draw)
    return finish(spec, task_id, description, reference, kernel, names, draw)


def _kernel(spec: Spec, inputs: tuple[str, ...], names: Names, draw: Draw) -> Kernel:
    (applied,) = spec.chain
    argument = applied.argument
    style = draw.choice(("flat", "flat", "pid", "strip") + (("rows",) if len(spec.sizes) > 1 else ()))
    result = names.beside(*inputs).out
    n = draw.choice(("n_cols", "n")) if style == "rows" else draw.choice(("n", "n", "n_elements", "numel"))
    mask, offsets, size = "mask", names.offsets, names.block
    cast = ".to(tl.float32)" if spec.casts else ""
    loads = [f"{name} = tl.load({names.ptr(name)} + {offsets}, mask={mask}){cast}" for name in inputs]
    value = applied.triton(inputs[0], draw, inputs[-1])
    store = f"tl.store({names.ptr(result)} + {offsets}, {{}}, mask={mask})"
    tail = [store.format(value)] if draw.chance(0.3) else [f"{result} = {value}", store.format(result)]
    span = f"tl.arange(0, {size})"
    match style:
        case "flat":
            body = [f"{offsets} = tl.program_id(0) * {size} + {span}", f"{mask} = {offsets} < {n}", *loads, *tail]
        case "pid":
            body = ["pid = tl.program_id(axis=0)", f"{offsets} = pid * {size} + {span}", f"{mask} = {offsets} < {n}"]
            body += [*loads, *tail]
        case "strip":
            inner = [f"{offsets} = start + i * {size} + {span}", f"{mask} = {offsets} < {n}", *loads, *tail]
            body = [f"start = tl.program_id(0) * {size} * STEPS", "for i in range(STEPS):"]
            body += [f"    {line}" for line in inner]
        case _:
            columns = names.columns
            body = ["row = tl.program_id(0)", f"{columns} = tl.program_id(1) * {size} + {span}"]
            body += [f"{mask} = {columns} < {n}", f"{offsets} = row * {n} + {columns}", *loads, *tail]
    name = draw.choice((spec.producer, spec.producer, "pointwise", "elementwise")) + names.suffix
    pointers = [names.ptr(tensor) for tensor in (*inputs, result)]
    constants = [f"{size}: tl.constexpr"] + (["STEPS: tl.constexpr"] if style == "strip" else [])
    parameters = ", ".join((*pointers, n, *((argument,) if argument else ()), *constants))
    source = f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in body)
    block = draw.choice((256, 512, 1024, 1024, 2048)) if style != "rows" else draw.choice((128, 256, 512, 1024))
    steps = draw.choice((2, 4))
    is_lambda = style != "rows" and draw.chance(0.25)
    warps = draw.choice((", num_warps=4", ", num_warps=8")) if draw.chance(0.15) else ""

    def host(local: dict[str, str]) -> list[str]:
        first = local[inputs[0]]
        lines = [f"{result} = torch.empty_like({first})"]
        lines.append(f"{n} = {first}.shape[-1]" if style == "rows" else f"{n} = {first}.numel()")
        constants = f"{size}={block}" + (f", STEPS={steps}" if style == "strip" else "") + warps
        if style == "rows":
            lines.append(f"grid = ({first}.numel() // {n}, triton.cdiv({n}, {block}))")
        elif is_lambda:
            span = f'meta["{size}"]' + (' * meta["STEPS"]' if style == "strip" else "")
            lines.append(f"grid = lambda meta: (triton.cdiv({n}, {span}),)")
        else:
            lines.append(f"grid = (triton.cdiv({n}, {block * steps if style == 'strip' else block}),)")
        values = [local[tensor] for tensor in inputs] + [result, n] + ([local[argument]] if argument else [])
        lines.append(f"{name}[grid]({', '.join(values)}, {constants})")
        return lines

    tensors = tuple((tensor, tensor) for tensor in inputs) + (((argument, f"self.{argument}"),) if argument else ())
    return Kernel(source=source, tensors=tensors, host=host, result=result, style=style)
