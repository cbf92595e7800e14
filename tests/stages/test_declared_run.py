"""Coverage of the declared sizes, judged from a sample."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import Failure
from tritonrl.core.outcome import Outcome
from tritonrl.core.run import LaunchSample
from tritonrl.stages.checks.declared_run import (
    SUSPECTS,
    count_needed,
    find_hints,
    judge_coverage,
)


def judge_launch(num_needed: int, total: int, written: tuple[int, ...]) -> Failure | None:
    """The objection to a plan with a single launch."""
    return judge_coverage(num_needed, [(total, 1, 1)], [LaunchSample(written_by_program=written)])


@given(total=st.integers(1, 5000), block=st.integers(1, 4096), size=st.integers(1, 24), share=st.floats(0.01, 1))
def test_equal_programs_must_cover_the_result(total: int, block: int, size: int, share: float) -> None:
    """Where each program writes a block, just the grids whose blocks make up the result are accepted."""
    written = (block,) * min(size, total)

    def judge(num_needed: int) -> bool:
        return judge_launch(num_needed, total, written) is None

    assert judge(max(1, int(total * block * share)))
    assert not judge(int(total * block * 1.01) + 1)


@given(seed=st.integers(0, 10**6), one_in=st.integers(2, 6))
def test_unequal_programs_get_the_benefit_of_the_doubt(seed: int, one_in: int) -> None:
    """Where one program in a few writes for all, a large sample accepts it, and refuses a tenth of it."""
    total = 3000
    writes = [64 if program % one_in == 0 else 0 for program in range(total)]
    sample = tuple(random.Random(seed).sample(writes, 384))
    assert judge_launch(sum(writes), total, sample) is None
    failure = judge_launch(10 * sum(writes), total, sample)
    assert failure is not None
    assert failure.outcome is Outcome.OUTPUT_NOT_WRITTEN


def test_no_program_covers_nothing() -> None:
    """A launch without programs writes nothing."""
    assert judge_launch(1, 0, ()) is not None


@given(grid=st.tuples(st.integers(2, 60), st.integers(2, 60), st.just(1)), size=st.integers(3, 40))
def test_an_axis_without_effect_counts_once(grid: tuple[int, int, int], size: int) -> None:
    """Where each next program along an axis stores to the same elements, the axis is as good as one program long."""
    total, block = grid[0] * grid[1], 64
    size = min(size, total - 1)

    def judge(num_needed: int, new_along: tuple[tuple[float, ...], ...]) -> bool:
        written = (block,) * size
        taken = LaunchSample(written_by_program=written, stored_by_program=written, new_along=new_along)
        return judge_coverage(num_needed, [grid], [taken]) is None

    assert judge(grid[1] * block, ((0.0,) * 6, (1.0,) * 6, ()))
    assert not judge(total * block, ((0.0,) * 6, (1.0,) * 6, ()))
    assert judge(total * block, ((1.0,) * 6, (1.0,) * 6, ()))
    assert judge(total * block, ((), (), ()))
    # a last block that begins earlier is no axis without effect
    assert judge(total * block, ((1.0, 1.0, 1.0, 0.4, 1.0, 1.0), (1.0,) * 6, ()))


def test_launches_share_the_result() -> None:
    """What several launches write counts together; one of which nothing is known may write anything."""
    grid, half = (100, 1, 1), LaunchSample(written_by_program=(5, 5))
    assert judge_coverage(1000, [grid, grid], [half, half]) is None
    assert judge_coverage(1000, [grid], [half]) is not None
    unknown = LaunchSample(written_by_program=(), num_unknown=12)
    assert judge_coverage(1000, [grid, grid], [half, unknown]) is None


def test_what_is_right_unwritten_need_not_be_written() -> None:
    """Zeros that were filled in count for a result that is zero there; NaN counts nowhere."""
    expected = np.array([1.0, 0.0, 0.0, 2.0])
    written = np.array([True, False, False, False])
    assert count_needed(np.array([1.0, 0.0, 0.0, 0.0], np.float32), expected, written, "float32") == 2
    assert count_needed(np.array([1.0, np.nan, np.nan, np.nan], np.float32), expected, written, "float32") == 4
    assert count_needed(np.array([1, 0, 0, 0]), expected.astype(np.int64), written, "int64") == 2


@given(seed=st.integers(0, 10**6), num_wrong=st.integers(0, 9), block=st.integers(1, 50))
def test_hints_name_programs_that_wrote_what_is_wrong(seed: int, num_wrong: int, block: int) -> None:
    """Programs are named where there are wrong elements of theirs, as many as are run, and no others."""
    draw = np.random.default_rng(seed)
    expected = draw.standard_normal(40 * block)
    writers = np.repeat(np.arange(1, 41, dtype=np.int32), block)
    wrong = draw.choice(40, num_wrong, replace=False)
    actual = np.where(np.isin(writers - 1, wrong), np.nan, expected).astype(np.float32)
    hints = find_hints(actual, expected, writers, "float32", is_whole=True)
    assert set(hints.programs) <= set(wrong.tolist())
    assert len(hints.programs) == min(num_wrong, SUSPECTS)
    assert not hints.is_lacking


def test_a_scan_of_all_programs_shows_what_nobody_wrote() -> None:
    """Elements without a writer lack a program, unless they are right as they are or not all programs ran."""
    expected = np.arange(100.0)
    writers = np.where(np.arange(100) < 97, 1, 0).astype(np.int32)
    unwritten = np.where(writers > 0, expected, np.nan).astype(np.float32)
    assert find_hints(unwritten, expected, writers, "float32", is_whole=True).is_lacking
    assert not find_hints(unwritten, expected, writers, "float32", is_whole=False).is_lacking
    assert not find_hints(expected.astype(np.float32), expected, writers, "float32", is_whole=True).is_lacking
    assert find_hints(np.arange(100), np.arange(100), writers, "int64", is_whole=True).programs == ()
