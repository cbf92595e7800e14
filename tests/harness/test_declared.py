"""Sampled runs at the declared sizes, in real sandboxes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve
from tritonrl.core.candidate import Candidate, Failure, RunReport, Variant
from tritonrl.core.config import ClockConfig, VerifierConfig
from tritonrl.core.extensions import AUDIT
from tritonrl.core.outcome import Outcome
from tritonrl.core.task import Task
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verifier import Verifier
from tritonrl.stages.run_stages import judge_run

from .kernels import LINEAR, POINTWISE, linear, pointwise


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    """A verifier of its own."""
    with Sandbox() as sandbox:
        yield Verifier(VerifierConfig(), ClockConfig(), sandbox)


def declared_report(verifier: Verifier, task: Task, source: str) -> RunReport | None:
    """What the audit found at the declared sizes, after everything else was accepted."""
    candidate: Candidate = verifier.gather(task, source, AUDIT)
    assert {Variant.ORIGINAL, Variant.REMAINDER} <= {report.variant for report in candidate.evidence.full}
    return next((report for report in candidate.evidence.full if report.variant is Variant.DECLARED), None)


def failure_of(report: RunReport | None) -> Failure:
    """Why the report is not right."""
    assert report is not None
    failure = judge_run(report)
    assert failure is not None
    return failure


@pytest.mark.parametrize(
    ("task", "source"), [(POINTWISE, pointwise()), (LINEAR, linear())], ids=["pointwise", "linear"]
)
def test_right_kernels_pass(verifier: Verifier, task: Task, source: str) -> None:
    """A right kernel's sample is compared, and covers the result."""
    report = declared_report(verifier, task, source)
    assert report is not None
    assert judge_run(report) is None
    assert report.comparisons[0].num_elements > 0


GRID = "triton.cdiv(n, 128)"


def test_a_grid_that_stops_growing_is_refused(verifier: Verifier) -> None:
    """A grid that covers small sizes only leaves the declared result unwritten."""
    source = pointwise()
    assert GRID in source
    failure = failure_of(declared_report(verifier, POINTWISE, source.replace(GRID, f"min({GRID}, 64)")))
    assert failure.outcome is Outcome.OUTPUT_NOT_WRITTEN


def test_a_kernel_that_is_wrong_at_large_sizes_is_refused(verifier: Verifier) -> None:
    """A kernel whose arithmetic depends on the size is compared with the oracle at that size."""
    source = pointwise("tl.where(n > 100000, x, 2.0 * x * tl.sigmoid(x))")
    assert failure_of(declared_report(verifier, POINTWISE, source)).outcome is Outcome.WRONG_VALUES


def test_sizes_beyond_the_oracles_reach_are_left_out(verifier: Verifier) -> None:
    """A task of gigabytes is verified without its declared sizes."""
    huge = evolve(POINTWISE, task_id="test-huge", source=POINTWISE.source.replace("ROWS = 1024", "ROWS = 1048576"))
    assert declared_report(verifier, huge, pointwise()) is None
