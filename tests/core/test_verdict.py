"""What a verdict says of itself in a word and a sentence."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import Failure
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


@given(st.text(st.characters(codec=None)))
def test_any_message_is_made_printable_where_it_enters(text: str) -> None:
    """Whatever a candidate wrote, its failure is one line of UTF-8 without codes for a terminal."""
    message = Failure(outcome=Outcome.RUN_FAILED, message=text).message
    assert message.isprintable()
    assert json.loads(json.dumps(message, ensure_ascii=False).encode()) == message
    assert StageResult(stage=Stage.FULL, outcome=Outcome.RUN_FAILED, message=message).message == message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines", "two lines"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("half \ud83d of a pair", r"half \ud83d of a pair"),
        ("\u202egnp", r"\u202egnp"),
        ("größer \u2264 5", "größer \u2264 5"),
    ],
)
def test_what_does_not_print_is_escaped(text: str, shown: str) -> None:
    """Line ends become spaces, other codes their escapes, and letters of any language stay."""
    assert Failure(outcome=Outcome.RUN_FAILED, message=text).message == shown
