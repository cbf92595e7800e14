"""What the stages decided about a candidate, and what that is worth."""

from __future__ import annotations

from attrs import field, frozen, validators

from .candidate import Failure
from .outcome import Outcome, Stage, printable


@frozen(kw_only=True)
class StageResult:
    """One stage's decision. `seconds` is what gathering its evidence took when that was first done."""

    stage: Stage
    outcome: Outcome
    seconds: float = 0.0
    message: str = field(default="", converter=printable)

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.PASSED

    @property
    def attempted(self) -> bool:
        return self.outcome is not Outcome.NOT_RUN


@frozen(kw_only=True)
class Verdict:
    """The fold of the funnel for one candidate.

    `stages` has one result for each of the five stages, in order. `speedup` is a measured ratio (reference time over
    candidate time) and null where nothing was measured; `estimated_speedup` comes from simulated timing.
    """

    task_id: str
    candidate: str
    """SHA-256 of the source."""
    backend: str
    stages: tuple[StageResult, ...]
    speedup: float | None = None
    estimated_speedup: float | None = None
    compiled_speedup: float | None = None
    """The measured ratio to `torch.compile` of the reference; `speedup` is the one to the eager reference."""
    torch_operators: int | None = None
    """PyTorch operators that compute in the declared plan; null where no plan was recorded."""
    declared: str | None = None
    """What was seen at the declared sizes, such as "not run (5.4 GB)"; null where it is not correct."""

    def _passed(self, stage: Stage) -> bool:
        return any(result.stage is stage and result.passed for result in self.stages)

    @property
    def valid(self) -> bool:
        """Passed the AST stage."""
        return self._passed(Stage.AST)

    @property
    def compiled(self) -> bool:
        """Valid, and passed the compile stage."""
        return self.valid and self._passed(Stage.COMPILE)

    @property
    def runs(self) -> bool:
        """Compiled, and passed the tiny run."""
        return self.compiled and self._passed(Stage.TINY)

    @property
    def correct(self) -> bool:
        """Passed every stage up to the full run: the primary metric."""
        return self.runs and self._passed(Stage.FULL)

    @property
    def reached(self) -> Stage:
        """The stage that decided: the first that failed, or the last."""
        for result in self.stages:
            if not result.passed:
                return result.stage
        return Stage.TIMING

    @property
    def outcome(self) -> Outcome:
        """Why it is not correct, or `PASSED`."""
        for result in self.stages:
            if result.stage is Stage.TIMING:
                break
            if not result.passed:
                return result.outcome
        return Outcome.PASSED

    @property
    def where(self) -> str:
        """The outcome and the stage that decided, such as "wrong_values@full"."""
        return f"{self.outcome.code}@{self.reached}"

    @property
    def objection(self) -> str:
        """What the first stage that failed says; empty where none did, or where it says nothing."""
        return next((result.message for result in self.stages if not result.passed), "")

    @property
    def reason(self) -> str:
        """Why it is not correct, in words that a person or a model can act on; empty where it is."""
        if self.correct:
            return ""
        message = self.objection
        return f"{self.reached}: {self.outcome}{f': {message}' if message else ''}"

    @property
    def seconds(self) -> float:
        """Verification time over the attempted stages."""
        return sum(result.seconds for result in self.stages)


@frozen(kw_only=True)
class Reward:
    """A reward in [0, 1]: up to 0.7 for correctness and up to 0.3 for speed, or a half for each."""

    correctness: float = field(validator=[validators.ge(0.0), validators.le(0.7)])
    performance: float = field(default=0.0, validator=[validators.ge(0.0), validators.le(0.5)])

    @property
    def total(self) -> float:
        return self.correctness + self.performance


def decide(stage: Stage, failure: Failure | None, seconds: float) -> StageResult:
    """Return the result of a stage that was attempted: the first objection is the outcome."""
    if failure is None:
        return StageResult(stage=stage, outcome=Outcome.PASSED, seconds=seconds)
    return StageResult(stage=stage, outcome=failure.outcome, seconds=seconds, message=failure.message)


def skip(stage: Stage) -> StageResult:
    """Return the result of a stage without evidence."""
    return StageResult(stage=stage, outcome=Outcome.NOT_RUN)
