"""The timing stage: ratios of what was measured together, and doubts in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import ClockReading, Failure, ReferenceTiming, TimingReport, Variant
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.stages.funnel import fold
from tritonrl.stages.timing_stage import compiled_speedup_of, control_ratio_of, find_doubts, judge_timing, speedup_of

from .evidence import candidate, comparison, run_report, timing_report

times = st.lists(st.floats(0.5, 1e6), min_size=1, max_size=60).map(tuple)
READING = ClockReading(sm_mhz=1980, max_sm_mhz=1980, memory_mhz=3201, temperature_c=40)


def measured(**changes: object) -> TimingReport:
    """A measurement with a speedup of 2 over eager and of 1.5 over torch.compile, but for the changes."""
    reference = ReferenceTiming(device="gpu", eager_us=(20.0,), compiled_us=(15.0,), tf32_us=(18.0,))
    return timing_report(
        **{"simulated": False, "calibrated": True, "control_us": (5.0,), "reference": reference, "clocks": READING}
        | changes
    )


@given(times, times, st.floats(0.5, 2.0))
def test_a_common_factor_leaves_the_speedup(ours: tuple[float, ...], theirs: tuple[float, ...], factor: float) -> None:
    """Clocks that are slower for both sides change nothing."""
    speedup = speedup_of(measured(candidate_us=ours, reference_us=theirs))
    slower = measured(candidate_us=tuple(factor * t for t in ours), reference_us=tuple(factor * t for t in theirs))
    assert speedup is not None
    assert speedup_of(slower) == pytest.approx(speedup)


def test_the_second_figure_is_over_torch_compile() -> None:
    """It is the speedup over eager times what was measured of the reference's two forms side by side."""
    verdict = fold(candidate(timing=measured()), stop_early=True)
    assert (verdict.speedup, verdict.compiled_speedup, verdict.estimated_speedup) == (2.0, 1.5, None)


@pytest.mark.parametrize(
    "report",
    [
        timing_report(reference=ReferenceTiming(device="gpu", eager_us=(20.0,), compiled_us=(15.0,))),
        measured(reference=None),
        measured(reference=ReferenceTiming(device="gpu", eager_us=(20.0,), notes=("torch.compile: no compiler",))),
        measured(candidate_us=()),
        measured(failure=Failure(outcome=Outcome.TIMEOUT)),
    ],
    ids=["simulated", "no reference", "not compiled", "no trial", "failed"],
)
def test_what_was_not_measured_has_no_second_figure(report: TimingReport) -> None:
    """Without a compiled reference, without a trial, and under the simulated timing it is null."""
    assert compiled_speedup_of(report) is None
    assert fold(candidate(timing=report), stop_early=True).compiled_speedup is None


def test_doubts_are_said_and_refuse_nothing() -> None:
    """Held clocks, an unsteady control, an empty queue and missing figures stand in the message of a passing stage."""
    notes = ReferenceTiming(device="gpu", eager_us=(20.0,), notes=("torch.compile: no compiler",))
    throttled = ClockReading(
        sm_mhz=900, max_sm_mhz=1980, memory_mhz=3201, temperature_c=90, throttled_by=("power cap",)
    )
    report = measured(clocks=throttled, control_us=(5.2,), num_late=3, reference=notes)
    result = judge_timing(candidate(timing=report))
    assert (result.stage, result.passed) == (Stage.TIMING, True)
    for word in ("power cap", "0.962", "3 replays found an empty queue", "no compiler"):
        assert word in result.message
    assert find_doubts(measured()) == []
    assert judge_timing(candidate(timing=measured())).message == ""


@given(times, times)
def test_the_control_is_the_same_kernel_again(ours: tuple[float, ...], again: tuple[float, ...]) -> None:
    """Its ratio is 1 against itself and inverts when the two change places."""
    assert control_ratio_of(measured(candidate_us=ours, control_us=ours)) == pytest.approx(1.0)
    there = control_ratio_of(measured(candidate_us=ours, control_us=again))
    back = control_ratio_of(measured(candidate_us=again, control_us=ours))
    assert there is not None
    assert back is not None
    assert there * back == pytest.approx(1.0)
    assert control_ratio_of(measured(control_us=())) is None


def test_a_kernel_that_is_wrong_when_timed_is_wrong() -> None:
    """The report of the timed runs is one more variant of the full run, and takes the speedup with it."""
    timed = run_report(variant=Variant.TIMED, comparisons=(comparison(), comparison(relative_error=1.0)))
    verdict = fold(candidate(runs=(run_report(), timed), timing=measured(check=timed)), stop_early=True)
    assert (verdict.correct, verdict.outcome, verdict.reached) == (False, Outcome.WRONG_VALUES, Stage.FULL)
    assert (verdict.speedup, verdict.compiled_speedup) == (None, None)
