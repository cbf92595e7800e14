"""Answers drawn in one place and judged in another: the same rows, no model, and nothing but what was asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import define
from tritonrl.core.recipe.learner import COMPLETIONS
from tritonrl.harness.evaluation.finished import EVALUATION, read_parts
from tritonrl.harness.study.store import Results
from tritonrl.harness.work import WorkStore
from typer.testing import Result

from ..datasets.made_up import SMALL_PROBLEM, write_folder
from .room import CORPUS, Room, invoke, without_times

NANO: tuple[object, ...] = ("--policy", "nano", "--suite", "core13:heldout", "--limit", 1, "--samples", 2)
SHORT: tuple[object, ...] = ("--set", "policy.max_new_tokens=24", "--set", "verifier.timing=none", "--json")


@define
class SampledCompletions:
    """Answers of the smallest model, and the exam that was taken of the same in one place."""

    folder: Path
    whole: Path
    told: dict[str, object]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> SampledCompletions:
    """`eval --draw-only`, and the whole exam by `eval` beside it."""
    root = tmp_path_factory.mktemp("answers")
    told = invoke(*NANO, *SHORT, "--out", root / "drawn", "--draw-only")
    assert told.exit_code == 0, told.stderr
    assert invoke(*NANO, *SHORT, "--out", root / "whole").exit_code == 0
    return SampledCompletions(folder=root / "drawn", whole=root / "whole", told=json.loads(told.stdout))


def judge(folder: Path, *arguments: object) -> Result:
    """`eval --answers` of a folder."""
    return invoke("--answers", folder, "--set", "verifier.timing=none", *arguments)


def test_drawing_judges_nothing_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """Without `draw` the same exam finds every answer there, and has the rows of an exam in one sitting."""
    whole = Room(root=tmp_path / "whole").sit(CORPUS)
    room = Room(root=tmp_path / "drawn")
    assert room.draw(CORPUS) == 12
    assert not (room.root / "evaluation.parquet").exists()
    assert room.num_samplings == 1
    assert without_times(room.sit(CORPUS).frame) == without_times(whole.frame)
    assert room.num_samplings == 1
    assert room.draw(CORPUS) == 12
    assert room.num_opened == 2


def test_answers_are_judged_elsewhere_without_the_model(drawn: SampledCompletions, tmp_path: Path) -> None:
    """The rows are those of the exam in one place; the folder says what drew the answers, and is read as any other."""
    assert drawn.told["num_answers"] == 4
    assert not (drawn.folder / "evaluation.parquet").exists()
    record = json.loads((drawn.folder / "run.json").read_text())
    record["versions"]["torch"] = "0.0"
    elsewhere = tmp_path / "carried"
    WorkStore(root=elsewhere / "work").take_over(Results(root=drawn.folder).work, COMPLETIONS)
    (elsewhere / "run.json").write_text(json.dumps(record))
    result = judge(elsewhere, "--out", tmp_path / "judged", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["suite"] == "core13:heldout"
    found, whole = read_parts([tmp_path / "judged"]), read_parts([drawn.whole])
    assert without_times(found.frame) == without_times(whole.frame)
    assert found.frame.columns == list(EVALUATION.columns)
    recorded = json.loads((tmp_path / "judged/run.json").read_text())
    assert recorded["exam"]["drawn_with"]["torch"] == "0.0"
    assert recorded["versions"]["torch"] != "0.0"
    assert recorded["policy"] == record["policy"]
    # the same command reads it again, and parts of which one was drawn elsewhere are not one exam
    assert judge(elsewhere, "--out", tmp_path / "judged", "--json").stdout == result.stdout
    mixed = invoke("--read", drawn.whole, "--read", tmp_path / "judged")
    assert (mixed.exit_code, "exam.drawn_with" in mixed.stderr) == (2, True)


def test_answers_that_are_not_all_there_are_not_judged(drawn: SampledCompletions, tmp_path: Path) -> None:
    """An exam that was cut off while it drew is told to go on where the model is."""
    (tmp_path / "run.json").write_text((drawn.folder / "run.json").read_text())
    result = judge(tmp_path, "--out", tmp_path / "judged")
    assert result.exit_code == 2
    assert "not all of its answers are drawn; end that exam's command first" in result.stderr
    assert not (tmp_path / "judged/evaluation.parquet").exists()


def test_answers_to_something_else_are_refused(drawn: SampledCompletions, tmp_path: Path) -> None:
    """What answers depend on cannot be changed afterwards, nor asked again; how they are judged can."""
    suite = write_folder(tmp_path / "suite", {"level1/1_First.py": SMALL_PROBLEM})
    for arguments, words in (
        (["--set", "evaluation.temperature=0.9"], "drawn otherwise: evaluation.temperature: "),
        (["--set", "policy.max_new_tokens=25"], "drawn otherwise: policy.max_new_tokens: 24 -> 25"),
        (["--suite", f"kernelbench:{suite}"], "of other tasks than the suite has here"),
        (["--samples", 3], "--answers tells what was asked: leave out --samples"),
        (["--draw-only"], "leave out --draw-only"),
        (["--preset", "quick"], "leave out --preset"),
        (["--criterion", "suite"], "--criterion suite: core13:heldout: judged by the audit alone"),
    ):
        result = judge(drawn.folder, *arguments)
        assert (result.exit_code, words in result.stderr) == (2, True), result.stderr
    assert "no exam there" in judge(tmp_path).stderr
    assert "leave out --answers" in invoke("--read", drawn.whole, "--answers", drawn.folder).stderr
    assert "--draw-only: say with --out" in invoke(*NANO, "--draw-only").stderr
    # the folder itself goes on as it was begun
    assert judge(drawn.folder, "--out", drawn.folder).exit_code == 3


def test_help_names_both_halves() -> None:
    """`eval --help` has the options, and an example of the second."""
    text = invoke("--help").stdout
    assert "--draw-only" in text
    assert "tritonrl eval --answers" in text
