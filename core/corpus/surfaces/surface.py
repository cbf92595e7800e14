"""A task's surface: the same computation as an author of some dialect would write it.

Passes change the canonical program as a syntax tree; the solution follows where the interface does. The computation,
the parameters and the order in which they are drawn stay as they are.

A teacher's `ModelNew` has the constructor of `Model` line by line, without its docstring, and the methods that it
calls, and calls `super().__init__()` whatever the program does. Kernels stay, behind the functions that launch them.
Numbers and dimensions that the program keeps are read from there: what an answer can copy it need not look up.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from ...task import Constants, Example, Task
from ..builder.draw import Draw
from . import layers
from .dialects import Dialect, dialects
from .documents import entitle, tell
from .expressions import call, path_of, rename_in, words_in
from .flags import ask_flag
from .flow import arrange_flow
from .layout import Layout, write_body, write_constants, write_parameters
from .named_numbers import name_numbers
from .operators import pass_forward_numbers, spell_operators
from .parameters import fill_parameters, keep_root, pass_initial_values, pass_shapes
from .program import Program, read_program
from .sizes import profile_names, write_sizes

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


@frozen(kw_only=True)
class Renamed:
    """What a surface calls inputs and attributes, by their names in the canonical program."""

    inputs: Mapping[str, str]
    attributes: Mapping[str, str]


def draw_dialect(draw: Draw, is_heldout: bool) -> Dialect:
    """Draw one of the dialects that training may have, or of those that it never has."""
    return draw.choice(dialects(is_heldout))


def write_surface(example: Example, dialect: Dialect, draw: Draw) -> Example:
    """Write a canonical example as an author of the dialect would; one that is not canonical stays as it is."""
    program, parts = read_program(example.task.source), split_solution(example.solution)
    if program is None or parts is None or not has_same_constructor(parts[1], program):
        return example
    task, layout, renamed = _write_program(example.task, program, words_in(example.solution), dialect, draw)
    return Example(
        task=task,
        solution=write_solution(parts, program, layout, renamed),
        style=f"{example.style}/{dialect.name}",
    )


def write_task_surface(task: Task, dialect: Dialect, draw: Draw) -> Task:
    """Write a canonical task that has no teacher as an author of the dialect would."""
    program = read_program(task.source)
    return task if program is None else _write_program(task, program, set(), dialect, draw)[0]


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
        ask_flag(program, draw)
    if draw.chance(dialect.computed_attributes):
        keep_root(program, draw)
    if draw.chance(dialect.asserts):
        layers.assert_arguments(program, draw)
    if draw.chance(dialect.uniform_inputs):
        _draw_uniform(program)
    elif draw.chance(0.1):
        _scale_input(program, draw)
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


_HEAD = "class ModelNew(nn.Module):\n"


def split_solution(solution: str) -> tuple[str, str, str] | None:
    """Return what comes before the constructor, the constructor's body, and `forward`; none for another form."""
    kernels, found, model = solution.partition(_HEAD)
    constructor, met, forward = model.partition("    def forward(self, ")
    if not found or not met:
        return None
    return kernels, constructor, "    def forward(self, " + forward


def has_same_constructor(constructor: str, program: Program) -> bool:
    """Return whether a solution's constructor is that of the canonical program."""
    own, wanted = constructor.strip(), _write_constructor(program).strip()
    return own == wanted or ast.dump(ast.parse(own)) == ast.dump(ast.parse(wanted))


def _write_constructor(program: Program) -> str:
    if not program.init and not program.parameters:
        return ""
    head = ", ".join(("self", *write_parameters(program, False)))
    text = _write_method("__init__", head, ("super().__init__()", *write_body(program.init)))
    for made in program.called_methods():
        text += _write_method(made.name, ", ".join(("self", *made.arguments)), write_body(made.body))
    return text


def _write_method(name: str, head: str, body: Sequence[str]) -> str:
    return f"    def {name}({head}):\n" + "".join(f"        {line}\n" for line in body) + "\n"


def write_solution(parts: tuple[str, str, str], program: Program, layout: Layout, renamed: Renamed) -> str:
    """Write the solution from the top down, with inputs and attributes called as in the surface.

    The class comes first, as the program has it, then each function that it calls with the kernel that this launches:
    whoever writes a kernel has read what it is given.
    """
    imports, *blocks = parts[0].rstrip("\n").split(_GAP)
    forward = _write_forward(parts[2], program, renamed)
    model = layout.write_answer([line.removeprefix("    ") for line in forward.rstrip("\n").split("\n")])
    missing = [line for line in layout.copied_imports() if line not in imports.splitlines()]
    imports = "\n".join((*missing, imports))
    return _GAP.join((imports, *write_constants(program), model, *_from_the_top(blocks))) + "\n"


_GAP = "\n\n\n"


def _from_the_top(blocks: Sequence[str]) -> list[str]:
    """Put each function before the kernels that it launches, which come before it where they are written first."""
    ordered: list[str] = []
    kernels: list[str] = []
    for block in blocks:
        if block.startswith("@triton.jit"):
            kernels.append(block)
        else:
            ordered += [block, *kernels]
            kernels = []
    return [*ordered, *kernels]


def _write_forward(forward: str, program: Program, renamed: Renamed) -> str:
    moved = {old: program.moved.get(new, new) for old, new in renamed.attributes.items()}

    def attribute(match: re.Match[str]) -> str:
        return f"self.{moved.get(match[1], program.moved.get(match[1], match[1]))}"

    def local(match: re.Match[str]) -> str:
        return renamed.inputs.get(match[0], match[0])

    def dim(match: re.Match[str]) -> str:
        kept = program.kept_dims.get(int(match[1]))
        return match[0] if kept is None else f"dim=self.{kept}"

    forward = re.sub(r"\bself\.(\w+)", attribute, forward)
    for number in ("stride", "padding"):
        if isinstance(kept := program.attributes().get(number), ast.Name) and kept.id == number:
            forward = re.sub(rf"\b{number}=\d+", f"{number}=self.{number}", forward)
    forward = re.sub(r"\bdim=(-?\d+)\b(?!\.)", dim, forward)
    if renamed.inputs:
        # neither attributes, nor keywords of a launch, nor texts
        forward = re.sub(r"(?<![\w.\"'])[A-Za-z_]\w*(?![\w\"'])(?!=[^=])", local, forward)
    return name_numbers(forward, program)
