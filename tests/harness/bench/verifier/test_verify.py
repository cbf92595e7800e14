"""The mix of `tritonrl bench verify` is what it says, and the bench says what it measured."""

import json
import random

import pytest
from tritonrl.cli import app
from tritonrl.core.task import Example
from tritonrl.harness.bench.verifier.mix import SPOILS, restyle
from tritonrl.harness.bench.verifier.verify import tree_cpu_s
from tritonrl.harness.tasks.suites import corpus_examples
from tritonrl.stages.syntax import inspect_source
from typer.testing import CliRunner

EXAMPLES = tuple(corpus_examples("core13:train", 0, 13))


@pytest.mark.parametrize("name", SPOILS)
def test_each_spoil_fails_the_ast_stage(name: str) -> None:
    """Whatever the teacher, what a spoil makes of it is refused for its text."""
    for number, example in enumerate(EXAMPLES):
        assert inspect_source(SPOILS[name](example, random.Random(number))) is not None


@pytest.mark.parametrize("example", EXAMPLES[::5], ids=lambda example: example.task.family)
def test_a_restyled_teacher_is_another_text_of_the_same_form(example: Example) -> None:
    """The second right candidate of a task is not the first, and passes the AST stage."""
    changed = restyle(example.solution)
    assert changed != example.solution
    assert inspect_source(changed) is None


def test_cpu_seconds_grow_with_work() -> None:
    """What this process computes is counted."""
    before = tree_cpu_s()
    sum(number * number for number in range(3_000_000))
    assert tree_cpu_s() > before


def test_the_bench_reports_its_mix_and_its_ratios() -> None:
    """The command verifies twenty candidates of two tasks three times over, and each became what it should."""
    result = CliRunner().invoke(app, ["bench", "verify", "-n", "1", "--json"])
    assert result.exit_code == 0, result.stderr
    figures = json.loads(result.stdout)
    assert figures["composition"] == {
        "fails the AST stage": 8,
        "fails to compile": 4,
        "computes something wrong": 4,
        "is right": 4,
    }
    assert [one["verifier"] for one in figures["passes"]] == ["staged", "exhaustive", "audit"]
    for one in figures["passes"]:
        assert one["unexpected"] == []
        assert one["num_candidates"] == 20
    staged, exhaustive, _ = figures["passes"]
    assert figures["ratio_wall"] == pytest.approx(exhaustive["wall_s"] / staged["wall_s"])
    assert set(figures["first_result_ms"]) == {"compile", "interpret"}
