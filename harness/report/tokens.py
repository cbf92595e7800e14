"""Python source as runs of one kind each, by Pygments, so that the page can colour it without a parser of its own.

A source travels as its text and a list of alternating numbers, the length of a run and its kind, which is a third of
the same source as HTML. The page writes the runs as text, never as markup: candidates are not trusted.
"""

from __future__ import annotations

from typing import Any

KINDS = ("plain", "keyword", "string", "number", "comment", "name")
"""What a run can be; the page has a class of its style sheet for each but the first."""


def runs(source: str) -> list[int]:
    """Lengths and kinds, in turn, of the runs that make up the source."""
    from pygments.lexers.python import PythonLexer

    found: list[int] = []
    # unprocessed: what Pygments tidies away first (a byte order mark, carriage returns) would shift all that follows
    for _, kind, text in PythonLexer().get_tokens_unprocessed(source):
        number = KINDS.index(_kind(kind))
        # blanks take the colour of what stands before them: fewer runs, same picture
        if found and (found[-1] == number or not text.strip()):
            found[-2] += len(text)
        else:
            found += [len(text), number]
    return found


def _kind(token: Any) -> str:
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    if token in Keyword or token in Operator.Word:
        return "keyword"
    if token in String:
        return "string"
    if token in Number:
        return "number"
    if token in Comment:
        return "comment"
    if token in Name.Function or token in Name.Class or token in Name.Decorator:
        return "name"
    return "plain"
