"""Which samples are taken at the declared sizes, and which of them counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import Comparison, Failure, RunReport, Variant
from tritonrl.core.outcome import Outcome
from tritonrl.core.run import LaunchSample
from tritonrl.stages.checks.declared_run import ALL_PROGRAMS, FIRST_PROGRAMS, LEAST_PROGRAMS, MANY_PROGRAMS, Hints
from tritonrl.stages.checks.sampled_run import (
    Look,
    SampledOutput,
    Settled,
    Take,
    judge_rest,
    judge_sample,
    judge_sum,
    read_hints,
    settle,
)

RIGHT = Comparison(dtype="float32", shape_matches=True, dtype_matches=True, num_elements=4)
WRONG = Comparison(dtype="float32", shape_matches=True, dtype_matches=True, num_elements=4, num_nonfinite=1)
FAILURES = (Outcome.TIMEOUT, Outcome.CRASHED, Outcome.MEMORY_LIMIT, Outcome.OUTPUT_NOT_WRITTEN, Outcome.OUT_OF_BOUNDS)


def failed(outcome: Outcome, is_doubtful: bool = False) -> Look:
    """A sample that failed."""
    report = RunReport(variant=Variant.DECLARED, seconds=0.0, failure=Failure(outcome=outcome))
    return Look(report=report, is_doubtful=is_doubtful)


def compared(
    comparison: Comparison = RIGHT, is_doubtful: bool = False, overlaps: bool = False, is_uniform: bool = False
) -> Look:
    """A sample whose values were compared."""
    report = RunReport(variant=Variant.DECLARED, seconds=0.0, comparisons=(comparison,))
    return Look(report=report, is_doubtful=is_doubtful, overlaps=overlaps, is_uniform=is_uniform)


LOOKS = st.one_of(
    st.builds(failed, st.sampled_from(FAILURES), st.booleans()),
    st.builds(compared, st.sampled_from((RIGHT, WRONG)), st.booleans(), st.booleans(), st.booleans()),
)
HINTS = st.builds(Hints, programs=st.sampled_from(((), (3,))), is_lacking=st.booleans())
NUM_PROGRAMS = st.lists(st.integers(1, 2 * ALL_PROGRAMS), min_size=1, max_size=3)


def follow(
    first: Look | None,
    hints: Hints | None,
    num_programs: Sequence[int],
    answers: Sequence[Look],
    is_declared: bool = True,
    may_wait: bool = False,
) -> tuple[Settled, list[Take]]:
    """What is settled where samples show these looks, the last one again and again, and what was taken."""
    steps = settle(first, hints, num_programs, is_declared, may_wait)
    taken: list[Take] = []
    try:
        taken.append(next(steps))
        while True:
            taken.append(steps.send(answers[min(len(taken), len(answers)) - 1]))
    except StopIteration as end:
        return end.value, taken


@given(
    first=st.none() | LOOKS,
    hints=st.none() | HINTS,
    num_programs=NUM_PROGRAMS,
    answers=st.lists(LOOKS, min_size=5, max_size=5),
    is_declared=st.booleans(),
    may_wait=st.booleans(),
)
def test_a_verdict_is_that_of_a_sample_and_takes_five_at_most(
    first: Look | None,
    hints: Hints | None,
    num_programs: list[int],
    answers: list[Look],
    is_declared: bool,
    may_wait: bool,
) -> None:
    """What counts is one of those taken; questions are of one launch, declared or with elements that a scan misses."""
    settled, taken = follow(first, hints, num_programs, answers, is_declared, may_wait)
    assert len(taken) <= 5
    assert settled.look in ([first] if first is not None else []) + answers[: len(taken)]
    may_ask = len(num_programs) == 1 and (is_declared or (hints is not None and hints.is_lacking))
    assert settled.question is None or may_ask


@given(hints=HINTS, num_programs=NUM_PROGRAMS, outcome=st.sampled_from((Outcome.OUT_OF_BOUNDS, Outcome.CRASHED)))
def test_an_objection_without_a_doubt_stands(hints: Hints, num_programs: list[int], outcome: Outcome) -> None:
    """What failed where more programs would tell nothing is refused, whatever a scan says."""
    settled, taken = follow(None, hints, num_programs, [failed(outcome)])
    assert settled.look.outcome is outcome
    assert taken == [Take(num_programs=FIRST_PROGRAMS)]


def test_a_right_sample_without_hints_is_enough() -> None:
    """No further sample is taken of a right one that leaves no doubt."""
    settled, taken = follow(compared(), Hints(), [100], [])
    assert settled == Settled(look=compared())
    assert not taken


def test_zeros_alone_are_not_enough() -> None:
    """Where one value alone was expected of the programs that ran, more run, and these count."""
    settled, taken = follow(compared(is_uniform=True), Hints(), [100], [compared(WRONG)], is_declared=False)
    assert taken[0] == Take(num_programs=MANY_PROGRAMS)
    assert settled.look.is_wrong


@pytest.mark.parametrize(("expected", "is_uniform"), [([0.0, 0.0, 0.0, 2.0], True), ([0.0, 1.0, 0.0, 2.0], False)])
def test_one_expected_value_is_noticed_where_others_are_not_among_it(expected: list[float], is_uniform: bool) -> None:
    """The first three of four elements are written."""
    values = np.array(expected)
    output = SampledOutput(
        actual=values, expected=values, written=np.arange(4) < 3, dtype="float32", expected_dtype="float32"
    )
    sample = [LaunchSample(written_by_program=(1, 1, 1))]
    assert judge_sample(Variant.BEYOND, [output], [(4, 1, 1)], sample, 0).is_uniform is is_uniform


def test_suspects_run_one_by_one() -> None:
    """Programs that a scan points to are run by their numbers, and what they show counts."""
    settled, taken = follow(compared(), Hints(programs=(7,)), [2 * ALL_PROGRAMS], [compared(WRONG)])
    assert taken[0].programs == (7,)
    assert settled.look.is_wrong


@pytest.mark.parametrize(("is_declared", "may_wait"), [(True, False), (True, True), (False, False)])
def test_what_is_out_of_time_gets_fewer_programs(is_declared: bool, may_wait: bool) -> None:
    """A sample of them counts; at declared sizes it may take long, unless programs may wait for others."""
    late = failed(Outcome.TIMEOUT, is_doubtful=True)
    settled, taken = follow(late, Hints(), [2 * ALL_PROGRAMS], [compared()], is_declared, may_wait)
    assert taken[0] == Take(num_programs=LEAST_PROGRAMS, is_patient=is_declared and not may_wait)
    assert not settled.look.is_wrong


@given(late=st.sampled_from((Outcome.TIMEOUT, Outcome.CRASHED, Outcome.MEMORY_LIMIT)))
def test_a_run_of_all_that_is_cut_off_changes_no_objection(late: Outcome) -> None:
    """Wrong values of a doubtful sample stand where all programs do not come to their end."""
    settled, taken = follow(compared(WRONG, is_doubtful=True), Hints(), [100], [failed(late)])
    assert taken == [Take(num_programs=100)]
    assert settled.look == compared(WRONG, is_doubtful=True)


def make_output(actual: np.ndarray, written: np.ndarray, expected: np.ndarray) -> SampledOutput:
    """A float32 result."""
    return SampledOutput(actual=actual, written=written, expected=expected, dtype="float32", expected_dtype="float32")


@given(num_wrong=st.integers(0, 8))
def test_only_what_programs_wrote_is_compared(num_wrong: int) -> None:
    """Wrong elements that no program of the sample wrote say nothing."""
    expected = np.linspace(1.0, 2.0, 64)
    actual = expected.astype(np.float32)
    actual[:num_wrong] = 9.0
    written = np.arange(64) >= 8
    sample = [LaunchSample(written_by_program=(8,) * 7)]
    look = judge_sample(Variant.DECLARED, [make_output(actual, written, expected)], [(8, 1, 1)], sample, 7)
    assert not look.is_wrong
    assert look.work_each == 1.0
    actual[8] = 9.0
    look = judge_sample(Variant.DECLARED, [make_output(actual, written, expected)], [(8, 1, 1)], sample, 7)
    assert look.is_wrong


@given(wrong=st.integers(0, 63))
def test_a_scan_names_the_program_that_is_wrong(wrong: int) -> None:
    """The hint of a scan is the program that wrote the wrong element, and its place."""
    expected = np.linspace(1.0, 2.0, 64)
    actual = expected.astype(np.float32)
    actual[wrong] = 9.0
    writers = (np.arange(64) // 8 + 1).astype(np.int32)
    sample = [LaunchSample(written_by_program=(), num_unknown=8)]
    output = make_output(actual, writers, expected)
    hints = read_hints([output], [(8, 1, 1)], sample)
    assert hints == Hints(programs=(wrong // 8,), is_whole=True, position=wrong)
    assert judge_rest(hints) is None
    few = [LaunchSample(written_by_program=(), num_unknown=7)]
    assert read_hints([output], [(8, 1, 1)], few) is None
    assert judge_sum(output, actual, wrong, 3) is not None
    assert judge_sum(output, expected.astype(np.float32), wrong, 3) is None


def test_where_nothing_can_be_scanned_as_many_programs_run_as_the_work_allows() -> None:
    """All of a thousand small programs, and no more than the first few of large ones."""
    small, large = (evolve(compared(), work_each=work) for work in (1e5, 3e8))
    _, taken = follow(compared(), None, [1000], [small])
    assert taken[-1].num_programs == 1000
    _, taken = follow(compared(), None, [1000], [large])
    assert [take.num_programs for take in taken] == [FIRST_PROGRAMS]


def test_a_later_launch_is_compared_after_all_of_what_an_earlier_one_adds_up() -> None:
    """Where that objects, the candidate is wrong; where it cannot be had, the first sample counts."""
    unknown = evolve(compared(), has_sums=True)
    settled, taken = follow(unknown, Hints(), [ALL_PROGRAMS, ALL_PROGRAMS], [compared(WRONG)])
    assert taken[-1].follows_whole_launches
    assert settled.look.is_wrong
    settled, _ = follow(unknown, Hints(), [ALL_PROGRAMS, ALL_PROGRAMS], [failed(Outcome.UNSUPPORTED)])
    assert not settled.look.is_wrong


def test_a_whole_scan_of_several_launches_stands_for_a_run_of_all_programs() -> None:
    """Where it found nothing, some of the last launch's programs behind all others settle it, and else all run."""
    doubtful = compared(is_doubtful=True)
    settled, taken = follow(doubtful, Hints(is_whole=True), [1000, 1000], [compared(is_doubtful=True)])
    assert taken == [Take(num_programs=MANY_PROGRAMS, follows_whole_launches=True)]
    assert not settled.look.is_wrong
    for hints in (Hints(), Hints(is_whole=True, programs=(3,)), Hints(is_whole=True, is_lacking=True)):
        _, taken = follow(doubtful, hints, [1000, 1000], [doubtful])
        assert taken == [Take(num_programs=1000)]
    settled, taken = follow(doubtful, Hints(is_whole=True), [1000, 1000], [compared(WRONG, is_doubtful=True)])
    assert taken[-1] == Take(num_programs=1000)
    assert settled.look.is_wrong


def test_suspects_of_a_chain_run_behind_whole_launches() -> None:
    """They are among the programs of the last launch."""
    unknown = evolve(compared(), has_sums=True)
    settled, taken = follow(unknown, Hints(programs=(7,)), [ALL_PROGRAMS] * 2, [compared(WRONG)])
    assert taken == [Take(num_programs=MANY_PROGRAMS, programs=(7,), follows_whole_launches=True)]
    assert settled.look.is_wrong


def test_sizes_that_nobody_declared_refuse_nothing_for_its_time() -> None:
    """One program decides there where three take too long, but none where programs may wait for one another."""
    late = failed(Outcome.TIMEOUT, is_doubtful=True)
    settled, taken = follow(late, Hints(), [100], [late, compared()], is_declared=False)
    assert taken == [Take(num_programs=LEAST_PROGRAMS), Take(num_programs=1, is_patient=True)]
    assert settled.look == compared()
    for is_declared, may_wait in ((True, False), (False, True)):
        settled, _ = follow(late, Hints(), [100], [late], is_declared=is_declared, may_wait=may_wait)
        assert settled.look.outcome is Outcome.TIMEOUT
