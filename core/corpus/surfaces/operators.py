"""The spellings of an operator: `torch.relu(x)`, `F.relu(x)`, `x.relu()`, `nn.ReLU()(x)`, and those of arithmetic.

A spelling is chosen among those that run the same operator of PyTorch, so that the operation graph stays as it is.
"""

from __future__ import annotations

import ast

from attrs import frozen

from ..builder.draw import Draw
from .dialects import Dialect, weighted
from .expressions import (
    assign_own,
    call,
    calls_in,
    dotted,
    method,
    name,
    names_in,
    number_of,
    own,
    path_of,
    replace_in,
    walk,
)
from .layers import keep_number, kept_numbers, name_number
from .program import Program

_LONG = "torch.nn.functional."


@frozen
class Operator:
    """An operator: the spaces that have it (t for torch, f for torch.nn.functional, m for a method) and its module.

    `extra` are the names of the arguments after the first tensors.
    """

    spaces: str
    module: str = ""
    extra: tuple[str, ...] = ()
    num_tensors: int = 1


_REDUCTION = Operator("tm", extra=("dim",))
POOLING = ("kernel_size", "stride", "padding")
OPERATORS: dict[str, Operator] = {
    "relu": Operator("tfm", "ReLU"),
    "sigmoid": Operator("tm", "Sigmoid"),
    "tanh": Operator("tm", "Tanh"),
    "leaky_relu": Operator("f", "LeakyReLU", ("negative_slope",)),
    "gelu": Operator("f", "GELU"),
    "silu": Operator("f", "SiLU"),
    "mish": Operator("f", "Mish"),
    "elu": Operator("f", "ELU", ("alpha",)),
    "celu": Operator("tf", "CELU", ("alpha",)),
    "selu": Operator("tf", "SELU"),
    "softplus": Operator("f", "Softplus"),
    "softsign": Operator("f", "Softsign"),
    "hardtanh": Operator("f", "Hardtanh", ("min_val", "max_val")),
    "hardswish": Operator("f", "Hardswish"),
    "hardsigmoid": Operator("f", "Hardsigmoid"),
    "relu6": Operator("f", "ReLU6"),
    "logsigmoid": Operator("f", "LogSigmoid"),
    "softshrink": Operator("f", "Softshrink"),
    "hardshrink": Operator("tf", "Hardshrink"),
    "tanhshrink": Operator("f", "Tanhshrink"),
    "flatten": Operator("tm", "Flatten"),
    "softmax": Operator("tfm", "Softmax", ("dim",)),
    "log_softmax": Operator("tfm", "LogSoftmax", ("dim",)),
    "clamp": Operator("tm", extra=("min", "max")),
    **{key: Operator("tm") for key in ("abs", "exp", "sin", "cos", "log", "sqrt", "rsqrt", "square", "neg", "tril")},
    **{key: Operator("tm") for key in ("triu", "masked_fill", "flip", "norm", "einsum")},
    **dict.fromkeys(("sum", "mean", "amax", "amin", "max", "min", "logsumexp", "argmax", "argmin", "prod"), _REDUCTION),
    **dict.fromkeys(("cumsum", "cumprod", "var", "std"), _REDUCTION),
    **{key: Operator("tm", num_tensors=2) for key in ("matmul", "bmm", "mv", "mm", "maximum", "minimum", "lerp")},
    **{
        f"{kind}_pool{rank}d": Operator("f", f"{title}Pool{rank}d", POOLING)
        for kind, title in (("max", "Max"), ("avg", "Avg"))
        for rank in (1, 2, 3)
    },
    "mse_loss": Operator("f", "MSELoss", num_tensors=2),
    "l1_loss": Operator("f", "L1Loss", num_tensors=2),
    "smooth_l1_loss": Operator("f", "SmoothL1Loss", num_tensors=2),
    "huber_loss": Operator("f", "HuberLoss", num_tensors=2),
    "kl_div": Operator("f", "KLDivLoss", num_tensors=2),
    "soft_margin_loss": Operator("f", "SoftMarginLoss", num_tensors=2),
    "binary_cross_entropy_with_logits": Operator("f", "BCEWithLogitsLoss", num_tensors=2),
    "cross_entropy": Operator("f", "CrossEntropyLoss", num_tensors=2),
    "nll_loss": Operator("f", "NLLLoss", num_tensors=2),
    "triplet_margin_loss": Operator("f", "TripletMarginLoss", num_tensors=3),
    "cosine_embedding_loss": Operator("f", "CosineEmbeddingLoss", num_tensors=3),
    "scaled_dot_product_attention": Operator("f", num_tensors=3),
    "layer_norm": Operator("f"),
    "instance_norm": Operator("f"),
    "normalize": Operator("f"),
    "batch_norm": Operator("f"),
    "group_norm": Operator("f"),
    "cosine_similarity": Operator("tf", num_tensors=2),
    **{f"conv{rank}d": Operator("f", extra=("stride", "padding"), num_tensors=3) for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": Operator("f", num_tensors=2) for rank in (1, 2, 3)},
    "linear": Operator("f", num_tensors=3),
}
ROOTS = frozenset({"sqrt", "rsqrt"})
"""Functions that are methods of sums in parentheses too."""
_TENSOR_ONLY = frozenset({"einsum"})
_MODULE_NAMES: dict[str, tuple[str, ...]] = {
    "Softmax": ("softmax",),
    "LogSoftmax": ("log_softmax", "logsoftmax"),
    "MSELoss": ("loss_fn", "criterion", "mse"),
}
_NUMBER_NAMES: dict[str, tuple[str, ...]] = {
    "negative_slope": ("negative_slope", "negative_slope", "slope"),
    "alpha": ("alpha",),
    "min_val": ("min_val", "min_value"),
    "max_val": ("max_val", "max_value"),
    "min": ("min_value", "min_val", "clamp_min"),
    "max": ("max_value", "max_val", "clamp_max"),
    "dim": ("dim", "dim", "axis"),
    "Mult": ("scale", "scaling_factor", "multiplier", "scale_factor"),
    "Div": ("divisor", "divide_by"),
    "Add": ("offset", "shift", "add_value", "constant"),
    "Sub": ("subtract_value", "offset", "constant"),
    "eps": ("eps", "epsilon"),
    "cap": ("cap", "softcap", "logit_cap"),
}


def find_operator(node: ast.AST) -> str:
    """Return the name of the operator that a call runs; empty for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    space, _, found = path_of(node.func).rpartition(".")
    return found if space in ("torch", "F", "nn.functional", "torch.nn.functional") and found in OPERATORS else ""


def spell_operators(program: Program, dialect: Dialect, draw: Draw) -> None:
    """Write every operator in one of its spaces, and arithmetic as operators, functions or methods."""
    spaces: dict[str, str] = {}
    long = _LONG if draw.chance(0.65) else "nn.functional."
    sums = [part for node in program.statements() for part in walk(node) if isinstance(part, ast.BinOp)]
    inner = {id(made) for made in calls_in(sums)}

    def change(node: ast.expr) -> ast.expr | None:
        if isinstance(node, ast.BinOp):
            return _spell_arithmetic(program, node, dialect, draw)
        found = find_operator(node)
        if not found or found in _TENSOR_ONLY:
            return None
        assert isinstance(node, ast.Call)
        # an author writes an operator in one way
        space = spaces.setdefault(found, _choose_space(OPERATORS[found], dialect, draw))
        if space == "module" and found in _FORMULA and id(node) in inner and draw.chance(0.8):
            space = "torch"
        return _spell(program, found, node, space, long, draw)

    for node in program.statements():
        replace_in(node, change)


_FORMULA = frozenset({"sigmoid", "tanh", "softplus", "relu6"})
"""Functions that people write in formulas, where they seldom are modules."""


def _choose_space(operator: Operator, dialect: Dialect, draw: Draw) -> str:
    known = {"t": ("torch",), "f": ("function", "long"), "m": ("method",)}
    able = {space for letter in operator.spaces for space in known[letter]} | ({"module"} if operator.module else set())
    weights = tuple((space, weight) for space, weight in dialect.operators if space in able and weight)
    return weighted(draw, weights) if weights else sorted(able)[0]


def _spell(program: Program, found: str, node: ast.Call, space: str, long: str, draw: Draw) -> ast.expr:
    operator = OPERATORS[found]
    tensors, rest = node.args[: operator.num_tensors], node.args[operator.num_tensors :]
    words = list(node.keywords)
    if operator.extra and rest and len(rest) <= len(operator.extra) and draw.chance(0.5):
        words = [ast.keyword(arg=key, value=value) for key, value in zip(operator.extra, rest, strict=False)] + words
        rest = []
    elif operator.extra == ("dim",) and not rest and words and words[0].arg == "dim" and draw.chance(0.35):
        rest, words = [words[0].value], words[1:]
    if space == "module" and (made := _as_module(program, operator, found, tensors, rest, words, draw)) is not None:
        return made
    if space == "method" and (_is_simple(tensors[0]) or found in ROOTS):
        return method(tensors[0], found, [*tensors[1:], *rest], words)
    path = {"long": long + found, "function": f"F.{found}"}.get(space, _plain(operator, found))
    return ast.Call(func=dotted(path), args=[*tensors, *rest], keywords=words)


def _plain(operator: Operator, found: str) -> str:
    return f"torch.{found}" if "t" in operator.spaces else f"F.{found}"


def _is_simple(node: ast.expr) -> bool:
    """Return whether a method is called on such an expression without parentheses around it."""
    return isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))


def _as_module(
    program: Program,
    operator: Operator,
    found: str,
    tensors: list[ast.expr],
    rest: list[ast.expr],
    words: list[ast.keyword],
    draw: Draw,
) -> ast.expr | None:
    """Make the operator a module of the constructor; none where its arguments are only known in `forward`."""
    values = [*rest, *(word.value for word in words)]
    known = {"self", *(constant for constant, _ in program.constants)}
    if any(set(names_in(value)) - known for value in values) or any(word.arg == "weight" for word in words):
        return None
    kept = {f"self.{parameter.name}": parameter.name for parameter in program.parameters}

    def change(node: ast.expr) -> ast.expr | None:
        path = path_of(node)
        return name(kept[path]) if path in kept else None

    made = ast.Call(func=dotted(f"nn.{operator.module}"), args=list(rest), keywords=list(words))
    replace_in(made, change)
    if "self" in set(names_in(made)):
        return None
    attribute = _name_module(program, operator.module, found, draw)
    program.init.append(assign_own(attribute, made))
    program.has_constructor = True
    return call(own(attribute), *tensors)


def _name_module(program: Program, module: str, found: str, draw: Draw) -> str:
    taken = {*program.attributes(), *(made.name for made in program.methods)}
    wanted = _MODULE_NAMES.get(module)
    if wanted is None and "Loss" in module:
        wanted = ("loss_fn", "criterion", "loss")
    if wanted is None:
        wanted = ("pool", "pooling") if "Pool" in module else (found, found, "act", "activation")
    chosen = draw.choice(wanted)
    if chosen not in taken:
        return chosen
    base = found if found not in taken else chosen
    return base if base not in taken else next(f"{base}{n}" for n in range(2, 99) if f"{base}{n}" not in taken)


_ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul"}


def _spell_arithmetic(program: Program, node: ast.BinOp, dialect: Dialect, draw: Draw) -> ast.expr | None:
    spelled = _ARITHMETIC.get(type(node.op))
    is_square = isinstance(node.op, ast.Pow) and number_of(node.right) == 2 and _is_tensor(node.left)
    if is_square or (isinstance(node.op, ast.Mult) and _is_same_name(node.left, node.right)):
        return _spell_square(node, draw)
    if spelled is None:
        return None
    number = number_of(node.right)
    if isinstance(node.op, ast.Add) and number is not None and number < 0:
        node.op, node.right = ast.Sub(), ast.Constant(value=-number)
        spelled = "sub"
    if not _is_tensor(node.left) or (spelled == "matmul" and _has_numbers(node)):
        return None
    if isinstance(node.left, ast.Name) and node.left.id in dict(program.constants):
        return None
    how = weighted(draw, dialect.arithmetic)
    if spelled == "matmul":
        how = draw.choice(("operator", "torch", "torch", how))
    if how == "torch":
        return call(f"torch.{spelled}", node.left, node.right)
    if how == "method" and _is_simple(node.left):
        return method(node.left, spelled, [node.right], [])
    return None


def _spell_square(node: ast.BinOp, draw: Draw) -> ast.expr | None:
    two = ast.Constant(value=2)
    match draw.below(10):
        case 0:
            return call("torch.pow", node.left, two)
        case 1:
            return call("torch.square", node.left)
        case 2 | 3 if _is_simple(node.left):
            return method(node.left, "pow", [two], [])
        case 4 | 5 if _is_simple(node.left):
            return method(node.left, "square", [], [])
        case 6 | 7:
            return ast.BinOp(left=node.left, op=ast.Pow(), right=two)
        case _:
            return None


def _is_same_name(left: ast.expr, right: ast.expr) -> bool:
    return isinstance(left, ast.Name) and isinstance(right, ast.Name) and left.id == right.id


def _has_numbers(node: ast.BinOp) -> bool:
    return number_of(node.left) is not None or number_of(node.right) is not None


def _is_tensor(node: ast.expr) -> bool:
    """Return whether an expression of the forward pass is a tensor for certain."""
    if isinstance(node, ast.BinOp):
        return _is_tensor(node.left) or _is_tensor(node.right)
    if isinstance(node, ast.Name):
        return True
    return isinstance(node, ast.Call) and bool(
        find_operator(node)
        or path_of(node.func).startswith("self.")
        or (isinstance(node.func, ast.Attribute) and node.func.attr in OPERATORS and path_of(node.func.value) != "")
    )


def _cap_of(node: ast.expr) -> ast.BinOp | None:
    """Return the quotient of `cap * torch.tanh(x / cap)`; none for anything else."""
    if not isinstance(node, ast.BinOp) or find_operator(node.right) != "tanh" or number_of(node.left) is None:
        return None
    assert isinstance(node.right, ast.Call)
    inner = node.right.args[0]
    return inner if isinstance(inner, ast.BinOp) and number_of(inner.right) == number_of(node.left) else None


def pass_forward_numbers(program: Program, dialect: Dialect, draw: Draw) -> None:
    """Make numbers of the forward pass constants of the module, or arguments that attributes of the model keep."""
    which, is_global = draw.below(12), draw.chance(dialect.global_numbers)
    capped: list[ast.expr] = []

    def replaced(wanted: str, value: ast.expr) -> ast.expr | None:
        number = number_of(value)
        if number is None:
            return None
        # the two ends of a range are called alike
        names = _NUMBER_NAMES.get(wanted, (wanted,))
        chosen = names[which % len(names)]
        if is_global:
            return name_number(program, chosen.upper(), value) if isinstance(number, float) else None
        return keep_number(program, chosen, value) if draw.chance(dialect.passes_numbers) else None

    def change_cap(node: ast.expr) -> ast.expr | None:
        if (inner := _cap_of(node)) is not None:
            assert isinstance(node, ast.BinOp)
            node.left = inner.right = replaced("cap", node.left) or node.left
            capped.append(inner)
        return None

    def change(node: ast.expr) -> ast.expr | None:
        if any(node is inner for inner in capped):
            return None
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            if isinstance(number_of(node.right), float) and _is_tensor(node.left) and number_of(node.right) != 0.5:
                is_small = abs(float(number_of(node.right) or 0.0)) < 0.01
                node.right = replaced("eps" if is_small else type(node.op).__name__, node.right) or node.right
            return None
        found = find_operator(node)
        if not found:
            return None
        assert isinstance(node, ast.Call)
        operator = OPERATORS[found]
        for place, wanted in enumerate(operator.extra, operator.num_tensors):
            if place < len(node.args):
                node.args[place] = replaced(wanted, node.args[place]) or node.args[place]
        for word in node.keywords:
            if word.arg in ("dim", "eps", "beta", "margin", "delta", *operator.extra):
                assert word.arg is not None
                word.value = replaced(word.arg, word.value) or word.value
        return None

    for node in program.statements():
        replace_in(node, change_cap)
        replace_in(node, change)
    _repeat_dims(program)


def _repeat_dims(program: Program) -> None:
    """Read a dimension that an attribute keeps there wherever a tensor is cut or joined along it."""
    kept = kept_numbers(program, ("dim", "axis"))
    for made in calls_in(program.statements()) if kept else ():
        function = made.func.attr if isinstance(made.func, ast.Attribute) else ""
        if function in ("narrow", "size") and (number := number_of(made.args[0])) in kept:
            made.args[0] = own(kept[number])  # type: ignore[index]
        elif function == "cat" and made.keywords and (number := number_of(made.keywords[0].value)) in kept:
            made.keywords[0].value = own(kept[number])  # type: ignore[index]
