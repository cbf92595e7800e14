"""The commands around data: a suite's figures, pairs in one file, and training on a file."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tritonrl.core.corpus import SUITES
from tritonrl.harness.tasks.suite_figures import SuiteFigures, measure_suite, render_figures

from .command import invoke
from .harness.datasets.made_up import HEAD, SMALL_PROBLEM, write_folder


def _count_characters(prompts: list[str], answers: list[str]) -> list[tuple[int, int]]:
    return [(len(prompt), len(answer)) for prompt, answer in zip(prompts, answers, strict=True)]


def _measure(name: str, num: int | None = None) -> SuiteFigures:
    return measure_suite(name, num, 0, _count_characters, "characters")  # type: ignore[arg-type]


def test_a_suites_figures_count_its_families() -> None:
    """Every family is there, all pairs are distinct, and lengths are in order."""
    figures = _measure("full", 60)
    assert (figures.suite, figures.num_tasks, figures.num_pairs) == ("full:train", 120, 120)
    assert {family.family for family in figures.families} == {
        name for names in SUITES["full"].values() for name in names
    }
    assert sum(family.num_pairs for family in figures.families) == 120
    assert figures.answer is not None
    for lengths in (figures.prompt, figures.answer, figures.together, *(family.tokens for family in figures.families)):
        assert 0 < lengths.median <= lengths.p90 <= lengths.p99 <= lengths.longest
    assert figures.together.longest == max(family.tokens.longest for family in figures.families)
    lines = render_figures(figures)
    assert "120 tasks, 120 distinct pairs" in lines[0]
    assert len(lines) == 3 + 3 + len(figures.families)


def test_a_foreign_suite_has_prompts_alone(tmp_path: Path) -> None:
    """A suite without teachers is measured by what its tasks show; what is no task is counted."""
    write_folder(tmp_path)
    figures = _measure(f"kernelbench:{tmp_path}")
    assert figures.num_tasks == figures.num_pairs > 0
    assert figures.answer is None
    assert figures.together == figures.prompt
    assert {family.family for family in figures.families} == {"kernelbench"}


def test_a_suite_shown_as_json() -> None:
    """The command counts with the shipped tokenizer unless told otherwise, and prints one object."""
    result = invoke("tasks", "show", "core13", "-n", 3, "--json")
    assert result.exit_code == 0, result.stderr
    plain = json.loads(result.stdout)
    assert (plain["suite"], plain["num_tasks"], plain["tokenizer"]) == ("core13:train", 6, "nano")
    assert 100 < plain["prompt"]["median"] < 600


def test_tasks_of_a_foreign_suite_are_listed_and_what_is_none_is_told(tmp_path: Path) -> None:
    """`tasks ls` lists what can be asked on stdout, and on stderr what cannot, each with its reason."""
    write_folder(tmp_path, {"level1/7_Small.py": SMALL_PROBLEM, "level1/Nameless.py": HEAD, "level1/8_Bad.py": "x = ("})
    result = invoke("tasks", "ls", "--suite", f"kernelbench:{tmp_path}", "--json")
    assert result.exit_code == 0, result.stderr
    (task,) = (json.loads(line) for line in result.stdout.splitlines())
    assert (task["level"], task["family"]) == (1, "kernelbench")
    assert "skipped: Nameless: no number" in result.stderr
    assert "skipped: Bad: kb-l1-008-" in result.stderr
    result = invoke("tasks", "export", "--suite", f"kernelbench:{tmp_path}", "--out", tmp_path / "pairs.jsonl")
    assert result.exit_code == 2
    assert "it has no teachers' solutions" in result.stderr


def test_pairs_are_exported_to_one_file(tmp_path: Path) -> None:
    """`--out` writes pairs where a folder gets tasks; one of both must be named."""
    assert "4 pairs in" in invoke("tasks", "export", "-n", 2, "--out", tmp_path / "pairs.parquet").stdout
    assert pl.read_parquet(tmp_path / "pairs.parquet").height == 4
    assert invoke("tasks", "export", "-n", 2, "--out", tmp_path / "pairs.jsonl").exit_code == 0
    assert len((tmp_path / "pairs.jsonl").read_text().splitlines()) == 4
    for arguments in ((), (tmp_path / "folder", "--out", tmp_path / "pairs.jsonl")):
        result = invoke("tasks", "export", *arguments)
        assert result.exit_code == 2
        assert "either a folder" in result.stderr
    result = invoke("tasks", "export", "--out", tmp_path / "nowhere" / "pairs.parquet")
    assert (result.exit_code, "there is no folder" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["tasks", "show", "full:nothing"], "no such suite"),
        (["tasks", "show", "full", "--tokenizer", "/nowhere"], "--tokenizer /nowhere"),
        (["tasks", "show", "full", "--solution"], "--solution"),
        (["tasks", "show", "l1-softmax-00c0ffee12345678", "-n", "3"], "-n and --json"),
        (["tasks", "export", "--out", "pairs.csv"], "pairs.csv"),
        (["sft", "--data", "pairs.csv"], "--data pairs.csv"),
        (["sft", "--data", "kernelbook:/nowhere.parquet"], "/nowhere.parquet"),
        (["sft", "--against", "nothing"], "against = nothing"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments: list[str], named: str, tmp_path: Path) -> None:
    """What cannot be read or is no suite is said before anything long begins."""
    result = invoke(*arguments, *(["--out", tmp_path / "out"] if arguments[0] == "sft" else []))
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert named in result.stderr
    assert result.stdout == ""
