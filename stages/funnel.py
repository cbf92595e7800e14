"""The fold of the five stages into a verdict, stopping early or exhaustive.

With `stop_early` (extension S), the funnel stops at the first failure and what comes later is `NOT_RUN`. Exhaustive,
every stage is attempted on every candidate, whatever failed before. Both find the same candidates correct: a candidate
is correct when syntax, compile, tiny and full all pass; timing never changes that.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.candidate import Candidate
from ..core.outcome import Outcome, Stage
from ..core.verdict import StageResult, Verdict
from .compile_stage import judge_compile
from .decision import skip
from .declared_sizes import describe_declared
from .run_stages import judge_full, judge_tiny
from .syntax import judge_syntax
from .timing_stage import TRIM, compiled_speedup_of, judge_timing, speedup_of

Judge = Callable[[Candidate], StageResult]

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
