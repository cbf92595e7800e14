"""`tritonrl verify`: one object for one candidate, and batches of which no bad line costs another its verdict."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tritonrl.core.corpus import Split, examples
from tritonrl.core.verdict import Verdict
from tritonrl.harness.tasks.batch import in_order, read_batch

from .command import invoke

EXAMPLE = next(iter(examples(Split.TRAIN, 1, 0, families=("softmax",))))
TASK = EXAMPLE.task.task_id
BROKEN = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
KEYS = {"task", "candidate", "backend", "stages", "reached", "valid", "compiled", "correct", "speedup", "reward"}
KEYS |= {"torch_operators", "declared", "seed"}


def test_verify_accepts_a_teacher_as_one_json_object(tmp_path: Path) -> None:
    """A correct candidate gives exit 0 and exactly the object of the contract on stdout."""
    (tmp_path / "kernel.py").write_text(EXAMPLE.solution)
    result = invoke("verify", tmp_path / "kernel.py", "--task", TASK, "--json")
    assert result.exit_code == 0
    plain = json.loads(result.stdout)
    assert set(plain) == KEYS
    assert [stage["stage"] for stage in plain["stages"]] == ["ast", "compile", "tiny", "full", "timing"]
    assert all(set(stage) == {"stage", "outcome", "passed", "seconds", "message"} for stage in plain["stages"])
    assert (plain["correct"], plain["speedup"], plain["reward"], plain["reached"]) == (True, None, 0.7, "timing")
    assert plain["torch_operators"] == 0


def test_verify_draws_a_seed_where_none_is_named(tmp_path: Path) -> None:
    """Each call has a seed of its own and says so; one that is named, in whichever way, is used."""
    (tmp_path / "kernel.py").write_text("no kernel")
    (tmp_path / "config.toml").write_text("[verifier]\nseed = 12")

    def seed_of(*arguments: object) -> int:
        result = invoke("verify", tmp_path / "kernel.py", "--task", TASK, "--extensions", "s", *arguments, "--json")
        return int(json.loads(result.stdout)["seed"])

    assert len({seed_of(), seed_of(), seed_of("--preset", "quick"), 0}) == 4
    assert seed_of("--set", "verifier.seed=34") == 34
    assert seed_of("--config", tmp_path / "config.toml") == 12
    text = invoke("verify", tmp_path / "kernel.py", "--task", TASK, "--set", "verifier.seed=56").stdout
    assert "seed 56" in text


def test_verify_batch_answers_in_order(tmp_path: Path) -> None:
    """A batch gives a line a candidate in the order of the file, and exit 1 where one is rejected."""
    (tmp_path / "kernel.py").write_text(EXAMPLE.solution)
    lines = [BROKEN, EXAMPLE.solution, "kernel.py", ""]
    batch = tmp_path / "batch.jsonl"
    batch.write_text("\n".join(json.dumps({"task": TASK, "candidate": text}) for text in lines))
    result = invoke("verify", "--batch", batch, "--extensions", "s", "--json")
    assert result.exit_code == 1
    verdicts = [json.loads(line) for line in result.stdout.splitlines()]
    assert [verdict["correct"] for verdict in verdicts] == [False, True, True, False]
    assert verdicts[1]["candidate"] == verdicts[2]["candidate"]
    assert verdicts[0]["stages"][1]["outcome"] == "not_run"
    assert [verdict["line"] for verdict in verdicts] == [1, 2, 3, 4]


def test_a_batch_has_a_line_for_each_line_feed(tmp_path: Path) -> None:
    """What else ends lines of text may stand in a candidate as it is; a line that nests too deep is named."""
    batch = tmp_path / "batch.jsonl"
    entry = json.dumps({"task": TASK, "candidate": "x = '\u2028'\n"}, ensure_ascii=False)
    batch.write_bytes(f"{entry}\n\n{entry}".encode())
    bad: list[str] = []
    assert [source for *_, source in read_batch(batch, bad.append)] == ["x = '\u2028'\n"] * 2
    batch.write_text("[" * 100_000)
    assert read_batch(batch, bad.append) == []
    assert len(bad) == 1
    assert "batch.jsonl:1: not JSON" in bad[0]


WITHOUT_NAMES = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x + 1.0

def get_inputs():
    return [torch.randn({0}, {1})]

def get_init_inputs():
    return []
"""
FIXED = """
import torch
import triton
import triton.language as tl

@triton.jit
def add_one(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + 1.0)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        add_one[(64,)](x, out, BLOCK=128)
        return out
"""


def test_a_task_whose_sizes_cannot_be_varied_is_told(tmp_path: Path) -> None:
    """A kernel for one size passes where sizes have no names, with a word; where they have, it is refused."""
    (tmp_path / "fixed.py").write_text(FIXED)
    (tmp_path / "plain.py").write_text(WITHOUT_NAMES.format(64, 128))
    (tmp_path / "named.py").write_text("M = 64\nN = 128\n" + WITHOUT_NAMES.format("M", "N"))
    result = invoke("verify", tmp_path / "fixed.py", "--task", tmp_path / "plain.py", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["correct"]
    assert "no size can be varied" in result.stderr
    result = invoke("verify", tmp_path / "fixed.py", "--task", tmp_path / "named.py", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["reached"] == "tiny"
    assert result.stderr == ""


def test_a_batch_line_that_names_no_file_of_its_folder_is_an_error_of_that_line(tmp_path: Path) -> None:
    """NUL, half a surrogate pair, a pipe and a file elsewhere are told with the line, and the others are read."""
    folder = tmp_path / "batch"
    folder.mkdir()
    (tmp_path / "elsewhere.py").write_text("secret")
    (folder / "here.py").write_text("x = 1\n")
    os.mkfifo(folder / "pipe.py")
    (folder / "link.py").symlink_to(tmp_path / "elsewhere.py")
    names = ["a\0.py", "\ud83d.py", "pipe.py", "../elsewhere.py", str(tmp_path / "elsewhere.py"), "link.py", "no.py"]
    entries = [{"task": TASK, "candidate": name} for name in (*names, "here.py")]
    tasks = ["a\0b", "\ud83d", "a\0.py", "pipe.py", "\x1b[31m"]
    entries += [{"task": task, "candidate": "x = 1\n"} for task in tasks]
    batch = folder / "batch.jsonl"
    batch.write_text("\n".join(map(json.dumps, entries)))
    bad: list[str] = []
    (found,) = read_batch(batch, bad.append)
    assert (found[0], found[2]) == (8, "x = 1\n")
    assert [line.split(":")[1] for line in bad] == [str(at) for at in (*range(1, 8), *range(9, 14))]
    assert all(line.isprintable() and "secret" not in line for line in bad)
    assert "outside" in bad[3]
    assert "outside" in bad[5]


def test_an_unordered_batch_tells_each_verdicts_line(tmp_path: Path) -> None:
    """With --unordered a verdict has the number of its line, bad ones counted."""
    batch = tmp_path / "batch.jsonl"
    batch.write_text("not JSON\n" + "\n".join(json.dumps({"task": TASK, "candidate": text}) for text in ("1", "2")))
    result = invoke("verify", "--batch", batch, "--extensions", "s", "--json", "--unordered")
    assert sorted(json.loads(line)["line"] for line in result.stdout.splitlines()) == [2, 3]
    assert result.exit_code == 2


def test_a_batch_without_a_candidate_is_refused(tmp_path: Path) -> None:
    """No candidate is not the same as none that is wrong; and a file that is missing is named with its line."""
    batch = tmp_path / "batch.jsonl"
    batch.write_text("\n")
    assert invoke("verify", "--batch", batch).exit_code == 2
    batch.write_text("\ufeff" + json.dumps({"task": TASK, "candidate": "missing.py"}))
    result = invoke("verify", "--batch", batch)
    assert result.exit_code == 2
    assert "batch.jsonl:1: " in result.stderr
    assert "missing.py" in result.stderr


def test_a_bad_line_leaves_the_rest_of_a_batch(tmp_path: Path) -> None:
    """A malformed line, an unknown task and a missing file are named with their numbers; the others get verdicts."""
    batch = tmp_path / "batch.jsonl"
    good = json.dumps({"task": TASK, "candidate": BROKEN})
    unknown, missing = ({"task": "l1-nothing", "candidate": BROKEN}, {"task": TASK, "candidate": "missing.py"})
    batch.write_text("\n".join([good, "{}", json.dumps(unknown), json.dumps(missing), "{", good]))
    result = invoke("verify", "--batch", batch, "--extensions", "s", "--json")
    assert result.exit_code == 2
    assert [json.loads(line)["line"] for line in result.stdout.splitlines()] == [1, 6]
    assert [line.split(":")[2] for line in result.stderr.splitlines() if "batch.jsonl" in line] == ["2", "3", "4", "5"]
    assert "l1-nothing" in result.stderr
    assert "missing.py" in result.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"task": "t"', r"not JSON: Expecting ',' delimiter: line 1 column 13"),
        ('{"task": "t"}', 'missing key: candidate; a line is {"task": "...", "candidate": "..."}'),
        ('{"candidate": "c"}', "missing key: task"),
        ('{"task": 3, "candidate": "c"}', "task: expected text, got 3"),
        ('["t", "c"]', """a line is {"task": "...", "candidate": "..."}, and not ['t', 'c']"""),
    ],
)
def test_a_bad_line_is_told_by_what_is_wrong_with_it(line: str, words: str, tmp_path: Path) -> None:
    """What is no JSON, lacks a key or has a value of another kind has an error of its own, which names the key."""
    batch, bad = tmp_path / "batch.jsonl", list[str]()
    batch.write_text(line)
    assert read_batch(batch, bad.append) == []
    assert bad[0].startswith(f"{batch}:1: {words}")


def test_a_reference_that_fails_leaves_the_rest_of_a_batch(tmp_path: Path) -> None:
    """Its lines are errors with their number, and the other lines get their verdicts."""
    task = "import torch\nimport torch.nn as nn\n\nN = 64\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
    task += "        return x @ {other}\n\n\ndef get_inputs():\n    return [torch.randn(N, 4)]\n\n\n"
    task += "def get_init_inputs():\n    return []\n"
    (tmp_path / "bad.py").write_text(task.format(other="torch.ones(5, 4)"))
    names = ["bad.py", TASK, "bad.py", TASK]
    batch = tmp_path / "batch.jsonl"
    batch.write_text("\n".join(json.dumps({"task": name, "candidate": ""}) for name in names))
    result = invoke("verify", "--batch", batch, "--extensions", "s", "--json")
    assert result.exit_code == 2
    assert [json.loads(line)["task"] for line in result.stdout.splitlines()] == [TASK, TASK]
    problems = [line for line in result.stderr.splitlines() if "bad.py" in line or "batch.jsonl" in line]
    assert [problem.split(":")[2] for problem in problems] == ["1", "3"]


def test_verdicts_are_shown_in_order_as_they_come() -> None:
    """One that comes early waits for those before it, and what is known is shown before the last has come."""
    shown: list[str] = []
    verdicts = [Verdict(task_id=str(number), candidate="c", backend="b", stages=()) for number in range(4)]
    receive = in_order(lambda _, verdict: shown.append(verdict.task_id))
    for number, wanted in ((2, ""), (0, "0"), (1, "012"), (3, "0123")):
        receive(number, verdicts[number])
        assert "".join(shown) == wanted
