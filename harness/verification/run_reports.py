"""Reports of runs in one child: what each left, compared with what the reference has."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from attrs import evolve
from numpy.typing import NDArray

from ...core.candidate import Failure, RunReport
from ...core.plan import LaunchPlan, View
from ...core.run import RunRequest, RunResult
from ...stages.judge_run import ExpectedOutput, compare_run, judge_run
from ..reference.device_comparison import leave_out_lost
from ..reference.expected_run import ExpectedRun
from .storages import from_bytes


def report_runs(
    pairs: Sequence[tuple[RunRequest, ExpectedRun]],
    results: Sequence[RunResult],
    failure: Failure | None,
    seconds: float,
) -> list[RunReport]:
    """Reports of one child; what it cost beyond its runs counts for the first, which any verifier would pay."""
    if failure is not None:
        return [RunReport(variant=request.variant, seconds=seconds, failure=failure) for request, _ in pairs]
    reports = []
    overhead = max(0.0, seconds - sum(max(0.0, result.seconds) for result in results))
    for (request, expected), result in zip(pairs, results, strict=True):
        began = time.perf_counter()
        report = _judge_result(request, expected, result)
        took = max(0.0, result.seconds) + overhead + time.perf_counter() - began
        reports.append(evolve(report, seconds=took))
        overhead = 0.0
    return reports


def _judge_result(request: RunRequest, expected: ExpectedRun, result: RunResult) -> RunReport:
    outputs = _read_outputs(request.plan, result)
    report = _compare(request, expected, result, outputs)
    if expected.find_own is None or report.failure is not None or judge_run(report) is None:
        return report
    # only now, since it runs the reference once more
    own = expected.find_own()
    if len(own) != len(expected.expected):
        return report
    pairs = zip(outputs, expected.expected, own, request.plan.outputs, strict=True)
    kept = [_leave_out_lost(*each, expected) for each in pairs]
    return _compare(request, evolve(expected, expected=tuple(kept)), result, outputs)


def _leave_out_lost(
    actual: NDArray[np.generic] | None,
    wanted: NDArray[np.generic],
    own: torch.Tensor,
    view: View,
    expected: ExpectedRun,
) -> NDArray[np.generic]:
    """The expected values, but for what the reference itself misses."""
    if actual is None:
        return wanted
    found, values = torch.from_numpy(np.array(actual)), torch.from_numpy(np.array(wanted))
    kept = leave_out_lost(found, values, own, view.dtype, expected.share_of_tolerance, expected.largest_safe)
    return kept.numpy()


def _compare(
    request: RunRequest, expected: ExpectedRun, result: RunResult, outputs: Sequence[NDArray[np.generic] | None]
) -> RunReport:
    found = compare_run(request.plan, result, outputs, _describe_expected(expected))
    failure, comparisons = (found, ()) if isinstance(found, Failure) else (None, found)
    return RunReport(variant=request.variant, comparisons=comparisons, failure=failure)


def _read_outputs(plan: LaunchPlan, result: RunResult) -> list[NDArray[np.generic] | None]:
    if len(result.outputs) != len(plan.outputs):
        return [None] * len(result.outputs)
    return [from_bytes(data, view) for data, view in zip(result.outputs, plan.outputs, strict=True)]


def _describe_expected(expected: ExpectedRun) -> list[ExpectedOutput]:
    scales = expected.least_scales or (0.0,) * len(expected.expected)
    elements = expected.element_scales or (None,) * len(expected.expected)
    ranges = expected.integer_ranges or (None,) * len(expected.expected)
    return [
        ExpectedOutput(
            values=values,
            dtype=dtype,
            share_of_tolerance=expected.share_of_tolerance,
            least_scale=scale,
            largest_safe=expected.largest_safe,
            element_scales=own,
            judges_elements_alone=expected.judges_elements_alone and own is not None,
            integer_range=within,
        )
        for values, dtype, scale, own, within in zip(
            expected.expected, expected.dtypes, scales, elements, ranges, strict=True
        )
    ]
