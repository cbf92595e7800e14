"""Which of an autotuner's configurations is timed, with a GPU that is made up."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve
from tritonrl.core.candidate import Candidate, Evidence, Failure, TimingReport
from tritonrl.core.config import TimingConfig
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import LaunchPlan
from tritonrl.core.recipe.extensions import VerifierSpec
from tritonrl.core.task import Profile
from tritonrl.harness.gpu.backend import CudaBackend
from tritonrl.harness.gpu.timing.protocol import Protocol
from tritonrl.harness.verification.timing import Tuned, tune
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.stages.compile_stage import find_recording
from tritonrl.stages.timing_stage import judge_timing

from .test_configurations import HEAD, MODEL, RELU, config, kernel

PROTOCOL = Protocol.of(TimingConfig(), True)
STAGED = VerifierSpec(stop_early=True)


class MadeUpGpu(CudaBackend):
    """Says how long each plan takes."""

    def __init__(self, us: list[float | None] | Failure) -> None:
        self._us = us
        self.ranked: list[LaunchPlan] = []

    def rank(
        self, plans: Sequence[LaunchPlan], storages: Sequence[dict[int, bytes]], protocol: Protocol
    ) -> list[float | None] | Failure:
        """The figures that this was made with."""
        self.ranked = list(plans)
        assert all(len(one) == 1 for one in storages)  # the input's values
        return self._us


def tune_with(verifier: Verifier, gpu: MadeUpGpu, *parts: str) -> tuple[Candidate, Tuned | Failure]:
    """A candidate of these parts as it was recorded, and what tuning makes of it."""
    candidate = verifier.gather(RELU.task, HEAD + "".join(parts), STAGED)
    return candidate, tune(candidate, RELU.task, verifier.context, gpu, PROTOCOL)


def grid_of(candidate: Candidate) -> int:
    """The declared plan's number of programs."""
    report = candidate.evidence.compile
    assert report is not None
    recording = find_recording(report, Profile.DECLARED, RELU.task.dtypes[0])
    assert recording is not None
    assert recording.plan is not None
    return recording.plan.launches[0].grid[0]


def test_the_quickest_configuration_is_the_one_that_is_timed(verifier: Verifier) -> None:
    """Every configuration is compiled and measured, and the declared plan becomes the quickest one's."""
    gpu = MadeUpGpu([9.0, 5.0, 7.0])
    before, tuned = tune_with(verifier, gpu, kernel(config(256), config(512), config(1024)), MODEL)
    assert isinstance(tuned, Tuned)
    assert [(one.us, one.is_chosen) for one in tuned.times] == [(9.0, False), (5.0, True), (7.0, False)]
    assert tuned.times[1].description.startswith("BLOCK=512")
    assert grid_of(before) == 2 * grid_of(tuned.candidate)
    assert all(plan.kernels[0].binary is not None for plan in gpu.ranked)
    assert len({plan.kernels[0].binary for plan in gpu.ranked}) == 3


def test_what_does_not_run_is_never_chosen(verifier: Verifier) -> None:
    """A configuration without a time stays in the list, and is not taken."""
    _, tuned = tune_with(verifier, MadeUpGpu([None, 4.0]), kernel(config(256), config(512)), MODEL)
    assert isinstance(tuned, Tuned)
    assert [(one.us, one.is_chosen) for one in tuned.times] == [(None, False), (4.0, True)]


def test_where_none_runs_the_recorded_one_is_left(verifier: Verifier) -> None:
    """Configurations that all need more than the GPU has are no error here: timing the recorded one says what is."""
    before, tuned = tune_with(verifier, MadeUpGpu([None, None]), kernel(config(256), config(512)), MODEL)
    assert isinstance(tuned, Tuned)
    assert tuned.candidate == before
    assert [(one.us, one.is_chosen) for one in tuned.times] == [(None, False), (None, False)]


def test_a_configuration_that_ends_the_executor_is_the_candidates_failure(verifier: Verifier) -> None:
    """It would have ended the user's process as well."""
    crash = Failure(outcome=Outcome.OUT_OF_BOUNDS, message="an illegal address")
    _, tuned = tune_with(verifier, MadeUpGpu(crash), kernel(config(256), config(512)), MODEL)
    assert tuned == crash


@pytest.mark.parametrize("source", [kernel(config(256)) + MODEL, RELU.solution.removeprefix(HEAD)])
def test_without_a_choice_nothing_is_measured(verifier: Verifier, source: str) -> None:
    """A tuner with one configuration, and no tuner at all, are left as they are."""
    gpu = MadeUpGpu([])
    before, tuned = tune_with(verifier, gpu, source)
    assert tuned == Tuned(candidate=before)
    assert gpu.ranked == []


def test_the_verdict_says_what_was_timed(verifier: Verifier) -> None:
    """The timing stage's message names the configuration."""
    _, tuned = tune_with(verifier, MadeUpGpu([9.0, 5.0]), kernel(config(256), config(512)), MODEL)
    assert isinstance(tuned, Tuned)
    report = TimingReport(
        simulated=False,
        calibrated=True,
        candidate_us=(5.0,),
        reference_us=(10.0,),
        seconds=0.1,
        configurations=tuned.times,
    )
    candidate = evolve(tuned.candidate, evidence=evolve(Evidence(), timing=report))
    assert judge_timing(candidate).message == f"timed with {tuned.times[1].description}, the quickest of 2"
