"""The prose of a surface: docstrings, comments, type hints, and the task's description in an author's words."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from ..builder.draw import Draw
from .expressions import attribute_of_self, number_of, path_of, walk
from .operators import OPERATORS, find_operator
from .program import Argument, Parameter, Program

_GLOSSARY: dict[str, tuple[str, ...]] = {
    "in_channels": ("Number of input channels.", "Channels of the input", "number of channels in the input tensor"),
    "out_channels": ("Number of output channels.", "Channels of the output", "number of filters"),
    "kernel_size": ("Size of the kernel.", "Window size", "size of the sliding window"),
    "stride": ("Stride of the window.", "Step of the window", "how far the window moves"),
    "padding": ("Padding on both sides of the input.", "Zeros added on both sides", "implicit padding"),
    "output_padding": ("Additional size of one side of the output.", "extra rows of the output"),
    "dilation": ("Spacing between kernel elements.", "Spacing of the taps", "dilation of the window"),
    "groups": ("Number of blocked connections.", "Groups of channels", "number of groups"),
    "bias": ("Whether to learn a bias.", "If True, adds a learnable bias", "use a bias term"),
    "in_features": ("Number of input features.", "Size of each input row", "width of the input"),
    "out_features": ("Number of output features.", "Size of each output row", "width of the output"),
    "num_features": ("Number of features.", "Number of channels of the input", "channels of the input"),
    "num_groups": ("Number of groups.", "Groups to split the channels into", "how many groups"),
    "eps": ("Added for numerical stability.", "Small constant under the root", "keeps the denominator positive"),
    "dim": ("Dimension to work on.", "The dimension along which it is computed", "axis of the operation"),
    "scale": ("Factor of the output.", "Scaling factor", "what to multiply by"),
    "negative_slope": ("Slope of the negative part.", "Slope for negative inputs", "slope below zero"),
    "alpha": ("Alpha of the activation.", "Scale of the negative part", "alpha value"),
    "offset": ("Added to the result.", "Constant offset", "what is added"),
    "min_value": ("Lower bound.", "Smallest value that is kept", "lower end of the range"),
    "max_value": ("Upper bound.", "Largest value that is kept", "upper end of the range"),
    "margin": ("Margin of the loss.", "margin between the two", "Margin"),
    "dropout": ("Unused.", "Kept for compatibility", "not used here"),
    "conv": ("The convolution layer.", "convolution", "learned filters"),
    "linear": ("The linear layer.", "learned projection", "Projection"),
    "norm": ("The normalization layer.", "normalisation", "Norm layer"),
    "pool": ("The pooling layer.", "pooling", "Pooling"),
    "activation": ("The activation.", "nonlinearity", "Activation function"),
    "bias_vector": ("Learned bias.", "one value a channel", "added to every row"),
    "weights": ("Learned weights.", "one factor a channel", "Learned gain"),
}
_SAME: dict[str, str] = {
    **dict.fromkeys(("c_in", "in_ch", "channels_in", "in_planes"), "in_channels"),
    **dict.fromkeys(("c_out", "out_ch", "channels_out", "out_planes"), "out_channels"),
    **dict.fromkeys(("input_size", "d_in", "in_dim", "n_in"), "in_features"),
    **dict.fromkeys(("hidden_size", "d_out", "out_dim", "n_out"), "out_features"),
    **dict.fromkeys(("channels", "num_channels", "features"), "num_features"),
    **dict.fromkeys(("scaling_factor", "multiplier", "factor", "scale_factor"), "scale"),
    **dict.fromkeys(("shift", "add_value", "bias_value", "constant"), "offset"),
    **dict.fromkeys(("min_val", "clamp_min", "low", "lower"), "min_value"),
    **dict.fromkeys(("max_val", "clamp_max", "high", "upper"), "max_value"),
    **dict.fromkeys(("conv1", "convolution", "layer", "deconv", "conv_transpose", "up"), "conv"),
    **dict.fromkeys(("fc", "fc1", "lin", "dense", "gemm", "proj", "projection"), "linear"),
    **dict.fromkeys(("normalization", "bn", "batch_norm", "gn", "group_norm", "ln", "layer_norm"), "norm"),
    **dict.fromkeys(("instance_norm", "inorm"), "norm"),
    **dict.fromkeys(("pooling", "maxpool", "max_pool", "avgpool", "avg_pool"), "pool"),
    **dict.fromkeys(("b", "bias_term"), "bias_vector"),
    **dict.fromkeys(("gain", "weight", "scale_weight"), "weights"),
    **dict.fromkeys(("relu", "gelu", "silu", "act", "sigmoid", "tanh", "elu", "hardswish", "softplus"), "activation"),
    **dict.fromkeys(("slope",), "negative_slope"),
    **dict.fromkeys(("axis",), "dim"),
    **dict.fromkeys(("epsilon",), "eps"),
    **dict.fromkeys(("inplace", "device", "verbose", "init_scale", "name"), "dropout"),
}
_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


def hint_of(parameter: Parameter, program: Program, from_typing: bool = False) -> str:
    """Return the type of a constructor's argument, at times by what the module `typing` has."""
    if from_typing:
        return _hint_from_typing(hint_of(parameter, program), parameter)
    value = parameter.default if parameter.default is not None else parameter.value
    if isinstance(value, ast.Name):
        value = dict((*program.values, *program.constants)).get(value.id, value)
    if isinstance(value, ast.Constant):
        return _TYPES.get(type(value.value), "object")
    if isinstance(value, ast.UnaryOp):
        return "float" if isinstance(getattr(value.operand, "value", 0), float) else "int"
    return {ast.Tuple: "tuple", ast.List: "list"}.get(type(value), "int")


def _hint_from_typing(hint: str, parameter: Parameter) -> str:
    if hint == "tuple":
        value = parameter.default if isinstance(parameter.default, ast.Tuple) else parameter.value
        length = len(value.elts) if isinstance(value, ast.Tuple) else 0
        return f"Tuple[{', '.join(['int'] * length)}]" if 1 < length < 4 else "Tuple[int, ...]"
    if hint == "list":
        return "List[int]"
    if parameter.default is not None and hint in ("int", "float"):
        return f"Optional[{hint}]"
    return "Union[int, Tuple[int, ...]]" if hint == "int" and parameter.name == "kernel_size" else hint


def _explain(parameter: str, draw: Draw) -> str:
    known = _GLOSSARY.get(_SAME.get(parameter, parameter))
    if known is not None:
        return draw.choice(known)
    words = parameter.removesuffix("_shape").replace("_", " ")
    if parameter.endswith("_shape"):
        return draw.choice((f"Shape of the {words}.", f"shape of the {words} tensor"))
    return draw.choice((f"The {words}.", words.capitalize(), words))


def _explain_input(argument: Argument, shapes: Mapping[str, str], draw: Draw) -> str:
    shape = shapes.get(argument.name, "")
    if number_of(argument.value) is not None:
        return draw.choice(("Scalar value.", "a number", "scalar to multiply with"))
    if not shape:
        return draw.choice(("Input tensor.", "the input", "Input"))
    return draw.choice((f"Input tensor of shape {shape}.", f"tensor of shape {shape}", f"shape {shape}", f"{shape}"))


def document_class(form: str, summary: str, program: Program, typed: bool, draw: Draw) -> list[str]:
    """Return the lines of the class's docstring, without quotes; empty for none."""
    parameters = program.parameters
    match form:
        case "none":
            return []
        case "line" | "block":
            return [summary]
        case "args" if parameters:
            return [summary, "", *_google(("Args:", "Parameters:"), _parameter_entries(program, typed, draw), draw)]
        case "attributes" if program.attributes():
            entries = [(attribute, "", _explain(attribute, draw)) for attribute in program.attributes()]
            return [summary, "", *_google(("Attributes:",), entries, draw)]
        case "sphinx" if parameters:
            return [summary, "", *_sphinx(_parameter_entries(program, False, draw))]
        case "numpy" if parameters:
            return [summary, "", "Parameters", "----------", *_numpy(_parameter_entries(program, True, draw))]
        case _:
            return [summary]


def document_constructor(form: str, program: Program, draw: Draw) -> list[str]:
    """Return the lines of the constructor's docstring."""
    if not program.parameters or form == "none":
        return []
    entries = _parameter_entries(program, True, draw)
    if form == "sphinx":
        return _sphinx(entries)
    opening = draw.choice(("Initializes the module.", "Sets up the layers.", "Initialize the model."))
    return [opening, "", *_google(("Args:",), entries, draw)]


def document_forward(form: str, program: Program, shapes: Mapping[str, str], draw: Draw) -> list[str]:
    """Return the lines of the docstring of `forward`."""
    opening = draw.choice(("Forward pass.", "Runs the forward pass.", "Applies the model to its input.", ""))
    inputs = [(one.name, "torch.Tensor", _explain_input(one, shapes, draw)) for one in program.arguments]
    match form:
        case "none":
            return []
        case "line":
            return [opening or "Forward pass."]
        case "sphinx":
            return [*_sphinx(inputs), f":return: {draw.choice(('the result', 'output tensor'))}"]
        case "numpy":
            lines = ["Parameters", "----------", *_numpy(inputs), "", "Returns", "-------", "torch.Tensor"]
            return [opening, "", *lines] if opening else lines
        case _:
            returned = draw.choice(_RETURNED)
            lines = [*_google(("Args:",), inputs, draw), "", "Returns:", f"    {returned}"]
            return [opening, "", *lines] if opening else lines


_RETURNED = ("Output tensor.", "torch.Tensor: the result.", "torch.Tensor: Output tensor.", "The result.")
Entry = tuple[str, str, str]
"""Name, type, text."""


def _parameter_entries(program: Program, typed: bool, draw: Draw) -> list[Entry]:
    return [(one.name, hint_of(one, program) if typed else "", _explain(one.name, draw)) for one in program.parameters]


def _google(titles: Sequence[str], entries: Sequence[Entry], draw: Draw) -> list[str]:
    is_typed = draw.chance(0.6)
    lines = [draw.choice(titles)]
    for key, kind, text in entries:
        lines.append(f"    {key} ({kind}): {text}" if kind and is_typed else f"    {key}: {text}")
    return lines


def _sphinx(entries: Sequence[Entry]) -> list[str]:
    return [f":param {key}: {text}" for key, _, text in entries]


def _numpy(entries: Sequence[Entry]) -> list[str]:
    return [line for key, kind, text in entries for line in (f"{key} : {kind or 'int'}", f"    {text}")]


_COMMENTS: dict[str, tuple[str, ...]] = {
    "softmax": ("normalise", "attention weights", "probabilities"),
    "clamp": ("keep it bounded", "clip"),
    "Mult": ("scale", "rescale"),
    "Add": ("shift", "add"),
    "matmul": ("(M, K) x (K, N)", "matrix product"),
}


def comment_on(node: ast.stmt, draw: Draw) -> str:
    """Return a comment that people would put behind a statement of `forward`; empty for none."""
    value = getattr(node, "value", None)
    if isinstance(value, ast.Call):
        if attribute := attribute_of_self(value.func):
            return draw.choice((attribute.replace("_", " "), f"apply {attribute.replace('_', ' ')}"))
        if found := find_operator(value):
            return draw.choice(_COMMENTS.get(found, (found.replace("_", " "), found)))
    return draw.choice(_COMMENTS.get(type(getattr(value, "op", None)).__name__, ("",)))


_OPENINGS = (
    "Simple model that performs {}.",
    "Model that applies {}.",
    "Performs {}.",
    "Computes {}.",
    "{}.",
    "{}.",
    "Applies {}.",
    "Module for {}.",
)
_COUNTED = re.compile(
    r"^(\dD|linear|depthwise|grouped|pointwise|transposed) ?.*(convolution|pooling|layer)\b|^linear layer"
)
_NOUNS = (("multiply", "multiplication"), ("add ", "addition of "), ("subtract ", "subtraction of "))
_MOST_WORDS = 8


def steps_of(description: str) -> list[str]:
    """Return the steps that a description names, without their numbers."""
    return [_simplify(step) for step in description.rstrip(".").split(", then ")]


def _simplify(step: str) -> str:
    text = re.sub(r" (to|of) \[[^\]]*\]| with \d+ groups", "", step)
    text = re.split(r"; |, (?=kernel|eps|stride|padding|no |which|the lowest|\d+ groups|at least)", text)[0]
    text = re.sub(r"^Elementwise ", "", text)
    text = re.sub(r"\b([123])-D\b", r"\1D", text)
    return re.sub(r" (with|by|of)( slope| alpha| beta| margin| delta)? -?[\d.]+(e-?\d+)?(?=$|,| )", "", text)


def _as_noun(step: str) -> str:
    """Return a step as a noun, in lower case unless it is an abbreviation."""
    if re.fullmatch(r"add -?[\d.]+", step):
        return "addition of a constant"
    for verb, noun in _NOUNS:
        if step.startswith(verb):
            return "multiplication by a constant" if step == "multiply" else noun + step[len(verb) :]
    first = step.split(" ")[0]
    text = step[:1].lower() + step[1:] if first[1:] == first[1:].lower() else step
    return f"a {text}" if _COUNTED.match(text) else text


def tell(description: str, draw: Draw) -> str:
    """Return a description in other words: a sentence, or steps with arrows between them."""
    nouns = [_as_noun(step) for step in steps_of(description)]
    if len(nouns) > 2 and draw.chance(0.3):
        text = " -> ".join(noun.removeprefix("a ") for noun in nouns)
        return text[:1].upper() + text[1:]
    joined = nouns[0]
    if len(nouns) > 1:
        rest = nouns[1] if len(nouns) == 2 else f"{', '.join(nouns[1:-1])} and {nouns[-1]}"
        joined = f"{nouns[0]} followed by {rest}" if draw.chance(0.5) else f"{', '.join(nouns[:-1])} and {nouns[-1]}"
    opening = draw.choice(_OPENINGS)
    text = opening.format(joined.removeprefix("a ") if opening.startswith("{}") else joined)
    return text[:1].upper() + text[1:]


_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "Add",
    ast.Sub: "Subtract",
    ast.Mult: "Multiply",
    ast.Div: "Divide",
    ast.MatMult: "Matmul",
    ast.Pow: "Square",
}


def entitle(program: Program, draw: Draw) -> str:
    """Return a title of a program's operators, such as "Conv2d ReLU Sum"."""
    attributes = program.attributes()
    words: list[str] = []
    for node in program.statements():
        for part in _in_order(node):
            for word in _words_of(part, attributes):
                if not words or words[-1] != word:
                    words.append(word)
    return draw.choice((" ", "_", " ")).join(words[:_MOST_WORDS])


def _words_of(node: ast.AST, attributes: dict[str, ast.expr]) -> list[str]:
    if isinstance(node, ast.BinOp):
        return [_SIGNS[type(node.op)]] if type(node.op) in _SIGNS else []
    assert isinstance(node, ast.Call)
    if attribute := attribute_of_self(node.func):
        made = [path_of(part.func) for part in walk(attributes.get(attribute, node)) if isinstance(part, ast.Call)]
        return [path.removeprefix("nn.") for path in made if path.startswith("nn.") and path != "nn.Sequential"]
    found = find_operator(node)
    if not found and isinstance(node.func, ast.Attribute) and node.func.attr in OPERATORS:
        found = node.func.attr
    return ["".join(piece.capitalize() for piece in found.split("_"))] if found else []


def _in_order(node: ast.AST) -> list[ast.AST]:
    """Return a node's operations in the order in which they run."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        found += _in_order(child)
    return [*found, node] if isinstance(node, (ast.Call, ast.BinOp)) else found
