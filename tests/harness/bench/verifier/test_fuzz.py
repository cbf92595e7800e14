"""Whatever a model writes, extraction, the AST stage and the funnel answer."""

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.candidate import Candidate
from tritonrl.core.outcome import Outcome
from tritonrl.core.task import Example
from tritonrl.core.text.extraction import extract
from tritonrl.core.text.prompts import assistant_message
from tritonrl.harness.bench.verifier import fuzz_reading
from tritonrl.harness.bench.verifier.fuzz import verify_texts
from tritonrl.harness.bench.verifier.fuzz_reading import choose_for_funnel, read_apart, read_texts
from tritonrl.harness.bench.verifier.fuzz_texts import fuzzed
from tritonrl.harness.tasks.suites import corpus_examples
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.stages.syntax import inspect_source, judge_syntax

from .readers import end_at_seven

NUM_TEXTS = 1000
NUM_IN_FUNNEL = 20


@pytest.fixture(scope="module")
def examples() -> tuple[Example, ...]:
    """Teachers of each level, whose answers are spoilt."""
    return tuple(corpus_examples("core13:train", 0, 13))


def test_spoilt_and_random_completions_are_answered(examples: tuple[Example, ...]) -> None:
    """Each completion has an outcome or no code, in bounded time, and all that matters is among them."""
    results = read_apart(partial(read_texts, examples, 0), NUM_TEXTS, jobs=2)
    assert [result.number for result in results] == list(range(NUM_TEXTS))
    assert [result.finding for result in results if result.finding] == []
    outcomes = {result.outcome for result in results}
    assert {None, "passed", "syntax_error", "no_model", "no_kernel", "no_launch", "forbidden_import"} <= outcomes


def test_the_whole_funnel_answers(examples: tuple[Example, ...], default_verifier: Verifier) -> None:
    """Spoilt completions that are forced through every stage end in verdicts."""
    numbers = choose_for_funnel(read_texts(examples, 1, range(200)), NUM_IN_FUNNEL)
    pairs = [(examples[number % 26].task, extract(fuzzed(examples, 1, number)) or "") for number in numbers]
    outcomes = verify_texts(default_verifier, pairs, jobs=2)
    assert len(outcomes) == NUM_IN_FUNNEL
    assert {"syntax_error", "passed"} <= set(outcomes)


@settings(max_examples=300)
@given(st.text(st.characters(), max_size=400), st.booleans())
def test_any_text_has_an_answer(text: str, fenced: bool) -> None:
    """Extraction and the AST stage raise nothing, lone surrogates and null bytes included."""
    source = extract(assistant_message(text) if fenced else text)
    assert source is None or isinstance(judge_syntax(Candidate(task_id="t", source=source)).outcome, Outcome)


templates = st.sampled_from(
    (
        "({},)",
        "[{}]",
        "(not {})",
        "(lambda: {})",
        "{} if x else y",
        "[{} for x in y]",
        "({}).a",
        "y[{}]",
        "-{}",
        "f({})",
    )
)


@settings(max_examples=200)
@given(st.lists(templates, max_size=40))
def test_valid_python_is_no_syntax_error(nesting: list[str]) -> None:
    """An expression that Python accepts fails for its form, not for its syntax."""
    expression = "x"
    for template in nesting:
        expression = template.format(expression)
    failure = inspect_source(f"y = ({expression})\n")
    assert failure is not None
    assert failure.outcome is Outcome.NO_MODEL


def test_a_completion_is_found_again_by_its_number(examples: tuple[Example, ...]) -> None:
    """The same seed and number give the same completion; another seed gives others."""
    assert [fuzzed(examples, 3, n) for n in range(50)] == [fuzzed(examples, 3, n) for n in range(50)]
    assert [fuzzed(examples, 3, n) for n in range(50)] != [fuzzed(examples, 4, n) for n in range(50)]


def test_a_text_that_ends_its_process_is_a_finding() -> None:
    """What takes the reading process down is named, and the others are still read."""
    results = read_apart(end_at_seven, 9, jobs=1)
    assert [result.number for result in results] == list(range(9))
    assert [result.finding for result in results if result.finding] == ["completion 7: ended its process"]


def test_lines_and_messages_are_entries_or_errors(examples: tuple[Example, ...]) -> None:
    """Pipes, links, long names and spoilt frames among them, none ends in another way."""
    assert fuzz_reading.read_lines_apart(examples[0].task.task_id, examples[0].solution, 0, 150) == []


def test_a_line_that_ends_otherwise_is_a_finding(
    tmp_path: Path, examples: tuple[Example, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reading raises beyond an error of the line is told with the line's number."""

    def fail(*_: object) -> None:
        raise OSError("a name too long")

    monkeypatch.setattr(fuzz_reading, "read_batch", fail)
    findings = fuzz_reading.read_lines(tmp_path, examples[0].task.task_id, examples[0].solution, 0, 2)
    assert findings == ["line 0: OSError: a name too long", "line 1: OSError: a name too long"]
