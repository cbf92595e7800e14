"""The numbers of an answer, each by what reads it in the program: `scale=self.scale`, `alpha=self.act.alpha`."""

from __future__ import annotations

import ast
import re
from collections import Counter

from .expressions import attribute_of_self, number_of, path_of, walk
from .operators import OPERATORS, POOLING
from .program import Program

_NUMBER = re.compile(r"(?<==)-?\d+(?:\.\d+(?:e-?\d+)?|e-?\d+)(?=[,)])")
"""A fractional number that a keyword gives: whole ones are dimensions and blocks."""
_MODULE_NUMBERS: dict[str, tuple[str, ...]] = {
    f"nn.{operator.module}": operator.extra
    for operator in OPERATORS.values()
    if operator.module and operator.extra not in ((), ("dim",), POOLING)
}


def name_numbers(forward: str, program: Program) -> str:
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
