"""One class under another name, with everything that refers to it by that name.

Tokens are replaced and nothing else, so that a program keeps its comments and its layout. An attribute of the same name
is another thing and stays; so does what strings say.
"""

from __future__ import annotations

import ast
import io
import tokenize

from .parsing import parse


def class_names(source: str) -> frozenset[str]:
    """Return the classes that a program defines at its top level; raises SyntaxError for what is no program."""
    return frozenset(node.name for node in parse(source).body if isinstance(node, ast.ClassDef))


def rename_class(source: str, old: str, new: str) -> str:
    """Rename the class `old` to `new`; raises ValueError where `new` is taken, SyntaxError for no program."""
    if old == new:
        return source
    # lines as tokens count them: a form feed ends none
    pieces = io.StringIO(source).readlines()
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except tokenize.TokenError as error:
        raise SyntaxError(str(error)) from None
    found: list[tuple[int, int]] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type != tokenize.NAME or (before is not None and before.string == "."):
            continue
        if token.string == new:
            raise ValueError(f"{new} is another thing's name there")
        if token.string == old:
            found.append(token.start)
    for row, column in reversed(found):
        line = pieces[row - 1]
        pieces[row - 1] = line[:column] + new + line[column + len(old) :]
    return "".join(pieces)
