"""The constructor of a surface: which numbers it takes and checks, and how layers are written.

`ModelNew` has the same constructor, so whatever is changed here holds for both.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from ..builder.draw import Draw
from .dialects import Dialect
from .expressions import assign_own, attribute_of_self, name, number_of, own, path_of, rename_in, walk
from .program import Parameter, Program

_CONVOLUTION = ("in_channels", "out_channels", "kernel_size", "stride", "padding")
SIGNATURES: dict[str, tuple[str, ...]] = {
    **{f"{kind}{rank}d": _CONVOLUTION for kind in ("Conv", "ConvTranspose") for rank in (1, 2, 3)},
    **{f"{kind}Pool{rank}d": ("kernel_size", "stride", "padding") for kind in ("Max", "Avg") for rank in (1, 2, 3)},
    **{f"{kind}Norm{rank}d": ("num_features", "eps") for kind in ("Batch", "Instance") for rank in (1, 2, 3)},
    "Linear": ("in_features", "out_features"),
    "GroupNorm": ("num_groups", "num_channels"),
    "LayerNorm": ("normalized_shape", "eps"),
    "RMSNorm": ("normalized_shape", "eps"),
    "PReLU": ("num_parameters",),
}
Value = bool | int | float | str | None
DEFAULTS: dict[str, Value] = {
    "stride": 1,
    "padding": 0,
    "output_padding": 0,
    "dilation": 1,
    "groups": 1,
    "bias": True,
    "eps": 1e-5,
    "negative_slope": 0.01,
    "alpha": 1.0,
    "beta": 1.0,
    "margin": 1.0,
    "dim": -1,
    "reduction": "mean",
    "ceil_mode": False,
    "return_indices": False,
    "count_include_pad": True,
}
_OPTIONS: dict[str, tuple[str, ...]] = {
    "Conv": ("stride", "padding", "dilation", "groups", "bias"),
    "ConvTranspose": ("stride", "padding", "output_padding", "groups", "bias"),
    "MaxPool": ("padding", "dilation", "return_indices", "ceil_mode"),
    "AvgPool": ("padding", "ceil_mode", "count_include_pad"),
    "GroupNorm": ("eps",),
    "BatchNorm": ("eps",),
    "Linear": ("bias",),
}
_MOST_WRITTEN = {"MaxPool": 2, "AvgPool": 1}
_PASSED = (
    *("stride", "padding", "output_padding", "dilation", "groups", "bias", "eps", "kernel_size", "num_groups"),
    *("ceil_mode", "return_indices"),
)
_ORDER = (
    *("in_channels", "c_in", "in_ch", "channels_in", "in_planes", "in_features", "input_size", "d_in"),
    *("in_dim", "n_in", "out_channels", "c_out", "out_ch", "channels_out", "out_planes", "out_features"),
    *("hidden_size", "d_out", "out_dim", "n_out", "channels", "num_channels", "num_features", "features"),
    *("dim", "num_groups", "kernel_size", "stride", "padding", "output_padding", "dilation", "groups"),
    *("bias", "eps", "ceil_mode", "return_indices"),
)
"""In which people list the arguments of a constructor, as far as they are known; others follow."""
_UNUSED: dict[str, Value] = {"dropout": 0.0, "inplace": False, "verbose": False, "init_scale": 1.0}
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "in_channels": ("in_channels", "in_channels", "c_in", "in_ch", "channels_in", "in_planes"),
    "out_channels": ("out_channels", "out_channels", "c_out", "out_ch", "channels_out", "out_planes"),
    "in_features": ("in_features", "in_features", "input_size", "d_in", "in_dim", "n_in"),
    "out_features": ("out_features", "out_features", "hidden_size", "d_out", "out_dim", "n_out"),
    "channels": ("channels", "num_channels", "num_features", "features"),
    "features": ("features", "num_features", "hidden_size", "dim"),
    "shift": ("shift", "offset", "bias_value", "add_value"),
    "scale": ("scale", "scaling_factor", "multiplier", "factor"),
    "slope": ("negative_slope", "slope"),
    "low": ("min_value", "min_val", "low", "lower"),
    "high": ("max_value", "max_val", "high", "upper"),
}
_SAME = {"c_in": "in_channels", "c_out": "out_channels", "d_in": "in_features", "d_out": "out_features"}
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "conv": ("conv", "conv", "conv1", "convolution", "layer"),
    "deconv": ("deconv", "conv_transpose", "conv_transpose", "up"),
    "linear": ("linear", "linear", "fc", "dense", "gemm"),
    "fc": ("fc", "linear", "fc1", "lin"),
    "proj": ("proj", "projection", "linear"),
    "norm": ("norm", "norm", "normalization"),
    "bn": ("bn", "bn", "batch_norm", "norm"),
    "gn": ("gn", "group_norm", "norm"),
    "inorm": ("instance_norm", "inorm", "norm"),
    "ln": ("ln", "layer_norm", "norm"),
    "pool": ("pool", "pooling"),
    "maxpool": ("maxpool", "max_pool", "pool"),
    "avgpool": ("avgpool", "avg_pool", "pool"),
    "bias": ("bias", "bias", "b", "bias_term", "offset"),
    "gain": ("gain", "weight", "multiplier", "scale_weight"),
    "subtrahend": ("subtract", "offset", "shift", "subtrahend"),
}


def layer_call(value: ast.expr) -> ast.Call | None:
    """Return the call that makes a layer of `torch.nn`, also where its method is called at once."""
    while isinstance(value, ast.Call):
        path = path_of(value.func)
        if path.startswith("nn.") and path.count(".") == 1 and path != "nn.Parameter":
            return value
        if not isinstance(value.func, ast.Attribute):
            return None
        value = value.func.value
    return None


def layers_in(program: Program) -> Iterator[ast.Call]:
    """Yield the calls that make layers in the constructor."""
    for value in program.attributes().values():
        if (found := layer_call(value)) is not None:
            yield found


def rename_attributes(program: Program, draw: Draw) -> dict[str, str]:
    """Rename attributes of `self`; return the changes."""
    taken = set(program.attributes())
    changes: dict[str, str] = {}
    for attribute, value in program.attributes().items():
        # the attribute that keeps an argument is called like it
        chosen = value.id if isinstance(value, ast.Name) else draw.choice(_ATTRIBUTES.get(attribute, (attribute,)))
        if chosen not in taken:
            taken.add(chosen)
            changes[attribute] = chosen
    for node in (*program.init, *program.statements()):
        for child in walk(node):
            if (found := attribute_of_self(child)) in changes:
                child.attr = changes[found]  # type: ignore[attr-defined]
    return changes


def rename_parameters(program: Program, draw: Draw) -> None:
    """Call the constructor's arguments otherwise; before attributes are renamed."""
    taken = {parameter.name for parameter in program.parameters}
    changes: dict[str, str] = {}
    which = draw.below(6)
    for parameter in program.parameters:
        known = _SAME.get(parameter.name, parameter.name)
        # the two ends of a layer are called alike
        is_end = known.startswith(("in_", "out_")) and known in _SYNONYMS
        chosen = _SYNONYMS[known][which] if is_end else draw.choice(_SYNONYMS.get(known, (parameter.name,)))
        if chosen not in taken:
            taken.add(chosen)
            changes[parameter.name] = chosen
            parameter.name = chosen
    for node in program.init:
        rename_in(node, changes)


def pass_numbers(program: Program, dialect: Dialect, draw: Draw) -> None:
    """Make numbers in layers arguments of the constructor."""
    taken = {parameter.name for parameter in program.parameters}
    for layer in layers_in(program):
        kind = path_of(layer.func).removeprefix("nn.")
        signature = SIGNATURES.get(kind)
        if signature is None:
            continue
        if draw.chance(dialect.full_layers):
            _spell_out(layer, kind, draw)
        for place, argument in enumerate(layer.args):
            if place < len(signature) and is_literal(argument) and draw.chance(dialect.passes_numbers):
                wanted = signature[place]
                if wanted not in taken:
                    layer.args[place] = pass_argument(program, wanted, argument, taken)
        for word in layer.keywords:
            is_free = word.arg in _PASSED and word.arg not in taken and is_literal(word.value)
            if word.arg and is_free and draw.chance(dialect.passes_numbers):
                word.value = pass_argument(program, word.arg, word.value, taken)


def _spell_out(layer: ast.Call, kind: str, draw: Draw) -> None:
    """Write the options of a layer that has them at their defaults."""
    present = {word.arg for word in layer.keywords}
    signature = SIGNATURES[kind][: len(layer.args)]
    options = _OPTIONS.get(kind[:-2] if kind[-1] == "d" else kind, ())
    # of what hardly anybody writes, seldom all
    for option in options if draw.chance(0.4) else options[: _MOST_WRITTEN.get(kind[:-2], len(options))]:
        if option not in present and option not in signature:
            layer.keywords.append(ast.keyword(arg=option, value=ast.Constant(value=DEFAULTS[option])))


def pass_argument(program: Program, wanted: str, value: ast.expr, taken: set[str]) -> ast.expr:
    """Make a value an argument of the constructor, whose name is taken from then on; return what reads it."""
    taken.add(wanted)
    program.parameters.append(Parameter(wanted, value))
    program.has_constructor = True
    return name(wanted)


def is_literal(node: ast.expr) -> bool:
    """Return whether a number, a tuple of numbers or a truth value stands there."""
    if isinstance(node, ast.Tuple):
        return all(number_of(item) is not None for item in node.elts)
    return number_of(node) is not None or (isinstance(node, ast.Constant) and isinstance(node.value, bool))


def write_keywords(program: Program, dialect: Dialect, draw: Draw) -> None:
    """Write the arguments of some layers as keywords, or keywords as positions."""
    for layer in layers_in(program):
        signature = SIGNATURES.get(path_of(layer.func).removeprefix("nn."), ())
        if not signature or len(layer.args) > len(signature):
            continue
        if draw.chance(dialect.keyword_layers):
            words = [ast.keyword(arg=key, value=value) for key, value in zip(signature, layer.args, strict=False)]
            layer.args, layer.keywords = [], [*words, *layer.keywords]
        elif draw.chance(0.3):
            while layer.keywords and len(layer.args) < len(signature):
                if layer.keywords[0].arg != signature[len(layer.args)]:
                    break
                layer.args.append(layer.keywords.pop(0).value)


def give_defaults(program: Program, dialect: Dialect, draw: Draw) -> None:
    """Give defaults to some arguments with literal values, which then come last; some are left to them."""
    places = {known: place for place, known in enumerate(_ORDER)}
    program.parameters.sort(key=lambda parameter: places.get(parameter.name, len(places)))
    own_values: list[Parameter] = []
    passed: list[Parameter] = []
    left: list[Parameter] = []
    for parameter in program.parameters:
        if isinstance(number_of(parameter.value), float) and draw.chance(dialect.named_defaults):
            constant = parameter.name.upper()
            if constant not in program.taken():
                program.constants.append((constant, parameter.value))
                parameter.default, parameter.is_passed = name(constant), False
                left.append(parameter)
                continue
        if not is_literal(parameter.value) or not draw.chance(dialect.defaults):
            own_values.append(parameter)
            continue
        usual = DEFAULTS.get(parameter.name)
        is_usual = isinstance(parameter.value, ast.Constant) and parameter.value.value == usual
        # what everybody leaves to its default needs no value
        if is_usual or (usual is None and draw.chance(0.5)):
            parameter.default, parameter.is_passed = parameter.value, False
            left.append(parameter)
        else:
            parameter.default = parameter.value if usual is None else ast.Constant(value=usual)
            passed.append(parameter)
    program.parameters = [*own_values, *passed, *left]
    if program.parameters and draw.chance(dialect.unused_parameters):
        unused = draw.choice(tuple(_UNUSED))
        if unused not in program.taken():
            default = ast.Constant(value=_UNUSED[unused])
            program.parameters.append(Parameter(unused, default, default=default, is_passed=False))


def name_values(program: Program, dialect: Dialect, draw: Draw) -> None:
    """Make the literal values that `get_init_inputs` gives constants of the module."""
    taken = {size for size, _ in program.sizes}
    is_named = draw.chance(dialect.named_values)
    for parameter in program.parameters:
        is_free = parameter.name not in taken and not isinstance(parameter.value, ast.Name)
        if parameter.is_passed and is_named and is_free:
            taken.add(parameter.name)
            program.values.append((parameter.name, parameter.value))
            parameter.value = name(parameter.name)


def assert_arguments(program: Program, draw: Draw) -> None:
    """Assert something that holds of an argument of the constructor, with a message or without."""
    values = dict(program.values)
    literal = {one.name: number_of(values.get(getattr(one.value, "id", ""), one.value)) for one in program.parameters}
    sizes = {size for size, _ in program.sizes}
    given = [one.name for one in program.parameters if isinstance(one.value, ast.Name) and one.value.id in sizes]
    able: list[tuple[ast.expr, ast.cmpop, ast.expr, str]] = []
    for layer in layers_in(program):
        words = [one.value for one in layer.keywords if one.arg in ("num_groups", "num_channels")]
        groups = words or layer.args[:2]
        if path_of(layer.func) == "nn.GroupNorm" and len(groups) == 2 and isinstance(groups[1], ast.Name):
            rest = ast.BinOp(left=groups[1], op=ast.Mod(), right=groups[0])
            able += [(rest, ast.Eq(), ast.Constant(value=0), f"{groups[1].id} must be divisible by the groups")] * 4
    for low, high in (("min_value", "max_value"), ("min_val", "max_val"), ("clamp_min", "clamp_max")):
        if literal.get(low) is not None and literal.get(high) is not None:
            able += [(name(low), ast.Lt(), name(high), f"{low} must be below {high}")] * 4
    positive = [key for key in _POSITIVE if (literal.get(key) or 0) > 0]
    for key in (*given, *positive):
        able.append((name(key), ast.Gt(), ast.Constant(value=0), f"{key} must be positive"))
    if able:
        left, sign, right, message = draw.choice(able)
        test = ast.Compare(left=left, ops=[sign], comparators=[right])
        program.init.insert(0, ast.Assert(test=test, msg=ast.Constant(value=message) if draw.chance(0.6) else None))


_POSITIVE = ("kernel_size", "stride", "eps", "divisor", "divide_by")


def take_keywords(program: Program, draw: Draw) -> None:
    """Take further keywords, which a norm is given where there is one."""
    norms = [layer for layer in layers_in(program) if path_of(layer.func).endswith(("Norm1d", "Norm2d", "Norm3d"))]
    program.further = "norm_kwargs" if norms and draw.chance(0.7) else "kwargs"
    if program.further == "norm_kwargs":
        norms[0].keywords.append(ast.keyword(arg=None, value=name(program.further)))


def name_number(program: Program, wanted: str, value: ast.expr) -> ast.expr | None:
    """Make a number of the forward pass a constant of the module; return what reads it.

    None where the name is taken.
    """
    constants = dict(program.constants)
    if wanted in program.taken() and not (wanted in constants and ast.dump(constants[wanted]) == ast.dump(value)):
        return None
    if wanted not in constants:
        program.constants.append((wanted, value))
    return name(wanted)


def keep_number(program: Program, wanted: str, value: ast.expr) -> ast.expr | None:
    """Make a number of the forward pass an argument that an attribute keeps; return what reads it.

    None where the name is taken.
    """
    if wanted in {parameter.name for parameter in program.parameters} or wanted in program.attributes():
        return None
    program.parameters.append(Parameter(wanted, value))
    program.init.append(assign_own(wanted, name(wanted)))
    program.has_constructor = True
    return own(wanted)


def kept_numbers(program: Program, wanted: Collection[str]) -> dict[int, str]:
    """Return the whole numbers that attributes of these names keep, with the attribute."""
    given = {parameter.name: number_of(parameter.value) for parameter in program.parameters}
    found: dict[int, str] = {}
    for attribute, value in program.attributes().items():
        if attribute in wanted and isinstance(value, ast.Name) and isinstance(number := given.get(value.id), int):
            found[number] = attribute
    return found
