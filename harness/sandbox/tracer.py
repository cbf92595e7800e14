"""In the tracing child: hash the operation graph of a program that nobody has read.

A data set's references come from all over the world. They are run to be compared with a suite's, so they run where
candidates do: confined, for seconds, without a network. A child meets one program and nothing else.
"""

from __future__ import annotations

from typing import Any

import torch

from ...core.task import Task
from ..errors import TaskError
from ..reference.graph.operation_trace import fingerprint_task
from .wire import Answer, Perform

_WARM_UP = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x):
        return torch.relu(self.layer(x))

def get_inputs():
    return [torch.rand(4, 3)]
"""


def prepare() -> Perform:
    """Warm what is slow the first time, and return what a child performs."""
    torch.set_num_threads(1)

    def perform(request: dict[str, Any], blobs: list[bytes], folder: str) -> Answer:
        task = Task(task_id="program", level=1, family="", description="", source=request["source"])
        try:
            return {"graph": fingerprint_task(task)}, []
        except TaskError:
            return {}, []

    perform({"source": _WARM_UP}, [], "")
    return perform
