"""A run with stand-ins for model and verifier: resuming, exams, the exported state, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from attrs import define, evolve
from tritonrl.core.config import Config
from tritonrl.core.recipe.extensions import CellSpec
from tritonrl.core.recipe.learner import Completion
from tritonrl.core.text.prompts import user_message
from tritonrl.harness.display import DisplayKind
from tritonrl.harness.errors import DriftError
from tritonrl.harness.reinforcement import run as module
from tritonrl.harness.reinforcement.command import read_cell
from tritonrl.harness.reinforcement.curves import LiveCurves, read_curves
from tritonrl.harness.reinforcement.exams import Change, ExamPlan, compare, render_changes
from tritonrl.harness.reinforcement.run import (
    RunOutcome,
    RunPlan,
    describe_groups,
    preview_rewards,
    render_groups,
    run_reinforcement,
)
from tritonrl.harness.settings import load_config
from tritonrl.harness.study.learning import Sample
from tritonrl.harness.study.pipeline import CellContext, find_start
from tritonrl.harness.study.store import Results
from tritonrl.harness.study.task_draws import evaluation_tasks
from tritonrl.harness.tasks.suites import corpus_examples

from ..context_stub import TeacherLearner, solutions, stub_context, tiny_config

CELL = CellSpec.parse("none+stop-early")
EXAMS = ExamPlan(suite="core13:heldout", limit=2, samples=4, temperatures=(0.2, 0.8))


@define
class Line:
    """Opens stand-ins, and counts how often."""

    learner: TeacherLearner
    num_opened: int = 0

    @contextmanager
    def __call__(self, config: Config, results: Results, progress: Any, jobs: int) -> Iterator[CellContext]:
        self.num_opened += 1
        yield evolve(stub_context(results, config, self.learner, progress), given=find_start(results))


@pytest.fixture
def config() -> Config:
    """A tiny run by rloo from the base model."""
    rl = {"algorithm": "rloo", "rounds": 2, "tasks_per_round": 3, "samples_per_task": 6, "audit": False}
    return tiny_config(rl=rl, sft={"num_pairs": 0})


@pytest.fixture
def line(config: Config, monkeypatch: pytest.MonkeyPatch) -> Line:
    """Stand-ins in place of model and verifier."""
    answers = solutions(config, [0])
    answers |= {user_message(one.task): one.solution for one in corpus_examples("core13:heldout", config.seed, 2)}
    opened = Line(learner=TeacherLearner(answers=answers))
    monkeypatch.setattr(module, "open_context", opened)
    monkeypatch.setattr(
        "tritonrl.harness.reinforcement.exams.fingerprint_adapter", lambda folder: folder and folder.parent.name
    )
    return opened


def go(config: Config, out: Path, exams: ExamPlan | None = None, given: Path | None = None) -> RunOutcome:
    """The run, without a display."""
    plan = RunPlan(config=config, cell=CELL, seed=0, out=out, given=given, exams=exams)
    return run_reinforcement(plan, DisplayKind.NONE, 1)


def test_a_run_examines_learns_and_exports(config: Config, line: Line, tmp_path: Path) -> None:
    """Exams before and after at each temperature, an adapter, a page and a summary; again it opens nothing."""
    found = go(config, tmp_path, EXAMS)
    assert found.message is None
    assert {change.temperature for change in found.changes} == {0.2, 0.8}
    overall = [change for change in found.changes if change.group == "all"]
    assert [change.figure for change in overall] == ["pass@1", "pass@4"] * 2
    assert all(change.low <= change.difference <= change.high for change in found.changes)
    assert overall[0].end > overall[0].start
    assert found.adapter is not None
    assert json.loads((found.adapter / "state.json").read_text()) == {"skill": 2}
    assert found.page is not None
    page = found.page.read_text()
    assert page.count("<figure>") >= 5
    assert "core13" in page
    assert json.loads((tmp_path / "rl.json").read_text())["algorithm"] == "rloo"
    assert Results(root=tmp_path).read("evaluation").height == 0
    opened = line.num_opened
    assert go(config, tmp_path, EXAMS).changes == found.changes
    assert line.num_opened == opened == 1


def test_a_run_ends_in_time(config: Config, line: Line, tmp_path: Path) -> None:
    """After the minutes no round begins but the first; what was learned is examined, exported, and complete."""
    plan = RunPlan(config=config, cell=CELL, seed=0, out=tmp_path, exams=EXAMS, minutes=0.0)
    found = run_reinforcement(plan, DisplayKind.NONE, 1)
    assert found.adapter is not None
    assert json.loads((found.adapter / "state.json").read_text()) == {"skill": 1}
    assert json.loads((tmp_path / "rl.json").read_text())["rounds"] == 1
    assert Results(root=tmp_path).read("rounds").height == 1
    opened = line.num_opened
    assert go(config, tmp_path, EXAMS).changes == found.changes
    assert line.num_opened == opened


def test_a_killed_run_goes_on(config: Config, line: Line, tmp_path: Path) -> None:
    """A round that was learned is not learned again, and curves are whole."""
    line.learner = evolve(line.learner, failing_at=3)
    assert go(config, tmp_path).message is not None
    line.learner = TeacherLearner(answers=line.learner.answers)
    assert go(config, tmp_path).message is None
    assert len(line.learner.reinforced) == 1
    curves = read_curves(Results(root=tmp_path), pl.col("cell") == str(CELL))
    assert len(curves["correct"]) == len(curves["kl"]) == 2
    evaluation = Results(root=tmp_path).read("evaluation")
    assert set(evaluation["phase"]) == {"sft", "rl"}


def test_rewards_alone_learn_nothing_and_are_found_again(config: Config, line: Line, tmp_path: Path) -> None:
    """The first round's samples are drawn once, whether the rewards were looked at before or not."""
    plan = RunPlan(config=config, cell=CELL, seed=0, out=tmp_path)
    figures = preview_rewards(plan, DisplayKind.NONE, 1)
    assert line.learner.reinforced == []
    assert figures[0].num_tasks == 3
    assert sum(row.num_tasks for row in figures[1:]) == 3
    drawn = line.learner.num_samplings
    go(config, tmp_path)
    # start, round 2 and end are new
    assert line.learner.num_samplings == drawn + 3


def test_a_folder_has_one_start(config: Config, line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A given state is copied and started from; the same folder with another start, or none, is refused."""
    name = "tritonrl.harness.policy.model.states.identify_state"
    monkeypatch.setattr(name, lambda folder: (folder / "state.json").read_text())
    for number in (1, 2):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/state.json").write_text(json.dumps({"skill": number}))
    out = tmp_path / "out"
    found = go(config, out, given=tmp_path / "1")
    assert found.adapter is not None
    assert json.loads((found.adapter / "state.json").read_text()) == {"skill": 3}
    assert {start for _, _, start in line.learner.reinforced} == {out / "start"}
    for given in (tmp_path / "2", None):
        with pytest.raises(DriftError, match="another start"):
            go(config, out, given=given)


def test_groups_are_described_by_family() -> None:
    """Shares of groups add up to one, all groups come first, and each family has its own line."""
    tasks = evaluation_tasks(tiny_config(evaluation={"level1_tasks": 2, "level2_tasks": 1}))

    def group(number: int, marks: str) -> list[Sample]:
        return [
            Sample(
                task=tasks[number],
                completion=Completion(text=str(place), tokens=(1,), finished=mark != "c"),
                source=str(place // 2),
                is_correct=mark == "r",
                reward=0.7 if mark == "r" else 0.0,
            )
            for place, mark in enumerate(marks)
        ]

    figures = describe_groups([group(0, "rrww"), group(1, "rrrr"), group(2, "wwwc"), group(0, "wwww")])
    whole = figures[0]
    assert (whole.all_wrong, whole.mixed, whole.all_right) == (0.5, 0.25, 0.25)
    assert (whole.correct, whole.finished, whole.distinct) == (6 / 16, 15 / 16, 2.0)
    assert figures[1].group == tasks[0].family
    assert {row.group for row in figures[1:]} == {task.family for task in tasks}
    assert len(render_groups(figures)) == len(figures) + 1


def table(rights: list[int], num: int = 4) -> pl.DataFrame:
    """An exam's table: so many right samples of each task."""
    rows = [
        {"slot": slot, "level": 1 + slot % 2, "family": "f", "sample": sample, "correct": sample < right}
        for slot, right in enumerate(rights)
        for sample in range(num)
    ]
    return pl.DataFrame(rows)


def test_changes_are_paired_by_task() -> None:
    """pass@1 is the mean share, pass@4 that any is right; differences have intervals, equal exams have none."""
    changes = {(one.group, one.figure): one for one in compare(table([0, 1, 4, 2]), table([1, 1, 4, 4]), 0.8)}
    one = changes["all", "pass@1"]
    assert (one.start, one.end) == (7 / 16, 10 / 16)
    assert one.low <= one.difference <= one.high
    assert changes["all", "pass@4"].end == 1.0
    assert changes["level 2", "pass@1"].num_tasks == 2
    same = compare(table([1, 2]), table([1, 2]), 0.8)
    assert all((change.low, change.difference, change.high) == (0.0, 0.0, 0.0) for change in same)
    assert len(render_changes(tuple(changes.values()))) == 7


def test_live_curves_show_each_figure(capsys: pytest.CaptureFixture[str]) -> None:
    """A figure has its line over the rounds so far and its last value; what was never told has none."""
    from rich.console import Console

    shown = LiveCurves()
    for step, correct in ((1, 0.25), (2, 0.5)):
        shown.metrics("round", step, {"correct": correct, "reward": 0.3})
    console = Console(width=120, record=True)
    console.print(shown.render())
    shown.close()
    text = console.export_text()
    assert "correct, %" in text
    assert "▁█ 50" in " ".join(text.split())
    assert "entropy" not in text


def test_a_change_says_its_points() -> None:
    """A difference is written in percentage points with its interval."""
    change = Change(temperature=0.2, group="all", figure="pass@1", num_tasks=9, start=0.2, end=0.35, low=0.1, high=0.2)
    assert change.points == "+15.0 [+10.0, +20.0]"


def test_speed_is_timed_with_calibration_by_default() -> None:
    """Training for speed has a calibrated timing where no cell is named, and a named one is taken as it is."""
    assert load_config("speed", None, []).reward.goal == "speed"
    assert read_cell(None, None, "speed").verifier.calibrated
    assert not read_cell(None, None, "graded").verifier.calibrated
    assert not read_cell("none", None, "speed").verifier.calibrated
