"""What all draws of an input have alike is kept in the values of every variant, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tritonrl.core.task import Task
from tritonrl.harness.reference.experiments import find_structures
from tritonrl.harness.reference.oracle import Oracle
from tritonrl.harness.reference.values import restore
from tritonrl.harness.tasks.suites import task_from_file
from tritonrl.stages.variants import VARIANTS, describe

TASKS = Path(__file__).parents[2] / "genuine" / "tasks"
HEAD = "import torch\nimport torch.nn as nn\n\nROWS = 64\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
TAIL = "        return x * 2.0\n\n\ndef get_inputs():\n    return [{}]\n\n\ndef get_init_inputs():\n    return []\n"


@pytest.mark.parametrize(
    ("drawn", "found"),
    [
        ("torch.tril(torch.randn(ROWS, ROWS))", ("zeros",)),
        ("torch.randn(ROWS, ROWS) * torch.eye(ROWS)", ("zeros", "symmetric")),
        ("(lambda a: a + a.T)(torch.randn(ROWS, ROWS))", ("symmetric",)),
        ("torch.randint(0, 2, (ROWS, 8)) * 2.0 - 1.0", ("two values",)),
        ("torch.relu(torch.randn(ROWS, 8))", ()),
        ("torch.randn(ROWS, ROWS)", ()),
        ("torch.ones(ROWS, 8)", ()),
        ("torch.zeros(ROWS, 8)", ()),
        ("torch.randint(0, 3, (ROWS, 8)).float()", ()),
    ],
)
def test_two_draws_show_what_all_have_alike(drawn: str, found: tuple[str, ...]) -> None:
    """Zeros that lie elsewhere in the next draw, and one value alone, are no structure."""
    task = Task(task_id="drawn", level=1, family="", description="", source=HEAD + TAIL.format(drawn))
    assert find_structures(task, (1, 2)) == ({0: found} if found else {})


@pytest.mark.parametrize("name", ["triangular_product", "symmetric_product", "loss_of_truth_values"])
def test_hidden_values_keep_it(name: str) -> None:
    """Of a triangular matrix, a symmetric one and truth values, under every hidden variant."""
    task, oracle = task_from_file(TASKS / f"{name}.py"), Oracle(5)
    for variant in (row.variant for row in VARIANTS if row.group in ("training", "hidden")):
        first, second = oracle.expected(task, describe(variant, task.dtypes)).inputs
        assert first is not None
        assert second is not None
        if name == "triangular_product":
            assert not first.tril(-1).any(), variant
            assert not second.tril(-1).any(), variant
        elif name == "symmetric_product":
            torch.testing.assert_close(first, first.mT, rtol=0.0, atol=0.0, equal_nan=True)
        else:
            assert {*second.unique().tolist()} == {0.0, 1.0}, variant


def test_layouts_stay() -> None:
    """What is restored lies in memory as it did; where several elements are one in memory, it stays as it is."""
    drawn = torch.triu(torch.randn(6, 6)).T
    changed = drawn.clone() + 1.0
    restore([drawn], [changed], {0: ("zeros",)})
    assert changed.stride() == drawn.stride() == (1, 6)
    assert torch.equal(changed == 0, drawn == 0)
    expanded = torch.ones(1, 6).expand(6, 6)
    restore([drawn], [expanded], {0: ("zeros",)})
    assert bool((expanded == 1).all())
