"""Tasks in other tools' forms: their columns, a task that is found again, and problems that read back."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import polars as pl
import pytest
from tritonrl.cli import app
from tritonrl.core.corpus import Split, tasks
from tritonrl.core.text.prompts import user_message
from tritonrl.harness.adapters.scorer import load_task
from tritonrl.harness.datasets.export import ROWS, export_problems, export_rows
from tritonrl.harness.datasets.kernelbench import read_kernelbench
from tritonrl.harness.errors import UsageError
from typer.testing import CliRunner

TASKS = [*islice(tasks(Split.TRAIN, 1, 0), 2), *islice(tasks(Split.TRAIN, 2, 0), 2)]
COLUMNS = {
    "trl": {"prompt", "task", "level", "family"},
    "verl": {"data_source", "prompt", "ability", "reward_model", "extra_info"},
    "verifiers": {"example_id", "prompt", "answer", "info"},
    "inspect": {"id", "input", "target", "metadata"},
}


@pytest.mark.parametrize("form", ROWS)
def test_a_row_has_its_tools_columns_and_names_its_task(form: str) -> None:
    """The request is there, as chat messages where the tool takes them, and the id leads back to the task."""
    task = TASKS[0]
    row = ROWS[form](TASKS[0], 3)
    assert row.keys() == COLUMNS[form]
    messages = [{"role": "user", "content": user_message(task)}]
    assert row.get("prompt", messages) == messages
    assert row.get("input", user_message(task)) == user_message(task)
    named = {
        "trl": lambda: row["task"],
        "verl": lambda: row["reward_model"]["ground_truth"],
        "verifiers": lambda: row["answer"],
        "inspect": lambda: row["target"],
    }
    assert load_task(named[form]()) == task


@pytest.mark.parametrize("form", ROWS)
def test_both_kinds_of_file_hold_the_same_rows(form: str, tmp_path: Path) -> None:
    """JSONL and Parquet read back as the rows that were written; another ending is refused."""
    rows = [ROWS[form](task, number) for number, task in enumerate(TASKS)]
    for name in ("rows.jsonl", "rows.parquet"):
        assert export_rows(tmp_path / name, TASKS, form) == len(rows)
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == rows
    assert pl.read_parquet(tmp_path / "rows.parquet").to_dicts() == rows
    with pytest.raises(UsageError, match=r"rows\.csv"):
        export_rows(tmp_path / "rows.csv", TASKS, form)


def test_problems_read_back_as_kernelbenchs(tmp_path: Path) -> None:
    """Each level is a folder whose files are numbered from 1, and what is read is the reference program."""
    assert export_problems(tmp_path, TASKS) == 4
    problems, skipped = read_kernelbench(str(tmp_path))
    assert not skipped
    assert [(problem.level, problem.number) for problem in problems] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert [problem.code.strip() for problem in problems] == [task.source.strip() for task in TASKS]


@pytest.mark.parametrize(
    "arguments", [("--format", "trl"), ("--format", "kernelbench", "--out", "x.jsonl"), ("--format", "csv", "x"), ()]
)
def test_where_a_format_goes_is_told(arguments: tuple[str, ...]) -> None:
    """A file for a folder, a folder for a file, neither, and an unknown format are usage errors."""
    result = CliRunner().invoke(app, ["tasks", "export", *arguments], prog_name="tritonrl")
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
