"""Pairs from files come back and bad rows are counted; tasks have the form of other tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import polars as pl
import pytest
from tritonrl.cli import app
from tritonrl.core.corpus import Split, tasks
from tritonrl.core.text.prompts import assistant_message, user_message
from tritonrl.harness.adapters.scorer import load_task
from tritonrl.harness.datasets.export import ROWS, export_pairs, export_problems, export_rows, with_init_pairs
from tritonrl.harness.datasets.kernelbench import read_kernelbench
from tritonrl.harness.datasets.pairs import (
    COLUMNS,
    Chosen,
    Flaw,
    PairFile,
    SourcePair,
    choose_pairs,
    open_pairs,
    read_line,
)
from tritonrl.harness.errors import UsageError
from tritonrl.harness.tasks.suites import corpus_examples, task_from_file
from typer.testing import CliRunner

from .made_up_pairs import make_row, write_parquet

TASKS = [*islice(tasks(Split.TRAIN, 1, 0), 2), *islice(tasks(Split.TRAIN, 2, 0), 2)]
TOOL_COLUMNS = {
    "trl": {"prompt", "task", "level", "family"},
    "verl": {"data_source", "prompt", "ability", "reward_model", "extra_info"},
    "verifiers": {"example_id", "prompt", "answer", "info"},
    "inspect": {"id", "input", "target", "metadata"},
}
ANSWER = "```python\nimport triton\n\n@triton.jit\ndef k(x):\n    pass\n\nclass ModelNew:\n    pass\n```"


def _choose(source: PairFile, number: int, **options: object) -> Chosen:
    return choose_pairs(source, number, range(len(source.rows)), lambda pairs: [True] * len(pairs), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["pairs.parquet", "pairs.jsonl"])
def test_an_export_is_read_back_as_it_was(tmp_path: Path, name: str) -> None:
    """Both forms give back the prompts and answers that training on the corpus would have."""
    examples = list(corpus_examples("full:train", 3, 20))
    assert export_pairs(tmp_path / name, examples, lambda _: None) == 40
    chosen = _choose(open_pairs(str(tmp_path / name)), 100)
    assert chosen.pairs == tuple((user_message(e.task), assistant_message(e.solution)) for e in examples)
    assert (chosen.num_rows, chosen.num_seen, chosen.left_out) == (40, 40, ())


def test_an_export_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    """Two exports of one seed are one file, byte for byte, and another seed's is another."""
    for form in ("parquet", "jsonl"):
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            export_pairs(tmp_path / f"{name}.{form}", corpus_examples("full:train", seed, 3), lambda _: None)
        first, second, third = ((tmp_path / f"{name}.{form}").read_bytes() for name in "abc")
        assert first == second != third


def test_a_parquet_export_has_kernelbooks_columns(tmp_path: Path) -> None:
    """The columns are there, and get_init_inputs() of the programs gives [args, kwargs]; they are still tasks."""
    path = tmp_path / "pairs.parquet"
    export_pairs(path, corpus_examples("full:train", 0, 2), lambda _: None)
    frame = pl.read_parquet(path)
    assert set(COLUMNS) <= set(frame.columns)
    for number, code in enumerate(frame["python_code"]):
        module: dict[str, object] = {}
        exec(code, module)
        args, kwargs = module["get_init_inputs"]()  # type: ignore[operator]
        assert (type(args), kwargs) == (list, {})
        (tmp_path / f"task{number}.py").write_text(code)
    assert task_from_file(tmp_path / "task0.py").source == frame["python_code"][0]


def test_only_the_returned_list_is_wrapped() -> None:
    """A program without the function, or with another kind of result, stays as it is."""
    source = "N = 4\n\n\ndef get_init_inputs():\n    return [N, [2,\n        3]]\n"
    assert with_init_pairs(source) == source.replace("[N, [2,\n        3]]", "[[N, [2,\n        3]], {}]")
    for other in ("x = [1]\n", "def get_init_inputs():\n    return {'n': 1}\n"):
        assert with_init_pairs(other) == other


def test_another_ending_is_refused(tmp_path: Path) -> None:
    """A file for pairs says by its name which form it has."""
    with pytest.raises(UsageError, match=r"\.parquet or \.jsonl"):
        export_pairs(tmp_path / "pairs.csv", [], lambda _: None)


def test_a_file_in_no_folder_is_refused(tmp_path: Path) -> None:
    """A mistyped folder is named, before anything is drawn for it, and not made."""
    for export in (
        lambda path, examples: export_pairs(path, examples, print),
        lambda path, tasks: export_rows(path, tasks, "trl"),
    ):
        with pytest.raises(UsageError, match=r"there is no folder .*nowhere$"):
            export(tmp_path / "nowhere" / "pairs.parquet", iter(()))
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("line", "flaw"),
    [
        ("{", Flaw.NO_OBJECT),
        ("[" * 100_000, Flaw.NO_OBJECT),
        ("[1]", Flaw.NO_OBJECT),
        (json.dumps({"prompt": "p"}), Flaw.NO_TEXT),
        (json.dumps({"prompt": "p", "answer": 3}), Flaw.NO_TEXT),
        (json.dumps({"prompt": "half a pair: \ud800", "answer": ANSWER}), Flaw.NO_TEXT),
        (json.dumps({"messages": "p"}), Flaw.NO_TURNS),
        (json.dumps({"messages": [{"role": "user", "content": "p"}]}), Flaw.NO_TURNS),
        (json.dumps({"messages": [{"role": "user"}, {"role": "assistant", "content": ANSWER}]}), Flaw.NO_TEXT),
        (json.dumps({"prompt": "p", "answer": "no code"}), Flaw.NO_SOLUTION),
        (json.dumps({"prompt": "p", "answer": "```python\nclass ModelNew(:\n```"}), Flaw.SOLUTION_SYNTAX),
        (
            json.dumps(
                {"prompt": "p", "answer": ANSWER.replace("import triton\n", f"import triton\nx = {'-' * 50_000}1\n")}
            ),
            Flaw.SOLUTION_SYNTAX,
        ),
        (json.dumps({"prompt": "p", "answer": "```python\nclass ModelNew: pass\n```"}), Flaw.NO_KERNEL),
    ],
)
def test_a_bad_line_has_a_reason(line: str, flaw: Flaw) -> None:
    """Whatever is wrong with a line of JSONL is said, and nothing is raised."""
    assert read_line(line) is flaw


def test_what_strings_hold_ends_no_line(tmp_path: Path) -> None:
    """A JSON string may hold characters that end a line of other text, written as they are."""
    line = json.dumps({"prompt": "one\u2028two\x85three", "answer": ANSWER}, ensure_ascii=False)
    other = line.replace("three", "four")
    (tmp_path / "pairs.jsonl").write_bytes(f"{line}\r\n\n{other}\n".encode())
    chosen = _choose(open_pairs(str(tmp_path / "pairs.jsonl")), 10)
    assert [prompt for prompt, _ in chosen.pairs] == ["one\u2028two\x85three", "one\u2028two\x85four"]


def test_rows_are_counted_by_their_flaws(tmp_path: Path) -> None:
    """Bad rows, repeated ones, and those that do not fit are left out and counted; the sound ones remain in order."""
    sound = [make_row(python_code=make_row()["python_code"].replace("[4, 8]", f"[{n}, 8]")) for n in (2, 3, 5)]
    rows = [sound[0], make_row(entry_point="Other"), sound[0], sound[1], make_row(triton_code=None), sound[2]]
    source = open_pairs(f"kernelbook:{write_parquet(tmp_path / 'rows.parquet', rows)}")
    chosen = choose_pairs(source, 10, range(6), lambda pairs: ["[3, 8]" not in prompt for prompt, _ in pairs])
    assert ["[2, 8]" in chosen.pairs[0][0], "[5, 8]" in chosen.pairs[1][0]] == [True, True]
    assert dict(chosen.left_out) == {Flaw.NO_TEXT: 1, Flaw.NO_REFERENCE: 1, Flaw.REPEATED: 1, Flaw.TOO_LONG: 1}
    assert (chosen.num_rows, chosen.num_seen, len(chosen.pairs)) == (6, 6, 2)


def test_no_more_rows_are_looked_at_than_needed() -> None:
    """Reading ends with the pair that was missing, and what is refused is replaced."""
    read: list[int] = []
    compared: list[str] = []

    def read_number(number: int) -> SourcePair:
        read.append(number)
        return SourcePair(prompt=f"p{number}", answer="a", reference=str(number))

    def compare(programs: Sequence[str]) -> list[Flaw | None]:
        compared.extend(programs)
        return [Flaw.SHARED if int(program) % 3 == 0 else None for program in programs]

    source = PairFile(name="numbers", rows=tuple(range(1000)), fingerprint="", read=read_number)
    chosen = _choose(source, 100, compare=compare)
    assert [prompt for prompt, _ in chosen.pairs] == [f"p{n}" for n in range(200) if n % 3][:100]
    assert dict(chosen.left_out) == {Flaw.SHARED: 50}
    assert read == list(range(150))
    assert compared == [str(number) for number in read]


@pytest.mark.parametrize("form", ROWS)
def test_a_row_has_its_tools_columns_and_names_its_task(form: str) -> None:
    """The request is there, as chat messages where the tool takes them, and the id leads back to the task."""
    task = TASKS[0]
    row = ROWS[form](TASKS[0], 3)
    assert row.keys() == TOOL_COLUMNS[form]
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
    assert export_problems(tmp_path, TASKS) == 4
    with pytest.raises(UsageError, match="another problem of that number"):
        export_problems(tmp_path, TASKS[::-1])


@pytest.mark.parametrize(
    "arguments", [("--format", "trl"), ("--format", "kernelbench", "--out", "x.jsonl"), ("--format", "csv", "x"), ()]
)
def test_where_a_format_goes_is_told(arguments: tuple[str, ...]) -> None:
    """A file for a folder, a folder for a file, neither, and an unknown format are usage errors."""
    result = CliRunner().invoke(app, ["tasks", "export", *arguments], prog_name="tritonrl")
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
