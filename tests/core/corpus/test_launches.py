"""Launch parameters drawn anew change block sizes and warps, and nothing else."""

from __future__ import annotations

import ast
import random
import re
from itertools import islice

import pytest
from tritonrl.core.corpus import SUITES, Split, examples
from tritonrl.core.corpus.launches import draw_launches

SOLUTIONS = [
    example.solution
    for level, names in SUITES["field"].items()
    for example in islice(examples(Split.TRAIN, level, 5, names), 2 * len(names))
]
PRODUCT = """
@triton.jit
def mv_kernel(a_ptr, x_ptr, out_ptr, K, N, DEPTH: tl.constexpr, BLOCK: tl.constexpr):
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for start in range(0, K, DEPTH):
        rows = start + tl.arange(0, DEPTH)


def launch(a, x, out, K, N):
    parts = triton.cdiv(N, {elsewhere})
    mv_kernel[(triton.cdiv(N, 32),)](a, x, out, K, N, DEPTH=32, BLOCK=32)
"""


def _without_launch_parameters(source: str) -> str:
    return re.sub(r"\d+", "0", re.sub(r", num_warps=\d+", "", source))


def test_only_numbers_of_launches_change() -> None:
    """Of every teacher each launch has warps, most have another block, and all else is as it was."""
    changed = 0
    for solution in SOLUTIONS:
        drawn = draw_launches(solution, random.Random(1))
        assert _without_launch_parameters(drawn) == _without_launch_parameters(solution)
        launches = [line for line in drawn.splitlines() if "](" in line and "num_warps=" in line]
        others = [line for line in drawn.splitlines() if line not in launches]
        assert launches
        assert all(line in solution.splitlines() for line in others)
        without = re.sub(r", num_warps=\d+", "", drawn)
        changed += without != solution
        ast.parse(drawn)
    assert changed > len(SOLUTIONS) / 2


def test_the_generator_decides() -> None:
    """Equal generators draw equal launches, and others draw others."""
    source = PRODUCT.format(elsewhere=7)
    drawn = {draw_launches(source, random.Random(seed)) for seed in range(40)}
    assert len(drawn) > 10
    assert draw_launches(source, random.Random(3)) == draw_launches(source, random.Random(3))


@pytest.mark.parametrize("seed", range(20))
def test_the_grid_divides_by_the_block_that_programs_take(seed: int) -> None:
    """Of two constants of one value the one that no loop goes on by is the grid's."""
    found = re.search(
        r"cdiv\(N, (\d+)\),\)\]\(.*BLOCK=(\d+)", draw_launches(PRODUCT.format(elsewhere=7), random.Random(seed))
    )
    assert found is not None
    assert found[1] == found[2]


@pytest.mark.parametrize("seed", range(20))
def test_a_block_that_the_host_uses_elsewhere_stays(seed: int) -> None:
    """What is allocated by a block's size has as many places as before."""
    drawn = draw_launches(PRODUCT.format(elsewhere=32), random.Random(seed))
    assert "cdiv(N, 32),)]" in drawn
    assert "BLOCK=32" in drawn
