"""The flow of `forward`: one name again and again, a name for each value, nested calls, helper methods, Sequential."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..builder.draw import Draw
from .dialects import Dialect, weighted
from .expressions import (
    assign,
    attribute_of_self,
    call,
    name,
    names_in,
    own,
    rename_in,
    replace_in,
    replaced,
    target_of,
    value_of,
    walk,
    write_expression,
)
from .networks import is_network, list_layers, share_modules
from .operators import ROOTS, find_operator
from .program import Method, Program
from .sequences import make_sequential

_TEMPORARIES = ("y", "h", "out", "z", "t", "hidden", "result", "feat")
_MOST_NESTED, _MOST_LETTERS = 4, 96
_AUGMENTED = (ast.Add, ast.Sub, ast.Mult, ast.Div)


def arrange_flow(program: Program, dialect: Dialect, draw: Draw) -> None:
    """Arrange the statements of `forward` as the dialect does."""
    body = program.forward
    _end(program, dialect, draw)
    if not all(target_of(node) for node in body[:-1]) or not isinstance(body[-1], ast.Return):
        return
    of_layers = draw.fork("layers")
    is_of_layers = is_network(program)
    if is_of_layers and of_layers.chance(0.6):
        share_modules(program)
    if is_of_layers and of_layers.chance(0.65) and list_layers(program, of_layers):
        return
    if draw.chance(dialect.sequential):
        make_sequential(program, draw, is_of_layers)
    if draw.chance(2 * dialect.helper_methods):
        _make_root(program, draw)
    if draw.chance(dialect.helper_methods):
        _make_method(program, draw)
    flow = weighted(draw, dialect.flow)
    if flow != "nested":
        _join(body, draw)
    match flow:
        case "nested":
            _nest(body, draw)
        case "names":
            _name_each(program, draw, draw.chance(0.4))
        case "inplace":
            _name_each(program, draw, is_each=False)
            _work_in_place(program)
        case _ if draw.chance(0.15):
            _work_in_place(program)
    _keep_inputs(program, draw)


def _end(program: Program, dialect: Dialect, draw: Draw) -> None:
    """Return a name or the last expression."""
    body = program.forward
    last = body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        return
    before_name = target_of(body[-2]) if len(body) > 1 else ""
    if isinstance(last.value, ast.Name):
        if before_name == last.value.id and not draw.chance(dialect.returns_name):
            body[-2:] = [ast.Return(value=value_of(body[-2]))]
        return
    inputs = {argument.name for argument in program.arguments}
    if draw.chance(dialect.returns_name * 0.5):
        is_again = before_name in inputs
        chosen = before_name if is_again else draw.choice(("out", "y", "output", "result"))
        if is_again or chosen not in {used for node in body for used in names_in(node)}:
            body[-1:] = [assign(chosen, last.value), ast.Return(value=name(chosen))]


def _uses(node: ast.AST, wanted: str) -> int:
    return sum(found == wanted for found in names_in(node))


def _depth(node: ast.AST) -> int:
    return max((_depth(child) + isinstance(child, ast.Call) for child in ast.iter_child_nodes(node)), default=0)


def _length(node: ast.expr) -> int:
    return len(write_expression(node))


def _nest(body: list[ast.stmt], draw: Draw) -> None:
    """Write a value where it is used, if that is in the next statement alone and once."""
    place = 0
    while place < len(body) - 1:
        if not (_is_joinable(body, place) and draw.chance(0.75) and _put_in_next(body, place)):
            place += 1


def _join(body: list[ast.stmt], draw: Draw) -> None:
    """Write a step of arithmetic and the next one in one statement: `x * self.scale + self.bias`."""
    place = 0
    while place < len(body) - 1:
        values = (value_of(body[place]), value_of(body[place + 1]))
        is_pair = all(isinstance(value, ast.BinOp) and isinstance(value.op, _AUGMENTED) for value in values)
        if not (is_pair and _is_joinable(body, place) and draw.chance(0.4) and _put_in_next(body, place)):
            place += 1


def _is_joinable(body: list[ast.stmt], place: int) -> bool:
    """Return whether a statement's value is read in the next statement alone, once, and is short enough for it."""
    made, following, target = body[place], body[place + 1], target_of(body[place])
    is_rebound = target_of(following) == target or isinstance(following, ast.Return)
    is_free = is_rebound or not any(_uses(node, target) for node in body[place + 2 :])
    is_short = _depth(value_of(made)) + _depth(value_of(following)) <= _MOST_NESTED
    is_short = is_short and _length(value_of(made)) + _length(value_of(following)) < _MOST_LETTERS
    return is_free and is_short and _uses(value_of(following), target) == 1


def _put_in_next(body: list[ast.stmt], place: int) -> bool:
    """Write a statement's value into the next statement, in its place."""
    _substitute(body[place + 1], target_of(body[place]), value_of(body[place]))
    del body[place]
    return True


def _substitute(node: ast.stmt, wanted: str, value: ast.expr) -> None:
    def change(found: ast.expr) -> ast.expr | None:
        return value if isinstance(found, ast.Name) and found.id == wanted else None

    node.value = replaced(value_of(node), change)  # type: ignore[attr-defined]


def _name_each(program: Program, draw: Draw, is_each: bool) -> None:
    """Give values names of their own instead of the input's: one for all of them, or one for each."""
    body = program.forward
    taken = program.taken()
    free = [wanted for wanted in _TEMPORARIES if wanted not in taken]
    if not free:
        return
    chosen = draw.choice(free)
    current: dict[str, str] = {}
    for place, node in enumerate(body):
        value = value_of(node)
        rename_in(value, current)
        target = target_of(node)
        if not target or target not in {argument.name for argument in program.arguments}:
            continue
        if is_each:
            wanted = _describing_name(value)
            chosen = wanted if wanted and wanted not in taken else f"x{place + 1}"
            taken.add(chosen)
        current[target] = chosen
        assert isinstance(node, ast.Assign)
        node.targets = [ast.Name(id=chosen, ctx=ast.Store())]


_DESCRIBING = {
    "relu": "activated",
    "sigmoid": "gate",
    "softmax": "probs",
    "amax": "top",
    "sum": "total",
    "mean": "avg",
    "matmul": "prod",
    "clamp": "clipped",
}


def _describing_name(value: ast.expr) -> str:
    if isinstance(value, ast.Call):
        if attribute := attribute_of_self(value.func):
            return f"{attribute.lstrip('_')}_out"
        if found := find_operator(value):
            return _DESCRIBING.get(found, "")
    return {ast.Mult: "scaled", ast.Add: "shifted"}.get(type(getattr(value, "op", None)), "")  # type: ignore[arg-type]


_KEPT = ("identity", "identity", "residual", "shortcut", "skip")


def _keep_inputs(program: Program, draw: Draw) -> None:
    """Give an input that is read again later another name from the first: `identity = x`."""
    body = program.forward
    assigned = {target_of(node) for node in body}
    for argument in program.arguments:
        chosen = draw.choice(_KEPT)
        readers = [place for place, node in enumerate(body) if _uses(node, argument.name)]
        is_kept = len(readers) == 2 and readers[0] == 0 and argument.name not in assigned
        is_sum = is_kept and _adds(body[readers[1]], argument.name)
        if is_sum and chosen not in program.taken() and draw.chance(0.5):
            rename_in(body[readers[1]], {argument.name: chosen})
            body.insert(0, assign(chosen, name(argument.name)))
            return


def _adds(node: ast.stmt, wanted: str) -> bool:
    """Return whether a statement adds a name to something, or multiplies something by it."""
    sides: list[ast.expr] = [node.value] if isinstance(node, ast.AugAssign) else []
    for part in walk(node):
        if isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Add, ast.Mult)):
            sides += [part.left, part.right]
    return any(isinstance(side, ast.Name) and side.id == wanted for side in sides)


def _work_in_place(program: Program) -> None:
    """Write `x = x + y` as `x += y`, where `x` is no input of the model any more."""
    fresh: set[str] = set()
    for place, node in enumerate(program.forward):
        target, value = target_of(node), value_of(node)
        if target in fresh and isinstance(value, ast.BinOp) and _adds_to(value, target):
            program.forward[place] = ast.AugAssign(
                target=ast.Name(id=target, ctx=ast.Store()), op=value.op, value=value.right
            )
        elif target and _makes_new(value):
            fresh.add(target)


def _adds_to(value: ast.BinOp, target: str) -> bool:
    is_own = isinstance(value.left, ast.Name) and value.left.id == target
    return is_own and isinstance(value.op, _AUGMENTED) and not _uses(value.right, target)


def _makes_new(value: ast.expr) -> bool:
    """Return whether an expression's result shares no memory with an input."""
    if isinstance(value, ast.BinOp):
        return True
    return isinstance(value, ast.Call) and (attribute_of_self(value.func) != "" or find_operator(value) in _NEW)


_NEW = frozenset({"matmul", "relu", "sigmoid", "tanh", "gelu", "silu", "softplus", "leaky_relu", "elu", "clamp", "mm"})


def _make_method(program: Program, draw: Draw) -> None:
    """Move some statements `x = f(x)` into a method."""
    body = program.forward
    first = program.arguments[0].name
    known = {first, "self", "torch", "F", *(constant for constant, _ in program.constants)}
    able = [
        n for n, node in enumerate(body[:-1]) if target_of(node) == first and set(names_in(value_of(node))) <= known
    ]
    # several statements, or one that calculates: a method for a call alone is none that people write
    runs = [n for n in able if n + 1 in able or (n and isinstance(value_of(body[n]), ast.BinOp))]
    if not runs:
        return
    start = draw.choice(runs)
    end = start + 1 + (start + 1 in able)
    while end in able and draw.chance(0.5):
        end += 1
    chosen = _free_name(program, ("_activate", "_post", "epilogue", "_tail", "transform"), draw)
    moved = [*body[start:end], ast.Return(value=name(first))]
    if draw.chance(0.6):
        moved[-2:] = [ast.Return(value=value_of(moved[-2]))]
    argument = draw.choice((first, first, "t", "h"))
    for node in moved:
        rename_in(node, {first: argument})
    program.methods.append(Method(chosen, [argument], moved))
    value = call(own(chosen), name(first))
    body[start:end] = [assign(first, value)]
    last = body[-1]
    ends = start == len(body) - 2 and isinstance(last, ast.Return) and isinstance(last.value, ast.Name)
    if ends and draw.chance(0.6):
        body[-2:] = [ast.Return(value=value)]


def _free_name(program: Program, wanted: Sequence[str], draw: Draw) -> str:
    taken = {*program.attributes(), *(made.name for made in program.methods)}
    return draw.choice([one for one in wanted if one not in taken])


def _make_root(program: Program, draw: Draw) -> None:
    """Move what is under a root of `forward`, and the root, into a method."""
    names = {argument.name for argument in program.arguments}
    known = {"self", "torch", "F", *(constant for constant, _ in program.constants)}
    argument = draw.choice(("t", "x", "h", "v"))

    def change(node: ast.expr) -> ast.expr | None:
        if not _is_root(node):
            return None
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Attribute)
        used = set(names_in(node)) - known
        if len(used) != 1 or not used <= names:
            return None
        (given,) = used
        chosen = _free_name(program, _ROOT_METHODS[node.func.attr], draw)
        rename_in(node, {given: argument})
        program.methods.append(Method(chosen, [argument], [ast.Return(value=node)]))
        return call(own(chosen), name(given))

    for node in program.forward:
        replace_in(node, change)


_ROOT_METHODS = {"sqrt": ("rms", "_rms", "root", "_root"), "rsqrt": ("rms", "inv_rms", "_inv_norm", "_scale_of")}


def _is_root(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in ROOTS:
        return False
    return any(isinstance(part, ast.BinOp) for part in walk(node))
