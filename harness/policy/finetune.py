"""Fine-tuning of a LoRA adapter on (prompt, answer) pairs: SFT, and the update of every RL round.

Decided here: the loss is the mean over the answers' tokens of a batch, their end token included; prompts carry none.
AdamW starts anew with each call, without weight decay; the learning rate warms up linearly and then falls linearly to
zero at the call's end. One seed decides the order of the pairs and the dropout, so that equal calls give equal
adapters, bit for bit on a CPU with the same number of threads.

A batch is laid out without padding: its pairs follow one another in one row, and attention takes each apart. Models
that `transformer` does not know go through their own forward pass, padded on the right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor
from torch.nn import functional

from .load import Policy
from .transformer import attend_causally, hidden_states, is_supported, rotary_tables

Pair = tuple[list[int], int]
"""Tokens of a prompt with its answer, and how many of them are the prompt's."""

MICROBATCH_TOKENS = 4096
"""Tokens that go through the model at once; a batch with more is cut, and its gradients are summed."""


@frozen(kw_only=True)
class LossPoint:
    """One optimizer step: the mean loss of the batch's answer tokens, and the tokens that were read."""

    step: int
    epoch: int
    loss: float
    learning_rate: float
    num_tokens: int


def encode_pairs(policy: Policy, pairs: Sequence[tuple[str, str]]) -> list[Pair]:
    """The tokens of each (user message, answer)."""
    encoded = []
    for prompt, answer in pairs:
        start = policy.encode_prompt(prompt)
        encoded.append((start + policy.encode_answer(answer), len(start)))
    return encoded


def learning_rate_share(step: int, num_steps: int, warmup_share: float) -> float:
    """The learning rate of a step (from 0) as a share of its peak: linear warm-up, then linear decay to zero."""
    warmup = round(num_steps * warmup_share)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return (num_steps - step) / (num_steps - warmup)


def _microbatches(pairs: list[Pair]) -> list[list[Pair]]:
    """The pairs in order, cut where the next one would exceed the tokens of a microbatch."""
    batches: list[list[Pair]] = [[]]
    room = MICROBATCH_TOKENS
    for pair in pairs:
        if batches[-1] and len(pair[0]) > room:
            batches.append([])
            room = MICROBATCH_TOKENS
        batches[-1].append(pair)
        room -= len(pair[0])
    return batches


def _packed_loss(policy: Policy, pairs: list[Pair], tables: tuple[Tensor, Tensor]) -> Tensor:
    """Summed loss of the answers' tokens; all pairs in one row."""
    model, device = policy.base, policy.device
    lengths = [len(tokens) for tokens, _ in pairs]
    tokens = torch.tensor([token for pair, _ in pairs for token in pair], device=device)
    positions = torch.cat([torch.arange(length) for length in lengths]).to(device)

    def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        parts = zip(*(torch.split(states, lengths, dim=2) for states in (queries, keys, values)), strict=True)
        return torch.cat([attend_causally(*part) for part in parts], dim=2)

    cosines, sines = (table[positions][None, None] for table in tables)
    hidden = hidden_states(model, tokens[None], cosines, sines, attend)[0]
    ends = torch.tensor(lengths).cumsum(0).tolist()
    starts = [end - length for end, length in zip(ends, lengths, strict=True)]
    answers = [torch.arange(start + prompt, end) for start, end, (_, prompt) in zip(starts, ends, pairs, strict=True)]
    targets = torch.cat(answers).to(device)
    logits = model.get_output_embeddings()(hidden.index_select(0, targets - 1))
    return functional.cross_entropy(logits.float(), tokens[targets], reduction="sum")


def _padded_loss(policy: Policy, pairs: list[Pair]) -> Tensor:
    """Summed loss of the answers' tokens by the model's own forward pass."""
    device, longest = policy.device, max(len(tokens) for tokens, _ in pairs)
    padding = policy.tokenizer.pad_token_id or 0
    rows = torch.tensor([tokens + [padding] * (longest - len(tokens)) for tokens, _ in pairs], device=device)
    mask = torch.tensor([[1] * len(tokens) + [0] * (longest - len(tokens)) for tokens, _ in pairs], device=device)
    answer = mask.bool()
    for row, (_, prompt) in enumerate(pairs):
        answer[row, :prompt] = False
    logits = policy.model(input_ids=rows, attention_mask=mask, use_cache=False).logits[:, :-1]
    return functional.cross_entropy(logits[answer[:, 1:]].float(), rows[:, 1:][answer[:, 1:]], reduction="sum")


def finetune(
    policy: Policy,
    pairs: Sequence[tuple[str, str]],
    *,
    epochs: int,
    learning_rate: float,
    batch_size: int,
    seed: int,
    warmup_share: float = 0.03,
    max_gradient_norm: float = 1.0,
    on_step: Callable[[LossPoint], None] | None = None,
) -> tuple[LossPoint, ...]:
    """Train the policy's adapter on (user message, answer) pairs in place; the loss of every step.

    No pairs is no step. Raises ValueError where the policy has no adapter.
    """
    if policy.lora is None:
        raise ValueError("the policy has no adapter to train; attach one first")
    encoded = encode_pairs(policy, pairs)
    weights = [weight for weight in policy.model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=learning_rate, weight_decay=0.0)
    generator = torch.Generator().manual_seed(seed % 2**63)
    batches = [
        (epoch, [encoded[number] for number in batch.tolist()])
        for epoch in range(epochs)
        for batch in torch.split(torch.randperm(len(encoded), generator=generator), batch_size)
        if len(batch)
    ]
    compute = _loss_function(policy, encoded)
    points = []
    policy.model.train()
    devices = [policy.device] if policy.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed % 2**63)
        for step, (epoch, batch) in enumerate(batches):
            rate = learning_rate * learning_rate_share(step, len(batches), warmup_share)
            for group in optimizer.param_groups:
                group["lr"] = rate
            num_answers, total = sum(len(tokens) - prompt for tokens, prompt in batch), 0.0
            for part in _microbatches(batch):
                loss = compute(part) / num_answers
                torch.autograd.backward(loss)
                total += float(loss.detach())
            torch.nn.utils.clip_grad_norm_(weights, max_gradient_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            num_tokens = sum(len(tokens) for tokens, _ in batch)
            points.append(LossPoint(step=step, epoch=epoch, loss=total, learning_rate=rate, num_tokens=num_tokens))
            if on_step is not None:
                on_step(points[-1])
    policy.model.eval()
    return tuple(points)


def _loss_function(policy: Policy, encoded: list[Pair]) -> Callable[[list[Pair]], Any]:
    """How a microbatch's summed loss is computed for this policy's model."""
    model = policy.base
    if not is_supported(model) or getattr(model, "is_quantized", False):
        return lambda part: _padded_loss(policy, part)
    longest = max((len(tokens) for tokens, _ in encoded), default=1)
    dtype = model.get_input_embeddings().weight.dtype
    tables = rotary_tables(model.config, longest, policy.device, dtype)
    return lambda part: _packed_loss(policy, part, tables)
