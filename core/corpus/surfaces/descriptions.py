"""A task's description in other words: a sentence as authors write them, or a title of its operators."""

from __future__ import annotations

import ast
import re

from ..builder.draw import Draw
from .expressions import attribute_of_self, path_of, walk
from .operators import OPERATORS, find_operator
from .program import Program

_OPENINGS = (
    "Simple model that performs {}.",
    "Model that applies {}.",
    "Performs {}.",
    "Computes {}.",
    "{}.",
    "{}.",
    "Applies {}.",
    "Module for {}.",
)
_COUNTED = re.compile(
    r"^(\dD|linear|depthwise|grouped|pointwise|transposed) ?.*(convolution|pooling|layer)\b|^linear layer"
)
_NOUNS = (("multiply", "multiplication"), ("add ", "addition of "), ("subtract ", "subtraction of "))
_MOST_WORDS = 8


def steps_of(description: str) -> list[str]:
    """Return the steps that a description names, without their numbers."""
    return [_simplify(step) for step in description.rstrip(".").split(", then ")]


def _simplify(step: str) -> str:
    text = re.sub(r" (to|of) \[[^\]]*\]| with \d+ groups", "", step)
    text = re.split(r"; |, (?=kernel|eps|stride|padding|no |which|the lowest|\d+ groups|at least)", text)[0]
    text = re.sub(r"^Elementwise ", "", text)
    text = re.sub(r"\b([123])-D\b", r"\1D", text)
    return re.sub(r" (with|by|of)( slope| alpha| beta| margin| delta)? -?[\d.]+(e-?\d+)?(?=$|,| )", "", text)


def _as_noun(step: str) -> str:
    """Return a step as a noun, in lower case unless it is an abbreviation."""
    if re.fullmatch(r"add -?[\d.]+", step):
        return "addition of a constant"
    for verb, noun in _NOUNS:
        if step.startswith(verb):
            return "multiplication by a constant" if step == "multiply" else noun + step[len(verb) :]
    first = step.split(" ")[0]
    text = step[:1].lower() + step[1:] if first[1:] == first[1:].lower() else step
    return f"a {text}" if _COUNTED.match(text) else text


def tell(description: str, draw: Draw) -> str:
    """Return a description in other words: a sentence, or steps with arrows between them."""
    nouns = [_as_noun(step) for step in steps_of(description)]
    if len(nouns) > 2 and draw.chance(0.3):
        text = " -> ".join(noun.removeprefix("a ") for noun in nouns)
        return text[:1].upper() + text[1:]
    joined = nouns[0]
    if len(nouns) > 1:
        rest = nouns[1] if len(nouns) == 2 else f"{', '.join(nouns[1:-1])} and {nouns[-1]}"
        joined = f"{nouns[0]} followed by {rest}" if draw.chance(0.5) else f"{', '.join(nouns[:-1])} and {nouns[-1]}"
    opening = draw.choice(_OPENINGS)
    text = opening.format(joined.removeprefix("a ") if opening.startswith("{}") else joined)
    return text[:1].upper() + text[1:]


_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "Add",
    ast.Sub: "Subtract",
    ast.Mult: "Multiply",
    ast.Div: "Divide",
    ast.MatMult: "Matmul",
}


def entitle(program: Program, draw: Draw) -> str:
    """Return a title of a program's operators, such as "Conv2d ReLU Sum"."""
    attributes = program.attributes()
    words: list[str] = []
    for node in program.statements():
        for part in _in_order(node):
            for word in _words_of(part, attributes):
                if not words or words[-1] != word:
                    words.append(word)
    return draw.choice((" ", "_", " ")).join(words[:_MOST_WORDS])


def _words_of(node: ast.AST, attributes: dict[str, ast.expr]) -> list[str]:
    if isinstance(node, ast.BinOp):
        return [_SIGNS[type(node.op)]] if type(node.op) in _SIGNS else []
    assert isinstance(node, ast.Call)
    if attribute := attribute_of_self(node.func):
        made = [path_of(part.func) for part in walk(attributes.get(attribute, node)) if isinstance(part, ast.Call)]
        return [path.removeprefix("nn.") for path in made if path.startswith("nn.") and path != "nn.Sequential"]
    found = find_operator(node)
    if not found and isinstance(node.func, ast.Attribute) and node.func.attr in OPERATORS:
        found = node.func.attr
    return ["".join(piece.capitalize() for piece in found.split("_"))] if found else []


def _in_order(node: ast.AST) -> list[ast.AST]:
    """Return a node's operations in the order in which they run."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        found += _in_order(child)
    return [*found, node] if isinstance(node, (ast.Call, ast.BinOp)) else found
