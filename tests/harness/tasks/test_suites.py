"""Tasks by name: corpus ids, files, suites; the settings of a command; and which tasks are refused."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from attrs import evolve
from tritonrl.core.candidate import Variant
from tritonrl.core.config import ConfigError
from tritonrl.core.corpus import ALL_FAMILIES, SUITES, Split, examples, split_of
from tritonrl.core.task import SUITES as NAMES
from tritonrl.core.task import Task
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
from tritonrl.harness.tasks.validation import _is_idle, validate_task
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.stages.variants import describe

from ..kernels import ADD, LINEAR, NORM, POINTWISE

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


def test_suites_are_those_that_have_names() -> None:
    """The names that a command checks without reading the corpus are those of its suites."""
    assert tuple(SUITES) == NAMES


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
    with pytest.raises(UsageError, match=r"no such preset \(did you mean quick\?\); there are"):
        load_config("quik")
    with pytest.raises(UsageError, match="KEY=VALUE"):
        load_config(settings=["rl.rounds"])
    path.write_text("[rl]\nround = 1")
    with pytest.raises(ConfigError, match=r"c\.toml: unknown key: rl\.round \(did you mean rl\.rounds\?\)"):
        load_config("quick", path)
    with pytest.raises(ConfigError, match=r"rl\.round\b"):
        load_config(settings=["rl.round=1"])


def binary(expression: str) -> Task:
    """The sum of two vectors with another expression."""
    return evolve(ADD, task_id="unsound", source=ADD.source.replace("x + y", expression))


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("x + y * 0 + 1e-6 * y", "the result hardly depends on input 1"),
        ("torch.relu(x) * 2 + 1e-7 * y", "the result hardly depends on input 1"),
        ("100.0 + 1e-3 * x * y", "the result's mean would be accepted"),
        ("torch.sigmoid(1e-4 * x * y)", "the result's mean would be accepted"),
        ("(x * y).clamp(-1e-9, 1e-9) + 1.0", "ones would be accepted"),
        ("x + 0 * y", "does not depend on input 1"),
        ("torch.where(y.abs() > 50, x * 2, x)", "input 0 itself would be accepted"),
        ("torch.where(x > 90, x, 3.0 + 0 * y)", "returns a constant"),
        ("torch.log(x - 100) + y", "NaN"),
    ],
)
def test_unsound_tasks_are_named(verifier: Verifier, expression: str, problem: str) -> None:
    """Each is refused with its own reason on every training variant that shows it."""
    problems = validate_task(verifier, binary(expression))
    assert any(problem in line for line in problems), problems


@pytest.mark.parametrize("task", [ADD, LINEAR, NORM, POINTWISE], ids=lambda task: task.family)
def test_sound_tasks_have_no_problem(verifier: Verifier, task: Task) -> None:
    """Sums, products, norms and functions depend on all that they are given."""
    assert validate_task(verifier, task) == ()


def test_a_number_that_comes_out_alike_once_is_no_weakness(verifier: Verifier) -> None:
    """A mean depends on each input, although another draw of one happens to give nearly the same mean."""
    task = binary("torch.mean((x - y) ** 2) * 92.0")
    assert _is_idle(verifier.context.oracle, task, describe(Variant.ORIGINAL, task.dtypes), 1)
    assert validate_task(verifier, task) == ()


@pytest.mark.parametrize("level", [1, 2])
def test_the_corpus_is_sound(verifier: Verifier, level: int) -> None:
    """A task of each family has no problem."""
    for example in islice(examples(Split.TRAIN, level, 4, ALL_FAMILIES[level]), len(ALL_FAMILIES[level])):
        assert validate_task(verifier, example.task) == (), example.task.task_id
