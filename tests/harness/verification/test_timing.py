"""What timed runs say, without a GPU: deviations as comparisons, trials as rows, and what a protocol holds."""

from __future__ import annotations

import math
import threading

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import Comparison, ReferenceTiming, TimingReport, Variant
from tritonrl.core.config import TimingConfig
from tritonrl.core.plan import LaunchPlan
from tritonrl.core.recipe.extensions import VerifierSpec
from tritonrl.core.run import RunResult
from tritonrl.harness.gpu.backend import CudaBackend
from tritonrl.harness.gpu.timing.protocol import Protocol, ReferenceSource, Timed, Trials
from tritonrl.harness.study.rows import Attempt, timing_rows
from tritonrl.harness.tables import TABLES
from tritonrl.harness.verification.timing import describe_deviation, probe_measured
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.stages.funnel import fold
from tritonrl.stages.tolerance import TOLERANCES, accepts

from ..kernels import ADD, add


def first_run(dtype: str) -> Comparison:
    """The first timed run's comparison: right, with a tenth of the tolerance granted."""
    return Comparison(
        dtype=dtype,
        shape_matches=True,
        dtype_matches=True,
        num_elements=1000,
        share_of_tolerance=0.1,
        relative_error=1e-6,
    )


@given(st.sampled_from(sorted(TOLERANCES)), st.floats(0.0, 1.0))
def test_trials_may_stray_as_far_as_the_tolerance(dtype: str, deviation: float) -> None:
    """A deviation within the dtype's tolerance is accepted, and any other is not."""
    assert accepts(describe_deviation(first_run(dtype), deviation)) == (deviation <= TOLERANCES[dtype].relative_error)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_a_trial_that_left_something_unwritten_is_wrong(dtype: str) -> None:
    """What is not finite is never accepted, whatever the dtype."""
    assert not accepts(describe_deviation(first_run(dtype), None))


@given(st.floats(1e-9, 1.0))
def test_integers_may_not_stray_at_all(deviation: float) -> None:
    """One element in a billion is one too many."""
    assert accepts(describe_deviation(first_run("int64"), 0.0))
    assert not accepts(describe_deviation(first_run("int64"), deviation))


def test_every_trial_is_a_row() -> None:
    """Candidate, reference, control and the reference's other figures fill the table, each trial once."""
    reference = ReferenceTiming(device="gpu", eager_us=(9.0,), tf32_us=(7.0, 7.1), compiled_us=(5.0,))
    report = TimingReport(
        simulated=False,
        calibrated=True,
        candidate_us=(1.0, 1.1),
        reference_us=(2.0, 2.1),
        control_us=(1.05, 1.0),
        seconds=0.1,
        reference=reference,
    )
    attempt = Attempt(cell="t", seed=0, phase="rl", round=1, slot=2, task=ADD, sample=3, source="")
    table = TABLES["timings"].frame(timing_rows(attempt, "training", report))
    counts = dict(table.group_by("subject").len().rows())
    assert counts == {"candidate": 2, "reference": 2, "control": 2, "reference_tf32": 2, "reference_compiled": 1}
    assert table["runtime_us"].sum() == pytest.approx(2.1 + 4.1 + 2.05 + 14.1 + 5.0)
    assert not any(table["simulated"])


def test_a_protocol_has_the_configurations_numbers() -> None:
    """What the executor is told is what the configuration says."""
    timing = TimingConfig(
        warmups=7, trials=9, trim=0.2, replays=2, buffer_copies=3, flush_mb=0, budget_s=1.0, attempts=4
    )
    protocol = Protocol.of(timing, True)
    for name in ("warmups", "trials", "trim", "replays", "flush_mb", "budget_s", "attempts", "short_us"):
        assert getattr(protocol, name) == getattr(timing, name), name
    assert protocol.buffer_copies == timing.buffer_copies
    assert protocol.is_calibrated


class MadeUpGpu(CudaBackend):
    """Its timed runs return zeros."""

    def __init__(self) -> None:
        self._measuring_references = threading.RLock()
        self.asked: list[tuple[bool, bool]] = []

    @property
    def device_name(self) -> str:
        """The GPU's name."""
        return "made up"

    @property
    def waited_s(self) -> float:
        """Nobody waits."""
        return 0.0

    def time(
        self,
        plan: LaunchPlan,
        storages: dict[int, bytes],
        others: dict[int, bytes],
        source: ReferenceSource | None,
        protocol: Protocol,
        alone: bool = False,
        is_repeated: bool = True,
    ) -> Timed:
        """Notes whether a context of its own was asked for, and whether another might be had."""
        self.asked.append((alone, is_repeated))
        zeros = tuple(bytes(4 * math.prod(view.shape)) for view in plan.outputs)
        return Timed(
            trials=Trials(us={"candidate": (1.0,), "reference": (2.0,)}),
            first=RunResult(variant=Variant.TIMED, outputs=zeros),
            fresh=RunResult(variant=Variant.TIMED, outputs=zeros),
            deviations=(0.0,),
        )


@pytest.mark.parametrize(
    ("expression", "asked"), [("x + y", [(False, True), (True, True)]), ("x - y", [(False, False)])]
)
def test_what_is_refused_already_is_measured_without_a_second_chance(
    verifier: Verifier, expression: str, asked: list[tuple[bool, bool]]
) -> None:
    """A fresh context is for what may be right: to start one takes longer than all else that is done with a kernel."""
    gpu = MadeUpGpu()
    candidate = verifier.gather(ADD, add(expression), VerifierSpec(stop_early=False))
    timed = probe_measured(candidate, ADD, evolve(verifier.context, cuda=gpu), TimingConfig(), calibrated=False)
    assert timed.evidence.timing is not None
    assert timed.evidence.timing.candidate_us == (1.0,)
    assert not fold(timed, False).correct
    assert gpu.asked == asked
