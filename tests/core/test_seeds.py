"""Seeds derive from one root by label."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.seeds import derive

labels = st.lists(st.one_of(st.text(max_size=8), st.integers()), max_size=5)


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
