"""Training by several processes that `accelerate launch` or `torchrun` has started: who this one is, and sums over all.

Every process holds the model and the whole list of pairs, computes its share of each batch, and takes the same step
on the sum of all gradients. An adapter is small, so one sum of one buffer a step is enough; nothing has to be
wrapped. With the same batches, N processes take the steps that one takes, but for rounding and for dropout.

What the processes tell one another besides (`distributed_learner`) goes over a group of its own, on the CPU and without
a time limit: the first one verifies for as long as it takes, while the others wait for what comes next.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import cache
from typing import Any

import torch
from attrs import field, frozen
from torch import Tensor

from ...errors import TritonrlError

_PATIENCE = timedelta(days=30)


@frozen(kw_only=True)
class World:
    """This process's number among `size`."""

    rank: int = 0
    size: int = 1
    device: str | None = None
    _talk: Any = field(default=None, alias="talk", eq=False, repr=False)

    def add_up(self, numbers: Tensor) -> None:
        """Replace the numbers by their sum over all processes."""
        if self.size > 1:
            torch.distributed.all_reduce(numbers)

    def broadcast(self, message: Any) -> Any:
        """Returns process 0's message in every process; the others' own `message` is not looked at."""
        if self.size == 1:
            return message
        held = [message]
        torch.distributed.broadcast_object_list(held, src=0, group=self._talk, device=torch.device("cpu"))
        return held[0]

    def collect(self, part: Any) -> list[Any]:
        """Every process's `part`, in order, in process 0; nothing elsewhere."""
        if self.size == 1:
            return [part]
        parts: list[Any] | None = [None] * self.size if self.rank == 0 else None
        torch.distributed.gather_object(part, parts, dst=0, group=self._talk)
        return parts or []

    def slice_of(self, number: int) -> slice:
        """Which of so many items, in order, are this process's."""
        return slice(number * self.rank // self.size, number * (self.rank + 1) // self.size)


ALONE = World()


def is_launched() -> bool:
    """Whether a launcher has started several processes, this one among them."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_started_alone() -> bool:
    """Whether `accelerate launch` has started this process and no other.

    Without several GPUs it does so whatever number it was given, unless `--multi_gpu` is, and without a word.
    """
    return "ACCELERATE_MIXED_PRECISION" in os.environ and "WORLD_SIZE" not in os.environ


@cache
def join_world(cpu: bool = False) -> World:
    """The world that a launcher has made, or the one process; `cpu` leaves GPUs aside. Asked again, the same."""
    if not is_launched():
        return ALONE
    from accelerate import PartialState

    # without a GPU accelerate takes processes of torchrun for strangers unless it is told to stay on the CPU
    state: Any = PartialState(cpu=cpu or not torch.cuda.is_available())
    if state.num_processes != int(os.environ["WORLD_SIZE"]):
        raise TritonrlError(f"accelerate sees {state.num_processes} of {os.environ['WORLD_SIZE']} launched processes")
    talk = torch.distributed.new_group(backend="gloo", timeout=_PATIENCE)
    return World(rank=state.process_index, size=state.num_processes, device=str(state.device), talk=talk)


def leave_world() -> None:
    """End the processes' connection; without it torch complains when they exit."""
    join_world.cache_clear()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
