"""Integers of a text that may bound a size."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.text.bounds import LEAST_BOUND, MOST_BOUND, MOST_BOUNDS, read_bounds

PLANTED = st.integers(LEAST_BOUND, MOST_BOUND)
PLACES = (
    "if n <= {}: pass",
    "def forward(self, x, most={}): pass",
    "kernel[(n,)](x, BLOCK={})",
    "configs = [triton.Config({{'BLOCK': {}}}, num_warps=4)]",
    "x = tl.load(p, mask=at < {}, other=0.0) + 1",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BLOCK = 1 << 12", (4096,)),
        ("MOST = (1 << 12) - 1", (4095,)),
        ("grid = (4 * 1024, 2 ** 10)", (1024, 4096)),
        ("n = -64 + x[65]", (64, 65)),
        ("label = t & 0xFFF", (4095,)),
        ("count = tl.zeros((16,), tl.int8)", (16, 127)),
        ("k[grid](x, num_warps=8, num_stages=4, BLOCK=64)", (64,)),
        ("a, b = 0, 1\nc = True", ()),
        ("1 << 100, 8 // 0, 2 ** -1", (8, 100)),
        ("def forward(", ()),
    ],
)
def test_what_is_read(text: str, expected: tuple[int, ...]) -> None:
    """Expressions of literals are folded, their operands are left out, and so is what is no size."""
    assert read_bounds(text) == expected


@given(st.sampled_from(PLACES), PLANTED)
def test_a_planted_integer_is_found(place: str, planted: int) -> None:
    """Wherever a text has it."""
    assert planted in read_bounds(place.format(planted))


@given(st.integers(0, 2**70), st.integers(0, 2**70), st.sampled_from(["+", "-", "*", "//", "**", "<<", "%", "&"]))
def test_operations_give_what_python_says(left: int, right: int, sign: str) -> None:
    """Or nothing of the whole."""
    text = f"x = {left} {sign} {right}"
    found = read_bounds(text)
    if len(found) == 1 and found[0] not in (left, right):
        assert found[0] == eval(compile(ast.parse(text[4:], mode="eval"), "", "eval"))


@given(st.text(max_size=300))
def test_no_text_is_too_much(text: str) -> None:
    """It is read, or nothing is."""
    _check(read_bounds(text))


@given(st.lists(st.integers(0, 2**40), max_size=600))
def test_there_are_not_too_many(numbers: list[int]) -> None:
    """However many a text has, in ascending order and once each."""
    _check(read_bounds(f"x = {numbers}"))


def test_deep_expressions_are_read() -> None:
    """In time that grows with the text."""
    assert read_bounds("x = " + " + ".join(["16"] * 2000)) in ((), (32000,))


def _check(found: tuple[int, ...]) -> None:
    assert len(found) <= MOST_BOUNDS
    assert found == tuple(sorted(set(found)))
    assert all(LEAST_BOUND <= each <= MOST_BOUND for each in found)
