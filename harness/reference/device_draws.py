"""Inputs that are drawn where they are used: on a GPU in a moment, and never in the host's memory.

The judge's oracle and an executor's process draw the same values from the same seed, so that gigabytes need not travel.
A program that cannot draw on the device draws on the processor, in both.
"""

from __future__ import annotations

from typing import Any

import torch
from attrs import frozen

from ...core.task import Profile, Task
from ..errors import TaskError
from .reference import alone_with_generators, draw_inputs, is_floating, load_task, torch_dtype


@frozen(kw_only=True)
class DrawnInputs:
    """A task's inputs at its declared sizes: by whom they are drawn does not matter."""

    task: Task
    dtype: str
    seed: int


def draw_on_device(drawn: DrawnInputs, device: str) -> list[Any]:
    """Draw the inputs on a device, floating ones in the dtype; raises TaskError."""
    module = load_task(drawn.task, Profile.DECLARED)
    with alone_with_generators():
        try:
            with torch.device(device):
                if torch.device(device).type == "cuda":
                    torch.cuda.manual_seed(drawn.seed)
                values = draw_inputs(drawn.task, module, drawn.seed)
        except TaskError:
            values = draw_inputs(drawn.task, module, drawn.seed)
    return [_place(value, device, torch_dtype(drawn.dtype)) for value in values]


def _place(value: Any, device: str, dtype: torch.dtype) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    placed = value.to(device)
    return placed.to(dtype) if is_floating(placed) else placed
