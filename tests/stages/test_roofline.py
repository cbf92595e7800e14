"""Timing: simulated as hardware is ordered and as noisy as asked; and what the stage decides."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.candidate import ClockReading, Failure, ReferenceTiming, TimingReport, Variant
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.plan import Copy
from tritonrl.stages.funnel import fold
from tritonrl.stages.roofline import GPUS, EagerOperator, add_noise, estimate_plan_us, estimate_reference_us
from tritonrl.stages.timing_stage import compiled_speedup_of, control_ratio_of, find_doubts, judge_timing, speedup_of

from .evidence import KERNEL, candidate, comparison, launch, plan, run_report, timing_report, view

times = st.lists(st.floats(0.5, 1e6), min_size=1, max_size=60).map(tuple)
READING = ClockReading(sm_mhz=1980, max_sm_mhz=1980, memory_mhz=3201, temperature_c=40)
H200 = GPUS["h200"]


def big(size: int, programs: int, **kernel: object) -> float:
    """Runtime of one launch over vectors of `size` elements."""
    made = plan(launch(0, 1, grid=programs))
    step = made.steps[0]
    arguments = tuple(evolve(a, view=evolve(a.view, shape=(size,))) for a in step.arguments)  # type: ignore[union-attr]
    made = evolve(made, steps=(evolve(step, arguments=arguments),), kernels=(evolve(KERNEL, **kernel),))
    return estimate_plan_us(made, int(kernel.get("has_dot", False)) * 10**12, H200)


@given(st.integers(1, 10**8), st.integers(1, 10**6))
@settings(max_examples=100)
def test_more_bytes_never_take_less_time(size: int, programs: int) -> None:
    """Runtime is positive and monotone in the bytes moved."""
    assert 0 < big(size, programs) <= big(2 * size, programs)


def test_one_program_is_slower_than_many_and_a_million_tiny_ones_too() -> None:
    """A grid that leaves multiprocessors idle, or starts a program for each few elements, costs time."""
    balanced = big(10**8, 10**4)
    assert big(10**8, 1) > 10 * balanced
    assert big(10**8, 10**7) > 2 * balanced


def test_views_of_one_element_save_no_time() -> None:
    """A launch that is given the first element of each tensor is not faster than one that is given the tensors."""
    honest = plan(launch(0, 1))
    buffers = tuple(evolve(buffer, num_elements=10**8) for buffer in honest.buffers)
    honest = evolve(honest, buffers=buffers, outputs=tuple(evolve(v, shape=(10**8,)) for v in honest.outputs))
    (step,) = honest.steps
    for size in (1, 10**8):
        arguments = tuple(evolve(a, view=evolve(a.view, shape=(size,))) for a in step.arguments)  # type: ignore[union-attr]
        made = evolve(honest, steps=(evolve(step, arguments=arguments),))
        assert estimate_plan_us(made, 0, H200) >= 2 * 4 * 10**8 / (H200.bandwidth_tb_s * 1e6)


def test_fewer_launches_are_faster() -> None:
    """A fused plan beats one with an intermediate buffer, and a copy costs time as well."""
    fused = estimate_plan_us(plan(launch(0, 1)), 0, H200)
    assert fused < estimate_plan_us(plan(launch(0, 2), launch(2, 1)), 0, H200)
    assert fused < estimate_plan_us(plan(launch(0, 2), Copy(source=view(2), target=view(1))), 0, H200)


def test_matrix_units_are_faster_than_vector_units() -> None:
    """TF32 beats full precision on the same operations."""
    fast = big(1000, 10**4, has_dot=True, dot_precision="tf32")
    assert fast < big(1000, 10**4, has_dot=True, dot_precision="tf32x3")
    assert fast < big(1000, 10**4, has_dot=True, dot_precision="ieee")


def test_the_reference_pays_for_every_operator() -> None:
    """Two operators cost more than one, and a faster GPU never more."""
    operator = EagerOperator(name="aten.add", num_bytes=10**9, matmul_flops=10**12)
    times = [estimate_reference_us([operator], GPUS[name]) for name in ("h200", "h100", "a100")]
    assert times == sorted(times)
    assert estimate_reference_us([operator] * 2, H200) == pytest.approx(2 * times[0])


def test_noise_has_the_coefficient_of_variation_that_was_asked_for() -> None:
    """Over seeds, single measurements vary by 15% and means of calibrated ones by 1%."""
    single = np.array([add_noise(10.0, 0.15, 1, seed)[0] for seed in range(2000)])
    assert single.std() / single.mean() == pytest.approx(0.15, rel=0.1)
    calibrated = np.array([np.mean(add_noise(10.0, 0.01, 50, seed)) for seed in range(2000)])
    assert calibrated.std() / calibrated.mean() == pytest.approx(0.01, rel=0.1)


def test_noise_is_a_function_of_its_seed() -> None:
    """The same seed gives the same trials, another seed others, and no noise none."""
    assert add_noise(10.0, 0.15, 5, 1) == add_noise(10.0, 0.15, 5, 1)
    assert add_noise(10.0, 0.15, 5, 1) != add_noise(10.0, 0.15, 5, 2)
    assert add_noise(10.0, 0.0, 3, 1) == (10.0, 10.0, 10.0)


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
