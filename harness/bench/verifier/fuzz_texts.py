"""Completions as no model should write them: random text, and real answers spoilt at every level.

Each completion is a function of the seed and its number alone, so a finding is found again by its number. A quarter is
not derived from anything (noise of characters, words and tokens, pathological Python); the rest starts from a teacher's
answer and is spoilt one to four times: as bytes, as text, as lines, as tokens, as fences, or as a syntax tree.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Sequence

from ....core.task import Example
from ....core.text.prompts import assistant_message, user_message

Spoil = Callable[[str, random.Random], str]

_ODD = (
    *("\0", "\ufeff", "\ud800", "\udfff", "\u2028", "\x0c", "\x1a", "\r", "\t", "\\", "\\\n", "🐛", "é", "ｅval", "٣"),
    *("```", "~~~", "````python\n", "<think>", "</think>", "<|im_end|>", "</s>", "'''", '"""', "#", "{", "(", "]", ":"),
)
_KEYWORDS = "import from def class return lambda if else: for in while async await not"
_NAMES = "ModelNew forward self triton tl torch @triton.jit tl.load kernel[grid] x 1 0.5"
_SYMBOLS = "= + * ** ( ) [ ] { } : ,"
_RARE_KEYWORDS = "match case type global nonlocal yield del with as try: except := -> ..."
_WORDS = (
    *(*_KEYWORDS.split(), *_NAMES.split(), *_SYMBOLS.split()),
    *("\n", "\n    ", '"', "'", "f'{", "```python\n", "```"),
    *_RARE_KEYWORDS.split(),
)
_TOKEN = re.compile(r"\s+|\w+|[^\w\s]")
_MAX_CHARACTERS = 300_000


def _random_text(rng: random.Random) -> str:
    size = rng.choice((0, 1, 10, 200, 3000))
    ranges = rng.choice(((0, 0x7F), (0, 0x10FFFF), (0xD7F0, 0xE010), (0, 0xFF)))
    return "".join(chr(rng.randint(*ranges)) for _ in range(size))


def _random_words(rng: random.Random) -> str:
    return rng.choice((" ", "")).join(rng.choices(_WORDS + _ODD, k=rng.choice((3, 30, 400))))


def _pathological(rng: random.Random) -> str:
    """Return Python that is hard to parse: deep, long, or enormous."""
    count = rng.choice((10, 90, 150, 900, 5000, 60_000))
    few = min(count, 300)
    indented = "".join(f"{' ' * level}if x:\n" for level in range(few)) + " " * few + "pass\n"
    return rng.choice(
        (
            "(" * count + ")" * count,
            "[" * count,
            "x = " + "-" * count + "1",
            "x = " + "not " * count + "y",
            "x" + ".a" * count,
            "f" + "(0)" * count,
            "x = " + "lambda: " * count + "0",
            "x = " + " + ".join(["1"] * count),
            "x = " + " if y else ".join(["1"] * few),
            " = ".join(["x"] * count) + " = 1",
            "x = " + "9" * count,
            "x = 0x" + "f" * count,
            "x = 1e" + "9" * few,
            "x = 1" + "0" * few + "j",
            "x = '" + "a" * count + "'",
            "x = f'" + "{" * few + "y" + "}" * few + "'",
            indented,
            "if x: pass\n" + "elif y: pass\n" * few,
            "@a\n" * count + "def f(): pass",
            "def f(" + ", ".join(f"a{n}" for n in range(min(count, 5000))) + "): pass",
            "import " + ".".join(["a"] * count),
            "x = {" + "1: 2, " * count + "}",
            "x = " + "\\\n" * count + "1",
            "```python\n" * few + "x = 1\n" + "```\n" * few,
            "> " * few + "```\nx = 1\n",
            "- " * few + "```\nx = 1\n",
            "`" * count + "\nx = 1\n" + "`" * count,
            "<think>" * few + "</think>" * rng.choice((0, few)),
            "<think>\n" * count,
            "~~~\n" * count,
            "import x\n" * few + "prose without end\n" * few,
            "def f():\n" + "    prose is here\n" * few,
            "class ModelNew:\n" * few,
            "global x\n" * count,
            "type X = " + "(" * few + ")" * few,
            "match x:\n" + "    case [" + "[" * few + "]" * few + "]: pass",
            "def f():\n" + "".join(f"{' ' * level} def f{level}():\n" for level in range(1, 95)) + " " * 96 + "pass",
            "\t" * count + "x",
            "# coding: utf-7\n+AGEAYgBj-",
            "# coding: no-such-codec\nx = 1",
            "\ufeff" * few + "x = 1",
        )
    )


def _cut(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _drop_span(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + text[start + rng.choice((1, 2, 10, 100)) :]


def _insert_odd(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 1, 3, 20))):
        place = rng.randrange(len(text) + 1)
        text = text[:place] + rng.choice(_ODD) * rng.choice((1, 1, 1, 40)) + text[place:]
    return text


def _repeat_span(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text) + 1)
    span = text[start : start + rng.choice((1, 20, 300))]
    return text[:start] + span * rng.choice((2, 10, 200)) + text[start:]


def _flip_bytes(text: str, rng: random.Random) -> str:
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(rng.choice((1, 5, 50)) if data else 0):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return data.decode("utf-8", rng.choice(("replace", "surrogateescape")))


def _change_lines(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(rng.choice((1, 2, 8))):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(5):
            case 0:
                lines[at], lines[other] = lines[other], lines[at]
            case 1:
                lines[at] = lines[other]
            case 2:
                lines[at] = rng.choice((" ", "\t", "    ", "> ", "- ")) + lines[at]
            case 3:
                lines[at] = lines[at].lstrip()
            case 4:
                lines.insert(at, rng.choice(("```", "~~~", "```python", "</think>", "", "<|im_end|>", "...")))
    return "\n".join(lines)


def _change_tokens(text: str, rng: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 2, 10)) if tokens else 0):
        at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(4):
            case 0:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 1:
                tokens[at] = tokens[other]
            case 2:
                tokens[at] = rng.choice(_WORDS)
            case 3:
                tokens[at] = ""
    return "".join(tokens)


def _change_tree(text: str, rng: random.Random) -> str:
    """Exchange, drop or repeat parts of the syntax tree of the code inside, and write it out again."""
    before, opening, rest = text.partition("```python\n")
    code, closing, after = rest.partition("```")
    try:
        tree = ast.parse(code if opening else text)
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
        bodies = [node for node in ast.walk(tree) if len(getattr(node, "body", None) or ()) > 0]
        for _ in range(rng.choice((1, 2, 5))):
            if nodes and rng.random() < 0.6:
                changed, source = rng.choice(nodes), rng.choice(nodes)
                if type(changed) is type(source):
                    vars(changed).update({k: v for k, v in vars(source).items() if k != "ctx"})
            elif bodies and isinstance(body := getattr(rng.choice(bodies), "body", None), list):
                at = rng.randrange(len(body))
                body[at : at + 1] = [body[at]] * rng.choice((0, 2, 3)) or [ast.Pass()]
        written = ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError, AttributeError):
        return text
    return f"{before}{opening}{written}\n{closing}{after}" if opening else written


def _wrap(text: str, rng: random.Random) -> str:
    return rng.choice(
        (
            f"<think>\n{text}\n</think>\n{text}",
            f"<think>{text}",
            f"1. first\n   ```py\n   {text}\n   ```\n2. second",
            f"````\n{text}\n````",
            f"> {text}".replace("\n", "\n> "),
            text.replace("```", "~~~"),
            text.replace("\n", "\r\n"),
            f"Sure!\n\n{text}\n\nAnd the reference:\n```python\nclass Model: pass\n```",
            f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>user\n{text}",
        )
    )


_SPOILS: tuple[Spoil, ...] = (
    *(_cut, _drop_span, _insert_odd, _repeat_span, _flip_bytes, _change_lines),
    *(_change_tokens, _change_tokens, _change_tree, _change_tree, _wrap),
)


def fuzzed(examples: Sequence[Example], seed: int, number: int) -> str:
    """Return completion `number` of the seed; bounded in length, otherwise anything."""
    rng = random.Random(f"fuzz:{seed}:{number}")
    if number % 4 == 3:
        text = rng.choice((_random_text, _random_words, _pathological, _pathological))(rng)
        if rng.random() < 0.3:
            text = f"```python\n{text}\n```"
        return text[:_MAX_CHARACTERS]
    example = examples[number % len(examples)]
    answer = assistant_message(example.solution)
    text = rng.choice((answer, answer, answer, example.solution, user_message(example.task) + "\n\n" + answer))
    for _ in range(rng.choice((1, 1, 2, 4))):
        text = rng.choice(_SPOILS)(text, rng)
    return text[:_MAX_CHARACTERS]
