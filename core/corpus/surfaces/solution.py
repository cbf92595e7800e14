"""Rewrites a teacher's solution so that its interface is the surface's: constructor, attributes, inputs.

`ModelNew` has the constructor of `Model`, without hints and prose, and the methods that it calls, and calls
`super().__init__()` whatever the program does. Kernels stay as they are. A dimension that the program keeps as an
attribute is read from there: what an answer can copy it need not look up.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from .expressions import attribute_of_self, walk
from .layout import write_body, write_parameters
from .program import Program

_HEAD = "class ModelNew(nn.Module):\n"
_WORD = re.compile(r"[A-Za-z_]\w*")


def words_in(text: str) -> set[str]:
    """Return the identifiers of a text."""
    return set(_WORD.findall(text))


def split_solution(solution: str) -> tuple[str, str, str] | None:
    """Return what comes before the constructor, the constructor's body, and `forward`; none for another form."""
    kernels, found, model = solution.partition(_HEAD)
    constructor, met, forward = model.partition("    def forward(self, ")
    if not found or not met:
        return None
    return kernels, constructor, "    def forward(self, " + forward


def has_same_constructor(constructor: str, program: Program) -> bool:
    """Return whether a solution's constructor is that of the canonical program."""
    own, wanted = constructor.strip(), write_constructor(program).strip()
    return own == wanted or ast.dump(ast.parse(own)) == ast.dump(ast.parse(wanted))


def write_constructor(program: Program) -> str:
    """Write the constructor of `ModelNew`; empty where the model has none."""
    if not program.init and not program.parameters:
        return ""
    called = {attribute_of_self(part.func) for node in program.init for part in walk(node) if _is_call(part)}
    head = ", ".join(("self", *write_parameters(program, False)))
    text = _write_method("__init__", head, ("super().__init__()", *write_body(program.init)))
    for made in program.methods:
        if made.name in called:
            text += _write_method(made.name, ", ".join(("self", *made.arguments)), write_body(made.body))
    return text


def _is_call(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call)


def _write_method(name: str, head: str, body: Sequence[str]) -> str:
    return f"    def {name}({head}):\n" + "".join(f"        {line}\n" for line in body) + "\n"


def write_solution(
    parts: tuple[str, str, str], program: Program, inputs: Mapping[str, str], attributes: Mapping[str, str]
) -> str:
    """Write the solution with inputs and attributes called as in the surface."""
    kernels, _, forward = parts
    moved = {old: program.moved.get(new, new) for old, new in attributes.items()}

    def attribute(match: re.Match[str]) -> str:
        return f"self.{moved.get(match[1], program.moved.get(match[1], match[1]))}"

    def local(match: re.Match[str]) -> str:
        return inputs.get(match[0], match[0])

    def dim(match: re.Match[str]) -> str:
        kept = program.kept_dims.get(int(match[1]))
        return match[0] if kept is None else f"dim=self.{kept}"

    forward = re.sub(r"\bself\.(\w+)", attribute, forward)
    forward = re.sub(r"\bdim=(-?\d+)", dim, forward)
    if inputs:
        # neither attributes, nor keywords of a launch, nor texts
        forward = re.sub(r"(?<![\w.\"'])[A-Za-z_]\w*(?![\w\"'])(?!=[^=])", local, forward)
    return f"{kernels}{_HEAD}{write_constructor(program)}{forward}"
