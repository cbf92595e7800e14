"""Which tasks of one suite are tasks of another: by what they compute, not by names and constants."""

from __future__ import annotations

from pathlib import Path

import pytest
from tritonrl.cli import app
from tritonrl.core.corpus import is_novel, split_of
from tritonrl.core.task import Task
from tritonrl.harness.errors import TaskError
from tritonrl.harness.reference.graph.operation_trace import fingerprint_task, trace_graph
from tritonrl.harness.tasks.decontamination import TracedTasks, find_shared, trace_suite, trace_tasks
from tritonrl.harness.tasks.suites import corpus_examples
from typer.testing import CliRunner, Result

GATED = """
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 64
WIDTH = 32

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, 48)
        self.weight = nn.Parameter(torch.ones(48))

    def forward(self, x):
        return F.relu(self.layer(x)) * self.weight + 0.5

def get_inputs():
    return [torch.rand(ROWS, WIDTH)]

def get_init_inputs():
    return []
"""

REWORDED = """
import torch
from torch import nn

N, K, M = 7, 20, 11

class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(outer, inner))
        self.shift = nn.Parameter(torch.zeros(outer))
        self.gain = nn.Parameter(torch.ones(outer))
        self.act = nn.ReLU(inplace=True)

    def forward(self, batch):
        hidden = self.shift + torch.matmul(batch, self.matrix.t())
        return torch.add(2.0, self.gain * self.act(hidden))

def get_inputs():
    return [torch.rand(N, K)]

def get_init_inputs():
    return [K, M]
"""


def _task(source: str, name: str = "made-up") -> Task:
    return Task(task_id=name, level=2, family="file", description="made up", source=source)


def _forward(expression: str, inputs: str = "torch.rand(6, 5, 4)") -> Task:
    """A task of one expression in x, without parameters."""
    return _task(
        f"""
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def forward(self, x):
        return {expression}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
    )


def test_a_reworded_task_with_other_constants_is_the_same() -> None:
    """A layer, a function and a method, other names, sizes and numbers: one graph."""
    assert fingerprint_task(_task(GATED)) == fingerprint_task(_task(REWORDED))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("F.relu(", "F.gelu("),
        ("* self.weight", "+ self.weight"),
        ("* self.weight", "* x.mean()"),
        ("F.relu(self.layer(x)) * self.weight", "F.relu(self.layer(x) * self.weight)"),
        ("+ 0.5", ""),
        ("WIDTH, 48)", "WIDTH, 48, bias=False)"),
    ],
)
def test_another_operation_or_connection_is_another_task(old: str, new: str) -> None:
    """Another function, operand, order or layer is another graph."""
    assert old in GATED
    assert fingerprint_task(_task(GATED.replace(old, new))) != fingerprint_task(_task(GATED))


SAME = [
    ("x * 2.0", "x / 3.0"),
    ("F.relu(x)", "torch.clamp(x, min=0.5)"),
    ("F.hardtanh(x)", "torch.clamp(x, -0.1, 0.7)"),
    ("F.leaky_relu(x, 0.1)", "F.leaky_relu(x, 0.2)"),
    ("x.sum(-1)", "x.sum(2, keepdim=True)"),
    ("x - x.mean(1, keepdim=True)", "x - torch.mean(x, dim=-2).unsqueeze(1)"),
    ("F.max_pool1d(x, 2)", "F.max_pool1d(x, 3, stride=1, padding=1)"),
    ("F.silu(x)", "torch.sigmoid(x) * x"),
    ("x.transpose(0, 1).transpose(0, 1).exp()", "x.exp()"),
    ("F.softmax(x, dim=1)", "nn.Softmax(1)(x)"),
]

OTHER = [
    ("F.relu(x)", "F.gelu(x)"),
    ("F.gelu(x)", "F.gelu(x, approximate='tanh')"),
    ("F.relu(x)", "F.relu6(x)"),
    ("x.sum(-1)", "x.sum(-2)"),
    ("x.sum(-1)", "x.sum()"),
    ("x - x.mean(1, keepdim=True)", "x - x.mean(2, keepdim=True)"),
    ("x.exp() + x", "x.exp() * x"),
    ("F.smooth_l1_loss(x, x * x)", "F.smooth_l1_loss(x, x * x, reduction='sum')"),
    ("F.max_pool1d(x, 2)", "F.avg_pool1d(x, 2)"),
    ("torch.cumsum(x, 1)", "torch.cumsum(x.flip(1), 1)"),
    ("x.norm(dim=1)", "x.norm(p=1, dim=1)"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_constants_and_wording_do_not_count(one: str, other: str) -> None:
    """Slopes, bounds, windows, strides, padding and the way that an operation is called leave the graph alone."""
    assert fingerprint_task(_forward(one)) == fingerprint_task(_forward(other, "torch.rand(9, 8, 7)"))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_operations_dimensions_and_modes_count(one: str, other: str) -> None:
    """Another operation, dimension, named mode or clamped side is another graph."""
    assert fingerprint_task(_forward(one)) != fingerprint_task(_forward(other))


def test_a_tensor_written_in_place_has_a_new_value() -> None:
    """What reads a tensor after a step wrote into it reads the step's result."""
    written = "(lambda y: y.exp_().add_(y))(x.clone())"
    assert fingerprint_task(_forward(written)) == fingerprint_task(_forward("x.exp() + x.exp()"))
    assert fingerprint_task(_forward(written)) != fingerprint_task(_forward("x.exp() + x"))


def test_a_reference_that_does_not_run_is_listed() -> None:
    """A task whose reference fails is a task error, and among the untraced ones of its suite."""
    broken = _forward("x @ x.exp().no_such()")
    with pytest.raises(TaskError, match="made-up: running the reference failed"):
        trace_graph(broken)
    counts: list[int] = []
    traced = trace_tasks([broken, _task(GATED, "gated")], on_done=counts.append)
    assert counts == [1, 2]
    assert [name for name, _ in traced.hashes] == ["gated"]
    assert [entry.name for entry in traced.untraced] == ["made-up"]
    assert "no_such" in traced.untraced[0].reason


def test_shared_tasks_come_with_all_their_equals() -> None:
    """A task is shared with each that has its graph, and one that has no equal is not named."""
    first = trace_tasks([_task(GATED, "gated"), _task(GATED.replace("relu", "gelu"), "with gelu")])
    second = trace_tasks([_task(REWORDED, "reworded"), _task(GATED, "copied")])
    (shared,) = find_shared(first, second)
    assert (shared.task, shared.others) == ("gated", ("reworded", "copied"))
    assert "matmul" in shared.graph


@pytest.fixture(scope="module")
def trained() -> TracedTasks:
    """A small draw of the training tasks, from every family at Level 1."""
    return trace_suite("full:train", num=40)


def test_novel_tasks_share_no_graph_with_training_tasks(trained: TracedTasks) -> None:
    """A draw of full:unseen holds held-out tasks alone, none of which a draw of full:train has."""
    examples = list(corpus_examples("full:unseen", 0, 10))
    assert {split_of(example.task).value for example in examples} == {"heldout"}
    assert all(is_novel(example.task) for example in examples)
    novel = trace_tasks(example.task for example in examples)
    assert (len(novel.hashes), novel.untraced) == (20, ())
    assert find_shared(novel, trained) == ()


def test_novel_tasks_of_the_field_are_held_out_too() -> None:
    """Of Levels 1 and 2; Level 3 has none."""
    found = [example.task for example in corpus_examples("field:unseen", 0, 8)]
    assert [task.level for task in found] == [1] * 8 + [2] * 8
    assert all(is_novel(task) and split_of(task).value == "heldout" for task in found)


def test_held_out_tasks_of_the_first_part_do_share_graphs(trained: TracedTasks) -> None:
    """Where the split is by size, a held-out Level 1 task has equals for training, which is what full:unseen is for."""
    heldout = trace_suite("core13:heldout", num=9)
    assert any(shared.task.startswith("l1-") for shared in find_shared(heldout, trained))


def _validate(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["tasks", "validate", *map(str, arguments)], prog_name="tritonrl")


def test_command_exits_1_where_tasks_are_shared() -> None:
    """A suite against itself: every task is named with its equal, on stdout."""
    result = _validate("--suite", "core13:heldout", "--against", "core13:heldout", "-n", 2)
    assert result.exit_code == 1
    assert result.stdout.count("shared ") == 4
    assert "4 of 4 tasks of core13:heldout equal one of 4 of core13:heldout" in result.stdout


def test_command_exits_0_where_none_is(tmp_path: Path) -> None:
    """A task of one's own against a suite: compared with so many tasks of it as --against-num says."""
    path = tmp_path / "task.py"
    path.write_text(GATED)
    result = _validate(path, "--against", "core13:train", "--against-num", 3)
    assert result.exit_code == 0
    assert "0 of 1 tasks of those named equal one of 6 of core13:train" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--against", "core13:novel"), "no such suite"),
        (("--suite", "nothing", "--against", "core13:train", "-n", 1), "no such suite"),
        (("--against-num", 3), "Name it with --against"),
    ],
)
def test_command_refuses_what_is_no_suite(arguments: tuple[object, ...], complaint: str) -> None:
    """A name that is no suite's, or a number without one, is one line and exit 2."""
    result = _validate(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
