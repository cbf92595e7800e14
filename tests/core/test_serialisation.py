"""Serialisation: records there and back, strict errors, one text, fingerprints; and seeds, which labels tell apart."""

import json
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core import serialisation
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.plan import Argument, ArgumentKind, Copy, Fill, Launch, LaunchPlan, View
from tritonrl.core.seeds import derive
from tritonrl.core.verdict import StageResult, Verdict

labels = st.lists(st.one_of(st.text(max_size=8), st.integers()), max_size=5)
views = st.builds(
    View,
    buffer=st.integers(0, 3),
    offset=st.integers(0, 9),
    shape=st.tuples(st.integers(0, 9)),
    stride=st.tuples(st.integers(0, 9)),
    dtype=st.just("float32"),
)
numbers = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
arguments = st.builds(
    Argument,
    name=st.text(),
    kind=st.sampled_from(ArgumentKind),
    constexpr=st.booleans(),
    view=st.one_of(st.none(), views),
    number=numbers,
    text=st.one_of(st.none(), st.text()),
)
launches = st.builds(
    Launch, kernel=st.integers(), grid=st.tuples(*[st.integers()] * 3), arguments=st.lists(arguments).map(tuple)
)
fills = st.builds(Fill, target=views, value=st.floats(allow_nan=False, allow_infinity=False))
steps = st.one_of(launches, fills, st.builds(Copy, source=views, target=views))
plans = st.builds(
    LaunchPlan,
    buffers=st.just(()),
    kernels=st.just(()),
    steps=st.lists(steps, max_size=4).map(tuple),
    outputs=st.lists(views, max_size=2).map(tuple),
    target=st.one_of(st.none(), st.text()),
)


@given(plans)
def test_a_plan_survives_json(plan: LaunchPlan) -> None:
    """Each kind of step and argument comes back as it was, and so does the fingerprint."""
    read = serialisation.from_plain(json.loads(serialisation.canonical_json(plan)), LaunchPlan)
    assert read == plan
    assert serialisation.fingerprint(read) == serialisation.fingerprint(plan)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_an_outcome_travels_as_its_code(outcome: Outcome) -> None:
    """A verdict with any outcome survives, and JSON shows the code, not the sentence."""
    result = StageResult(stage=Stage.AST, outcome=outcome)
    verdict = Verdict(task_id="t", candidate="c", backend="b", stages=(result,))
    text = serialisation.canonical_json(verdict)
    assert outcome.code in text
    assert serialisation.from_plain(json.loads(text), Verdict) == verdict


@frozen(kw_only=True)
class Inner:
    """A record within a record."""

    count: int = 1
    share: float = 0.5
    flag: bool = False
    name: str = "x"


@frozen(kw_only=True)
class Outer:
    """A record that must have its inner one."""

    inner: Inner
    many: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"inner": {"count": 2.9}}, "inner.count: expected an integer, got 2.9"),
        ({"inner": {"count": True}}, "inner.count: expected an integer, got True"),
        ({"inner": {"flag": "false"}}, "inner.flag: expected true or false, got 'false'"),
        ({"inner": {"flag": 1}}, "inner.flag: expected true or false, got 1"),
        ({"inner": {"share": float("nan")}}, "inner.share: expected a finite number, got nan"),
        ({"inner": {"name": 3}}, "inner.name: expected text, got 3"),
        ({"inner": {}, "many": [1, "2"]}, "many.1: expected an integer, got '2'"),
        ({"inner": {"cuont": 2}}, "unknown key: inner.cuont"),
        ({}, "missing key: inner"),
    ],
)
def test_what_does_not_fit_is_one_line_that_names_the_key(plain: Any, message: str) -> None:
    """Nothing is coerced."""
    with pytest.raises(ValueError, match=r"key|expected") as caught:
        serialisation.from_plain(plain, Outer)
    assert str(caught.value) == message


@given(st.dictionaries(st.text(), st.integers()))
def test_canonical_json_ignores_the_order_of_keys(table: dict[str, int]) -> None:
    """A table written in another order has the same text."""
    backwards = dict(reversed(list(table.items())))
    assert serialisation.canonical_json(table) == serialisation.canonical_json(backwards)


def test_nan_has_no_json() -> None:
    """A number that JSON cannot hold is refused."""
    with pytest.raises(ValueError, match="JSON"):
        serialisation.canonical_json({"x": float("nan")})


def test_differences_name_the_fields() -> None:
    """Changed, added and removed fields are one line each, and equal values none."""
    old, new = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 5}, "e": 4}
    assert serialisation.differences(old, new) == ("a.c: 2 -> 5", "d: 3 -> (absent)", "e: (absent) -> 4")
    assert serialisation.differences(old, old) == ()


@given(st.integers(), labels, labels)
def test_streams_differ_just_where_their_labels_do(root: int, one: list[str | int], other: list[str | int]) -> None:
    """Equal labels give equal seeds, and others different ones, all of 63 bits."""
    assert 0 <= derive(root, *one) < 2**63
    assert (derive(root, *one) == derive(root, *other)) == (one == other)


def test_a_seed_is_the_same_for_ever() -> None:
    """The derivation is fixed: changing it would change every published result."""
    assert derive(0) != derive(1)
    assert derive(0, "a", "b") != derive(0, "ab")
    assert derive(0, 1) != derive(0, "1")
    assert derive(0, "round", 3) == 7576151507556401736


def test_a_label_of_another_type_is_refused() -> None:
    """A float or a truth value as label is a mistake."""
    with pytest.raises(TypeError):
        derive(0, 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        derive(0, True)


plain_values = st.recursive(
    st.one_of(numbers, st.booleans(), st.text(max_size=4)),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3), st.lists(parts, max_size=3).map(tuple), st.dictionaries(st.text(max_size=3), parts)
    ),
    max_leaves=8,
)


@given(st.lists(plain_values, max_size=3), st.dictionaries(st.text(min_size=1, max_size=4), plain_values, max_size=3))
def test_arguments_keep_tuples_apart_from_lists(args: list[Any], kwargs: dict[str, Any]) -> None:
    """A call's arguments come back as they were, whatever is nested in what."""
    assert serialisation.read_arguments(serialisation.write_arguments(args, kwargs)) == (args, kwargs)
