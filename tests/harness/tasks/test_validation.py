"""Which tasks are refused before anybody trains on them; the oracle alone is asked, no candidate runs."""

from __future__ import annotations

from itertools import islice

import pytest
from attrs import evolve
from tritonrl.core.candidate import Variant
from tritonrl.core.corpus import ALL_FAMILIES, Split, examples
from tritonrl.core.task import Task
from tritonrl.harness.tasks.validation import _is_idle, validate_task
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.stages.variants import describe

from ..kernels import ADD, LINEAR, NORM, POINTWISE


def binary(expression: str) -> Task:
    """The sum of two vectors with another expression."""
    return evolve(ADD, task_id="unsound", source=ADD.source.replace("x + y", expression))


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("x + y * 0 + 1e-6 * y", "the result hardly depends on input 1"),
        ("torch.relu(x) * 2 + 1e-7 * y", "the result hardly depends on input 1"),
        ("100.0 + 1e-3 * x * y", "the result's mean would be accepted"),
        ("torch.sigmoid(1e-4 * x * y)", "the result's mean would be accepted"),
        ("(x * y).clamp(-1e-9, 1e-9) + 1.0", "ones would be accepted"),
        ("x + 0 * y", "does not depend on input 1"),
        ("torch.where(y.abs() > 50, x * 2, x)", "input 0 itself would be accepted"),
        ("torch.where(x > 90, x, 3.0 + 0 * y)", "returns a constant"),
        ("torch.log(x - 100) + y", "NaN"),
    ],
)
def test_unsound_tasks_are_named(verifier: Verifier, expression: str, problem: str) -> None:
    """Each is refused with its own reason on every training variant that shows it."""
    problems = validate_task(verifier, binary(expression))
    assert any(problem in line for line in problems), problems


@pytest.mark.parametrize("task", [ADD, LINEAR, NORM, POINTWISE], ids=lambda task: task.family)
def test_sound_tasks_have_no_problem(verifier: Verifier, task: Task) -> None:
    """Sums, products, norms and functions depend on all that they are given."""
    assert validate_task(verifier, task) == ()


def test_a_number_that_comes_out_alike_once_is_no_weakness(verifier: Verifier) -> None:
    """A mean depends on each input, although another draw of one happens to give nearly the same mean."""
    task = binary("torch.mean((x - y) ** 2) * 92.0")
    assert _is_idle(verifier.context.oracle, task, describe(Variant.ORIGINAL, task.dtypes), 1)
    assert validate_task(verifier, task) == ()


@pytest.mark.parametrize("level", [1, 2])
def test_the_corpus_is_sound(verifier: Verifier, level: int) -> None:
    """A task of each family has no problem."""
    for example in islice(examples(Split.TRAIN, level, 4, ALL_FAMILIES[level]), len(ALL_FAMILIES[level])):
        assert validate_task(verifier, example.task) == (), example.task.task_id
