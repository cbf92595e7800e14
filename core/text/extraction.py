"""The source that a completion offers, found by a Markdown parser.

Models answer in many forms: a fence with any info string or none, several fences, a fence that is never closed, a
`<think>` section before the answer, control tokens of a chat template, Windows line ends, plain code. The rules:

1. Line ends become "\\n". Closed `<think>` sections are dropped, and a lone `</think>` ends a thought that began in
   the prompt. Behind an unclosed `<think>` only a fenced block is looked for, and only with nothing before it.
   The completion ends at the first end-of-turn token that ends a line outside a closed fence (code may hold such text
   in its strings); headers of turns are dropped.
2. Among the fenced blocks, the last one that defines `ModelNew` is the answer (models repair themselves, and the later
   version is meant); one that parses wins over one that does not. Where none defines it, the largest block that parses
   as Python, else the largest. A block that defines it and does not parse is tried with what follows its closing fence,
   up to the next ones: a docstring may hold a fence. Blocks are never joined: a file split over several fences is
   rarely marked as such, and a guess at the pieces would credit the policy with what it did not write.
3. Without a fence, the text is the answer where it parses as Python, from its first line that begins like code to its
   last that parses; or where that part defines `ModelNew`, parsing or not.

Nothing is executed, and any text gives an answer or None in bounded time; a block's text is returned as it stands.
"""

from __future__ import annotations

import ast
import re

from markdown_it import MarkdownIt

from .parsing import parse

_MAX_CHARACTERS = 200_000  # no kernel is longer; the time spent on hostile text stays bounded
_MAX_BLOCKS = 16
_MAX_TRIES = 6

_END = (
    r"<\|im_end\|>|<\|endoftext\|>|<\|eot_id\|>|<\|eom_id\|>|<\|end_of_text\|>|<\|end\|>|<\|return\|>|</s>|<eos>"
    r"|<end_of_turn>|<｜end▁of▁sentence｜>"
)
_HEADER = (
    r"<s>|<bos>|<pad>|<\|begin_of_text\|>|<｜begin▁of▁sentence｜>|<\|im_start\|>(?:assistant\b)?|<\|assistant\|>"
    r"|<start_of_turn>(?:model\b)?|<\|start_header_id\|>\w*<\|end_header_id\|>|<｜Assistant｜>|\[/?INST\]"
)
_END_OF_TURN = re.compile(rf"(?:{_END})[ \t]*(?:$|{_END}|{_HEADER})")
_LEADING_TOKENS = re.compile(rf"(?:{_END}|{_HEADER}|\ufeff|\s)*(?=\S|$)")
_LEADING_HEADERS = re.compile(rf"[ \t]*(?:(?:{_HEADER})[ \t]*)+")
_FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|>[ \t]*)*(`{3,}(?=[^`]*$)|~{3,})")
_RUN = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*")
_THINK_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_DEFINES_MODEL = re.compile(r"^class[ \t]+ModelNew\b", re.MULTILINE)
_BEGINS_LIKE_CODE = re.compile(r"import \w|from \S+ import |(?:async )?def \w|class \w|@\w")

# without lists, a fence is found at any indentation and its content need not be indented as a list would have it
_FLAT = MarkdownIt("zero").enable(["fence"])
_NESTED = MarkdownIt("zero", {"maxNesting": 40}).enable(["fence", "list", "blockquote"])


def extract(completion: str) -> str | None:
    """Return the Python source that a completion offers, or None where it offers none."""
    text = completion[:_MAX_CHARACTERS].replace("\r\n", "\n").replace("\r", "\n")
    # the spaces before a fence say how far its content is indented
    text = text[len(text[: _end(_LEADING_TOKENS, text)].rstrip(" \t")) :]
    answer, open_thought = _without_thoughts(text)
    answer = _without_template(answer)
    found = _best_block(answer)
    if found is None:
        found = _bare_code(answer)
    if found is None and open_thought and not answer.strip():
        found = _best_block(_without_template(open_thought))
    return found


def _end(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.match(text)
    return match.end() if match else 0


def _without_thoughts(text: str) -> tuple[str, str]:
    """Return the text outside thoughts, and the text of a thought that is never closed."""
    kept: list[str] = []
    position = 0
    opened: int | None = None
    for tag in _THINK_TAG.finditer(text):
        line_start = text.rfind("\n", 0, tag.start()) + 1
        line_end = text.find("\n", tag.end())
        before = text[line_start : tag.start()]
        after = text[tag.end() : line_end if line_end >= 0 else len(text)]
        if tag[1]:
            if opened is not None:
                position, opened = tag.end(), None
            elif not before.strip() or not after.strip():
                kept, position = [], tag.end()
        elif opened is None and not before.strip():
            kept.append(text[position : tag.start()])
            opened = tag.end()
    if opened is not None:
        return "".join(kept), text[opened:]
    return "".join((*kept, text[position:])), ""


def _without_template(text: str) -> str:
    """Cut the text at its end-of-turn token and drop the headers of turns; closed fences are left alone."""
    lines: list[str] = []
    fence = ""
    cut_if_unclosed: tuple[int, str] | None = None
    for line in text.split("\n"):
        end = _END_OF_TURN.search(line)
        if not fence:
            if end:
                return "\n".join((*lines, line[: end.start()]))
            line = line[_end(_LEADING_HEADERS, line) :]
            opening = _FENCE.match(line)
            if opening:
                fence, cut_if_unclosed = opening[1], None
        else:
            closing = _RUN.match(line)
            if closing and closing[1].startswith(fence):
                if end and end.start() == closing.end():
                    return "\n".join((*lines, line[: end.start()]))
                if closing.end() == len(line):
                    fence, cut_if_unclosed = "", None
            if fence and end and cut_if_unclosed is None:
                cut_if_unclosed = len(lines), line[: end.start()]
        lines.append(line)
    if cut_if_unclosed is not None:
        num_lines, last = cut_if_unclosed
        return "\n".join((*lines[:num_lines], last))
    return "\n".join(lines)


def _best_block(text: str) -> str | None:
    if "```" not in text and "~~~" not in text:
        return None
    found: str | None = None
    for parser in (_FLAT, _NESTED):
        found, settled = _choose(_blocks(parser, text), text)
        if settled:
            return found
    return found or _choose(_blocks(_FLAT, text), text)[0]


def _blocks(parser: MarkdownIt, text: str) -> list[tuple[str, int, int]]:
    """Return each fenced block that is not empty: its content, the line of its opening fence, and the line after it."""
    lines = text.split("\n")
    found: list[tuple[str, int, int]] = []
    for token in parser.parse(text):
        if token.type == "fence" and token.map and token.content.strip():
            first, last = token.map
            own = lines[first + 1 : first + 1 + token.content.count("\n")]
            opening = lines[first]
            indent = opening[: len(opening) - len(opening.lstrip(" "))]
            # Markdown takes the fence's indentation off every line; where some have less, it would bend the code
            bent = parser is _FLAT and any(line.strip() and not line.startswith(indent) for line in own)
            found.append(("\n".join(own) + "\n" if bent else token.content, first, last))
    return found


def _choose(blocks: list[tuple[str, int, int]], text: str) -> tuple[str | None, bool]:
    """Return the chosen block, and whether it both parses and defines the model."""
    models = [block for block in blocks if _DEFINES_MODEL.search(block[0])][-_MAX_BLOCKS:]
    for content, _, _ in reversed(models):
        if _parse(content) is not None:
            return content, True
    for content, first, last in reversed(models[-_MAX_TRIES:]):
        longer = _extended(content, text.split("\n"), first, last)
        if longer is not None:
            return longer, True
    if models:
        return models[-1][0], False
    largest = sorted((content for content, _, _ in blocks), key=len, reverse=True)[:_MAX_BLOCKS]
    for content in largest:
        if _parse(content) is not None:
            return content, False
    return (largest[0] if largest else None), False


def _extended(content: str, lines: list[str], first: int, last: int) -> str | None:
    """Return a block continued past its closing fence to the first later one with which it parses."""
    if lines[first].startswith((" ", "\t", "-", "*", "+", ">")):
        return None  # an indented block's lines are not the text's
    closing = (number for number in range(last, len(lines)) if _RUN.fullmatch(lines[number]))
    for _, number in zip(range(_MAX_TRIES), closing, strict=False):
        longer = "\n".join(lines[first + 1 : number]) + "\n"
        if _parse(longer) is not None:
            return longer
    return None


def _bare_code(text: str) -> str | None:
    """Return the part of a text without fences that rule 3 takes for code."""
    tree = _parse(text)
    if tree is not None and _has_definition(tree) and not _opens_with_prose(tree):
        return text.lstrip("\n")
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _BEGINS_LIKE_CODE.match(line)][:_MAX_TRIES]
    for start in starts:
        end = len(lines)
        for _ in range(_MAX_TRIES):
            part = "\n".join(lines[start:end]).rstrip() + "\n"
            try:
                tree = parse(part)
            except SyntaxError as error:
                # what the parser stumbles over is prose, and so is the rest
                end = min(end - 1, start + (error.lineno or 1) - 1)
                if end <= start:
                    break
                continue
            except (ValueError, RecursionError, MemoryError):
                break
            if _has_definition(tree):
                return part
            break
    rest = "\n".join(lines[starts[0] :]) if starts else ""
    return rest if _DEFINES_MODEL.search(rest) else None


def _has_definition(tree: ast.Module) -> bool:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return any(isinstance(node, kinds) for node in tree.body)


def _opens_with_prose(tree: ast.Module) -> bool:
    # "Sure" is a valid expression; a docstring is one as well
    first = tree.body[0]
    return isinstance(first, ast.Expr | ast.AnnAssign) and not (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    )


def _parse(source: str) -> ast.Module | None:
    try:
        return parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
