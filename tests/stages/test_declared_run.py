"""Coverage of the declared sizes, judged from a sample."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.outcome import Outcome
from tritonrl.stages.declared_run import Coverage, LaunchCoverage, count_needed, judge_coverage


def one_launch(num_needed: int, total: int, written: tuple[int, ...]) -> Coverage:
    """The coverage of a plan with a single launch."""
    launch = LaunchCoverage(num_programs=total, written_by_program=written)
    return Coverage(num_needed=num_needed, launches=(launch,))


@given(total=st.integers(1, 5000), block=st.integers(1, 4096), size=st.integers(1, 24), share=st.floats(0.01, 1))
def test_equal_programs_must_cover_the_result(total: int, block: int, size: int, share: float) -> None:
    """Where each program writes a block, just the grids whose blocks make up the result are accepted."""
    written = (block,) * min(size, total)

    def judge(num_needed: int) -> bool:
        return judge_coverage(one_launch(num_needed, total, written)) is None

    assert judge(max(1, int(total * block * share)))
    assert not judge(int(total * block * 1.01) + 1)


@given(seed=st.integers(0, 10**6), one_in=st.integers(2, 6))
def test_unequal_programs_get_the_benefit_of_the_doubt(seed: int, one_in: int) -> None:
    """Where one program in a few writes for all, a large sample accepts it, and refuses a tenth of it."""
    total = 3000
    writes = [64 if program % one_in == 0 else 0 for program in range(total)]
    sample = tuple(random.Random(seed).sample(writes, 384))
    assert judge_coverage(one_launch(sum(writes), total, sample)) is None
    failure = judge_coverage(one_launch(10 * sum(writes), total, sample))
    assert failure is not None
    assert failure.outcome is Outcome.OUTPUT_NOT_WRITTEN


def test_no_program_covers_nothing() -> None:
    """A launch without programs writes nothing."""
    assert judge_coverage(one_launch(1, 0, ())) is not None


def test_launches_share_the_result() -> None:
    """What several launches write counts together; one of which nothing is known may write anything."""
    half = LaunchCoverage(num_programs=100, written_by_program=(5, 5))
    assert judge_coverage(Coverage(num_needed=1000, launches=(half, half))) is None
    assert judge_coverage(Coverage(num_needed=1000, launches=(half,))) is not None
    unknown = LaunchCoverage(num_programs=100, written_by_program=(), num_unknown=12)
    assert judge_coverage(Coverage(num_needed=1000, launches=(half, unknown))) is None


def test_what_is_right_unwritten_need_not_be_written() -> None:
    """Zeros that were filled in count for a result that is zero there; NaN counts nowhere."""
    expected = np.array([1.0, 0.0, 0.0, 2.0])
    written = np.array([True, False, False, False])
    assert count_needed(np.array([1.0, 0.0, 0.0, 0.0], np.float32), expected, written, "float32") == 2
    assert count_needed(np.array([1.0, np.nan, np.nan, np.nan], np.float32), expected, written, "float32") == 4
    assert count_needed(np.array([1, 0, 0, 0]), expected.astype(np.int64), written, "int64") == 2
