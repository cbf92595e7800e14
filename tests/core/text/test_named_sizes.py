"""Sizes with names: the program that is written computes what the one that was read computes."""

from __future__ import annotations

import ast
import keyword
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.text.named_sizes import LEAST, name_sizes, read_constants, read_sizes, with_constants

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))
tables = st.dictionaries(names, st.integers(0, 10**9), min_size=1, max_size=6)
EMPTY = "\n\ndef get_init_inputs():\n    return []\n"
NUMBERS = st.integers(0, 5000).map(str)
TERMS = st.recursive(
    NUMBERS,
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from("+-*"), parts).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(parts, st.integers(0, 4)).map(lambda t: f"({t[0]} ** {t[1]})"),
        st.tuples(parts, st.integers(1, 9)).map(lambda t: f"({t[0]} // {t[1]})"),
        parts.map(lambda part: f"-{part}"),
    ),
    max_leaves=4,
)
NAMES = st.sampled_from(["n", "width", "size_0", "shape_0", "größe"])
"""Some of them are names that the rewriting itself would choose."""
ASSIGNMENTS = st.one_of(
    st.tuples(NAMES, TERMS).map(lambda t: f"{t[0]} = {t[1]}"),
    st.tuples(NAMES, NAMES, TERMS).map(lambda t: f"{t[0]} = {t[1]} = {t[2]}  # größe"),
    st.tuples(NAMES, NAMES, TERMS, TERMS).map(lambda t: f"{t[0]}, {t[1]} = ({t[2]},\n    {t[3]})"),
    st.tuples(NAMES, TERMS).map(lambda t: f"pi = 'ππ'; {t[0]} = {t[1]}"),
    st.tuples(TERMS, TERMS).map(lambda t: f"shape = ({t[0]}, {t[1]})"),
    st.tuples(NAMES, TERMS).map(lambda t: f"{t[0]}: int = {t[1]}"),
    st.sampled_from(["def shape_0(): return 5", "import math as size_1", "class size_2: pass", "flag = True"]),
)
BODIES = st.one_of(
    TERMS.map(lambda t: f"return ['ü', {t}, 2 * {t}]"),
    st.tuples(TERMS, TERMS).map(lambda t: f"k = {t[0]}; return [k, [{t[1]}] * 2, f'{{{t[0]}}}']"),
    TERMS.map(lambda t: f"return [list(range(min({t}, 24))), (lambda y=32: y + 64)(), shape[-1]]"),
    st.just("return [16 if shape else 32]"),
)


def run(source: str) -> dict[str, Any]:
    """What a program's integers and tuples are, and what its functions return; an error's name where it has none."""
    names: dict[str, Any] = {}
    exec(compile(source, "program", "exec"), names)
    found = {name: value for name, value in names.items() if type(value) in (int, bool, tuple)}
    for function in ("get_inputs", "get_init_inputs"):
        try:
            found[function] = names[function]()
        except Exception as error:
            found[function] = type(error).__name__
    return found


@given(st.lists(ASSIGNMENTS, max_size=5), BODIES, BODIES)
def test_named_program_computes_the_same(statements: list[str], first: str, second: str) -> None:
    """Whatever is assigned and returned keeps its value, and naming sizes again changes nothing."""
    head = "\n".join(["shape = (64, 2)", *statements])
    source = f"{head}\n\ndef get_inputs():\n    {first}\n\ndef get_init_inputs():\n    {second}\n"
    named = name_sizes(source)
    before, after = run(source), run(named)
    assert {name: after.get(name) for name in before} == before
    assert name_sizes(named) == named


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n = 2 ** 14", {"n": 16384}),
        ("n = m = 1 << 10", {"n": 1024}),
        ("n, m = 4096, 2**17", {"n": 4096, "m": 131072}),
        ("shape = (4096, 3, 8 * 64)", {"shape_0": 4096, "shape_1": 512}),
        ("n = -(2**9)", {}),
        ("n = 3.5\nm = 'text'\nflags = True, False", {}),
    ],
)
def test_sizes_of_assignments_become_constants(text: str, expected: dict[str, int]) -> None:
    """Products, several targets and tuples become constants; what is no size does not."""
    named = name_sizes(text + "\n\ndef get_inputs():\n    return []\n" + EMPTY)
    assert read_constants(named) == expected


def test_equal_numbers_of_both_functions_are_one_constant() -> None:
    """A width that is an input's and a layer's moves both; small numbers and the model's own stay."""
    source = (
        "class Model:\n    width = 4096\n\n\ndef get_inputs():\n    return [(128, 4096, 3)]\n\n\n"
        "def get_init_inputs():\n    return [4096, 2 * 512, 7]\n"
    )
    named = name_sizes(source)
    assert sorted(read_constants(named).values()) == [128, 1024, 4096]
    width = next(name for name, value in read_constants(named).items() if value == 4096)
    moved = run(with_constants(named, ((width, 48),)))
    assert moved["get_inputs"] == [(128, 48, 3)]
    assert moved["get_init_inputs"] == [48, 1024, 7]
    assert "width = 4096" in named
    assert all(value >= LEAST for value in read_constants(named).values())


def test_names_that_are_taken_in_any_way_are_not_taken_again() -> None:
    """Functions, classes, imports and arguments have names as variables do."""
    source = (
        "import math as size_0\n\n\ndef size_1():\n    return 1\n\n\nclass size_2:\n    pass\n\n\n"
        "def get_inputs(size_3=5):\n    return [size_0.pi, size_1(), size_2.__name__, size_3, 64, 65, 66, 67]\n" + EMPTY
    )
    assert run(name_sizes(source))["get_inputs"] == run(source)["get_inputs"]


def test_patterns_are_no_sizes() -> None:
    """A number in a `case` would be a name that is bound there."""
    source = "def get_inputs():\n    match 16 + 1:\n        case 16:\n            return [1]\n    return [2]\n" + EMPTY
    assert run(name_sizes(source))["get_inputs"] == [2]


@pytest.mark.parametrize("source", ["def f(:", "n = (", "a\x00b"])
def test_what_is_no_program_is_refused(source: str) -> None:
    """No program gives an error that says so, and never half a text."""
    with pytest.raises((SyntaxError, ValueError)):
        name_sizes(source)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n: int = 4096 * 2\nm: int = 512", {"n": 8192, "m": 512}),
        ("shape: tuple = (4096, 3)", {"shape_0": 4096}),
        ("n = int(1e6)\nm = int(2**13)\nk = int(0.5)\nl = int('8')", {"n": 1000000, "m": 8192}),
        ("sizes = {64: 4096, 'width': 2 * 512, 'taps': 3}", {"sizes_0": 4096, "sizes_1": 1024}),
        ("sizes = dict(batch=128, shape=[64, 3])", {"sizes_0": 128, "sizes_1": 64}),
    ],
)
def test_sizes_of_configurations_become_constants(text: str, expected: dict[str, int]) -> None:
    """Annotated assignments, floats taken for integers, dictionaries' values and arguments have names of their own."""
    source = text + "\n\ndef get_inputs():\n    return []\n" + EMPTY
    named = name_sizes(source)
    assert read_constants(named) == expected
    assert run(named).items() >= run(source).items()


def test_numbers_in_functions_stay_where_that_is_asked_for() -> None:
    """What the module's top level calls a number is named, and what a function does is not."""
    source = "n = 2 * 512\n\ndef get_inputs():\n    return [4096]\n" + EMPTY
    assert name_sizes(source, in_functions=False) == source.replace("2 * 512", "1024")


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
