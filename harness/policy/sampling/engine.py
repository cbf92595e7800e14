"""Sampling completions: one interface, whatever the model and the device.

On a GPU, Llama- and Qwen2-type models are sampled by `continuous_batching`, with captured graphs and rows that are
refilled. Elsewhere all completions of a batch go in step, by the decoder that `cpu_decoder` chooses. Each completion
has its own seed, and draws its tokens by inverting the cumulative distribution at uniforms that depend on that seed and
the step alone. So a completion does not depend on which others are in the batch, but for floating-point noise in the
logits; the same call gives the same completions. What does not depend on the adapter is kept between calls (`cache`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
import torch

from ....core.recipe.learner import Completion, OnDrawn
from ..model.load import Policy
from . import cache, continuous_batching
from .cpu_decoder import follows_length, has_fused_form, make_decoder
from .kv_pool import draw, uniforms

MAX_SLOTS = 256
"""Completions in one batch; more only costs memory."""
MAX_ROWS = 1024
"""Completions at once on a GPU, if there is memory: reading the weights and launching is shared by more of them."""
COMPACTION_SHARE = 0.8
"""The batch is compacted when it would shrink to this share."""

Tokens = Sequence[int]


def sample(
    policy: Policy,
    prompts: Sequence[str],
    seeds: Sequence[int],
    *,
    temperature: float,
    top_p: float = 1.0,
    max_new_tokens: int = 512,
    on_progress: Callable[[int], None] | None = None,
    on_drawn: OnDrawn | None = None,
) -> list[Completion]:
    """One completion for each user message in `prompts`, drawn with the seed beside it.

    `on_drawn` is called with each completion as it ends, and the position of its prompt, `on_progress` with the number
    of those that have ended. A prompt given several times is read once.
    """
    done = count(1)

    def tell(number: int, tokens: list[int]) -> None:
        if on_drawn is not None:
            on_drawn(number, read_completion(policy, tokens))
        if on_progress is not None:
            on_progress(next(done))

    encoded = {prompt: policy.encode_prompt(prompt) for prompt in dict.fromkeys(prompts)}
    written = sample_tokens(
        policy,
        [encoded[prompt] for prompt in prompts],
        seeds,
        temperature=temperature,
        top_p=top_p,
        max_new_tokens=max_new_tokens,
        ends=policy.end_tokens,
        on_ended=tell,
    )
    return [read_completion(policy, tokens) for tokens in written]


@torch.inference_mode()
def sample_tokens(
    policy: Policy,
    prompts: Sequence[Tokens],
    seeds: Sequence[int],
    *,
    temperature: float,
    top_p: float = 1.0,
    max_new_tokens: int = 512,
    ends: frozenset[int] = frozenset(),
    max_slots: int | None = None,
    on_ended: continuous_batching.OnEnded = lambda *_: None,
) -> list[list[int]]:
    """`sample` in tokens: what follows each prompt, up to one of `ends`, that included, or to the limit."""
    if len(prompts) != len(seeds):
        raise ValueError(f"{len(prompts)} prompts but {len(seeds)} seeds")
    if not prompts:
        return []
    if not all(prompts):
        raise ValueError("a prompt without tokens has nothing that a completion could follow")
    policy.model.eval()
    request = continuous_batching.Request(
        prompts=prompts,
        seeds=seeds,
        ends=ends,
        temperature=temperature,
        top_p=top_p,
        max_new_tokens=max_new_tokens,
    )
    if has_fused_form(policy) and continuous_batching.can_capture(policy.base):
        from . import triton_ops  # triton, which only GPUs need

        model = cache.merge(policy)
        most_rows = max_slots or MAX_ROWS
        return continuous_batching.complete(
            model, triton_ops, request, most_rows=most_rows, captures=True, on_ended=on_ended, kept=policy.cache
        )
    return _complete_in_step(policy, request, max_slots or MAX_SLOTS, on_ended)


def _group(prompts: Sequence[Tokens]) -> list[list[int]]:
    """Row numbers that share a prompt, in order of first appearance; apart where sharing would leave many slots empty.

    All groups get as many slots as the largest has rows.
    """
    together: dict[tuple[int, ...], list[int]] = {}
    for row, prompt in enumerate(prompts):
        together.setdefault(tuple(prompt), []).append(row)
    groups = list(together.values())
    if len(groups) * max(map(len, groups)) > 1.25 * len(prompts):
        return [[row] for group in groups for row in group]
    return groups


def _complete_in_step(
    policy: Policy, request: continuous_batching.Request, max_slots: int, on_ended: continuous_batching.OnEnded
) -> list[list[int]]:
    """The tokens of each completion, batch by batch."""
    remaining = _group(request.prompts)
    size = max(map(len, remaining))
    take = max(1, max_slots // size)
    result: dict[int, list[int]] = {}
    lengths_differ = not follows_length(policy.base)
    if not lengths_differ:
        remaining.sort(key=lambda group: len(request.prompts[group[0]]))
    while remaining:
        lengths = [len(request.prompts[group[0]]) for group in remaining[:take]]
        end = len(lengths) if lengths_differ else lengths.count(lengths[0])
        groups, remaining = remaining[:end], remaining[end:]
        result |= _complete_batch(policy, request, groups, on_ended)
    return [result[row] for row in range(len(request.prompts))]


def _complete_batch(
    policy: Policy,
    request: continuous_batching.Request,
    groups: list[list[int]],
    on_ended: continuous_batching.OnEnded,
) -> dict[int, list[int]]:
    """The tokens of one batch of groups of row numbers."""
    samples, device, max_new_tokens = max(map(len, groups)), policy.device, request.max_new_tokens
    slots = [row for group in groups for row in (*group, *[-1] * (samples - len(group)))]
    decoder = make_decoder(policy, max_new_tokens)
    logits = decoder.prefill([request.prompts[group[0]] for group in groups], samples)
    streams = [uniforms(request.seeds[max(row, 0)], max_new_tokens) for row in slots]
    drawn = torch.from_numpy(np.stack(streams)).to(device)
    written: dict[int, list[int]] = {row: [] for row in slots if row >= 0}
    for step in range(max_new_tokens):
        chosen = draw(logits, drawn[:, step], request.temperature, request.top_p)
        for slot, token in enumerate(chosen.tolist()):
            row = slots[slot]
            if row < 0:
                continue
            written[row].append(token)
            if token in request.ends or step + 1 == max_new_tokens:
                slots[slot] = -1
                on_ended(row, written[row])
        if all(row < 0 for row in slots):
            break
        kept = _compaction(slots, samples)
        if kept is not None:
            groups_kept, slots_kept, slots = kept
            index = torch.tensor(slots_kept, device=device)
            decoder.keep(torch.tensor(groups_kept, device=device), index)
            drawn, chosen, samples = drawn[index], chosen[index], len(slots) // len(groups_kept)
        logits = decoder.step(chosen)
    return written


def _compaction(slots: list[int], samples: int) -> tuple[list[int], list[int], list[int]] | None:
    """Which groups and slots to keep, and the new slots; null while too few completions have ended."""
    alive = [
        [slot for slot in range(start, start + samples) if slots[slot] >= 0] for start in range(0, len(slots), samples)
    ]
    groups = [number for number, members in enumerate(alive) if members]
    width = max(map(len, alive))
    if len(groups) * width > COMPACTION_SHARE * len(slots):
        return None
    kept, rows = [], []
    for number in groups:
        members = alive[number]
        kept += members + [members[0]] * (width - len(members))
        rows += [slots[slot] for slot in members] + [-1] * (width - len(members))
    return groups, kept, rows


def read_completion(policy: Policy, tokens: list[int]) -> Completion:
    """Read tokens that were drawn as a completion; the end and special tokens are left out of the text."""
    finished = bool(tokens) and tokens[-1] in policy.end_tokens
    text = policy.tokenizer.decode(tokens[:-1] if finished else tokens, skip_special_tokens=True)
    return Completion(text=text, tokens=tuple(tokens), finished=finished)
