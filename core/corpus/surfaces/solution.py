"""The solution of a task's surface: a teacher's answer, written as the surface writes the task.

A teacher's `ModelNew` has the constructor of `Model` line by line, without its docstring, and the methods that it
calls, and calls `super().__init__()` whatever the program does. Kernels stay, behind the functions that launch them.
Numbers and dimensions that the program keeps are read from there: what an answer can copy it need not look up.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import frozen

from .expressions import attribute_of_self, number_of, path_of, walk
from .layout import Layout, write_constants, write_functions
from .operators import OPERATORS, POOLING
from .program import Program

_HEAD, _FORWARD = "class ModelNew(nn.Module):\n", "    def forward(self, "
_GAP = "\n\n\n"
_NUMBER = re.compile(r"(?<==)-?\d+(?:\.\d+(?:e-?\d+)?|e-?\d+)(?=[,)])")
"""A fractional number that a keyword gives: whole ones are dimensions and blocks."""
_MODULE_NUMBERS: dict[str, tuple[str, ...]] = {
    f"nn.{operator.module}": operator.extra
    for operator in OPERATORS.values()
    if operator.module and operator.extra not in ((), ("dim",), POOLING)
}


@frozen(kw_only=True)
class Renamed:
    """What a surface calls inputs and attributes, by their names in the canonical program."""

    inputs: Mapping[str, str]
    attributes: Mapping[str, str]


def write_solution(solution: str, program: Program, layout: Layout, renamed: Renamed) -> str:
    """Write the solution from the top down, with inputs and attributes called as in the surface.

    The class comes first, as the program has it, then each function that it calls with the kernel that this launches:
    whoever writes a kernel has read what it is given.
    """
    kernels, _, model = solution.partition(_HEAD)
    imports, *blocks = kernels.rstrip("\n").split(_GAP)
    forward = _write_forward(model[model.index(_FORWARD) :], program, renamed)
    answer = layout.write_answer([line.removeprefix("    ") for line in forward.rstrip("\n").split("\n")])
    missing = [line for line in layout.copied_imports() if line not in imports.splitlines()]
    imports = "\n".join((*missing, imports))
    return (
        _GAP.join((imports, *write_constants(program), *write_functions(program), answer, *_from_the_top(blocks)))
        + "\n"
    )


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
    return _fold(_name_numbers(forward, program), program)


def _fold(forward: str, program: Program) -> str:
    """Write statements that are equal but for the places of layers in lists as a loop over the lists."""
    lines = forward.split("\n")
    for names, count in program.loops:
        reading = [at for at, line in enumerate(lines) if f"self.{names[0][0]}[" in line]
        length = reading[1] - reading[0]
        start = next(at for at in range(len(lines)) if any(f"self.{one}[0]" in lines[at] for one, _ in names))
        block = lines[start : start + length]
        turns = [[line.replace("[0]", f"[{turn}]") for line in block] for turn in range(count)]
        if [line for turn in turns for line in turn] == lines[start : start + length * count]:
            for container, variable in names:
                block = [line.replace(f"self.{container}[0]", variable) for line in block]
            lists = ", ".join(f"self.{container}" for container, _ in names)
            indent = " " * (len(block[0]) - len(block[0].lstrip()))
            head = (
                f"{indent}for {', '.join(one for _, one in names)} in {lists if len(names) == 1 else f'zip({lists})'}:"
            )
            lines[start : start + length * count] = [head, *(f"    {line}" for line in block)]
    return "\n".join(lines)


def _name_numbers(forward: str, program: Program) -> str:
    """Give functions the numbers by what reads them in the program: `scale=self.scale`, where it keeps `scale`.

    An answer that names a number copies it, one that writes it has to find what the constructor was given.
    """
    readers: dict[float, list[str]] = {}
    for number, reader in _read_numbers(program):
        readers.setdefault(number, []).append(reader)
    counts = Counter(float(found) for found in _NUMBER.findall(forward))
    # of several numbers that are equal each stands for itself, as long as none is missing
    known = {
        number: found[:1] * counts[number] if len(set(found)) == 1 else found
        for number, found in readers.items()
        if len(set(found)) == 1 or len(found) == counts[number]
    }

    def change(match: re.Match[str]) -> str:
        found = known.get(float(match[0]))
        return found.pop(0) if found else match[0]

    return _NUMBER.sub(change, forward)


def _read_numbers(program: Program) -> list[tuple[float, str]]:
    """Return the fractional numbers that a model keeps or computes with, each with the expression that reads it."""
    constants = dict(program.constants)
    outside = dict((*program.values, *program.constants))
    given = {parameter.name: parameter.value for parameter in program.parameters}

    def resolve(node: ast.expr) -> float | None:
        for known in (given, outside):
            node = known.get(node.id, node) if isinstance(node, ast.Name) else node
        number = number_of(node)
        return number if isinstance(number, float) else None

    read = {attribute_of_self(part) for node in program.statements() for part in walk(node)}
    found: list[tuple[float | None, str]] = []
    for attribute, value in program.attributes().items():
        is_row = isinstance(value, ast.Call) and path_of(value.func) == "nn.Sequential"
        rows = enumerate(value.args) if isinstance(value, ast.Call) and is_row else ()
        for path, made in [(f"{attribute}[{place}]", part) for place, part in rows] or [(attribute, value)]:
            if isinstance(made, ast.Name):
                # what only a layer was given is read there
                found += [(resolve(made), f"self.{path}")] if attribute in read else []
            elif isinstance(made, ast.Call) and (keys := _MODULE_NUMBERS.get(path_of(made.func))):
                words = dict(zip(keys, made.args, strict=False)) | {one.arg: one.value for one in made.keywords}
                found += [(resolve(words[key]), f"self.{path}.{key}") for key in keys if key in words]
    for node in program.statements():
        for part in walk(node):
            if isinstance(part, ast.Name) and part.id in constants:
                found.append((resolve(part), part.id))
            elif isinstance(part, (ast.Constant, ast.UnaryOp)) and isinstance(number := number_of(part), float):
                found.append((number, repr(number)))
    return [(number, reader) for number, reader in found if number is not None]
