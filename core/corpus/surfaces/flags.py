"""Steps of `forward` under a flag that the constructor is given."""

from __future__ import annotations

import ast

from ..builder.draw import Draw
from .expressions import attribute_of_self, names_in
from .flow import target_of
from .layers import keep_number
from .operators import find_operator
from .parameters import draws_numbers
from .program import Program


def ask_flag(program: Program, draw: Draw) -> None:
    """Put a step `x = f(x)` of the forward pass under a flag of the constructor, which is set by default."""
    able = [(place, found) for place, node in enumerate(program.forward) if (found := _name_step(node, program))]
    if not able:
        return
    place, found = draw.choice(able)
    set_flag = ast.Constant(value=True)
    test = keep_number(program, f"{draw.choice(('use', 'use', 'apply', 'with'))}_{found}", set_flag)
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
