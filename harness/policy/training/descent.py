"""The optimizer's loop, whatever is learned: gradients of a batch, summed over processes, clipped, and one AdamW step.

Gradients of all trained weights lie in one stretch of memory: what captured graphs add to, what one call sets to zero,
and what several processes sum up; figures of the step, its loss first, are its end. Weights in bfloat16 would lose the
small steps of an optimizer and the small terms of a sum: they have a float32 master each, and what a microbatch adds is
added up in float32 before the next. Figures are read one step late, so that a GPU has work while the CPU waits for one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from attrs import evolve, frozen
from torch import Tensor, nn

from ....core.recipe.learner import OnStep, TrainingStep
from ...errors import DivergedError
from .distributed import World


class Gradients:
    """The weights' gradients as parts of one tensor `flat`, whose last numbers are `sums`; the first is the loss.

    `masters` are what an optimizer moves: the weights themselves where they are float32.
    """

    def __init__(self, weights: Sequence[Tensor], num_sums: int = 1) -> None:
        sizes = [weight.numel() for weight in weights]
        device, dtype = weights[0].device, weights[0].dtype
        self.weights = list(weights)
        self.flat = torch.zeros(sum(sizes) + num_sums, dtype=torch.float32, device=device)
        *parts, self.sums = torch.split(self.flat, [*sizes, num_sums])
        self.low: Tensor | None = None
        self.masters = self.weights
        if dtype != torch.float32:
            self.low = torch.zeros(sum(sizes), dtype=dtype, device=device)
            _assign(self.weights, torch.split(self.low, sizes))
            self.masters = [nn.Parameter(weight.detach().float()) for weight in weights]
        _assign(self.masters, parts)

    @property
    def loss(self) -> Tensor:
        return self.sums[0]

    def clear(self) -> None:
        self.flat.zero_()

    def gather(self) -> None:
        """Add what a microbatch has left in the weights' own precision to the float32 sums."""
        if self.low is not None:
            self.flat[: self.low.numel()].add_(self.low)
            self.low.zero_()

    def publish(self) -> None:
        """Write the masters, which the optimizer has moved, into the weights."""
        if self.low is not None:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, self.masters)

    def keep(self) -> list[tuple[Tensor, Tensor]]:
        """Copies of what has been added up, to be restored after a run that is not to count."""
        return [(stretch, stretch.clone()) for stretch in (self.flat, self.low) if stretch is not None]

    def release(self) -> None:
        """Take the gradients away from the weights."""
        for weight in (*self.weights, *self.masters):
            weight.grad = None


def _assign(weights: Sequence[Tensor], parts: Sequence[Tensor]) -> None:
    for weight, part in zip(weights, parts, strict=True):
        weight.grad = part.view_as(weight)


@frozen(kw_only=True)
class Batch:
    """What one step is made of; `add` adds this process's share of its gradients and sums."""

    learning_rate: float
    num_tokens: int
    add: Callable[[], None]


def make_optimizer(gradients: Gradients) -> torch.optim.Optimizer:
    """AdamW over the masters, without weight decay; each batch has its own learning rate."""
    return torch.optim.AdamW(gradients.masters, lr=0.0, weight_decay=0.0, fused=True)


def save_moments(optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Write what the optimizer knows of its steps, so that `load_moments` goes on with it."""
    from safetensors.torch import save_file

    states = optimizer.state_dict()["state"]
    found = {
        f"{number}.{name}": value.detach().cpu() for number, state in states.items() for name, value in state.items()
    }
    save_file({name: value.contiguous() for name, value in sorted(found.items())}, path)


def load_moments(optimizer: torch.optim.Optimizer, path: Path) -> int:
    """Go on with the moments of a file, where it is there; returns how many steps they are of."""
    from safetensors.torch import load_file

    if not path.is_file():
        return 0
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in load_file(path).items():
        number, _, name = key.partition(".")
        states.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
    return int(states[0]["step"]) if states else 0


def descend(
    batches: Sequence[Batch],
    gradients: Gradients,
    optimizer: torch.optim.Optimizer,
    world: World,
    max_gradient_norm: float,
    on_step: OnStep | None,
) -> tuple[TrainingStep, ...]:
    """Take a step for each batch; raises DivergedError after one whose loss or gradient is no finite number."""
    late: list[tuple[Tensor, TrainingStep]] = []
    points: list[TrainingStep] = []

    def report(upto: int) -> None:
        while len(late) > upto:
            numbers, point = late.pop(0)
            norm, loss, *sums = numbers.tolist()
            if not math.isfinite(loss) or not math.isfinite(norm):
                place = f"step {point.num_done} of {len(batches)}"
                rate = f"at a learning rate of {point.learning_rate:.2g}"
                raise DivergedError(f"training diverged: loss {loss:.3g}, gradient {norm:.3g} in {place} {rate}")
            points.append(evolve(point, loss=loss, gradient_norm=norm, sums=tuple(sums)))
            if on_step is not None:
                on_step(points[-1])

    for number, batch in enumerate(batches, start=1):
        for group in optimizer.param_groups:
            group["lr"] = batch.learning_rate
        gradients.clear()
        batch.add()
        world.add_up(gradients.flat)
        norm = torch.nn.utils.clip_grad_norm_(gradients.masters, max_gradient_norm)
        optimizer.step()
        gradients.publish()
        point = TrainingStep(num_done=number, loss=0.0, learning_rate=batch.learning_rate, num_tokens=batch.num_tokens)
        late.append((torch.cat((norm[None], gradients.sums)), point))
        report(upto=1)
    report(upto=0)
    gradients.release()
    return tuple(points)
