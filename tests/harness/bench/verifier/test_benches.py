"""Benches of the verifier in small: the mix of `verify`, the soak, and an exam at real sizes."""

import json
import random

import pytest
from tritonrl.cli import app
from tritonrl.core.config import Config, merge
from tritonrl.core.corpus import Split, examples
from tritonrl.core.task import Example
from tritonrl.core.text.named_sizes import read_sizes
from tritonrl.harness.bench.verifier.exam import answers_to, enlarge, measure_exam, sized_examples
from tritonrl.harness.bench.verifier.false_rejects import measure_false_rejects
from tritonrl.harness.bench.verifier.mix import SPOILS, restyle
from tritonrl.harness.bench.verifier.soak import Census, soak_verifier
from tritonrl.harness.bench.verifier.verify import tree_cpu_s
from tritonrl.harness.bench.watching import RunningCount
from tritonrl.harness.reference.operators import trace_declared
from tritonrl.harness.reference.sizes.declared_sizes import measure
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


def test_soak_takes_stock_after_each_round() -> None:
    """Good, bad and hostile candidates leave no process, zombie or file, and each has an outcome."""
    seen: list[Census] = []
    figures = soak_verifier(Config(), 14, seed=0, jobs=2, on_progress=seen.append)
    assert figures.unclean_rounds == 0
    assert sum(figures.outcomes.values()) == figures.num_candidates == 14
    assert any(name.startswith("hostile: ") for name in figures.outcomes)
    assert [one.num_candidates for one in seen] == [14]
    assert 20 < figures.first.judge_mb == figures.max_judge_mb


def test_tasks_are_enlarged_within_the_limit() -> None:
    """A drawn number of bytes is reached where sizes can be doubled, and never exceeded; small sizes stay."""
    drawn = sized_examples("full:train", 0, 4, most_bytes=1 << 30)
    assert {one.example.task.level for one in drawn} == {1, 2}
    for one in drawn:
        assert one.num_bytes == measure(one.example.task)[0] <= 1 << 30
    example = next(iter(examples(Split.TRAIN, 1, 0, families=("softmax",))))
    task, num_bytes = enlarge(example.task, 3, 8 << 30)
    assert num_bytes > 16 << 20
    assert task.tiny == example.task.tiny
    assert enlarge(example.task, 3, 8 << 30) == (task, num_bytes)
    rows, _ = enlarge(example.task, 3, 8 << 30, most_size=12_000)
    assert max(read_sizes(task.source).values()) > 12_000 >= max(read_sizes(rows.source).values())
    huge, _ = enlarge(example.task, 0, 1 << 40)
    assert 2**29 < max(operator.most_elements for operator in trace_declared(huge)[0]) < 2**31


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
    figures = measure_exam(config, 2, 3, "core13:train", 0, 2, most_bytes=1 << 22)
    assert (figures.num_tasks, figures.num_answers, figures.rejected_teachers) == (2, 6, ())
    assert figures.num_correct >= 4
    assert figures.peak_bytes > 100 << 20


def test_an_interrupted_bench_tells_what_it_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of the kernels that were judged, and how many were asked for."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunningCount, "note", interrupt)
    figures = measure_false_rejects(merge({"verifier": {"backend": "interpret"}}), 3)
    assert (figures.num_kernels, figures.num_asked, len(figures.rejections)) == (1, 3, 0)
    assert (figures.num_kernels, figures.num_asked, figures.rejections) == (1, 3, ())
