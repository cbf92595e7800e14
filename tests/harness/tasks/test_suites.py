"""Tasks by name: corpus ids, files in KernelBench's form, suites; and the settings of a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tritonrl.core.config import ConfigError
from tritonrl.core.corpus import Split, split_of
from tritonrl.harness.errors import TaskError, UsageError
from tritonrl.harness.settings import load_config, preset_names
from tritonrl.harness.tasks.suites import (
    corpus_examples,
    corpus_tasks,
    export_tasks,
    find_example,
    find_task,
    task_from_file,
)

HEADS = """
import torch
import torch.nn as nn

BATCH = 4096
WIDTH = 1024
HEADS = 16
AXIS = 1

class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        assert width % 8 == 0
        self.heads = heads

    def forward(self, x):
        return torch.softmax(x.view(x.shape[0], self.heads, -1), dim=AXIS)

def get_inputs():
    return [torch.rand(BATCH, WIDTH).half()]

def get_init_inputs():
    return [WIDTH, HEADS]
"""


def _write(folder: Path, text: str) -> Path:
    path = folder / "task.py"
    path.write_text(text)
    return path


def test_file_shrinks_as_far_as_its_reference_runs(tmp_path: Path) -> None:
    """Sizes bound to one another shrink to values at which the reference runs; constants that are no size stay."""
    task = task_from_file(_write(tmp_path, HEADS))
    small = dict(task.small)
    assert small["BATCH"] <= 48
    assert small["WIDTH"] <= 48
    assert small["WIDTH"] % 8 == 0
    assert "AXIS" not in small
    assert dict(task.larger)["BATCH"] > small["BATCH"]
    assert task.dtypes == ("float16",)


def test_products_at_a_files_top_level_are_sizes(tmp_path: Path) -> None:
    """A file's product or chain of assignments is varied as a number is; numbers inside its functions are not."""
    text = HEADS.replace("BATCH = 4096", "BATCH = SPARE = 2**12").replace("WIDTH = 1024", "WIDTH = 512 * 2")
    task = task_from_file(_write(tmp_path, text.replace("return [WIDTH,", "return [WIDTH + 4096 - 4096,")))
    small = dict(task.small)
    assert set(small) == {"BATCH", "WIDTH"}
    assert max(small.values()) <= 48


def test_file_identity_follows_its_text(tmp_path: Path) -> None:
    """Equal files have one id, and an edited file has another."""
    first = task_from_file(_write(tmp_path, HEADS)).task_id
    assert task_from_file(_write(tmp_path, HEADS)).task_id == first
    assert task_from_file(_write(tmp_path, HEADS + "\n# edited")).task_id != first


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("def f(:", "invalid syntax"),
        ("import nothing_like_this", "does not import"),
        ("X = 1", "defines no Model"),
        (HEADS.replace("torch.softmax(", "torch.no_such("), "running the reference failed"),
    ],
)
def test_unusable_file_is_a_task_error(text: str, match: str, tmp_path: Path) -> None:
    """A file that is no task is refused in one line that says why."""
    with pytest.raises(TaskError, match=match):
        find_task(str(_write(tmp_path, text)))


def test_unknown_names_are_usage_errors(tmp_path: Path) -> None:
    """A missing file, an unknown id and an unknown suite are each refused by name."""
    with pytest.raises(UsageError, match=r"missing\.py"):
        find_task(str(tmp_path / "missing.py"))
    with pytest.raises(UsageError, match="l9-nothing"):
        find_task("l9-nothing")
    with pytest.raises(UsageError, match="core13:heldout"):
        list(corpus_examples("core13:test", 0, 1))


def test_suite_is_of_its_split_and_ids_render_again() -> None:
    """A suite's tasks belong to its split, and each is found again by its id."""
    chosen = list(corpus_examples("core13:validation", 0, 3))
    assert len(chosen) == 6
    for example in chosen:
        assert split_of(example.task) is Split.VALIDATION
        assert find_example(example.task.task_id) == example


def test_export_writes_tasks_that_load_again(tmp_path: Path) -> None:
    """Exported files are tasks in KernelBench's form, and prompts.jsonl has a line for each."""
    assert export_tasks(tmp_path, corpus_tasks("core13:train", 0, 1)) == 2
    lines = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    for line in lines:
        assert find_task(str(tmp_path / f"{line['task']}.py")).source == find_task(line["task"]).source
        assert "ModelNew" in line["answer"]


def test_presets_are_shipped_and_valid() -> None:
    """Every preset is a configuration, and quick uses the simulated timing."""
    assert {"quick", "study"} <= set(preset_names())
    configs = {name: load_config(name) for name in preset_names()}
    assert configs["quick"].verifier.timing == "simulated"


def test_settings_override_file_overrides_preset(tmp_path: Path) -> None:
    """The later source wins: preset, then file, then single keys; a bad one is refused by name."""
    path = tmp_path / "c.toml"
    path.write_text("[rl]\nrounds = 5\nkeep = 2\n")
    config = load_config("quick", path, ["rl.rounds=7"])
    assert (config.rl.rounds, config.rl.keep) == (7, 2)
    assert config.rl.tasks_per_round == load_config("quick").rl.tasks_per_round
    with pytest.raises(UsageError, match="no such preset"):
        load_config("quik")
    with pytest.raises(UsageError, match="KEY=VALUE"):
        load_config(settings=["rl.rounds"])
    path.write_text("[rl]\nround = 1")
    with pytest.raises(ConfigError, match=r"c\.toml: unknown key: rl\.round \(did you mean rl\.rounds\?\)"):
        load_config("quick", path)
    with pytest.raises(ConfigError, match=r"rl\.round\b"):
        load_config(settings=["rl.round=1"])
