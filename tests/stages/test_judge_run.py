"""When a reference can judge: its results are numbers, and right in its own dtype but for elements that it loses."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import Comparison
from tritonrl.stages.judge_run import is_sound


def comparison(relative_error: float, num_nonfinite: int = 0) -> Comparison:
    """One result of the reference in float32 against float64."""
    return Comparison(
        dtype="float32",
        shape_matches=True,
        dtype_matches=True,
        num_elements=8,
        num_nonfinite=num_nonfinite,
        relative_error=relative_error,
    )


@given(num_lost=st.integers(0, 8), share=st.floats(0.1, 1.0))
def test_most_results_must_be_numbers(num_lost: int, share: float) -> None:
    """Up to half of the elements may have no value; with more, or with nothing known of them, nobody is judged."""
    expected = np.ones(8)
    expected[:num_lost] = np.nan
    assert is_sound([expected], [comparison(0.0)], share) == (num_lost <= 4)


@given(share=st.floats(0.1, 1.0), factor=st.floats(0.0, 3.0), num_lost=st.integers(0, 8))
def test_its_own_error_must_be_within_a_candidates_tolerance(share: float, factor: float, num_lost: int) -> None:
    """Elements that its own dtype loses do not count."""
    assert is_sound([np.ones(8)], [comparison(factor * share * 1e-3, num_lost)], share) == (
        factor * share * 1e-3 <= share * 1e-3
    )


def test_what_cannot_be_had_is_no_objection() -> None:
    """Not every operator exists for every dtype."""
    assert is_sound([np.ones(8)], [], 0.1)
