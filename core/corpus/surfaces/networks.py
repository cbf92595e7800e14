"""How programs of several layers write them: one module used again, lists of layers and loops, functions that build.

What draws numbers keeps its place among draws. An answer copies the constructor and the functions that it calls, and
has a loop where the program has one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import pairwise

from ..builder.draw import Draw
from .expressions import (
    assign_own,
    attribute_of_self,
    call,
    name,
    names_in,
    own,
    path_of,
    replace_in,
    replaced,
    walk,
    write_expression,
)
from .layers import DEFAULTS, SIGNATURES
from .operators import OPERATORS
from .parameters import draws_numbers
from .program import Parameter, Program

_SHAREABLE = frozenset(f"nn.{one.module}" for one in OPERATORS.values() if one.module and "Loss" not in one.module)
_OWNING = ("nn.Conv", "nn.Linear", "nn.BatchNorm", "nn.InstanceNorm", "nn.LayerNorm")


def _kind(value: ast.expr) -> str:
    """Return what makes a layer, such as `nn.Linear`; empty for anything else."""
    return path_of(value.func) if isinstance(value, ast.Call) else ""


def is_network(program: Program) -> bool:
    """Return whether there are several layers with weights."""
    return sum(_kind(value).startswith(("nn.Conv", "nn.Linear")) for value in program.attributes().values()) > 1


def share_modules(program: Program) -> None:
    """Use one module wherever an equal one without weights would do."""
    first: dict[str, str] = {}
    for attribute, value in program.attributes().items():
        if _kind(value) in _SHAREABLE and (known := first.setdefault(ast.dump(value), attribute)) != attribute:
            program.moved[attribute] = known
    program.init[:] = [node for node in program.init if _assigned(node) not in program.moved]
    for node in program.statements():
        for part in walk(node):
            if isinstance(part, ast.Attribute) and attribute_of_self(part) in program.moved:
                part.attr = program.moved[part.attr]


def _assigned(node: ast.stmt) -> str:
    return attribute_of_self(node.targets[0]) if isinstance(node, ast.Assign) else ""


def keeps_order(program: Program, attributes: Sequence[str]) -> bool:
    """Return whether layers may be made in one place: nothing else draws numbers between those of them that do."""
    drawing = [attribute for attribute, value in program.attributes().items() if draws_numbers(value)]
    chosen = [attribute for attribute in attributes if attribute in drawing]
    start = drawing.index(chosen[0]) if chosen else 0
    return drawing[start : start + len(chosen)] == chosen


def _find_blocks(program: Program) -> tuple[int, int, list[list[str]]]:
    """Return the statements that repeat themselves but for layers: the first, their number, and layers by turn."""
    able = {attribute for attribute, value in program.attributes().items() if _kind(value).startswith(_OWNING)}
    read = [[found for part in walk(node) if (found := attribute_of_self(part)) in able] for node in program.forward]
    keys = [
        re.sub(r"attr='(\w+)'", lambda found: "layer" if found[1] in able else found[0], ast.dump(node))
        for node in program.forward
    ]
    best: tuple[int, int, list[list[str]]] = (0, 0, [])
    for length in range(1, 5):
        for start in range(len(keys) - 2 * length + 1):
            end = start + length
            while keys[end : end + length] == keys[start : start + length]:
                end += length
            turns = [[one for node in read[at : at + length] for one in node] for at in range(start, end, length)]
            every = [one for turn in turns for one in turn]
            if len(turns) > 1 and len(set(every)) == len(every) > 0 and len(every) > sum(map(len, best[2])):
                best = (start, length, turns)
    return best


def _write_alike(program: Program, made: Sequence[ast.expr], may_differ: bool = False) -> bool:
    """Write layers of one kind alike: widths by position, then options by name, each as one of them has it.

    Options must have one value in all of them, or may differ; else layers stay as they are. Returns whether not.
    """
    known = {one.name: one.value if one.is_passed else one.default or one.value for one in program.parameters}
    outside = dict((*program.values, *program.constants))

    def resolve(node: ast.expr) -> str:
        for names in (known, outside):
            node = names.get(node.id, node) if isinstance(node, ast.Name) else node
        return ast.dump(node) if not isinstance(node, ast.Name) else ""

    bound: list[dict[str, ast.expr]] = []
    for layer in made:
        keys = SIGNATURES.get(_kind(layer).removeprefix("nn."), ())
        if not isinstance(layer, ast.Call) or len(layer.args) > len(keys) or any(not one.arg for one in layer.keywords):
            return False
        bound.append(dict(zip(keys, layer.args, strict=False)) | {str(one.arg): one.value for one in layer.keywords})
    options = sorted({key for one in bound for key in one} - {"in_channels", "in_features"})
    options = [key for key in options if key not in ("out_channels", "out_features", "num_features")]
    shown: dict[str, list[ast.expr]] = {}
    for key in options:
        values = [one.get(key, ast.Constant(value=DEFAULTS.get(key))) for one in bound]
        if len(found := {resolve(value) for value in values}) == 1 and found != {""}:
            values = [next((value for value in values if isinstance(value, ast.Name)), values[0])] * len(bound)
        elif not may_differ:
            return False
        shown[key] = values
    for at, (layer, one) in enumerate(zip(made, bound, strict=True)):
        assert isinstance(layer, ast.Call)
        layer.args = [value for key, value in one.items() if key not in shown]
        layer.keywords = [ast.keyword(arg=key, value=values[at]) for key, values in shown.items()]
    return True


_LISTS: dict[str, tuple[tuple[str, str], ...]] = {
    "nn.Linear": (("layers", "layer"), ("layers", "layer"), ("hidden", "layer"), ("linears", "lin"), ("fcs", "fc")),
    "nn.Conv2d": (("convs", "conv"), ("layers", "layer"), ("convs", "conv"), ("stages", "stage")),
    "nn.BatchNorm2d": (("norms", "norm"), ("bns", "bn")),
}


def list_layers(program: Program, draw: Draw) -> bool:
    """Put the layers of statements that repeat themselves into lists, and the statements into a loop."""
    start, length, turns = _find_blocks(program)
    if not turns:
        return False
    made = program.attributes()
    lists = list(zip(*turns, strict=True))
    kinds = [{_kind(made[one]) for one in layers} for layers in lists]
    uses = [attribute_of_self(part) for node in (*program.init, *program.statements()) for part in walk(node)]
    if any(len(kind) > 1 or not kind <= _LISTS.keys() for kind in kinds):
        return False
    if any(uses.count(one) > 2 for layers in lists for one in layers):
        return False
    if sum(draws_numbers(made[layers[0]]) for layers in lists) != 1 or not all(
        keeps_order(program, one) for one in lists
    ):
        return False
    if kinds[0] == {"nn.BatchNorm2d"} or not all(
        _write_alike(program, [made[one] for one in layers]) for layers in lists
    ):
        return False
    names = [draw.choice(_LISTS[kind]) for (kind,) in kinds]
    if len({*names}) < len(names) or any(found in program.taken() | {*made} for pair in names for found in pair):
        return False
    for (container, _), layers in zip(names, lists, strict=True):
        lines = _write_list(program, container, [made[one] for one in layers], draw)
        first = next(at for at, node in enumerate(program.init) if _assigned(node) == layers[0])
        program.init[first : first + 1] = lines
        program.init[:] = [node for node in program.init if _assigned(node) not in layers]
        program.moved.update({one: f"{container}[{place}]" for place, one in enumerate(layers)})
    body = program.forward[start : start + length]
    variables = dict(zip(turns[0], (variable for _, variable in names), strict=True))

    def change(node: ast.expr) -> ast.expr | None:
        return name(variables[found]) if (found := attribute_of_self(node)) in variables else None

    for node in body:
        replace_in(node, change)
    program.forward[start : start + length * len(turns)] = [_loop(names, _joined(body, draw))]
    program.loops.append((tuple(names), len(turns)))
    return True


def _loop(names: Sequence[tuple[str, str]], body: list[ast.stmt]) -> ast.stmt:
    lists = [own(container) for container, _ in names]
    variables = ", ".join(variable for _, variable in names)
    (loop,) = ast.parse(f"for {variables} in x: pass").body
    assert isinstance(loop, ast.For)
    loop.iter, loop.body = lists[0] if len(lists) == 1 else call("zip", *lists), body
    return ast.fix_missing_locations(loop)


def _joined(body: list[ast.stmt], draw: Draw) -> list[ast.stmt]:
    """Write a block's steps, each of which makes `x` of the last, at times as one expression."""
    targets = [node.targets[0] for node in body if isinstance(node, ast.Assign)]
    names = {one.id for one in targets if isinstance(one, ast.Name)}
    counts = [sum(found in names for found in names_in(node)) for node in body]
    if len(body) > 3 or len(targets) < len(body) or len(names) != 1 or counts != [2] * len(body) or draw.chance(0.4):
        return body
    first, *others = body
    for node in others:
        value = first.value  # type: ignore[attr-defined]

        def change(found: ast.expr, value: ast.expr = value) -> ast.expr | None:
            return value if isinstance(found, ast.Name) and found.id in names else None

        node.value = replaced(node.value, change)  # type: ignore[attr-defined]
        first = node
    return [first]


_WIDTHS = {
    "nn.Linear": ("hidden_sizes", "hidden_dims", "layer_sizes"),
    "nn.Conv2d": ("filters", "widths", "num_filters"),
}
_PAIRS = (("a", "b"), ("n_in", "n_out"), ("c_in", "c_out"), ("prev", "width"))


def _write_list(program: Program, container: str, layers: Sequence[ast.expr], draw: Draw) -> list[ast.stmt]:
    """Write a list of layers: each by itself, or by a loop over the widths that the constructor is given."""
    given = {one.name: one for one in program.parameters if one.is_passed and one.default is None}
    calls = [layer for layer in layers if isinstance(layer, ast.Call)]
    ends = [layer.args[:2] for layer in calls]
    rest = {
        ast.dump(call("f", *layer.args[2:], **{str(one.arg): one.value for one in layer.keywords})) for layer in calls
    }
    texts = [[write_expression(end) for end in pair] for pair in ends]
    outer = [pair[1] for pair in texts if len(pair) == 2]
    is_chain = len(rest) == 1 and len(outer) == len(layers) and {*outer} <= given.keys() and texts[0][0] not in outer
    is_chain = is_chain and all(one[1] == other[0] for one, other in pairwise(texts))
    kind, taken = _kind(layers[0]), program.taken() | given.keys()
    widths = [one for one in _WIDTHS.get(kind, ()) if one not in taken]
    if not is_chain or not widths or draw.chance(0.2):
        return [assign_own(container, call("nn.ModuleList", ast.List(elts=list(layers), ctx=ast.Load())))]
    chosen = draw.choice(widths)
    values = [given[one].value for one in outer]
    at = next(place for place, one in enumerate(program.parameters) if one.name in outer)
    program.parameters.insert(at, Parameter(chosen, ast.List(elts=values, ctx=ast.Load())))
    program.parameters[:] = [one for one in program.parameters if one.name not in outer]
    last = {one: place - len(outer) if place == len(outer) - 1 else place for place, one in enumerate(outer)}

    def change(node: ast.expr) -> ast.expr | None:
        if isinstance(node, ast.Name) and node.id in last:
            return ast.Subscript(value=name(chosen), slice=ast.Constant(value=last[node.id]), ctx=ast.Load())
        return None

    first, others = ends[0][0], calls[0]
    pairs = [pair for pair in _PAIRS if not {*pair} & (taken | {chosen})]
    inner, made = draw.choice(pairs)
    others.args[:2] = [name(inner), name(made)]
    layer, begin, all_of = (
        write_expression(others),
        write_expression(first),
        draw.choice(("dims", "sizes", "all_sizes")),
    )
    start = draw.choice((f"{all_of} = [{begin}, *{chosen}]", f"{all_of} = [{begin}] + list({chosen})"))
    zipped = draw.choice((f"zip({all_of}[:-1], {all_of}[1:])", f"zip({all_of}, {all_of}[1:])"))
    text = draw.choice(
        (
            f"{start}\nself.{container} = nn.ModuleList([{layer} for {inner}, {made} in {zipped}])",
            f"{start}\nself.{container} = nn.ModuleList({layer} for {inner}, {made} in {zipped})",
            f"self.{container} = nn.ModuleList()\n{inner} = {begin}\nfor {made} in {chosen}:\n"
            f"    self.{container}.append({layer})\n    {inner} = {made}",
        )
    )
    for node in program.init:
        if _assigned(node) and not any(getattr(node, "value", None) is one for one in layers):
            replace_in(node, change)
    return ast.parse(text).body


_BUILT = (("in_planes", "out_planes"), ("c_in", "c_out"), ("in_channels", "out_channels"), ("in_ch", "out_ch"))


def build_layers(program: Program, draw: Draw) -> None:
    """Make layers, or rows of layers, that differ in a few arguments by a function of these."""
    values = list(program.attributes().values())
    rows = [value for value in values if _kind(value) == "nn.Sequential"]
    inner = [part for value in values for part in (value.args if value in rows else [value])]  # type: ignore[attr-defined]
    for wanted in ("nn.Sequential", "nn.Conv2d", "nn.Linear"):
        groups: dict[str, list[ast.Call]] = {}
        for value in rows if wanted == "nn.Sequential" else inner:
            if isinstance(value, ast.Call) and _kind(value) == wanted:
                words = [word.value for word in value.keywords if word.arg == "kernel_size"] + value.args[2:3]
                key = _form(value) if wanted == "nn.Sequential" else "".join(map(ast.dump, words))
                groups.setdefault(key, []).append(value)
        for made in groups.values():
            is_alike = len(made) > 1 and (wanted == "nn.Sequential" or _write_alike(program, made, may_differ=True))
            if is_alike and _build(program, made, draw):
                return


def _form(value: ast.expr) -> str:
    """Return a call without what it is given, but for calls."""
    if not isinstance(value, ast.Call):
        return ""
    keys = [str(word.arg) for word in value.keywords]
    return f"{path_of(value.func)}({', '.join((*map(_form, value.args), *keys))})"


def _build(program: Program, made: list[ast.Call], draw: Draw) -> bool:
    ends = draw.choice(_BUILT)
    slots: dict[tuple[str, ...], tuple[str, list[ast.expr]]] = {}

    def unify(nodes: list[ast.expr], wanted: str) -> ast.expr:
        first = nodes[0]
        if isinstance(first, ast.Call) and (kind := _kind(first)).startswith("nn."):
            calls = [node for node in nodes if isinstance(node, ast.Call)]
            keys = SIGNATURES.get(kind.removeprefix("nn."), ())
            args = [
                unify([one.args[at] for one in calls], keys[at] if at < len(keys) else f"part{at}")
                for at in range(len(first.args))
            ]
            words = {
                str(word.arg): unify([one.keywords[at].value for one in calls], str(word.arg))
                for at, word in enumerate(first.keywords)
            }
            return call(kind, *args, **words)
        texts = tuple(write_expression(node) for node in nodes)
        if len({*texts}) == 1 and not any(names_in(first)):
            return first
        called = {"in_channels": ends[0], "out_channels": ends[1]}.get(wanted, wanted)
        return name(slots.setdefault(texts, (called, nodes))[0])

    template = unify(list(made), "")
    names = [called for called, _ in slots.values()]
    title, kind = draw.choice(("make_block", "conv_block", "block")), _kind(made[0])
    widths = [word.value for word in made[0].keywords if word.arg == "kernel_size"] + made[0].args[2:3]
    if kind == "nn.Linear":
        title = draw.choice(("dense", "make_linear", "linear_layer"))
    elif kind == "nn.Conv2d":
        is_number = bool(widths) and isinstance(widths[0], ast.Constant)
        title = f"conv{widths[0].value}x{widths[0].value}" if is_number else "make_conv"  # type: ignore[attr-defined]
    is_constant = any(isinstance(part, ast.Constant) for part in walk(template))
    if not 0 < len(names) < 5 or len({*names}) < len(names) or not is_constant or title in program.taken():
        return False
    shown, last = list(names), list(slots.values())[-1]
    usual = [one.value for one in last[1] if isinstance(one, ast.Constant)]
    has_default = names[-1] == "stride" and 1 in usual
    if has_default:
        shown[-1] = "stride=1"
    program.functions.append((title, f"def {title}({', '.join(shown)}):", ast.Return(value=template)))
    for at, one in enumerate(made):
        given = [nodes[at] for _, nodes in slots.values()]
        if has_default and getattr(given[-1], "value", 0) == 1:
            given.pop()
        one.func, one.args, one.keywords = name(title), given, []
    return True
