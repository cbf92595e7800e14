"""Tasks without teachers, by their references: which are sound, and that none is a task of another split or suite."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from tritonrl.cli import app
from tritonrl.core.corpus import SUITES, Split, tasks
from tritonrl.core.task import Task
from tritonrl.harness.errors import UsageError
from tritonrl.harness.tasks.decontamination import TracedTasks, find_shared, trace_tasks
from tritonrl.harness.tasks.suites import corpus_examples, find_example, find_task, load_suite, named_examples
from tritonrl.harness.tasks.validation import validate_task
from tritonrl.harness.verification.verifier import Verifier
from typer.testing import CliRunner

RUNNER = CliRunner()
NAME = "l1-open_reduction-22074069e22227c4"


def drawn(suite: str, split: Split, count: int, seed: int) -> list[Task]:
    """Return `count` tasks a level."""
    return [task for level, names in SUITES[suite].items() for task in islice(tasks(split, level, seed, names), count)]


@pytest.mark.parametrize("level", [1, 2])
def test_tasks_are_sound(verifier: Verifier, level: int) -> None:
    """References are finite and not constant, depend on all inputs, and no cheap wrong answer would be accepted."""
    for task in islice(tasks(Split.TRAIN, level, 3, SUITES["open"][level]), 4):
        assert validate_task(verifier, task) == (), task.task_id


def _trace(suite: str, split: Split, count: int) -> TracedTasks:
    traced = trace_tasks(drawn(suite, split, count, 4))
    assert not traced.untraced
    return traced


def _require_disjoint(count: int) -> None:
    train, heldout = _trace("open", Split.TRAIN, count), _trace("open", Split.HELDOUT, count)
    pairs = _trace("field", Split.TRAIN, count)
    for other in (heldout, _trace("open", Split.VALIDATION, count), pairs):
        assert find_shared(train, other) == ()
    assert find_shared(heldout, pairs) == ()


def test_splits_share_no_operation_graph() -> None:
    """Neither with each other, nor with the pairs that a supervised start learns from."""
    _require_disjoint(4)


@pytest.mark.slow
def test_splits_share_no_operation_graph_over_thousands() -> None:
    """The same over 800 tasks a level of each."""
    _require_disjoint(800)


def test_commands_that_need_a_teacher_say_so(tmp_path: Path) -> None:
    """A solution and pairs are refused in one line; tasks, prompts and tools' rows come without."""
    assert RUNNER.invoke(app, ["tasks", "show", NAME]).output.startswith("Write ModelNew")
    shown = RUNNER.invoke(app, ["tasks", "show", NAME, "--solution"])
    assert shown.exit_code == 2
    assert "no teacher's solution" in shown.output
    exported = RUNNER.invoke(app, ["tasks", "export", str(tmp_path / "tasks"), "--suite", "open:train", "-n", "2"])
    assert exported.exit_code == 0
    rows = [json.loads(line) for line in (tmp_path / "tasks" / "prompts.jsonl").read_text().splitlines()]
    assert {tuple(row) for row in rows} == {("task", "level", "family", "prompt")}
    assert len(list((tmp_path / "tasks").glob("*.py"))) == 4
    rows_of = ["tasks", "export", "--format", "trl", "--suite", "open:train", "-n", "2"]
    assert RUNNER.invoke(app, [*rows_of, "--out", str(tmp_path / "rows.jsonl")]).exit_code == 0
    pairs = RUNNER.invoke(app, ["tasks", "export", "--suite", "open:train", "--out", str(tmp_path / "pairs.jsonl")])
    assert pairs.exit_code == 2
    assert "no teachers' solutions" in pairs.output


def test_suites_without_teachers_load_as_others_do() -> None:
    """Their tasks have no solution, by suite or by name, and who asks for examples is told."""
    loaded = load_suite("open:heldout", num=3)
    assert len(loaded.tasks) == 6
    assert {entry.solution for entry in loaded.tasks} == {None}
    assert named_examples([NAME]) == [(find_task(NAME), None)]
    with pytest.raises(UsageError, match="no teacher's solution"):
        find_example(NAME)
    with pytest.raises(UsageError, match="no teachers' solutions; there are core13:train"):
        list(corpus_examples("open:train", 0, 1))
