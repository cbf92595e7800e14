"""How a stage says what it decided: nothing objected to is a pass, the first objection is the outcome."""

from __future__ import annotations

from ..core.candidate import Failure
from ..core.outcome import Outcome, Stage
from ..core.verdict import StageResult


def decide(stage: Stage, failure: Failure | None, seconds: float) -> StageResult:
    """The result of a stage that was attempted."""
    if failure is None:
        return StageResult(stage=stage, outcome=Outcome.PASSED, seconds=seconds)
    return StageResult(stage=stage, outcome=failure.outcome, seconds=seconds, message=failure.message)


def skip(stage: Stage) -> StageResult:
    """The result of a stage without evidence."""
    return StageResult(stage=stage, outcome=Outcome.NOT_RUN)
