"""Exams taken in parts, read as one."""

from __future__ import annotations

import json
from pathlib import Path

from attrs import evolve
from tritonrl.harness.evaluation.finished import read_parts

from .test_evaluation import CORPUS, Room, invoke, without_times


def test_parts_of_an_exam_are_read_as_one(tmp_path: Path) -> None:
    """Parts taken one by one have the rows of the whole, and `--read` prints them together."""
    whole = Room(root=tmp_path / "whole").sit(CORPUS)
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder, picks in zip(folders, ((0, 2), (1, 3)), strict=True):
        Room(root=folder).sit(evolve(CORPUS, picks=picks))
    assert without_times(read_parts(folders).frame) == without_times(whole.frame)
    told = json.loads(invoke("--read", folders[0], "--read", folders[1], "--json").stdout)
    assert told["rates"] == json.loads(invoke("--read", tmp_path / "whole", "--json").stdout)["rates"]
    assert told["rates"][0]["num_tasks"] == 4


def test_exams_that_are_not_parts_of_one_are_refused(tmp_path: Path) -> None:
    """Other settings, the same tasks twice, an unfinished exam and further options end in one line each."""
    Room(root=tmp_path / "a").sit(evolve(CORPUS, picks=(0,)))
    Room(root=tmp_path / "b").sit(evolve(CORPUS, picks=(1,)), adapter="another")
    for folders, words in (
        (["a", "b"], "exam.adapter: None -> 'another'"),
        (["a", "a"], "the same tasks in two of them"),
        (["nothing"], "no finished exam there"),
    ):
        result = invoke(*(part for folder in folders for part in ("--read", tmp_path / folder)))
        assert (result.exit_code, words in result.stderr) == (2, True)
    result = invoke("--read", tmp_path / "a", "--limit", 3)
    assert (result.exit_code, "leave out --limit" in result.stderr) == (2, True)
