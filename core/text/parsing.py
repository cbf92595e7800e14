"""Python's parser for text that nobody vouches for: quiet, safe in threads, and in time that grows with the text.

CPython joins the parts of `import a.b.c` one by one, so a text of nothing but dots takes it seconds (11 s for 120,000
characters, read three times over). No module's name has a hundred parts; such a text is not parsed at all.

A class gets another name by its tokens, so that a program keeps its comments and its layout. An attribute of the same
name is another thing and stays; so does what strings say.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import threading
import tokenize
import warnings
from collections.abc import Iterator

_GAP = r"(?:[^\S\n]|\\\n)*"
_LONG_NAME = re.compile(rf"(?:\.{_GAP}\w+{_GAP}){{100}}")

UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `parse` raises; whoever walks a deep tree by recursion raises one of these too."""
KERNEL_PRIVATES = frozenset({"_log2"})
"""Private names of `triton.language.standard` that kernels use for want of a public one."""
_ATTEMPTS = 5

# `warnings.catch_warnings` swaps process-wide state, so that two threads must not do it at once
_PARSING = threading.Lock()


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings about the text, such as of its escapes, on stderr."""
    with _PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def parse(source: str) -> ast.Module:
    """Return the syntax tree; raises SyntaxError, ValueError, RecursionError or MemoryError, as `ast.parse` does."""
    if _LONG_NAME.search(source):
        raise SyntaxError("a name of more than a hundred parts")
    with quietly():
        for _ in range(_ATTEMPTS - 1):
            # CPython 3.11 counts the depth of all threads' trees in one place, and fails where two are made at once:
            # the lock keeps ours apart, not those of libraries
            with contextlib.suppress(SystemError):
                return ast.parse(source)
        return ast.parse(source)


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
