"""The integers of a candidate's text that may bound a size: a block, a threshold, a mask of bits, a narrow dtype.

A kernel that is wrong beyond some size most often names that size itself: the block that holds a row, the columns from
which another kernel takes over, the bits that a label keeps. What is not written, as a grid that a float rounds, is for
other checks to meet.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .named_sizes import calculate
from .parsing import UNPARSABLE, parse

LEAST_BOUND, MOST_BOUND = 4, 1 << 24
"""Smaller integers count axes, taps and components, and larger ones bound no size or product that is run for this."""
MOST_BOUNDS = 256
_LARGEST = {"int8": 127, "uint8": 255, "int16": 32767, "uint16": 65535, "bfloat16": 256, "float16": 2048}
"""Up to where a dtype holds each whole number."""
_NO_SIZES = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg"})


def read_bounds(source: str) -> tuple[int, ...]:
    """Return the integers that may bound a size, at most `MOST_BOUNDS`, in ascending order; none of what is no program.

    They are the outermost expressions of literals, and what narrow dtypes hold.
    """
    try:
        tree = parse(source)
    except UNPARSABLE:
        return ()
    found: dict[int, None] = {}
    for value in _find_integers(tree):
        if LEAST_BOUND <= value <= MOST_BOUND:
            found[value] = None
        if len(found) == MOST_BOUNDS:
            break
    return tuple(sorted(found))


def _find_integers(tree: ast.Module) -> Iterator[int]:
    nodes = list(ast.walk(tree))
    left_out = {id(node.value) for node in nodes if isinstance(node, ast.keyword) and node.arg in _NO_SIZES}
    values: dict[int, int] = {}
    # what is walked later lies deeper, so that operands come before their operation
    for node in reversed(nodes):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Constant) and type(node.value) is int:
            values[id(node)] = node.value
        elif isinstance(node, ast.BinOp) and id(node.left) in values and id(node.right) in values:
            value = calculate(node.op, values[id(node.left)], values[id(node.right)])
            if value is not None:
                del values[id(node.left)], values[id(node.right)]
                values[id(node)] = value
    for node in nodes:
        if id(node) in values:
            yield values[id(node)]
        elif isinstance(node, ast.Attribute) and node.attr in _LARGEST:
            yield _LARGEST[node.attr]
