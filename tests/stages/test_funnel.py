"""The funnel: where it stops, what it counts, and that both forms agree on what is correct."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tritonrl.core.candidate import Candidate, Comparison, Failure, Variant
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.task import Profile
from tritonrl.stages.funnel import fold
from tritonrl.stages.judge_run import excuse, is_sound, judge_run

from .evidence import candidate, candidates, comparison, compile_report, plan, recording, run_report, timing_report

WRONG = (comparison(relative_error=0.5),)


@given(candidates())
@settings(max_examples=200)
def test_both_forms_find_the_same_candidates_correct(subject: Candidate) -> None:
    """Staged and exhaustive verdicts agree on valid, compiled, correct, and on the first failure."""
    staged, exhaustive = fold(subject, stop_early=True), fold(subject, stop_early=False)
    for name in ("valid", "compiled", "runs", "correct", "reached", "outcome", "speedup", "estimated_speedup"):
        assert getattr(staged, name) == getattr(exhaustive, name), name


@given(candidates())
@settings(max_examples=200)
def test_the_staged_form_stops_at_the_first_failure(subject: Candidate) -> None:
    """After the first failure nothing is attempted, before it everything passed, and no more seconds are spent."""
    staged, exhaustive = fold(subject, stop_early=True), fold(subject, stop_early=False)
    assert [result.stage for result in staged.stages] == list(Stage)
    passed = [result.passed for result in staged.stages]
    first = passed.index(False) if False in passed else len(passed)
    assert all(passed[:first])
    assert all(not result.attempted for result in staged.stages[first + 1 :])
    assert all(result.attempted for result in exhaustive.stages)
    assert staged.seconds <= exhaustive.seconds


@given(candidates())
@settings(max_examples=100)
def test_only_a_correct_candidate_has_a_speedup(subject: Candidate) -> None:
    """A ratio is reported for correct candidates alone, and a simulated one is never called a speedup."""
    verdict = fold(subject, stop_early=True)
    timing = subject.evidence.timing
    assert timing is not None
    if not verdict.correct or verdict.reached is not Stage.TIMING or not verdict.stages[-1].passed:
        assert verdict.speedup is None
        assert verdict.estimated_speedup is None
    elif timing.simulated:
        assert verdict.speedup is None
        assert verdict.estimated_speedup == 2.0
    else:
        assert verdict.speedup == 2.0
        assert verdict.estimated_speedup is None


@pytest.mark.parametrize("staged", [True, False])
def test_without_a_clock_a_right_candidate_is_correct_and_untimed(staged: bool) -> None:
    """A verdict without timing evidence is complete: correct, with no speedup of either kind."""
    verdict = fold(candidate(timing=None), staged)
    assert verdict.correct
    assert verdict.stages[-1].passed
    assert verdict.speedup is None
    assert verdict.estimated_speedup is None


@pytest.mark.parametrize(
    ("changes", "stage", "expected"),
    [
        ({"compile": compile_report(failure=Failure(outcome=Outcome.TIMEOUT))}, Stage.COMPILE, Outcome.TIMEOUT),
        ({"compile": compile_report(recording(Profile.TINY, plan=None))}, Stage.COMPILE, Outcome.BROKEN_PROTOCOL),
        ({"compile": compile_report(recording(Profile.DECLARED, plan=plan()))}, Stage.COMPILE, Outcome.NO_LAUNCH),
        ({"tiny": run_report(failure=Failure(outcome=Outcome.RUN_FAILED))}, Stage.TINY, Outcome.RUN_FAILED),
        ({"tiny": run_report(comparisons=())}, Stage.TINY, Outcome.BROKEN_PROTOCOL),
        ({"tiny": run_report(comparisons=WRONG)}, Stage.TINY, Outcome.WRONG_VALUES),
        ({"runs": (run_report(comparisons=(comparison(num_nonfinite=1),)),)}, Stage.FULL, Outcome.NOT_FINITE),
        ({"runs": (run_report(comparisons=(comparison(shape_matches=False),)),)}, Stage.FULL, Outcome.WRONG_SIGNATURE),
        ({"runs": (run_report(comparisons=(comparison(dtype_matches=False),)),)}, Stage.FULL, Outcome.WRONG_SIGNATURE),
    ],
)
def test_each_failure_is_reported_where_it_happened(
    changes: dict[str, object], stage: Stage, expected: Outcome
) -> None:
    """The verdict names the stage that decided and its outcome."""
    verdict = fold(candidate(**changes), stop_early=True)
    assert (verdict.reached, verdict.outcome) == (stage, expected)


def test_a_failed_timing_leaves_a_candidate_correct() -> None:
    """Correctness never depends on the timing."""
    failed = timing_report(failure=Failure(outcome=Outcome.TIMEOUT))
    verdict = fold(candidate(timing=failed), stop_early=True)
    assert verdict.correct
    assert verdict.outcome is Outcome.PASSED
    assert verdict.stages[-1].outcome is Outcome.TIMEOUT
    assert verdict.estimated_speedup is None


def test_a_failing_variant_is_named() -> None:
    """One wrong variant among right ones fails the full run, and the message says which."""
    reports = (run_report(), run_report(Variant.LARGER, comparisons=WRONG))
    (result,) = [r for r in fold(candidate(runs=reports), stop_early=True).stages if r.stage is Stage.FULL]
    assert result.outcome is Outcome.WRONG_VALUES
    assert "larger" in result.message


def test_recordings_of_variants_do_not_fail_the_compile_stage() -> None:
    """What goes wrong at larger sizes or in another dtype is the variant's failure, not the compile stage's."""
    broken = {"plan": None, "failure": Failure(outcome=Outcome.FORWARD_FAILED)}
    report = compile_report(
        recording(Profile.DECLARED),
        recording(Profile.LARGER, **broken),
        recording(Profile.SMALL, dtype="float16", **broken),
    )
    assert fold(candidate(compile=report), stop_early=True).compiled
    small = compile_report(recording(Profile.DECLARED), recording(Profile.SMALL, **broken))
    assert not fold(candidate(compile=small), stop_early=True).compiled


def test_trimming_drops_the_same_share_at_each_end() -> None:
    """Of ten trials with an outlier at each end, the eight between them make the mean."""
    trials = (0.001, *[5.0] * 8, 1000.0)
    timing = evolve(timing_report(), candidate_us=trials, reference_us=(10.0,) * 10)
    assert fold(candidate(timing=timing), stop_early=True, trim=0.1).estimated_speedup == 2.0
    assert fold(candidate(timing=timing), stop_early=True, trim=0.0).estimated_speedup != 2.0


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


@example(ratios=[0.49758977465849646], share=0.49758977465849646)
@given(ratios=st.lists(st.floats(0, 1e3), max_size=3), share=st.floats(0.01, 2))
def test_an_imprecise_reference_excuses_errors_of_its_size(ratios: list[float], share: float) -> None:
    """A precise one excuses nothing; an imprecise one errors up to four times its own, and no more."""
    granted = excuse([comparison(ratio * 1e-3) for ratio in ratios], share)
    worst = max(ratios, default=0.0)
    excused, strict = pytest.approx(4.0 * worst), pytest.approx(share)
    if worst == strict:  # which side of the boundary it is on hangs on a rounding
        assert granted in (strict, excused)
    else:
        assert granted == (excused if worst > share else strict)


@pytest.mark.parametrize("outcome", [Outcome.FORWARD_FAILED, Outcome.UNSUPPORTED, Outcome.OUT_OF_BOUNDS])
@pytest.mark.parametrize("variant", [Variant.INNER_ONE, Variant.REMAINDER])
def test_who_refuses_a_dimension_of_one_gives_no_wrong_result(outcome: Outcome, variant: Variant) -> None:
    """Nor does a compiler that does; but memory outside tensors is no refusal, and sizes beside one are to work."""
    found = judge_run(run_report(variant, comparisons=(), failure=Failure(outcome)))
    is_refusal = variant is Variant.INNER_ONE and outcome is not Outcome.OUT_OF_BOUNDS
    assert (found is None) is is_refusal
