"""The cache of the sampler between calls, and when it is given up.

A cell samples some ten times and trains in between, each time with another adapter. All else stays: the tensors of
merged weights, the pool of keys and values, and the graphs that were captured over both. So they are kept with the
policy, and a call writes base plus its adapter's delta into the same tensors, always from the model's own weights,
which nothing is ever added to: what is merged is what a new copy would hold, bit for bit, in whatever order adapters
come. Nothing of a call decides what the next computes: rows are used, and graphs chosen, as if the pool were made for
the call.

It is kept while it is small (`KEPT_SHARE` of the GPU's memory, or of the part that the process may use; `KEPT_BYTES`
elsewhere): the weights alone where the pool is too large, nothing where they are. Several processes may share a GPU.
`release` gives all of it up. Training does so where it needs the memory (`finetune`): before long runs, beside which
capturing anew does not count, and where little is free.
"""

from __future__ import annotations

from typing import Any

import torch
from attrs import define, evolve

from ..model.load import Policy
from .fused_model import FusedModel
from .kv_pool import Sizes, Slots

KEPT_SHARE = 0.1
"""Of the GPU memory that the process may use, for weights and pool between calls."""
KEPT_BYTES = 1 << 30
"""Between calls on a CPU, where merging is all that is spared."""
FREE_SHARE = 0.25
"""Of the GPU memory that the process may use, which must be free for training, or else what is kept is given up."""
PROMPT_GRAIN = 256
"""Room for a prompt is rounded up to so many tokens, since every round's longest is another."""


@define
class SamplerCache:
    """Fused weights, and the slots that the last call used, null where they are too large or in use."""

    model: FusedModel
    slots: Slots | None = None

    def take(self) -> Slots | None:
        """The slots; whoever takes them puts them back, or they are gone, as they are if a call fails."""
        slots, self.slots = self.slots, None
        return slots

    def put_back(self, slots: Slots) -> None:
        """Keep the slots for the next call, if they are small."""
        if self.model.num_bytes + slots.num_bytes <= most_bytes(self.model.device):
            self.slots = slots

    def plan(self, needed: Sizes, past: Sizes | None, room: float) -> Sizes:
        """The sizes to make slots of: `needed`, and what the last ones had, if that may be kept and fits `room`."""
        tokens = -(-needed.prompt_tokens // PROMPT_GRAIN) * PROMPT_GRAIN
        grown = evolve(needed, prompt_tokens=tokens)
        if past is not None and past.new_tokens == needed.new_tokens:
            grown = Sizes(
                rows=max(past.rows, needed.rows),
                prompts=max(past.prompts, needed.prompts),
                prompt_tokens=max(past.prompt_tokens, tokens),
                new_tokens=needed.new_tokens,
            )
        size = grown.num_bytes(self.model)
        fits = size <= room and self.model.num_bytes + size <= most_bytes(self.model.device)
        return grown if fits else needed


def most_bytes(device: torch.device) -> int:
    """The bytes that may be kept between calls."""
    return KEPT_BYTES if device.type != "cuda" else int(KEPT_SHARE * _usable_bytes(device))


def free_bytes(device: torch.device) -> int:
    """The bytes of a GPU that this process could still use, those that its allocator holds in reserve included."""
    used = torch.cuda.memory_allocated(device)
    unused = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - used
    return int(min(unused, _usable_bytes(device) - used))


def _usable_bytes(device: torch.device) -> float:
    """A GPU's memory, or the part of it that was given to this process."""
    total = torch.cuda.get_device_properties(device).total_memory
    return float(total * torch.cuda.get_per_process_memory_fraction(device))


def merge(policy: Policy) -> FusedModel:
    """The policy's fused weights with its present adapter merged into them: those that are kept, or new ones."""
    kept: SamplerCache | None = policy.cache
    if kept is not None and kept.model.is_of(policy.base):
        kept.model.fill(policy.base)
        return kept.model
    release(policy)
    model = FusedModel(policy.base)
    if model.num_bytes <= most_bytes(model.device):
        policy.cache = SamplerCache(model)
    return model


def release(policy: Policy) -> None:
    """Give up all that sampling keeps; the next call makes it anew."""
    policy.cache = None


def free_for_training(policy: Policy, is_long: bool) -> None:
    """Give up what sampling keeps on a GPU before a training that is long, or where little memory is free."""
    device: Any = policy.device
    if policy.cache is None or device.type != "cuda":
        return
    if is_long or free_bytes(device) < FREE_SHARE * _usable_bytes(device):
        release(policy)
