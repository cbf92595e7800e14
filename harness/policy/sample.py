"""Sampling completions for all tasks of a round in one batch.

Each completion has its own seed, and draws its tokens by inverting the cumulative distribution at uniforms that
depend on that seed and the step alone. So a completion does not depend on which others are in the batch, but for
floating-point noise in the logits; the same call gives the same completions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from attrs import frozen
from torch import Tensor

from .decoding import make_decoder
from .load import Policy

MAX_SLOTS = 256
"""Completions in one batch; more only costs memory."""
COMPACTION_SHARE = 0.8
"""The batch is compacted when it would shrink to this share."""


@frozen(kw_only=True)
class Completion:
    """One completion; `num_tokens` counts the end token, and `finished` says that there was one."""

    text: str
    num_tokens: int
    finished: bool


def uniforms(seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The first `count` numbers in [0, 1) of a seed's stream."""
    return np.random.Generator(np.random.Philox(key=seed % 2**64)).random(count)


def draw(logits: Tensor, uniform: Tensor, temperature: float, top_p: float) -> Tensor:
    """One token for each row of `logits`; temperature 0 takes the likeliest.

    `top_p` below 1 draws from the smallest set of likeliest tokens that holds this share of the probability.
    """
    if temperature == 0.0:
        return logits.argmax(dim=-1)
    probabilities = (logits.float() / temperature).softmax(dim=-1)
    order = None
    if top_p < 1.0:
        probabilities, order = probabilities.sort(dim=-1, descending=True, stable=True)
        before = probabilities.cumsum(dim=-1) - probabilities
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    cumulative = probabilities.cumsum(dim=-1)
    target = uniform.to(cumulative.dtype)[:, None] * cumulative[:, -1:]
    # the last token with any probability bounds the search: rounding must not select one without
    last = (cumulative < cumulative[:, -1:]).sum(dim=-1, keepdim=True)
    chosen = torch.searchsorted(cumulative, target, right=True).minimum(last)
    return (chosen if order is None else order.gather(-1, chosen))[:, 0]


def _group(prompts: Sequence[str]) -> list[list[int]]:
    """Row numbers that share a prompt, in order of first appearance; apart where sharing would leave many slots empty.

    All groups get as many slots as the largest has rows.
    """
    together: dict[str, list[int]] = {}
    for row, prompt in enumerate(prompts):
        together.setdefault(prompt, []).append(row)
    groups = list(together.values())
    if len(groups) * max(map(len, groups)) > 1.25 * len(prompts):
        return [[row] for group in groups for row in group]
    return groups


@torch.inference_mode()
def sample(
    policy: Policy,
    prompts: Sequence[str],
    seeds: Sequence[int],
    *,
    temperature: float,
    top_p: float = 1.0,
    max_new_tokens: int = 512,
    on_progress: Callable[[int], None] | None = None,
) -> list[Completion]:
    """One completion for each user message in `prompts`, drawn with the seed beside it.

    `on_progress` is called with the number of completions that have ended. A prompt given several times is read once.
    """
    if len(prompts) != len(seeds):
        raise ValueError(f"{len(prompts)} prompts but {len(seeds)} seeds")
    completions: dict[int, Completion] = {}
    remaining = _group(prompts) if prompts else []
    size = max(map(len, remaining), default=1)
    take = max(1, MAX_SLOTS // size)
    policy.model.eval()
    while remaining:
        groups, remaining = remaining[:take], remaining[take:]
        tokens = _complete(policy, prompts, seeds, groups, temperature, top_p, max_new_tokens, on_progress, completions)
        completions.update(tokens)
    return [completions[row] for row in range(len(prompts))]


def _complete(
    policy: Policy,
    prompts: Sequence[str],
    seeds: Sequence[int],
    groups: list[list[int]],
    temperature: float,
    top_p: float,
    max_new_tokens: int,
    on_progress: Callable[[int], None] | None,
    done: dict[int, Completion],
) -> dict[int, Completion]:
    """The completions of one batch of groups of row numbers."""
    samples, device = max(map(len, groups)), policy.device
    slots = [row for group in groups for row in (*group, *[-1] * (samples - len(group)))]
    decoder = make_decoder(policy, max_new_tokens)
    logits = decoder.prefill([policy.encode_prompt(prompts[group[0]]) for group in groups], samples)
    streams = torch.from_numpy(np.stack([uniforms(seeds[max(row, 0)], max_new_tokens) for row in slots])).to(device)
    ends = policy.end_tokens
    written: dict[int, list[int]] = {row: [] for row in slots if row >= 0}
    result: dict[int, Completion] = {}
    for step in range(max_new_tokens):
        chosen = draw(logits, streams[:, step], temperature, top_p)
        for slot, token in enumerate(chosen.tolist()):
            row = slots[slot]
            if row < 0:
                continue
            written[row].append(token)
            if token in ends or step + 1 == max_new_tokens:
                slots[slot] = -1
                result[row] = _finish(policy, written[row], token in ends)
                if on_progress is not None:
                    on_progress(len(done) + len(result))
        if all(row < 0 for row in slots):
            break
        kept = _compaction(slots, samples)
        if kept is not None:
            groups_kept, slots_kept, slots = kept
            index = torch.tensor(slots_kept, device=device)
            decoder.keep(torch.tensor(groups_kept, device=device), index)
            streams, chosen, samples = streams[index], chosen[index], len(slots) // len(groups_kept)
        logits = decoder.step(chosen)
    return result


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


def _finish(policy: Policy, tokens: list[int], finished: bool) -> Completion:
    """The completion that the tokens are; special tokens are left out of the text."""
    text = policy.tokenizer.decode(tokens, skip_special_tokens=True)
    return Completion(text=text, num_tokens=len(tokens), finished=finished)
