"""Best-of-N selection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.recipe.selection import select

rewards = st.lists(st.sampled_from((0.0, 0.3, 0.5, 0.7, 0.85, 1.0)), max_size=12)


@given(rewards, st.integers(0, 12))
def test_the_best_are_chosen_and_never_a_zero(values: list[float], keep: int) -> None:
    """As many as asked for where there are, best first, and nothing left out beats what was chosen."""
    chosen = select(values, keep)
    positive = [index for index, value in enumerate(values) if value > 0]
    assert len(chosen) == min(keep, len(positive)) == len(set(chosen))
    assert [values[i] for i in chosen] == sorted((values[i] for i in positive), reverse=True)[:keep]


@given(st.lists(st.tuples(st.sampled_from((0.0, 0.3, 0.7)), st.sampled_from("abc")), max_size=10), st.integers(0, 5))
def test_a_source_is_chosen_once(candidates: list[tuple[float, str]], keep: int) -> None:
    """Duplicates count once, and do not take the place of another source."""
    values, sources = [value for value, _ in candidates], [source for _, source in candidates]
    chosen = select(values, keep, sources)
    distinct = {source for value, source in candidates if value > 0}
    assert len(chosen) == len({sources[i] for i in chosen}) == min(keep, len(distinct))


def test_ties_go_to_the_lowest_index() -> None:
    """Among equals the earlier sample is chosen."""
    assert select([0.3, 0.7, 0.7, 0.3, 0.7], 2) == (1, 2)
    assert select([0.7, 0.7, 0.5], 2, ["a", "a", "b"]) == (0, 2)


def test_wrong_arguments_are_refused() -> None:
    """A negative count or unequal lengths are programming errors."""
    with pytest.raises(ValueError, match="keep"):
        select([1.0], -1)
    with pytest.raises(ValueError, match="sources"):
        select([1.0], 1, [])
