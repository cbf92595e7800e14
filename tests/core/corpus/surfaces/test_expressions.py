"""Expressions as text."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.corpus.surfaces.expressions import number_of, write_expression

NAMES = st.sampled_from(("x", "self.scale", "torch.relu", "n"))
NUMBERS = st.one_of(st.integers(0, 99).map(str), st.sampled_from(("0.5", "1e-05", "2.0", '"none"', "None", "True")))
BINARY = st.sampled_from(("+", "-", "*", "/", "//", "%", "@", "**", "<", "==", "and"))


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, BINARY, inner).map(lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"),
        st.tuples(st.sampled_from("-~"), inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
        st.tuples(inner, inner).map(lambda parts: f"f({parts[0]}, *({parts[1]}), dim={parts[1]})"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]}).method({parts[1]}, **k)"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]})[:, None, {parts[1]}:]"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]}, [{parts[1]}], ({parts[0]},), ())"),
    )


@given(st.recursive(st.one_of(NAMES, NUMBERS), _grown, max_leaves=6))
def test_what_is_written_is_the_same_expression(text: str) -> None:
    """Parentheses stand where they are needed: reading what was written gives the same tree."""
    tree = ast.parse(text, mode="eval").body
    assert ast.dump(ast.parse(write_expression(tree), mode="eval").body) == ast.dump(tree)


def test_numbers_have_signs_and_truth_values_are_none() -> None:
    """`-0.5` is a number, `True` and `x` are not."""
    values = [number_of(ast.parse(text, mode="eval").body) for text in ("-0.5", "3", "True", "x")]
    assert values == [-0.5, 3, None, None]


def test_people_write_small_numbers_shortly() -> None:
    """`1e-5`, and strings in the quotes asked for."""
    assert write_expression(ast.parse("f(1e-05, 'sum')", mode="eval").body, "'") == "f(1e-5, 'sum')"
