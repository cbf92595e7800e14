"""Completing any number of prompts in a bounded number of slots: rows that end make room for those that wait.

The GPU is looked at once in some steps only, since each look costs the time of a launch queue that runs dry. What a
row writes past its end until then is thrown away, so a completion is what it would be alone.

Slots of the call before are used again where they are large enough (`cache`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from attrs import define, frozen

from .cache import SamplerCache, free_bytes
from .fused_model import FusedModel
from .kv_pool import Drawing, Sizes, Slots, Start, uniforms

STEPS_PER_LOOK = 8
REFILL_SHARE = 8
"""New prompts are read when one in this many slots is free, because reading few takes as long as reading many."""
MEMORY_SHARE = 0.7
"""Of the memory that is free, for keys and values."""


OnEnded = Callable[[int, list[int]], None]
"""Called with the number of a prompt and the tokens that have been drawn for it."""


@frozen(kw_only=True)
class Request:
    """Prompts as tokens, a seed for each, and how to sample."""

    prompts: Sequence[Sequence[int]]
    seeds: Sequence[int]
    ends: frozenset[int]
    temperature: float
    top_p: float
    max_new_tokens: int


@define
class _Residents:
    """Which prompts are in the pool, where, and how many live rows use each."""

    free: list[int]
    places: dict[tuple[int, ...], int]
    users: dict[tuple[int, ...], int]

    def enter(self, prompt: tuple[int, ...]) -> bool:
        """Count one user more; whether the prompt still has to be read."""
        is_new = prompt not in self.places
        if is_new:
            self.places[prompt] = self.free.pop()
        self.users[prompt] = self.users.get(prompt, 0) + 1
        return is_new

    def leave(self, prompt: tuple[int, ...]) -> None:
        """Count one user less; the last gives up the place."""
        self.users[prompt] -= 1
        if not self.users[prompt]:
            self.free.append(self.places.pop(prompt))


def can_capture(model: Any) -> bool:
    """Whether the model is where kernels and graphs work: whole on one GPU, in a floating-point type, not quantized."""
    weight = model.get_input_embeddings().weight
    devices = {parameter.device for parameter in model.parameters()}
    return weight.is_cuda and len(devices) == 1 and weight.is_floating_point() and torch.version.hip is None


def choose_sizes(model: FusedModel, request: Request, most_rows: int, room: float) -> Sizes:
    """As many rows as are asked for, wanted, and fit into `room`, which is in bytes."""
    longest = max(map(len, request.prompts))
    per_token = 2 * len(model.layers) * model.num_kv_heads * model.size * model.embedding.element_size()
    affordable = room // (per_token * (longest + request.max_new_tokens))
    rows = max(1, int(min(most_rows, len(request.prompts), affordable)))
    prompts = min(rows, len({tuple(prompt) for prompt in request.prompts}))
    return Sizes(rows=rows, prompts=prompts, prompt_tokens=longest, new_tokens=request.max_new_tokens)


def _open_slots(
    model: FusedModel,
    operations: ModuleType,
    request: Request,
    most_rows: int,
    captures: bool,
    kept: SamplerCache | None,
) -> tuple[Slots, Sizes]:
    """Slots for a request, kept ones where they will do, and the sizes that the request makes use of."""
    drawing = Drawing(ends=request.ends, temperature=request.temperature, top_p=request.top_p)
    sizes = choose_sizes(model, request, most_rows, math.inf)
    slots = None if kept is None else kept.take()
    if slots is not None and slots.sizes.hold(sizes):
        slots.serve(drawing, sizes.rows)
        return slots, sizes
    past = None if slots is None else slots.sizes
    # before memory is looked at
    del slots
    room = MEMORY_SHARE * free_bytes(model.device) if model.device.type == "cuda" else math.inf
    sizes = choose_sizes(model, request, most_rows, room)
    made = Slots(model, operations, sizes if kept is None else kept.plan(sizes, past, room), drawing, captures=captures)
    made.serve(drawing, sizes.rows)
    return made, sizes


# graphs that outlive a call must be captured out of inference mode: the first one's capture makes tensors for torch's
# generator, which training's graphs write to out of it
@torch.inference_mode(False)
@torch.no_grad()
def complete(
    model: FusedModel,
    operations: ModuleType,
    request: Request,
    *,
    most_rows: int,
    captures: bool,
    on_ended: OnEnded,
    kept: SamplerCache | None = None,
) -> list[list[int]]:
    """The tokens of each completion, its end token included; `on_ended` hears of each as it ends.

    `kept` lends the slots of the call before, which must have had the same `model`, `operations` and `captures`.
    """
    slots, sizes = _open_slots(model, operations, request, most_rows, captures, kept)
    prompts = [tuple(prompt) for prompt in request.prompts]
    first: dict[tuple[int, ...], int] = {}
    for number, prompt in enumerate(prompts):
        first.setdefault(prompt, number)
    # completions of one prompt one after the other, so that it is read once
    waiting = deque(sorted(range(len(prompts)), key=lambda number: (first[prompts[number]], number)))
    residents = _Residents(free=list(range(sizes.prompts)), places={}, users={})
    vacant, live, written = list(range(sizes.rows))[::-1], dict[int, int](), dict[int, int]()
    result: list[list[int]] = [[] for _ in prompts]
    while waiting or live:
        starts, unread = [], []
        may_read = len(vacant) * REFILL_SHARE >= sizes.rows
        while waiting and vacant and (may_read or prompts[waiting[0]] in residents.places):
            number, row = waiting.popleft(), vacant.pop()
            prompt = prompts[number]
            if residents.enter(prompt):
                unread.append(prompt)
            live[row], written[row] = number, 0
            stream = uniforms(request.seeds[number], sizes.new_tokens)
            place = residents.places[prompt]
            starts.append(Start(row=row, prompt=place, length=len(prompt), token=prompt[-1], uniforms=stream))
        if starts:
            slots.read(unread, [residents.places[prompt] for prompt in unread])
            slots.begin(starts)
        rows = sorted(live)
        steps = min(STEPS_PER_LOOK, sizes.new_tokens - min(written[row] for row in rows))
        ended = dict(zip(rows, slots.advance(rows, steps), strict=True))
        for row in rows:
            written[row] += steps
        over = [row for row in rows if ended[row] or written[row] >= sizes.new_tokens]
        for row, tokens in zip(over, slots.take(over) if over else (), strict=True):
            number = live.pop(row)
            result[number] = tokens[: ended[row] or sizes.new_tokens]
            residents.leave(prompts[number])
            vacant.append(row)
            on_ended(number, result[number])
    if kept is not None:
        kept.put_back(slots)
    return result
