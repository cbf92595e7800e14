"""Module-level integer constants."""

from __future__ import annotations

import ast
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.text.size_constants import read_constants, read_sizes, with_constants

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))
tables = st.dictionaries(names, st.integers(0, 10**9), min_size=1, max_size=6)


def write(table: dict[str, int], comment: str = "") -> str:
    body = "".join(f"{name} = {value}{comment}\n" for name, value in table.items())
    return f'"""Größe"""\nimport os\n{body}\n\ndef get_inputs():\n    Z9 = 3\n    return [Z9]\n'


@given(tables)
def test_constants_are_read_as_written(table: dict[str, int]) -> None:
    """Reading gives every module-level integer in the order of the source, and nothing inside functions."""
    assert list(read_constants(write(table)).items()) == list(table.items())


@given(tables, st.data())
def test_rewriting_changes_those_values_and_nothing_else(table: dict[str, int], data: st.DataObject) -> None:
    """After rewriting some constants the source equals the one written with these values from the start."""
    chosen = data.draw(st.dictionaries(st.sampled_from(sorted(table)), st.integers(0, 10**6)))
    comment = data.draw(st.sampled_from(["", "  # π", "; y_0_ = 'ü'"]))
    rewritten = with_constants(write(table, comment), tuple(chosen.items()))
    assert rewritten == write(table | chosen, comment)


def test_two_constants_on_a_line_are_both_rewritten() -> None:
    """Edits of one line do not move each other."""
    assert (
        with_constants("é = 'é'; M = 10; N = 2_000\n", (("M", 1), ("N", 31415926))) == "é = 'é'; M = 1; N = 31415926\n"
    )


def test_only_integer_literals_are_constants() -> None:
    """Booleans, floats, expressions and tuples are no sizes; annotated integers are."""
    source = "A = True\nB = 1.5\nC = 2 * 3\nD, E = 1, 2\nF: int = 7\nG = 1\nG = 'text'\n"
    assert read_constants(source) == {"F": 7}


def test_line_ends_survive() -> None:
    """Windows line ends stay as they are."""
    assert with_constants("M = 1\r\nN = 2\r\n", (("N", 5),)) == "M = 1\r\nN = 5\r\n"


def test_no_constants_is_no_change() -> None:
    """Rewriting nothing returns the text, even one that does not parse."""
    assert with_constants("def (", ()) == "def ("


def test_a_missing_name_is_refused() -> None:
    """A constant that the source lacks is an error that names it."""
    with pytest.raises(ValueError, match="K"):
        with_constants("M = 1\n", (("K", 2),))


def test_rewritten_sources_parse() -> None:
    """A negative value is an expression, and still parses."""
    assert isinstance(ast.parse(with_constants("M = 1\n", (("M", -3),))), ast.Module)


def test_sizes_in_tuples_functions_and_joint_assignments_are_rewritten_by_the_names_they_get() -> None:
    """A profile may name what `name_sizes` names; the program is then written with constants for all of these."""
    source = "height = width = 64\nshape = (16, 4, 32)\n\n\ndef get_inputs():\n    return [draw(128, *shape)]\n"
    assert read_sizes(source) == {"height": 64, "shape_0": 16, "shape_1": 32, "size_0": 128}
    rewritten = with_constants(source, (("height", 8), ("shape_1", 9), ("size_0", 10)))
    assert read_constants(rewritten) == {"height": 8, "shape_0": 16, "shape_1": 9, "size_0": 10}
    assert "width = height" in rewritten
    with pytest.raises(ValueError, match="depth"):
        with_constants(source, (("depth", 8),))
