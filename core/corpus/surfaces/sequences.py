"""Modules that follow one another, put into `nn.Sequential`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..builder.draw import Draw
from .expressions import (
    assign,
    assign_own,
    attribute_of_self,
    call,
    dotted,
    name,
    names_in,
    own,
    path_of,
    target_of,
    value_of,
    walk,
)
from .networks import keeps_order
from .parameters import draws_numbers
from .program import Program


def _module_of(node: ast.stmt, program: Program, current: str) -> str:
    """Return the attribute of a statement `x = self.attribute(x)` with a module; empty for anything else."""
    value = getattr(node, "value", None)
    if not isinstance(value, ast.Call) or len(value.args) != 1 or value.keywords:
        return ""
    (given,) = value.args
    attribute = attribute_of_self(value.func)
    made = program.attributes().get(attribute)
    if not isinstance(given, ast.Name) or given.id != current or made is None or not isinstance(made, ast.Call):
        return ""
    is_layer = path_of(made.func).startswith("nn.") and path_of(made.func) != "nn.Parameter"
    return attribute if is_layer else ""


_CONTAINERS = ("layers", "net", "seq", "block", "model")


def _find_run(program: Program, begin: int = 0, is_of_layers: bool = False) -> tuple[int, list[str]]:
    """Return the first statements that call one module after another: where they begin, and the attributes.

    Only the first of them may draw numbers, but where there are several layers.
    """
    first, made = program.arguments[0].name, program.attributes()
    start, run = begin, list[str]()
    for place, node in enumerate(program.forward[begin:], begin):
        if is_of_layers and not run:
            first = next((found for found in names_in(value_of(node)) if found != "self"), "")
        found = _module_of(node, program, first)
        is_next = found and found not in run and (is_of_layers or not draws_numbers(made[found]))
        if run and is_next and (not is_of_layers or target_of(node) == first or isinstance(node, ast.Return)):
            run.append(found)
        elif len(run) > 1:
            break
        else:
            start, run = place, [found] if found else []
        if is_of_layers and run:
            first = target_of(node)
    return start, run


def make_sequential(program: Program, draw: Draw, is_of_layers: bool) -> None:
    """Put modules that follow one another into `nn.Sequential`, in several where there are several layers."""
    start, run = _find_run(program, 0, is_of_layers)
    if not is_of_layers:
        _put_in_sequence(program, draw, start, run, ())
        return
    shortens = draw.chance(0.4)
    while run:
        made = program.attributes()
        cuts = [place for place, one in enumerate(run) if place > 1 and draws_numbers(made[one])]
        if shortens and cuts:
            run = run[: cuts[0]]
        has_products = any("Linear" in path_of(made[one].func) for one in run)  # type: ignore[attr-defined]
        wanted = ("classifier", "head", "mlp") if has_products else ("features", "stem", "body", "stage", "encoder")
        is_put = keeps_order(program, run) and _put_in_sequence(program, draw, start, run, wanted)
        start, run = _find_run(program, start + (1 if is_put else max(1, len(run))), True)


def _put_in_sequence(program: Program, draw: Draw, start: int, run: list[str], names: Sequence[str]) -> bool:
    """Put modules into one `nn.Sequential`, if they are two or more; what draws numbers keeps its place among draws."""
    body = program.forward
    made = program.attributes()
    end = start + len(run)
    places = {
        attribute_of_self(node.targets[0]): n for n, node in enumerate(program.init) if isinstance(node, ast.Assign)
    }
    if len(run) < 2:
        return False
    first = next(found for found in names_in(value_of(body[start])) if found != "self")
    target = target_of(body[start]) or first
    others = [node for n, node in enumerate(program.init) if n not in {places[one] for one in run}]
    if any(attribute_of_self(part) in run for node in others for part in walk(node)):
        return False
    if any(attribute_of_self(part) in run for node in body[:start] + body[end:] for part in walk(node)):
        return False
    wanted = (*_CONTAINERS, f"{run[0]}_{run[1]}", f"{run[0]}_{run[1]}", f"{run[0]}_block", *names, *names)
    container = draw.choice([one for one in wanted if one not in made])
    sequence = call(dotted("nn.Sequential"), *(made[one] for one in run))
    head = next((one for one in run if draws_numbers(made[one])), run[0])
    kept = [node for n, node in enumerate(program.init) if n not in {places[one] for one in run if one != head}]
    first_made = program.init[places[head]]
    program.init[:] = [assign_own(container, sequence) if node is first_made else node for node in kept]
    program.moved.update({one: f"{container}[{place}]" for place, one in enumerate(run)})
    value = call(own(container), name(first))
    is_last = isinstance(body[end - 1], ast.Return)
    body[start:end] = [ast.Return(value=value) if is_last else assign(target, value)]
    return True
