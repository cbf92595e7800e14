"""An exam's judging at real sizes, in small: sizes, answers, and figures."""

from __future__ import annotations

import pytest
from tritonrl.core.config import merge
from tritonrl.core.corpus import Split, examples
from tritonrl.harness.bench.verifier.exam import answers_to, measure_exam, render
from tritonrl.harness.bench.verifier.sized_tasks import enlarge, sized_examples
from tritonrl.harness.reference.sizes.declared_sizes import measure


def test_tasks_are_enlarged_within_the_limit() -> None:
    """A drawn number of bytes is reached where sizes can be doubled, and never exceeded; small sizes stay."""
    drawn = sized_examples("full:train", 0, 4, (1, 2), most_bytes=1 << 30)
    assert {one.example.task.level for one in drawn} == {1, 2}
    for one in drawn:
        assert one.num_bytes == measure(one.example.task)[0] <= 1 << 30
    example = next(iter(examples(Split.TRAIN, 1, 0, families=("softmax",))))
    task, num_bytes = enlarge(example.task, 3, 8 << 30)
    assert num_bytes > 16 << 20
    assert task.tiny == example.task.tiny
    assert enlarge(example.task, 3, 8 << 30) == (task, num_bytes)


def test_answers_are_right_and_wrong_ones() -> None:
    """The teacher's comes first, then the same in other words, and all are different texts."""
    example = next(iter(examples(Split.TRAIN, 1, 0, families=("softmax",))))
    answers = list(answers_to(example, 10, 0))
    assert answers[0] == example.solution
    assert len(answers) == 10
    assert len(set(answers[:2])) == 2
    assert answers == list(answers_to(example, 10, 0))


@pytest.mark.slow
def test_figures_of_a_small_exam() -> None:
    """Teachers are right, and what it took is told."""
    config = merge({"verifier": {"backend": "interpret"}})
    figures = measure_exam(config, 2, 3, "core13:train", (1,), 0, 2, most_bytes=1 << 22)
    assert (figures.num_tasks, figures.num_answers, figures.rejected_teachers) == (2, 6, ())
    assert figures.num_correct >= 4
    assert figures.peak_bytes > 100 << 20
    assert any("peak memory" in line for line in render(figures))
