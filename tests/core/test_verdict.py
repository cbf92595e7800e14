"""What a verdict says of itself in a word and a sentence."""

from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.verdict import StageResult, Verdict


def fold(*results: StageResult) -> Verdict:
    """A verdict with these results."""
    return Verdict(task_id="t", candidate="c", backend="interpret", stages=results)


PASSED = StageResult(stage=Stage.AST, outcome=Outcome.PASSED)
WRONG = StageResult(stage=Stage.FULL, outcome=Outcome.WRONG_VALUES, message="relative error 0.3")


def test_a_refusal_is_named_with_its_stage_and_its_reason() -> None:
    """The first stage that failed gives the outcome, the stage and the words; later ones do not."""
    later = StageResult(stage=Stage.TIMING, outcome=Outcome.TIMEOUT, message="too late")
    assert (fold(PASSED, WRONG, later).where, fold(PASSED, WRONG, later).objection) == (
        "wrong_values@full",
        "relative error 0.3",
    )


def test_a_right_kernel_has_no_objection() -> None:
    """What passes says at most how it passed."""
    timed = StageResult(stage=Stage.TIMING, outcome=Outcome.PASSED, message="not timed: timing is off")
    assert (fold(PASSED, timed).where, fold(PASSED, timed).objection) == ("passed@timing", "")
