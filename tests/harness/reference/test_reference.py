"""A reference that fails is one error, and no traceback besides."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from tritonrl.core.task import Profile, Task
from tritonrl.harness.errors import TaskError
from tritonrl.harness.reference.reference import call_model, draw_inputs, fake_reference, load_task

SOURCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x @ x[:, :3]


def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What torch logs of fake tensors."""
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger, handler = logging.getLogger("torch._subclasses.fake_tensor"), Keep()
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


def make(source: str) -> Task:
    """A made-up task."""
    return Task(task_id="made-up", level=1, family="made-up", description="made up", source=source)


def test_a_reference_that_fails_is_not_logged(logged: list[logging.LogRecord]) -> None:
    """Wherever it fails on fake tensors; what others do with fake tensors is logged as ever."""
    task = make(SOURCE)
    with (
        pytest.raises(TaskError, match="running the reference failed"),
        fake_reference(task, Profile.DECLARED, "float32") as (model, inputs),
    ):
        call_model(task, model, inputs)
    task = make(SOURCE.replace("torch.randn(4, 8)", "torch.randn(4, 8) @ torch.randn(4, 8)"))
    with pytest.raises(TaskError, match=r"get_inputs\(\) failed"), FakeTensorMode():
        draw_inputs(task, load_task(task, Profile.DECLARED), None)
    assert logged == []
    with pytest.raises(RuntimeError), FakeTensorMode():
        torch.randn(4, 8) @ torch.randn(4, 8)
    assert logged != []
