"""An exam: it continues what was cut off, reads what is finished, refuses drift, and prints one JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from attrs import define, evolve, field
from tritonrl.cli import app
from tritonrl.core.config import Config
from tritonrl.core.corpus import render
from tritonrl.core.outcome import Outcome
from tritonrl.core.task import Profile, Task
from tritonrl.core.text.prompts import user_message
from tritonrl.harness.display import Silent
from tritonrl.harness.errors import DriftError, TaskError, UsageError
from tritonrl.harness.evaluation import evaluation as exam
from tritonrl.harness.evaluation.evaluation import (
    BySuite,
    Criterion,
    Evaluation,
    EvaluationIdentity,
    TaskSelection,
    identify_selection,
)
from tritonrl.harness.evaluation.finished import EvaluationResult
from tritonrl.harness.evaluation.suite_criterion import SuiteVerdict
from tritonrl.harness.evaluation.summary import render_evaluation, summarise
from tritonrl.harness.study.grid import run_grid
from tritonrl.harness.study.pipeline import CellContext
from tritonrl.harness.study.runner.ablation import run_ablation
from tritonrl.harness.study.store import Results
from tritonrl.harness.tasks.suites import load_suite
from typer.testing import CliRunner, Result

from ..context_stub import TeacherLearner, TextJudge, stub_context, tiny_config
from ..datasets.made_up import SMALL_PROBLEM, write_folder
from ..kernels import pointwise

TIMES = ("verify_s", "suite_s")
FOREIGN = {"level1/1_First.py": SMALL_PROBLEM, "level2/1_Second.py": SMALL_PROBLEM.replace("200", "100")}
CORPUS = TaskSelection(suite="core13:heldout", limit=2)


def invoke(*arguments: object) -> Result:
    """Run `tritonrl eval` in this process."""
    return CliRunner().invoke(app, ["eval", *map(str, arguments)], prog_name="tritonrl")


def judge_by_text(task: Task, source: str) -> SuiteVerdict:
    """A criterion that is content with the word triton."""
    return SuiteVerdict(correct="triton" in source, sizes=Profile.SMALL, excess=0.005, seconds=0.1)


class UnaskedJudge(TextJudge):
    """Has a name, and judges nothing."""

    def verify_many(self, *_: Any) -> Any:
        raise AssertionError("an answer was to be judged")


@define
class MendingLearner(TeacherLearner):
    """Gives the teacher's solution, in some samples, to a request that says why an answer was refused."""

    def sample(self, adapter: Path | None, prompts: Sequence[str], seeds: Sequence[int], *rest: Any) -> list[str]:
        refusal = f"ast: {Outcome.NO_KERNEL}"
        requests = {prompt: prompt.partition("\nThis answer was tried:\n")[0] for prompt in prompts}
        assert all(prompt == request or refusal in prompt for prompt, request in requests.items())
        return super().sample(adapter, [requests[prompt] for prompt in prompts], seeds, *rest)


@define
class Room:
    """Where stand-ins sit an exam; counts how often a line was opened."""

    root: Path
    config: Config = field(factory=lambda: tiny_config(evaluation={"samples_per_task": 3}))
    num_opened: int = 0
    num_samplings: int = 0

    def sit(
        self,
        questions: TaskSelection,
        *,
        criterion: Criterion = Criterion.BOTH,
        adapter: str | None = None,
        failing_at: int | None = None,
        by_suite: BySuite = judge_by_text,
        judge: TextJudge | None = None,
        turns: int = 1,
    ) -> EvaluationResult:
        """One sitting; the teacher's solutions are known for every task asked."""
        with self._enter(questions, criterion, adapter, failing_at, by_suite, judge, turns) as entered:
            return entered.run()

    def draw(self, questions: TaskSelection) -> int:
        """As `sit`, up to where answers are judged; nobody is asked to."""
        with self._enter(questions, Criterion.BOTH, None, None, judge_by_text, UnaskedJudge()) as entered:
            return entered.draw()

    @contextmanager
    def _enter(
        self,
        questions: TaskSelection,
        criterion: Criterion,
        adapter: str | None,
        failing_at: int | None,
        by_suite: BySuite,
        judge: TextJudge | None,
        turns: int = 1,
    ) -> Iterator[Evaluation]:
        results = Results(root=self.root)
        answers = {}
        if questions.suite is not None:
            for entry in load_suite(questions.suite, levels=questions.levels, num=questions.limit).tasks:
                answers[user_message(entry.shown)] = entry.solution or pointwise("x")
        else:
            answers = {user_message(task): render(task.task_id).solution for task in exam.evaluation_tasks(self.config)}
        learner = MendingLearner(answers=answers, failing_at=failing_at)

        @contextmanager
        def open_context() -> Iterator[tuple[CellContext, BySuite]]:
            self.num_opened += 1
            line = stub_context(results, self.config, learner)
            yield (line if judge is None else evolve(line, judge=judge)), by_suite

        identity = EvaluationIdentity(
            config=self.config,
            policy="",
            backend="",
            tasks=identify_selection(self.config, questions),
            criterion=criterion,
            adapter=adapter,
            turns=turns,
        )
        try:
            yield Evaluation(
                results=results, identity=identity, questions=questions, open_context=open_context, progress=Silent()
            )
        finally:
            self.num_samplings += learner.num_samplings


def without_times(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of an exam but for what differs from run to run."""
    return frame.drop(TIMES).to_dicts()


def test_finished_exam_is_only_read(tmp_path: Path) -> None:
    """A finished exam gives its table again, times included, and no model is opened for it."""
    room = Room(root=tmp_path)
    first = room.sit(CORPUS)
    again = room.sit(CORPUS)
    assert (room.num_opened, room.num_samplings) == (1, 1)
    assert again.frame.equals(first.frame)
    assert first.frame.height == 4 * 3
    assert set(first.frame["suite_correct"]) == {None}
    assert 0 < first.frame["correct"].sum() < 12
    sources = pl.read_parquet(tmp_path / "sources.parquet")
    assert set(sources["candidate"]) == set(first.frame["candidate"])


def test_exam_cut_off_between_its_parts_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sampled before the end is not sampled again, and the rows are those of an exam in one sitting."""
    whole = Room(root=tmp_path / "whole").sit(CORPUS)
    monkeypatch.setattr(exam, "_CHUNK", 4)
    room = Room(root=tmp_path / "cut")
    with pytest.raises(RuntimeError, match="on fire"):
        room.sit(CORPUS, failing_at=3)
    assert not (tmp_path / "cut/evaluation.parquet").exists()
    assert room.num_samplings == 3
    continued = room.sit(CORPUS)
    assert room.num_samplings == 3 + 2
    assert without_times(continued.frame) == without_times(whole.frame)


def test_suite_that_is_not_ours_is_judged_twice(tmp_path: Path) -> None:
    """Both criteria have columns of their own; one of them alone leaves the other's empty."""
    suite = f"kernelbench:{write_folder(tmp_path / 'suite', FOREIGN)}"
    found = {
        criterion: Room(root=tmp_path / criterion).sit(TaskSelection(suite=suite), criterion=criterion).frame
        for criterion in Criterion
    }
    both = found[Criterion.BOTH]
    assert both["correct"].null_count() == both["suite_correct"].null_count() == 0
    assert both["level"].to_list() == [1, 1, 1, 2, 2, 2]
    assert found[Criterion.SUITE]["correct"].null_count() == 6
    assert found[Criterion.SUITE]["suite_correct"].equals(both["suite_correct"])
    assert found[Criterion.AUDIT]["suite_correct"].null_count() == 6
    assert found[Criterion.AUDIT]["correct"].equals(both["correct"])


def test_disagreement_is_counted_and_said(tmp_path: Path) -> None:
    """What one criterion alone accepts is counted by the audit's outcome, beside the rates of both."""
    suite = f"kernelbench:{write_folder(tmp_path / 'suite', FOREIGN)}"

    def accept(task: Task, source: str) -> SuiteVerdict:
        return SuiteVerdict(correct=True, sizes=Profile.SMALL, excess=0.005)

    frame = Room(root=tmp_path / "out").sit(TaskSelection(suite=suite), by_suite=accept).frame
    wrong = int((~frame["correct"]).sum())
    summary = summarise(frame)
    assert wrong > 0
    assert (summary.k, summary.only_suite, summary.only_audit) == (3, {"no_kernel": wrong}, 0)
    assert summary.sizes == {"small": 6}
    assert [rates.group for rates in summary.rates] == ["all", "level 1", "level 2", "kernelbench"]
    assert summary.rates[0].suite_correct == summary.rates[0].suite_pass_at_k == 1.0
    assert summary.rates[0].correct == (6 - wrong) / 6
    text = "\n".join(render_evaluation(summary, [("Broken", "invalid syntax")]))
    assert f"accepted by the suite's criterion alone: {wrong} (" in text
    assert "small sizes in 6 samples" in text
    assert "1 tasks could not be asked:\n  Broken: invalid syntax" in text


def test_task_that_cannot_be_audited_leaves_the_others(tmp_path: Path) -> None:
    """One task's error is a message in its rows, and the suite's criterion is asked of it all the same."""
    suite = f"kernelbench:{write_folder(tmp_path / 'suite', FOREIGN)}"

    @define
    class Refusing(TextJudge):
        def verify_many(self, pairs: Sequence[tuple[Task, str]], *rest: Any) -> Any:
            if any(task.level == 2 for task, _ in pairs):
                raise TaskError("no such thing")
            return TextJudge.verify_many(self, pairs, *rest)

    frame = Room(root=tmp_path / "out").sit(TaskSelection(suite=suite), judge=Refusing()).frame
    assert frame.filter(pl.col("level") == 1)["correct"].null_count() == 0
    refused = frame.filter(pl.col("level") == 2)
    assert refused["correct"].null_count() == 3
    assert set(refused["message"]) == {"no such thing"}
    assert refused["suite_correct"].null_count() == 0
    assert summarise(frame).rates[2].correct is None


@pytest.mark.parametrize("is_finished", [True, False])
def test_another_exam_is_refused_with_what_differs(
    is_finished: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another temperature, adapter, criterion or choice of tasks is another exam, finished or not."""
    monkeypatch.setattr(exam, "_CHUNK", 4)
    room = Room(root=tmp_path)
    if is_finished:
        room.sit(CORPUS)
    else:
        with pytest.raises(RuntimeError):
            room.sit(CORPUS, failing_at=2)
    before = room.num_opened
    warmer = tiny_config(evaluation={"samples_per_task": 3, "temperature": 0.9})
    with pytest.raises(DriftError, match=r"config\.evaluation\.temperature: 0\.2 -> 0\.9"):
        Room(root=tmp_path, config=warmer).sit(CORPUS)
    with pytest.raises(DriftError, match=r"exam\.adapter: None -> 'another'"):
        room.sit(CORPUS, adapter="another")
    with pytest.raises(DriftError, match=r"exam\.criterion: 'both' -> 'audit'"):
        room.sit(CORPUS, criterion=Criterion.AUDIT)
    with pytest.raises(DriftError, match=r"exam\.tasks: "):
        room.sit(TaskSelection(suite="core13:heldout", limit=1))
    assert room.num_opened == before


def test_other_tasks_are_told_in_words(tmp_path: Path) -> None:
    """The options that chose other tasks are named, with how many tasks there were and are."""
    room = Room(root=tmp_path)
    room.sit(CORPUS)
    for questions, words in (
        (evolve(CORPUS, limit=1), "(--limit differs): 4 -> 2"),
        (evolve(CORPUS, levels=(1,), picks=(0,)), "(--levels, --tasks differ): 4 -> 1"),
        (TaskSelection(), "(--suite, --limit differ): 4 -> 40"),
    ):
        with pytest.raises(DriftError, match=re.escape(f"exam.tasks: other tasks are asked for {words}") + "$"):
            room.sit(questions)
    # as it was written before the options were recorded
    record = json.loads((tmp_path / "run.json").read_text())
    del record["asked"]
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(DriftError, match=r"\(--suite, --levels, --limit or --tasks differ\)$"):
        room.sit(TaskSelection())
    assert room.sit(CORPUS).frame.height == 12


def test_folders_of_another_kind_are_told(tmp_path: Path) -> None:
    """An exam is not taken in an ablation's folder or in a file, and its own is no ablation's."""
    config, results = tiny_config(), Results(root=tmp_path / "ablation")
    run_grid(results, config, (), range(1), lambda: stub_context(results, config), Silent())
    with pytest.raises(DriftError, match=r"ablation: an ablation's folder; use another --out$"):
        Room(root=results.root).sit(CORPUS)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file: a file, not a folder$"):
        Room(root=tmp_path / "file").sit(CORPUS)
    exam_folder = Room(root=tmp_path / "exam")
    exam_folder.sit(CORPUS)
    with pytest.raises(DriftError, match=r"exam: an exam's folder; use another --out$"):
        run_ablation(config, exam_folder.root, (), 1)
    assert not (exam_folder.root / "planned.json").exists()
    for command in (["report"], ["pack", "--to", str(tmp_path / "parts")], ["show", "none"]):
        name, *rest = command
        result = CliRunner().invoke(app, [name, str(exam_folder.root), *rest], prog_name="tritonrl")
        assert result.exit_code == 2
        assert f"an exam's folder (read it with `tritonrl eval --read {exam_folder.root}`)" in result.stderr


def test_what_no_result_depends_on_may_differ(tmp_path: Path) -> None:
    """An exam is the same whatever a configuration says of training."""
    first = Room(root=tmp_path).sit(CORPUS)
    other = Room(root=tmp_path, config=tiny_config(evaluation={"samples_per_task": 3}, sft={"num_pairs": 9}))
    assert other.sit(CORPUS).frame.equals(first.frame)
    assert other.num_opened == 0


def test_without_a_suite_the_held_out_tasks_are_asked(tmp_path: Path) -> None:
    """The preset's held-out tasks are those that a grid is judged by."""
    room = Room(root=tmp_path)
    frame = room.sit(TaskSelection()).frame
    assert frame["task"].unique(maintain_order=True).to_list() == [
        task.task_id for task in exam.evaluation_tasks(room.config)
    ]


def test_suite_without_a_task_says_why(tmp_path: Path) -> None:
    """Where every problem is skipped the error has the reasons, and no model is opened."""
    broken = write_folder(tmp_path / "suite", {"level1/1_Broken.py": "class Model(:\n"})
    room = Room(root=tmp_path / "out")
    with pytest.raises(UsageError, match=r"no task to ask \(Broken: .*invalid syntax"):
        room.sit(TaskSelection(suite=f"kernelbench:{broken}"))
    assert room.num_opened == 0


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], Result]:
    """One real exam of the smallest model by the command: its arguments, and what it printed."""
    root = tmp_path_factory.mktemp("real")
    suite = write_folder(root / "suite", {**FOREIGN, "level3/1_Broken.py": "class Model(:\n"})
    arguments: list[object] = ["--policy", "nano", "--suite", f"kernelbench:{suite}", "--tasks", "1,2"]
    arguments += ["--samples", 1, "--set", "policy.max_new_tokens=16", "--set", "verifier.timing=none"]
    arguments += ["--out", root / "out"]
    return arguments, invoke(*arguments, "--json")


def test_command_prints_one_json_object(real: tuple[list[object], Result]) -> None:
    """`eval --json` prints one object: rates, what was skipped, and a row for each sample."""
    _, result = real
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == 1
    told = json.loads(result.stdout)
    assert [(row["slot"], row["level"]) for row in told["rows"]] == [(1, 2)]
    assert told["rows"][0]["suite_correct"] in (True, False)
    assert told["rows"][0]["correct"] in (True, False)
    assert [entry["name"] for entry in told["skipped"]] == ["Broken"]
    assert {"suite", "out", "k", "rates", "sizes", "only_suite", "only_audit"} <= set(told)
    assert result.stderr == ""


def test_command_prints_a_finished_exam_again(real: tuple[list[object], Result]) -> None:
    """The same command gives the same object, and without --json a table that names its file."""
    arguments, first = real
    assert invoke(*arguments, "--json").stdout == first.stdout
    plain = invoke(*arguments)
    assert plain.exit_code == 0
    assert "suite: correct" in plain.stdout
    assert f"table: {arguments[-1]}" in plain.stdout


def test_command_refuses_drift_with_exit_3(real: tuple[list[object], Result]) -> None:
    """A folder of another exam is refused, and the field that differs is named."""
    arguments, _ = real
    for changed, field_name in {
        ("--temperature", "0.9"): "config.evaluation.temperature",
        ("--criterion", "audit"): "exam.criterion",
        ("--levels", "2"): "exam.tasks",
    }.items():
        result = invoke(*arguments, *changed)
        assert result.exit_code == 3
        assert field_name in result.stderr
        assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--suite", "core13:test"], "no such suite"),
        (["--suite", "kernelbench:nowhere.parquet"], "no such file or folder: nowhere.parquet"),
        (["--suite", "core13:heldout", "--levels", "one"], "--levels one: expected numbers"),
        (["--suite", "core13:heldout", "--levels", "7"], "no level 7"),
        (["--suite", "core13:heldout", "--tasks", "9-3"], "--tasks 9-3: 9-3 is an empty range"),
        (["--suite", "core13:heldout", "--tasks", "0-99999999999"], "one of more than"),
        (["--suite", "core13:heldout", "--tasks", "-1"], "expected numbers and ranges"),
        (["--suite", "core13:heldout", "--tasks", "15-25"], "has places 0 to 19 here, and not 20; --limit says"),
        (["--suite", "core13:heldout", "--limit", "0"], "--limit"),
        (["--suite", "core13:heldout", "--samples", "0"], "--samples"),
        (["--suite", "core13:heldout", "--criterion", "suite"], "--criterion suite: core13:heldout"),
        (["--suite", "full:heldout", "--criterion", "suite"], "--criterion suite: full:heldout"),
        (["--criterion", "suite"], "--criterion suite: held-out tasks"),
        (["--suite", "core13:heldout", "--criterion", "nobody"], "must be one of suite, audit, both"),
        (["--tasks", "3"], "name one with --suite"),
        (["--temperature", "-1"], "evaluation.temperature"),
        (["--adapter", "nowhere"], "--adapter nowhere: no adapter_config.json there"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options_are_one_line_and_exit_2(arguments: list[str], words: str) -> None:
    """Bad input is refused before a model is loaded, in words that name the option."""
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_refused_answers_are_asked_again(tmp_path: Path) -> None:
    """A second turn replaces what was wrong and keeps what was right; its share is told, from a finished exam too."""
    once = Room(tmp_path / "once").sit(CORPUS)
    room = Room(tmp_path / "twice")
    twice = room.sit(CORPUS, turns=2)
    right, then = once.frame["correct"], twice.frame["correct"]
    assert once.by_turn == ()
    assert twice.by_turn == (right.mean(), then.mean())
    assert 0 < right.sum() < then.sum()
    assert twice.frame.filter(right)["candidate"].to_list() == once.frame.filter(right)["candidate"].to_list()
    assert room.num_samplings == 2
    assert room.sit(CORPUS, turns=2).by_turn == twice.by_turn
    assert room.num_samplings == 2
    with pytest.raises(DriftError, match="turns"):
        room.sit(CORPUS)


def test_turns_need_the_audit(tmp_path: Path) -> None:
    """Further answers are to the audit's reasons, so nothing may leave it out."""
    for option in (("--draw-only", "--out", tmp_path / "out"), ("--criterion", "suite")):
        result = invoke("--suite", f"kernelbench:{tmp_path}", "--turns", 2, *option)
        assert result.exit_code == 2
        assert "--turns" in result.stderr
