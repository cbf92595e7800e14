"""An exam: it continues what was cut off, reads what is finished, refuses drift, and prints one JSON object."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from attrs import define, evolve
from tritonrl.cli import app
from tritonrl.core.recipe.learner import COMPLETIONS
from tritonrl.core.task import Profile, Task
from tritonrl.core.verdict import Verdict
from tritonrl.harness.display import Progress
from tritonrl.harness.errors import DriftError, TaskError, UsageError
from tritonrl.harness.evaluation import evaluation as exam
from tritonrl.harness.evaluation.asked import Criterion, TaskSelection
from tritonrl.harness.evaluation.finished import EVALUATION, render_evaluation, summarise
from tritonrl.harness.evaluation.suite_criterion import SuiteVerdict
from tritonrl.harness.study.grid import run_grid
from tritonrl.harness.study.runner.ablation import run_ablation
from tritonrl.harness.study.store import Results
from typer.testing import CliRunner

from ..context_stub import TextJudge, stub_context, tiny_config
from ..datasets.made_up import write_folder
from .room import CORPUS, FOREIGN, Room, without_times


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
    text = "\n".join(render_evaluation(summary, [("Broken", "invalid syntax")], 512))
    assert f"accepted by the suite's criterion alone: {wrong} (" in text
    assert "small sizes in 6 samples" in text
    assert "1 tasks could not be asked:\n  Broken: invalid syntax" in text


def test_task_that_cannot_be_audited_leaves_the_others(tmp_path: Path) -> None:
    """One task's error is a message in its rows, and the suite's criterion is asked of it all the same."""
    suite = f"kernelbench:{write_folder(tmp_path / 'suite', FOREIGN)}"

    @define
    class Refusing(TextJudge):
        def _verdict(self, task: Task, *rest: Any) -> Verdict:
            if task.level == 2:
                raise TaskError("no such thing")
            return TextJudge._verdict(self, task, *rest)

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
        (evolve(CORPUS, levels=(1,), tasks=(0,)), "(--levels, --tasks differ): 4 -> 1"),
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
    run_grid(results, config, (), range(1), lambda: stub_context(results, config), Progress())
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


def test_answers_that_were_cut_are_told(tmp_path: Path) -> None:
    """They are counted by level, and cut is the reason where their text is refused; what is right stays so."""
    whole, room = Room(tmp_path / "whole").sit(CORPUS).frame, Room(tmp_path / "cut", cut_every=3)
    frame = room.sit(CORPUS).frame
    cut, wrong = ~frame["finished"], ~frame["correct"]
    assert whole["finished"].all()
    assert 0 < (cut & wrong).sum() < cut.sum() < frame.height
    assert frame.filter(cut & wrong)["outcome"].to_list() == ["cut"] * (cut & wrong).sum()
    assert frame.filter(~(cut & wrong))["outcome"].equals(whole.filter(~(cut & wrong))["outcome"])
    summary = summarise(frame)
    by_level = [(rates.group, rates.num_cut) for rates in summary.rates if rates.num_cut and "level" in rates.group]
    assert sum(number for _, number in by_level) == cut.sum()
    told = ", ".join(f"{number} of 6 at {group.title()}" for group, number in by_level)
    text = "\n".join(render_evaluation(summary, [], 2816))
    assert f"cut at 2,816 tokens (policy.max_new_tokens): {told}" in text
    every = summarise(Room(tmp_path / "every", cut_every=1).sit(CORPUS).frame)
    assert {entry.outcome for entry in every.failures} == {"cut"}
    assert "cut at" not in "\n".join(render_evaluation(summarise(whole), [], 2816))


def test_answers_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """Texts that were stored alone are not drawn again; whether they were cut is not known, and not told."""
    room = Room(tmp_path, cut_every=2)
    room.draw(CORPUS)
    for path in (tmp_path / "work" / COMPLETIONS).glob("*/*/value.json"):
        stored = json.loads(path.read_text())
        path.write_text(json.dumps({**stored, "value": [text for text, _ in stored["value"]]}))
    frame = room.sit(CORPUS).frame
    assert room.num_samplings == 1
    assert set(frame["finished"]) == {None}
    assert "cut" not in set(frame["outcome"])
    assert {rates.num_cut for rates in summarise(frame).rates} == {None}
    assert "cut at" not in "\n".join(render_evaluation(summarise(frame), [], 512))


def test_what_was_not_audited_is_not_slow() -> None:
    """fast_1 is a share of the samples that the audit judged, as the correct rate is."""
    judged = [(True, 2.0), (True, 0.5), (False, None), (None, None)]
    place = {**dict.fromkeys(EVALUATION.columns), "cell": "exam", "phase": "exam", "seed": 0}
    place |= {"task": "a", "family": "unary", "level": 1}
    rows = [{**place, "slot": n, "sample": 0, "correct": c, "speedup": s} for n, (c, s) in enumerate(judged)]
    rates = summarise(EVALUATION.frame(rows)).rates[0]
    assert (rates.num_samples, rates.correct, rates.fast_1) == (4, 2 / 3, 1 / 3)


def test_each_family_says_what_fails_most() -> None:
    """By level, the worst family first: its most frequent outcome, with the first line of what that says most often."""
    place = {**dict.fromkeys(EVALUATION.columns), "cell": "exam", "phase": "exam", "seed": 0, "task": "a"}
    wrong = "relative error 2\nin a second line"
    told = [
        (2, "matmul_chain", "passed", None),
        (1, "unary", "no_kernel", None),
        (1, "unary", "wrong_values", wrong),
        (1, "unary", "wrong_values", "relative error 1"),
        (1, "unary", "wrong_values", wrong),
        (1, "scan", "no_launch", None),
        (1, "unary", "passed", None),
        (1, "unary", None, "this task cannot be audited"),
    ]
    rows = [
        {**place, "slot": n, "sample": 0, "level": level, "family": family, "outcome": outcome, "message": message}
        | {"correct": None if outcome is None else outcome == "passed"}
        for n, (level, family, outcome, message) in enumerate(told)
    ]
    summary = summarise(EVALUATION.frame(rows))
    found = [(f.level, f.family, f.num_correct, f.num_samples, f.outcome, f.num_outcome) for f in summary.failures]
    assert found == [
        (1, "scan", 0, 1, "no_launch", 1),
        (1, "unary", 1, 5, "wrong_values", 3),
        (2, "matmul_chain", 1, 1, None, 0),
    ]
    assert [entry.message for entry in summary.failures] == [None, "relative error 2", None]
    lines = render_evaluation(summary, [], 512)
    assert [line.split()[0] for line in lines[-3:]] == ["scan", "unary", "matmul_chain"]
    assert lines[-3].endswith("0/1  1x no Triton kernel is launched")
    assert lines[-2].endswith("1/5  3x the result differs from the reference: relative error 2")
    assert lines[-1].endswith("1/1  -")
    assert len(render_evaluation(summarise(EVALUATION.frame(rows[:1])), [], 512)) == 3
