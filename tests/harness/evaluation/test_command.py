"""`tritonrl eval`: one JSON object, a finished exam again, exams in parts, and options that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve
from tritonrl.harness.evaluation.finished import read_parts
from typer.testing import Result

from ..datasets.made_up import write_folder
from .room import CORPUS, FOREIGN, Room, invoke, without_times


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
        (["--suite", "feild:train"], "no such suite (did you mean field:train?); there are"),
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


def test_turns_need_the_audit(tmp_path: Path) -> None:
    """Further answers are to the audit's reasons, so nothing may leave it out."""
    for option in (("--draw-only", "--out", tmp_path / "out"), ("--criterion", "suite")):
        result = invoke("--suite", f"kernelbench:{tmp_path}", "--turns", 2, *option)
        assert result.exit_code == 2
        assert "--turns" in result.stderr


def test_parts_of_an_exam_are_read_as_one(tmp_path: Path) -> None:
    """Parts taken one by one have the rows of the whole, and `--read` prints them together."""
    whole = Room(root=tmp_path / "whole").sit(CORPUS)
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder, places in zip(folders, ((0, 2), (1, 3)), strict=True):
        Room(root=folder).sit(evolve(CORPUS, tasks=places))
    assert without_times(read_parts(folders).frame) == without_times(whole.frame)
    told = json.loads(invoke("--read", folders[0], "--read", folders[1], "--json").stdout)
    assert told["rates"] == json.loads(invoke("--read", tmp_path / "whole", "--json").stdout)["rates"]
    assert told["rates"][0]["num_tasks"] == 4


def test_exams_that_are_not_parts_of_one_are_refused(tmp_path: Path) -> None:
    """Other settings, the same tasks twice, an unfinished exam and further options end in one line each."""
    Room(root=tmp_path / "a").sit(evolve(CORPUS, tasks=(0,)))
    Room(root=tmp_path / "b").sit(evolve(CORPUS, tasks=(1,)), adapter="another")
    for folders, words in (
        (["a", "b"], "exam.adapter: None -> 'another'"),
        (["a", "a"], "the same tasks in two of them"),
        (["nothing"], "no finished exam there"),
    ):
        result = invoke(*(part for folder in folders for part in ("--read", tmp_path / folder)))
        assert (result.exit_code, words in result.stderr) == (2, True)
    result = invoke("--read", tmp_path / "a", "--limit", 3)
    assert (result.exit_code, "leave out --limit" in result.stderr) == (2, True)
