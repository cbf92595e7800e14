"""The learned parameters of a surface: their shapes, the values with which they begin, how they are filled.

They keep their values: what a function of `torch.nn.init` fills draws the same numbers as what was drawn at once.
"""

from __future__ import annotations

import ast

from ..builder.draw import Draw
from .dialects import Dialect
from .expressions import assign_own, attribute_of_self, call, dotted, name, names_in, own, path_of, walk
from .layers import is_literal, layer_call, pass_argument
from .program import Method, Parameter, Program


def pass_initial_values(program: Program, dialect: Dialect, draw: Draw) -> None:
    """Make the number with which a learned number begins an argument of the constructor."""
    taken = {parameter.name for parameter in program.parameters} | set(program.attributes())
    for attribute, value in program.attributes().items():
        made = value.args[0] if isinstance(value, ast.Call) and path_of(value.func) == "nn.Parameter" else None
        if not isinstance(made, ast.Call) or path_of(made.func) not in ("torch.tensor", "torch.full"):
            continue
        wanted = draw.choice((f"{attribute}_init", f"initial_{attribute}", f"{attribute}_value"))
        if wanted not in taken and is_literal(made.args[-1]) and draw.chance(dialect.passes_numbers):
            made.args[-1] = pass_argument(program, wanted, made.args[-1], taken)


_ROOTS = ("stdv", "bound", "norm_factor", "inv_sqrt")


def keep_root(program: Program, draw: Draw) -> None:
    """Keep the root of a size in an attribute, as for a bound of initial values, that nothing reads."""
    known = {size for size, _ in program.sizes}
    sizes = [one.name for one in program.parameters if isinstance(one.value, ast.Name) and one.value.id in known]
    taken = program.taken() | set(program.attributes())
    free = [wanted for wanted in _ROOTS if wanted not in taken]
    if sizes and free:
        root = call("math.sqrt", name(draw.choice(sizes)))
        value = ast.BinOp(left=ast.Constant(value=1.0), op=ast.Div(), right=root) if draw.chance(0.7) else root
        program.init.append(assign_own(draw.choice(free), value))


def pass_shapes(program: Program) -> None:
    """Make the shape of a parameter vector an argument of the constructor: `bias_shape = (out_channels, 1, 1)`."""
    given = {parameter.name: parameter.value for parameter in program.parameters}
    taken = set(given)
    for attribute, value in program.attributes().items():
        inner = _drawn_in(value)
        wanted = f"{attribute}_shape"
        if inner is None or not inner.args or wanted in taken or not set(names_in(value)) - {"nn", "torch"} <= taken:
            continue
        parts = [given.get(part.id, part) if isinstance(part, ast.Name) else part for part in inner.args]
        if any(not isinstance(part, (ast.Name, ast.Constant)) for part in parts):
            continue
        taken.add(wanted)
        program.parameters.append(Parameter(wanted, ast.Tuple(elts=parts, ctx=ast.Load())))
        inner.args = [name(wanted)]


def _drawn_in(value: ast.expr) -> ast.Call | None:
    """Return the call within `nn.Parameter(...)` that is given the shape, also where a sum begins with it."""
    if isinstance(value, ast.Call) and path_of(value.func) == "nn.Parameter" and isinstance(value.args[0], ast.BinOp):
        inner = value.args[0].left
        return inner if isinstance(inner, ast.Call) and path_of(inner.func) == "torch.rand" else None
    return parameter_value(value)


def parameter_value(value: ast.expr) -> ast.Call | None:
    """Return the call within `nn.Parameter(...)` that draws or fills its tensor."""
    if isinstance(value, ast.Call) and path_of(value.func) == "nn.Parameter" and len(value.args) == 1:
        inner = value.args[0]
        if isinstance(inner, ast.Call) and path_of(inner.func) in ("torch.randn", "torch.ones", "torch.zeros"):
            return inner
    return None


_FILLING_METHODS = ("reset_parameters", "init_weights", "_init_weights", "_init_parameters", "initialize", "_fill")
_FILLS = {"torch.randn": "nn.init.normal_", "torch.ones": "nn.init.ones_", "torch.zeros": "nn.init.zeros_"}


def fill_parameters(program: Program, draw: Draw) -> None:
    """Fill parameters after they are made, by functions of `torch.nn.init`, in the constructor or in a method.

    Only where nothing is drawn in between: the numbers must be the same.
    """
    places = [place for place, node in enumerate(program.init) if _fills(node)]
    if not places or any(_draws(node) for node in program.init[places[0] :] if not _fills(node)):
        return
    filling: list[ast.stmt] = []
    for place in places:
        node = program.init[place]
        assert isinstance(node, ast.Assign)
        assert isinstance(node.targets[0], ast.Attribute)
        inner = parameter_value(node.value)
        assert inner is not None
        function = _FILLS[path_of(inner.func)]
        inner.func = dotted("torch.empty")
        filling.append(ast.Expr(value=call(function, own(node.targets[0].attr))))
    if draw.chance(0.5) and not program.methods:
        name = draw.fork("name").choice(_FILLING_METHODS)
        program.methods.append(Method(name, [], filling))
        filling = [ast.Expr(value=call(own(name)))]
    program.init += filling


def _fills(node: ast.stmt) -> bool:
    is_plain = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)
    return is_plain and parameter_value(node.value) is not None  # type: ignore[attr-defined]


def _draws(node: ast.stmt) -> bool:
    """Return whether a statement of the constructor draws random numbers, or may."""
    if not isinstance(node, ast.Assign) or attribute_of_self(node.targets[0]) == "":
        return True
    return draws_numbers(node.value)


def draws_numbers(value: ast.expr) -> bool:
    """Return whether making this attribute draws random numbers, or may."""
    layer = layer_call(value)
    if layer is None:
        return any(isinstance(part, ast.Call) for part in walk(value))
    kind = path_of(layer.func).removeprefix("nn.")
    return kind not in _STILL and not kind.startswith(("MaxPool", "AvgPool", "BatchNorm", "InstanceNorm"))


_STILL = frozenset(
    {"GroupNorm", "LayerNorm", "RMSNorm", "PReLU", "ReLU", "GELU", "SiLU", "Sigmoid", "Tanh", "Softplus", "ELU"}
    | {"LeakyReLU", "Hardtanh", "Softsign", "Hardswish", "Mish", "Softmax", "LogSoftmax", "CELU", "SELU", "LogSigmoid"}
    | {"Hardsigmoid", "ReLU6", "Identity", "Flatten"}
)
