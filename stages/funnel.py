"""The five stages in order, and their fold into a verdict, stopping early or exhaustive.

With `stop_early` (extension S), the funnel stops at the first failure and what comes later is `NOT_RUN`. Exhaustive,
every stage is attempted on every candidate, whatever failed before. Both find the same candidates correct: a candidate
is correct when syntax, compile, tiny and full all pass; timing never changes that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import evolve

from ..core.candidate import Candidate, RunReport, Variant
from ..core.outcome import Outcome, Stage
from ..core.verdict import StageResult, Verdict, decide, skip
from .checks.runs import RunsReport
from .checks.table import CHECKS, Check, find_failure
from .compile_stage import judge_compile
from .judge_run import judge_run
from .syntax import judge_syntax
from .timing_stage import TRIM, compiled_speedup_of, judge_timing, speedup_of

WHOLE, SAMPLED = "run whole", "sampled"
NOT_RUN = "not run"
Judge = Callable[[Candidate], StageResult]


def judge_tiny(candidate: Candidate) -> StageResult:
    """Return the tiny run's decision."""
    report = candidate.evidence.tiny
    if report is None:
        return skip(Stage.TINY)
    return decide(Stage.TINY, judge_run(report), report.seconds)


def judge_full(candidate: Candidate, checks: Sequence[Check] = CHECKS) -> StageResult:
    """Return the full run's decision: that of the first check that objects, and the seconds of all that were made."""
    reports = candidate.evidence.reports
    if not reports:
        return skip(Stage.FULL)
    failure = find_failure(candidate, checks)
    result = decide(Stage.FULL, failure, sum(report.seconds for _, report in reports))
    narrow = [str(run.variant) for run in find_runs(candidate) if run.oracle_dtype != "float64"]
    if failure is None and narrow:
        return evolve(result, message=f"expected values in float32: variant {', '.join(narrow)}")
    return result


def find_runs(candidate: Candidate) -> Iterator[RunReport]:
    """Yield the runs on inputs of the candidate's own backend: all but what the interpreter says beside a GPU."""
    for name, report in candidate.evidence.reports:
        if isinstance(report, RunsReport) and name != "interpreted":
            yield from report.runs


FUNNEL: tuple[tuple[Stage, Judge], ...] = (
    (Stage.AST, judge_syntax),
    (Stage.COMPILE, judge_compile),
    (Stage.TINY, judge_tiny),
    (Stage.FULL, judge_full),
    (Stage.TIMING, judge_timing),
)


def fold(candidate: Candidate, stop_early: bool, backend: str = "interpret", trim: float = TRIM) -> Verdict:
    """The verdict that a candidate's evidence supports.

    A correct candidate without timing evidence passes the timing stage untimed, with no speedup: timing is off.
    """
    results: list[StageResult] = []
    failed = False
    for stage, judge in FUNNEL:
        if failed and stop_early:
            results.append(skip(stage))
            continue
        result = judge(candidate)
        if stage is Stage.TIMING and not failed and candidate.evidence.timing is None:
            result = StageResult(stage=stage, outcome=Outcome.PASSED, message="not timed: timing is off")
        results.append(result)
        failed = failed or not result.passed
    speedup, estimated_speedup = _speedups(candidate, trim) if not failed else (None, None)
    timing = candidate.evidence.timing
    is_right = all(result.passed for result in results if result.stage is not Stage.TIMING)
    return Verdict(
        task_id=candidate.task_id,
        candidate=candidate.sha256,
        backend=backend,
        stages=tuple(results),
        speedup=speedup,
        estimated_speedup=estimated_speedup,
        compiled_speedup=compiled_speedup_of(timing, trim) if timing is not None and not failed else None,
        torch_operators=_count_operators(candidate),
        declared=describe_declared(candidate, backend) if is_right else None,
    )


def _count_operators(candidate: Candidate) -> int | None:
    report = candidate.evidence.compile
    plan = report.recordings[0].plan if report is not None and report.recordings else None
    return len(plan.arithmetic) if plan is not None else None


def _speedups(candidate: Candidate, trim: float) -> tuple[float | None, float | None]:
    """(measured, estimated), of which one at most is known; only a correct candidate has a speedup at all."""
    report = candidate.evidence.timing
    if report is None:
        return None, None
    ratio = speedup_of(report, trim)
    return (None, ratio) if report.simulated else (ratio, None)


def describe_declared(candidate: Candidate, backend: str) -> str:
    """Return what became of the declared sizes of a candidate that is right, such as `not run (5.4 GB)`.

    A GPU runs all programs and compares all results; without one some programs are run where the reference can be
    computed.
    """
    report = candidate.evidence.report("declared")
    if backend == "cuda":
        return WHOLE
    if isinstance(report, RunsReport) and any(run.variant is Variant.DECLARED for run in report.runs):
        return SAMPLED
    compiled = candidate.evidence.compile
    num_bytes = 0 if compiled is None or compiled.reference is None else compiled.reference.num_bytes
    return f"{NOT_RUN} ({tell_bytes(num_bytes)})" if num_bytes else NOT_RUN


def tell_bytes(num_bytes: float) -> str:
    """Return a size as people read it, such as `5.4 GB`."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.1f} MB"
