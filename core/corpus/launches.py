"""Launch parameters of a teacher's solution drawn anew: block sizes and warps, which decide speed and not values.

A teacher launches each kind of kernel with the same constants, so that a policy which learnt from it alone never writes
others, and reinforcement learning for speed has nothing to compare. Drawn at random they are what a policy is unsure
of, and all that it is unsure of: everything else of the solution stays byte for byte.

A constant of a launch is drawn where the program shows that it is free: it is a power of two that the launch gives by
name, and a loop of the kernel goes on by it, or the grid divides by it and the host function uses it nowhere else.
"""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Iterator, Sequence

from attrs import frozen

_ROWS, _INNER = (32, 64, 128), (16, 32, 64)
_MOST_TILE_ELEMENTS = 128 * 64
"""Of a step's two operands: at 4 bytes and three stages half of what a multiprocessor's shared memory holds."""
_MOST_PRODUCTS = 2048
"""Of a thread in a step: they are unrolled, and twice as many take four times as long to compile."""
_FACTORS = (0.25, 0.5, 1, 2, 4)
_LEAST_BLOCK, _MOST_BLOCK = 16, 8192
_WARPS = (2, 4, 8)


def draw_launches(solution: str, rng: random.Random) -> str:
    """Draw the free launch parameters of a solution anew; raises SyntaxError for what is no Python."""
    tree = ast.parse(solution)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    kernels = {node.name: node for node in functions if "triton.jit" in map(ast.unparse, node.decorator_list)}
    lines = solution.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    edits: list[tuple[int, int, str]] = []
    for host in functions:
        for call in _find_launches(host, kernels):
            assert isinstance(call.func, ast.Subscript)
            blocks, is_product = _find_blocks(host, call, kernels[ast.unparse(call.func.value)])
            sizes, num_warps = _draw_sizes(blocks, is_product, rng)
            # columns count bytes, and all that teachers write is ASCII
            for block, size in zip(blocks, sizes, strict=True):
                for node in block.places:
                    begin = starts[node.lineno - 1] + node.col_offset
                    edits.append((begin, begin + len(str(block.size)), str(size)))
            if not any(keyword.arg == "num_warps" for keyword in call.keywords):
                end = starts[(call.end_lineno or 1) - 1] + (call.end_col_offset or 1) - 1
                edits.append((end, end, f", num_warps={num_warps}"))
    for begin, end, text in sorted(edits, reverse=True):
        solution = solution[:begin] + text + solution[end:]
    return solution


@frozen(kw_only=True)
class _Block:
    """A constant of a launch that is free: where it stands, and whether a loop of the kernel goes on by it."""

    places: tuple[ast.expr, ...]
    size: int
    is_step: bool


def _find_launches(host: ast.FunctionDef, kernels: dict[str, ast.FunctionDef]) -> Iterator[ast.Call]:
    for node in ast.walk(host):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
            continue
        if ast.unparse(node.func.value) in kernels and all(keyword.arg for keyword in node.keywords):
            yield node


def _find_blocks(host: ast.FunctionDef, call: ast.Call, kernel: ast.FunctionDef) -> tuple[list[_Block], bool]:
    """Return a launch's free constants, and whether its kernel multiplies matrices."""
    is_product = "tl.dot" in ast.unparse(kernel)
    if is_product and any(isinstance(keyword.value, ast.Call) for keyword in call.keywords):
        return [], is_product  # a side of the tile is computed, so that how large it is cannot be told
    steps = {ast.unparse(node.args[2]) for node in _calls(kernel, "range") if len(node.args) == 3}
    assert isinstance(call.func, ast.Subscript)
    divisors = [
        node.args[1] for node in _calls(call.func.slice, "triton.cdiv") if isinstance(node.args[1], ast.Constant)
    ]
    inside = set(ast.walk(call))
    elsewhere = {node.value for node in ast.walk(host) if isinstance(node, ast.Constant) and node not in inside}
    found: list[_Block] = []
    for keyword in call.keywords:
        size = _read_size(keyword.value)
        if size is None:
            continue
        if keyword.arg in steps:
            found.append(_Block(places=(keyword.value,), size=size, is_step=True))
            continue
        divisor = next((node for node in divisors if node.value == size), None)
        if divisor is not None and size not in elsewhere:
            divisors.remove(divisor)
            found.append(_Block(places=(keyword.value, divisor), size=size, is_step=False))
    return found, is_product


def _calls(tree: ast.AST, name: str) -> list[ast.Call]:
    """Return a function's calls in the order of the text."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == name]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _read_size(node: ast.expr) -> int | None:
    """Return the power of two that stands there; null for anything else."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int) and value >= _LEAST_BLOCK and value & (value - 1) == 0 else None


def _draw_sizes(blocks: Sequence[_Block], is_product: bool, rng: random.Random) -> tuple[list[int], int]:
    """Draw the sizes of a launch's blocks, and its warps, so that a program fits and compiles in a second or two."""
    while True:
        num_warps = rng.choice(_WARPS)
        if not is_product:
            sizes = [int(block.size * rng.choice(_FACTORS)) for block in blocks]
            if min(sizes, default=_LEAST_BLOCK) >= _LEAST_BLOCK and math.prod(sizes) <= _MOST_BLOCK:
                return sizes, num_warps
            continue
        sizes = [rng.choice(_INNER if block.is_step else _ROWS) for block in blocks]
        outer = sum(size for size, block in zip(sizes, blocks, strict=True) if not block.is_step)
        inner = math.prod(size for size, block in zip(sizes, blocks, strict=True) if block.is_step)
        if outer * inner <= _MOST_TILE_ELEMENTS and math.prod(sizes) <= _MOST_PRODUCTS * 32 * num_warps:
            return sizes, num_warps
