"""A task's surface: the same computation as an author of some dialect would write it.

Passes change the canonical program as a syntax tree; the solution follows where the interface does. The computation,
the parameters and the order in which they are drawn stay as they are.
"""

from __future__ import annotations

import ast
import re

from attrs import evolve

from ...task import Constants, Example, Task
from ..builder.draw import Draw
from . import layers
from .dialects import Dialect, dialects
from .documents import entitle, tell
from .expressions import attribute_of_self, call, names_in, path_of, rename_in, target_of, words_in
from .flow import arrange_flow
from .layout import Layout
from .networks import build_layers, is_network
from .operators import find_operator, pass_forward_numbers, spell_operators
from .parameters import draws_numbers, fill_parameters, keep_root, pass_initial_values, pass_shapes
from .program import Program, read_program
from .sizes import profile_names, write_sizes
from .solution import Renamed, write_solution

_INPUTS: dict[str, tuple[str, ...]] = {
    "x": ("x", "x", "x", "x", "input", "inputs", "input_tensor", "data", "tensor"),
    "inp": ("x", "x", "inp", "input", "inputs", "images", "features"),
    "a": ("x", "a", "input", "A", "tensor"),
    "b": ("b", "y", "B", "other"),
    "skip": ("skip", "residual", "identity", "y", "shortcut"),
    "r": ("residual", "r", "y", "addend"),
    "other": ("other", "y", "z", "residual"),
    "pred": ("pred", "predictions", "output", "logits"),
    "target": ("target", "targets", "labels"),
    "w": ("w", "weight", "W"),
}
_FACTORS = (["a", "b"], ["x", "y"], ["x", "w"])
_PAIRS = (
    *(("a", "b"), ("a", "b"), ("A", "B"), ("A", "B"), ("x", "y")),
    *(("left", "right"), ("mat1", "mat2"), ("lhs", "rhs")),
)
_AS_MODULES = 100
"""How much oftener operators are modules where modules are put into `nn.Sequential`."""


_BUILDING = 0.25
"""Of the programs of several layers: a function makes those that are alike."""


def draw_dialect(draw: Draw, is_heldout: bool) -> Dialect:
    """Draw one of the dialects that training may have, or of those that it never has."""
    return draw.choice(dialects(is_heldout))


def write_surface(example: Example, dialect: Dialect, draw: Draw) -> Example:
    """Write a canonical example as an author of the dialect would."""
    program = read_program(example.task.source)
    task, layout, renamed = _write_program(example.task, program, words_in(example.solution), dialect, draw)
    solution = write_solution(example.solution, program, layout, renamed)
    return Example(task=task, solution=solution, style=f"{example.style}/{dialect.name}")


def write_task_surface(task: Task, dialect: Dialect, draw: Draw) -> Task:
    """Write a canonical task that has no teacher as an author of the dialect would."""
    return _write_program(task, read_program(task.source), set(), dialect, draw)[0]


def _write_program(
    task: Task, program: Program, taken: set[str], dialect: Dialect, draw: Draw
) -> tuple[Task, Layout, Renamed]:
    """Write the task anew, and return what inputs and attributes are called now; `taken` names stay free."""
    if draw.chance(dialect.sequential):
        dialect = evolve(dialect, sequential=1.0, operators=(*dialect.operators, ("module", _AS_MODULES)))
    else:
        dialect = evolve(dialect, sequential=0.0)
    inputs = _rename_inputs(program, words_in(task.source) | taken, draw)
    layers.rename_parameters(program, draw)
    attributes = layers.rename_attributes(program, draw)
    layers.pass_numbers(program, dialect, draw)
    pass_forward_numbers(program, dialect, draw)
    pass_initial_values(program, dialect, draw)
    program.kept_dims.update(layers.kept_numbers(program, ("dim", "axis")))
    spell_operators(program, dialect, draw)
    shown = ""
    is_described = draw.chance(dialect.described)
    if is_described and draw.chance(0.4):
        shown = entitle(program, draw)
    if draw.chance(dialect.passed_shapes):
        pass_shapes(program)
    if draw.chance(dialect.init_functions):
        fill_parameters(program, draw)
    layers.write_keywords(program, dialect, draw)
    layers.give_defaults(program, dialect, draw)
    layers.name_values(program, dialect, draw)
    if program.parameters and draw.chance(dialect.further_keywords):
        layers.take_keywords(program, draw)
    arrange_flow(program, dialect, draw)
    if draw.chance(dialect.flags):
        _ask_flag(program, draw)
    if draw.chance(dialect.computed_attributes):
        keep_root(program, draw)
    if draw.chance(dialect.asserts):
        layers.assert_arguments(program, draw)
    if draw.chance(dialect.uniform_inputs):
        _draw_uniform(program)
    elif draw.chance(0.1):
        _scale_input(program, draw)
    if draw.fork("functions").chance(_BUILDING) and is_network(program):
        build_layers(program, draw.fork("functions"))
    sizes = write_sizes(program, dialect, draw)
    description = re.sub(r"\b\w+\b", lambda match: inputs.get(match[0], match[0]), task.description)
    layout = Layout(program, dialect, tell(description, draw), draw)
    source = layout.write(sizes)
    names = profile_names(sizes, source)
    if is_described and not shown:
        shown = tell(description, draw)
    written = evolve(
        task,
        description=shown,
        source=source,
        tiny=_renamed(task.tiny, names),
        small=_renamed(task.small, names),
        larger=_renamed(task.larger, names),
    )
    return written, layout, Renamed(inputs=inputs, attributes=attributes)


def _renamed(constants: Constants, names: dict[str, str]) -> Constants:
    """Return a profile by the names of the surface; where two sizes have one name, the larger one."""
    found: dict[str, int] = {}
    for canonical, value in constants:
        if canonical in names:
            found[names[canonical]] = max(value, found.get(names[canonical], 0))
    return tuple(found.items())


def _rename_inputs(program: Program, taken: set[str], draw: Draw) -> dict[str, str]:
    """Call inputs otherwise, by names that are not taken."""
    changes: dict[str, str] = {}
    wanted = [draw.choice(_INPUTS.get(argument.name, (argument.name,))) for argument in program.arguments]
    if [argument.name for argument in program.arguments] in _FACTORS:
        wanted = list(draw.choice(_PAIRS))
    for argument, chosen in zip(program.arguments, wanted, strict=True):
        if chosen not in taken:
            taken.add(chosen)
            changes[argument.name] = chosen
            argument.name = chosen
    for node in program.statements():
        rename_in(node, changes)
    return changes


def _ask_flag(program: Program, draw: Draw) -> None:
    """Put a step `x = f(x)` of the forward pass under a flag of the constructor, which is set by default."""
    able = [(place, found) for place, node in enumerate(program.forward) if (found := _name_step(node, program))]
    if not able:
        return
    place, found = draw.choice(able)
    set_flag = ast.Constant(value=True)
    test = layers.keep_number(program, f"{draw.choice(('use', 'use', 'apply', 'with'))}_{found}", set_flag)
    if test is not None:
        program.parameters[-1].default, program.parameters[-1].is_passed = set_flag, False
        program.forward[place] = ast.If(test=test, body=[program.forward[place]], orelse=[])


_STEP_NAMES = {ast.Add: "shift", ast.Sub: "shift", ast.Mult: "scaling", ast.Div: "scaling"}


def _name_step(node: ast.stmt, program: Program) -> str:
    """Return what a step that gives a name a value of its own is called; empty for others, and for layers."""
    target = target_of(node)
    if not isinstance(node, ast.Assign) or not target or target not in names_in(node.value):
        return ""
    value = node.value
    if isinstance(value, ast.BinOp):
        return _STEP_NAMES.get(type(value.op), "")
    if not isinstance(value, ast.Call):
        return ""
    if attribute := attribute_of_self(value.func):
        made = program.attributes().get(attribute)
        return "" if made is None or draws_numbers(made) else attribute
    return find_operator(value)


def _draw_uniform(program: Program) -> None:
    """Draw the input of a layer from [0, 1), where it is drawn from a normal distribution of unit scale.

    Layers have weights of both signs or normalise, so that their results differ as before.
    """
    kinds = {path_of(layer.func) for layer in layers.layers_in(program)}
    first = program.arguments[0].value
    if isinstance(first, ast.Call) and path_of(first.func) == "torch.randn" and any(_mixes(kind) for kind in kinds):
        program.arguments[0].value = call("torch.rand", *first.args)


def _scale_input(program: Program, draw: Draw) -> None:
    """Scale the input of a convolution, of pooling or of a norm: `torch.randn(...) * 0.5`."""
    kinds = {path_of(layer.func) for layer in layers.layers_in(program)}
    first = program.arguments[0].value
    is_plain = isinstance(first, ast.Call) and path_of(first.func) == "torch.randn"
    if not is_plain or "nn.Linear" in kinds or not any(_mixes(kind) for kind in kinds):
        return
    assert isinstance(first, ast.Call)
    if draw.chance(0.25):
        value = ast.BinOp(left=call("torch.rand", *first.args), op=ast.Mult(), right=ast.Constant(value=2))
        program.arguments[0].value = ast.BinOp(left=value, op=ast.Sub(), right=ast.Constant(value=1))
        return
    number = ast.Constant(value=draw.choice((0.5, 0.5, 0.8, 1.5, 2.0, 3.0)))
    left, right = (number, first) if draw.chance(0.5) else (first, number)
    program.arguments[0].value = ast.BinOp(left=left, op=ast.Mult(), right=right)


def _mixes(kind: str) -> bool:
    return kind.startswith(("nn.Conv", "nn.Linear", "nn.MaxPool")) or kind.endswith("Norm")
