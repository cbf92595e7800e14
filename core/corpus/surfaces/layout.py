"""Writes a program of a dialect as text."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from ..builder.draw import Draw
from .dialects import Dialect, weighted
from .documents import comment_on, document_class, document_constructor, document_forward, hint_of
from .expressions import drawn_shape, number_of, words_in, write_expression
from .program import Method, Program
from .sizes import SizeText

_WIDTH = 100
_TYPING = ("List", "Optional", "Tuple", "Union")
_HINTS = {"none": "", "torch": "torch.Tensor", "tensor": "Tensor"}
_SIZE_COMMENTS = ("# sizes", "# Test sizes", "# problem size", "# configuration")
_EMPTY_COMMENTS = ("  # nothing to configure", "  # no special initialization inputs needed", "  # no init args")


def write_statement(node: ast.stmt, quote: str = '"') -> str:
    """Write a statement of one line."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return f"{write_expression(node.targets[0], quote)} = {write_expression(node.value, quote)}"
    if isinstance(node, ast.Return) and node.value is not None:
        return f"return {write_expression(node.value, quote)}"
    if isinstance(node, ast.Expr):
        return write_expression(node.value, quote)
    if isinstance(node, ast.Assert):
        message = f", {write_expression(node.msg, quote)}" if node.msg is not None else ""
        return f"assert {write_expression(node.test, quote)}{message}"
    if isinstance(node, ast.AugAssign):
        sign = write_expression(ast.BinOp(left=node.target, op=node.op, right=ast.Constant(value=0)))[:-2]
        return f"{sign}= {write_expression(node.value, quote)}"
    return ast.unparse(node)


def write_parameters(program: Program, typed: bool, quote: str, from_typing: bool) -> list[str]:
    """Return the constructor's arguments as its signature has them, their types at times of the module `typing`."""
    written = []
    for one in program.parameters:
        text = f"{one.name}: {hint_of(one, program, from_typing)}" if typed else one.name
        if one.default is not None:
            text += f"{' = ' if typed else '='}{write_expression(one.default, quote)}"
        written.append(text)
    return [*written, f"**{program.further}"] if program.further else written


def write_constants(program: Program, quote: str = '"') -> list[str]:
    """Write the constants that the class names, as one part of a module or none."""
    lines = [f"{key} = {write_expression(value, quote)}" for key, value in program.constants]
    return ["\n".join(lines)] if lines else []


def write_functions(program: Program, quote: str = '"') -> list[str]:
    """Write the functions that build layers."""
    return ["\n".join((head, *_indented(_wrapped(write_body([node], quote))))) for _, head, node in program.functions]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]


def _indent_by(indent: str, text: str) -> str:
    """Return a text of four spaces' indentation with another."""
    return re.sub(r"^(?: {4})+", lambda found: indent * (len(found[0]) // 4), text, flags=re.MULTILINE)


def write_body(statements: Sequence[ast.stmt], quote: str = '"') -> list[str]:
    """Write statements, those of several lines too."""
    return [line for node in statements for line in write_statement(node, quote).splitlines()]


def _docstring(lines: Sequence[str], is_long: bool) -> list[str]:
    if not lines:
        return []
    # a section has a line of its own
    is_long = is_long or (len(lines) > 1 and lines[1].startswith((" ", "-", ":")))
    if len(lines) == 1 and not is_long:
        return [f'"""{lines[0]}"""']
    if is_long:
        return ['"""', *lines, '"""']
    return [f'"""{lines[0]}', *lines[1:], '"""']


def _signature(head: str, arguments: Sequence[str], tail: str, draw: Draw) -> list[str]:
    """Write the first lines of a method, several where one would be too long."""
    line = f"{head}({', '.join(arguments)}){tail}"
    if len(line) + 4 <= _WIDTH:
        return [line]
    if draw.chance(0.5):
        return [f"{head}(", *(f"    {argument}," for argument in arguments), f"){tail}"]
    lines, current = [], f"{head}("
    for argument in arguments:
        if len(current) + len(argument) + 4 > _WIDTH:
            lines.append(current.rstrip())
            current = " " * (len(head) + 1)
        current += f"{argument}, "
    return [*lines, f"{current.rstrip(', ')}){tail}"]


class Layout:
    """A dialect with the choices that hold for one program."""

    def __init__(self, program: Program, dialect: Dialect, summary: str, draw: Draw) -> None:
        self.program, self.dialect, self.summary, self.draw = program, dialect, summary, draw
        self.indent = weighted(draw.fork("indent"), dialect.indents)
        self.hint = _HINTS[weighted(draw, dialect.hints)]
        self.is_long = draw.chance(0.5)
        self.from_typing = draw.chance(dialect.typing_hints)
        self.imports: list[str] = []
        """The lines of imports that were written."""
        self.shapes = {one.name: _tell_shape(one.value) for one in program.arguments}
        self.constructor: list[str] = []
        """The constructor as it was written, without its docstring."""

    def write(self, sizes: SizeText) -> str:
        """Write the whole program."""
        dialect, draw = self.dialect, self.draw
        constants = self._constants(sizes)
        is_above = draw.chance(dialect.sizes_above)
        parts = [self._model(), self._inputs(), self._init_inputs()]
        named = write_constants(self.program, dialect.quote)
        if constants and not is_above:
            parts.insert(1, constants)
        elif constants:
            named = ["\n".join((constants, *named))]
        parts[:0] = [*named, *write_functions(self.program, dialect.quote)]
        gap = "\n" * (dialect.num_blank + 1)
        body = gap.join(parts)
        return _indent_by(self.indent, f"{self._imports(body)}{gap}{body}\n")

    def _imports(self, body: str) -> str:
        """Write the imports that the text needs, and at times one that it does not."""
        dialect, draw = self.dialect, self.draw
        lines = draw.choice(dialect.imports).splitlines()
        text = "\n".join(lines)
        if used := [name for name in _TYPING if f"{name}[" in body]:
            lines.insert(0, f"from typing import {', '.join(used)}")
        elif dialect.unused_imports and draw.chance(dialect.unused_import_share):
            lines = [*draw.choice(dialect.unused_imports).splitlines(), *lines]
        if "F." in body and "functional" not in text:
            lines.append("import torch.nn.functional as F")
        if "Tensor" in body.replace("torch.Tensor", "") and "Tensor" not in text:
            lines.append("from torch import Tensor")
        if "math." in body and "import math" not in lines:
            lines.insert(0, "import math")
        self.imports = lines
        return "\n".join(lines)

    def copied_imports(self) -> list[str]:
        """Return the lines of imports that an answer has too: whatever its constructor may need of the library."""
        return [line for line in self.imports if line.startswith(("import math", "from typing"))]

    def _constants(self, sizes: SizeText) -> str:
        quote = self.dialect.quote
        lines = [*sizes.lines, *(f"{key} = {write_expression(value, quote)}" for key, value in self.program.values)]
        if lines and self.draw.chance(self.dialect.comments * 0.5):
            lines.insert(0, self.draw.choice(_SIZE_COMMENTS))
        return "\n".join(lines)

    def _model(self) -> str:
        program, dialect, draw = self.program, self.dialect, self.draw
        form = weighted(draw, dialect.class_doc)
        doc = document_class(form, self.summary, program, bool(self.hint), draw)
        is_long = self.is_long or form == "block"
        lines = ["class Model(nn.Module):", *_indented(_docstring(doc, is_long))]
        methods = [self._constructor()] if program.has_constructor or draw.chance(0.8) else []
        helpers = [self._method(made) for made in program.methods]
        methods += [*helpers, self._forward()] if draw.chance(0.7) else [self._forward(), *helpers]
        if doc and (self.is_long or draw.chance(0.5)):
            lines.append("")
        for place, made in enumerate(methods):
            lines += ([""] if place else []) + _indented(made)
        return "\n".join(lines)

    def _constructor(self) -> list[str]:
        program, dialect, draw = self.program, self.dialect, self.draw
        quote = dialect.quote
        arguments = ["self", *write_parameters(program, bool(self.hint), quote, self.from_typing)]
        tail = " -> None:" if self.hint and draw.chance(0.3) else ":"
        doc = document_constructor(weighted(draw, dialect.init_doc), program, draw)
        superclass, body = draw.choice(dialect.superclass), _wrapped(write_body(program.init, quote))
        lines = _signature("def __init__", arguments, tail, draw)
        self.constructor = [*lines, *_indented(["super().__init__()", *body])]
        return [*lines, *_indented([*_docstring(doc, self.is_long), superclass, *body])]

    def write_answer(self, forward: Sequence[str]) -> str:
        """Write the class of an answer: the constructor as the program has it, what it calls, and `forward`.

        It has four spaces' indentation, whatever the program has.
        """
        program = self.program
        methods = [self.constructor] if program.init or program.parameters else []
        methods += [self._method(made) for made in program.called_methods()]
        methods.append(list(forward))
        lines = ["class ModelNew(nn.Module):"]
        for place, made in enumerate(methods):
            lines += ([""] if place else []) + _indented(made)
        return "\n".join(lines)

    def _method(self, made: Method) -> list[str]:
        hint = self.hint if made.arguments else ""
        arguments = ["self", *(f"{one}: {hint}" if hint else one for one in made.arguments)]
        tail = f" -> {hint}:" if hint else ":"
        body = write_body(made.body, self.dialect.quote)
        return [f"def {made.name}({', '.join(arguments)}){tail}", *_indented(body)]

    def _forward(self) -> list[str]:
        program, dialect, draw = self.program, self.dialect, self.draw
        hints = ["float" if number_of(one.value) is not None else self.hint for one in program.arguments]
        named = zip(program.arguments, hints, strict=True)
        arguments = ["self", *(f"{one.name}: {hint}" if self.hint else one.name for one, hint in named)]
        doc = document_forward(weighted(draw, dialect.forward_doc), program, self.shapes, draw)
        body: list[str] = []
        for node in program.forward:
            lines = write_statement(node, dialect.quote).splitlines()
            if draw.chance(dialect.comments * 0.5) and (comment := comment_on(node, draw)):
                if draw.chance(0.5) or len(lines) > 1:
                    body.append(f"# {comment}")
                else:
                    lines[0] += f"  # {comment}"
            body += lines
        lines = _signature("def forward", arguments, f" -> {self.hint}:" if self.hint else ":", draw)
        shown = [*_docstring(doc, self.is_long), *_wrapped(body)]
        return [*lines, *_indented(shown)]

    def _inputs(self) -> str:
        program, dialect, draw = self.program, self.dialect, self.draw
        quote = dialect.quote
        values = [write_expression(one.value, quote) for one in program.arguments]
        names = [one.name for one in program.arguments]
        used = words_in(" ".join(values))
        tail = " -> list:" if self.hint and draw.chance(0.1) else ":"
        if draw.chance(dialect.named_inputs) and not used & set(names):
            body = [f"{key} = {value}" for key, value in zip(names, values, strict=True)]
            body.append(f"return [{', '.join(names)}]")
        elif sum(map(len, values)) + 20 > _WIDTH:
            body = ["return [", *(f"    {value}," for value in values), "]"]
        else:
            body = [f"return [{', '.join(values)}]"]
        return "\n".join([f"def get_inputs(){tail}", *_indented(body)])

    def _init_inputs(self) -> str:
        program, dialect, draw = self.program, self.dialect, self.draw
        quote = dialect.quote
        passed = [(one.name, write_expression(one.value, quote)) for one in program.parameters if one.is_passed]
        returned = f"[{', '.join(value for _, value in passed)}]"
        if dialect.keyword_inputs:
            words = ", ".join(f"{quote}{key}{quote}: {value}" for key, value in passed)
            returned = f"[[], {{{words}}}]"
        comment = draw.choice(_EMPTY_COMMENTS) if not passed and draw.chance(0.3 + dialect.comments) else ""
        return f"def get_init_inputs():\n    return {returned}{comment}"


def _wrapped(lines: Sequence[str]) -> list[str]:
    """Break statements after the parenthesis of a long call, or of a factor."""
    shown: list[str] = []
    for line in lines:
        head, opened, rest = line.partition("(")
        if len(line) <= _WIDTH - 4 or not rest.endswith(")") or "#" in line or not _is_one_call(rest):
            shown.append(line)
        else:
            inner, closed = rest[:-1], ")"
            if inner.startswith("[") and len(_split_arguments(inner)) == 1 and " for " not in inner:
                opened, inner, closed = "([", inner[1:-1], "])"
            # a comma would make a tuple of a factor
            is_whole = (len(inner) <= _WIDTH - 8 and closed == ")") or not head[-1:].isidentifier()
            parts = [inner] if is_whole else [f"{part}," for part in _split_arguments(inner)]
            shown += [f"{head}{opened}", *(f"    {part}" for part in parts), closed]
    return shown


def _split_arguments(text: str) -> list[str]:
    """Return the arguments of a call's text."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
    return [*parts, text[begin:].strip()]


def _is_one_call(rest: str) -> bool:
    """Return whether the parenthesis that a line opens first is the one that it closes last."""
    depth = 1
    for place, letter in enumerate(rest):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0:
            return place == len(rest) - 1
    return False


def _tell_shape(value: ast.expr) -> str:
    """Return the shape of an input as its docstring says it, in names; empty where it is not in names."""
    parts = drawn_shape(value)
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})" if parts else ""
