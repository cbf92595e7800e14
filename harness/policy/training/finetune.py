"""Fine-tuning on (prompt, answer) pairs, of a LoRA adapter or of all weights: SFT, and best-of-n's updates.

Decided here: the loss is the mean over the answers' tokens of a batch, their end token included; prompts carry none.
AdamW starts anew with each call, without weight decay; the learning rate warms up linearly and then falls linearly to
zero at the call's end. One seed decides the order of the pairs and the dropout, so that equal calls give equal
adapters, bit for bit on a CPU with the same number of threads.

Where the time goes, and what is done about it: padding (a batch's pairs follow one another in one row, `packing`, and
attention keeps them apart, `transformer`); the many small operations of LoRA (`fused_lora`); logits of prompts and
gradients of logits (`chunked_loss`); waiting for the GPU, whose losses are read one step late; and launching a few
thousand small kernels a step, which a captured graph does at once (`cuda_graphs`). The model computes in its own dtype,
bfloat16 on a GPU; adapter, gradients and optimizer are float32 (`descent`). Layers are computed a second time for their
gradients where their activations would not fit (`MEMORY_SHARE`), compiled where enough tokens follow
(`COMPILED_FROM_TOKENS`), and steps captured where enough do (`CAPTURED_FROM_TOKENS`, `CAPTURED_FROM_USES`). Models that
`transformer` does not know go through their own forward pass, padded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch
from attrs import frozen
from torch import Tensor
from torch.nn import functional

from ....core.recipe.learner import OnStep, TrainingStep
from ..model.fused_lora import project_together
from ..model.load import Policy
from ..model.transformer import (
    Attend,
    attend_within,
    has_kernel,
    hidden_states,
    is_supported,
    layer_states,
    rotary_tables,
)
from ..sampling.cache import free_for_training
from .chunked_loss import answer_loss
from .cuda_graphs import GRAIN, StaticSteps, even_weights
from .descent import Batch, Gradients, descend, make_optimizer
from .distributed import ALONE, World
from .packing import Pair, cut, join, share

CPU_TOKENS = 4096
"""Tokens that go through the model at once on a CPU; a batch with more is cut, and its gradients are summed."""
GPU_TOKENS = 16_384
"""The same on a GPU, if they fit: launching takes as long for few as for many."""
MEMORY_SHARE = 0.25
"""Of a GPU's memory, for what layers keep for their gradients."""
COMPILED_FROM_TOKENS = 60_000_000
"""Compiling a layer takes some ten seconds, in which a small model reads a million tokens."""
CAPTURED_FROM_TOKENS = 150_000
"""Capturing takes a few tenths of a second for each of a few sizes of batches."""


@frozen(kw_only=True)
class Execution:
    """How a model is run in training; changes nothing but speed, memory and rounding.

    `scoring_tokens` go through the model at once where no gradients follow, for which nothing is kept.
    """

    microbatch_tokens: int
    scoring_tokens: int = CPU_TOKENS
    recompute: bool = False
    compile: bool = False
    capture: bool = False


def encode_pairs(policy: Policy, pairs: Sequence[tuple[str, str]]) -> list[Pair]:
    """The tokens of each (user message, answer)."""
    return [(prompt + answer, len(prompt)) for prompt, answer in policy.encode_pairs(pairs)]


def learning_rate_share(step: int, num_steps: int, warmup_share: float) -> float:
    """The learning rate of a step (from 0) as a share of its peak: linear warm-up, then linear decay to zero."""
    warmup = round(num_steps * warmup_share)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return (num_steps - step) / (num_steps - warmup)


def choose_execution(policy: Policy, num_tokens: int) -> Execution:
    """How to train on `num_tokens` in all: decided by model and device alone, so that equal runs compute alike."""
    device, config = policy.device, policy.base.config
    if device.type != "cuda":
        return Execution(microbatch_tokens=CPU_TOKENS)
    # a process that was given a part of the GPU keeps to it
    share = MEMORY_SHARE * torch.cuda.get_per_process_memory_fraction(device)
    element = policy.base.get_input_embeddings().weight.element_size()
    a_layer = (12 * config.hidden_size + 5 * getattr(config, "intermediate_size", 4 * config.hidden_size)) * element
    room = share * torch.cuda.get_device_properties(device).total_memory
    kept = config.num_hidden_layers * a_layer
    recompute = kept * CPU_TOKENS > room
    if recompute:
        kept = config.num_hidden_layers * config.hidden_size * element + 2 * a_layer
    is_plain = not getattr(policy.base, "is_quantized", False)
    dtype = policy.base.get_input_embeddings().weight.dtype
    return Execution(
        microbatch_tokens=max(1024, min(GPU_TOKENS, int(room / kept))),
        scoring_tokens=max(1024, min(GPU_TOKENS, int(room / (2 * a_layer)))),
        recompute=recompute,
        compile=num_tokens >= COMPILED_FROM_TOKENS and is_plain,
        capture=num_tokens >= CAPTURED_FROM_TOKENS and is_plain and not recompute and has_kernel(device, dtype),
    )


def _again(*arguments: Any) -> Tensor:
    """`layer_states`, whose activations are computed a second time for the gradients."""
    from torch.utils.checkpoint import checkpoint

    result: Tensor = checkpoint(layer_states, *arguments, use_reentrant=False)
    return result


class PackedLoss:
    """The summed loss of the answers' tokens of some pairs, all of them in one row."""

    def __init__(self, policy: Policy, longest: int, execution: Execution) -> None:
        self.policy, self.longest = policy, longest
        self.dtype = policy.base.get_input_embeddings().weight.dtype
        self.tables = rotary_tables(policy.base.config, longest, policy.device, self.dtype)
        self.run: Callable[..., Tensor] = _again if execution.recompute else layer_states
        if execution.compile:
            self.run = torch.compile(self.run, dynamic=True)

    def __call__(self, pairs: Sequence[Pair]) -> Tensor:
        """Summed loss of a microbatch."""
        return answer_loss(*self.states(pairs), self.head)

    def states(self, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
        """The final hidden states (answers, size) that the answers' tokens (answers,) follow."""
        device = self.policy.device
        row = join(pairs)
        tokens, positions = torch.tensor([row.tokens, row.positions]).to(device)
        answers = torch.tensor(row.answers).to(device)
        hidden = self.hidden(tokens, positions, attend_within(row.lengths, device, self.dtype, self.longest))
        return hidden.index_select(0, answers - 1), tokens[answers]

    @property
    def head(self) -> Tensor:
        """The weights that make logits of hidden states."""
        weight: Tensor = self.policy.base.get_output_embeddings().weight
        return weight

    def hidden(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Final hidden states (tokens, size) of one row."""
        cosines, sines = (table[positions][None, None] for table in self.tables)
        return hidden_states(self.policy.base, tokens[None], cosines, sines, attend, project_together, self.run)[0]


def pad_rows(policy: Policy, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs padded on the right: tokens, which of them are text (1 or 0), and which are answers (booleans)."""
    device, longest = policy.device, max(len(tokens) for tokens, _ in pairs)
    padding = policy.tokenizer.pad_token_id or 0
    rows = torch.tensor([tokens + [padding] * (longest - len(tokens)) for tokens, _ in pairs])
    mask = torch.tensor([[1] * len(tokens) + [0] * (longest - len(tokens)) for tokens, _ in pairs])
    answer = mask.bool()
    for row, (_, prompt) in enumerate(pairs):
        answer[row, :prompt] = False
    return rows.to(device), mask.to(device), answer.to(device)


def padded_logits(policy: Policy, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """The answers' tokens (answers,) and their logits (answers, vocabulary) by the model's own forward pass, padded."""
    rows, mask, answer = pad_rows(policy, pairs)
    logits = policy.model(input_ids=rows, attention_mask=mask, use_cache=False).logits[:, :-1]
    return logits[answer[:, 1:]], rows[:, 1:][answer[:, 1:]]


def padded_loss(policy: Policy, pairs: Sequence[Pair]) -> Tensor:
    """Summed loss of the answers' tokens by the model's own forward pass, pairs padded on the right."""
    logits, targets = padded_logits(policy, pairs)
    return functional.cross_entropy(logits.float(), targets, reduction="sum")


def make_loss(
    policy: Policy, encoded: Sequence[Pair], execution: Execution | None = None
) -> Callable[[Sequence[Pair]], Tensor]:
    """How a microbatch's summed loss is computed for this policy's model."""
    if not is_supported(policy.base):
        return lambda part: padded_loss(policy, part)
    longest = max((len(tokens) for tokens, _ in encoded), default=1)
    chosen = execution or choose_execution(policy, sum(len(tokens) for tokens, _ in encoded))
    return PackedLoss(policy, longest, chosen)


def make_step(
    policy: Policy,
    encoded: Sequence[Pair],
    execution: Execution,
    gradients: Gradients,
    coming: Iterable[Sequence[Pair]] = (),
    on_captured: Callable[[], None] = lambda: None,
) -> Callable[[Sequence[Pair], int], Tensor]:
    """How a microbatch, of a batch with so many answer tokens, adds to the gradients; it gives its part of the loss.

    The microbatches that are known to be `coming` find their graphs captured; `on_captured` is called after each graph.
    """
    if execution.capture and is_supported(policy.base):
        longest = max((len(tokens) for tokens, _ in encoded), default=1)
        loss = PackedLoss(policy, max(longest, GRAIN), execution)
        steps = StaticSteps(loss.hidden, loss.head, max(longest, GRAIN), gradients)
        steps.prepare(coming, on_captured)
        return lambda part, num_answers: steps(part, even_weights(part, num_answers))[0]
    compute = make_loss(policy, encoded, execution)

    def step(part: Sequence[Pair], num_answers: int) -> Tensor:
        loss = compute(part) / num_answers
        torch.autograd.backward(loss)
        return loss.detach()

    return step


def trained_weights(policy: Policy) -> list[Tensor]:
    """The adapter's weights, or all where they are open; raises ValueError where there is neither."""
    if policy.lora is None and not policy.is_open:
        raise ValueError("the policy has no adapter to train; attach one first, or open its weights")
    return [weight for weight in policy.model.parameters() if weight.requires_grad]


def draw_batches(encoded: Sequence[Pair], epochs: int, batch_size: int, seed: int) -> list[list[Pair]]:
    """The batches of every epoch, in an order that the seed decides."""
    generator = torch.Generator().manual_seed(seed % 2**63)
    return [
        [encoded[number] for number in batch.tolist()]
        for _ in range(epochs)
        for batch in torch.split(torch.randperm(len(encoded), generator=generator), batch_size)
        if len(batch)
    ]


def finetune(policy: Policy, pairs: Sequence[tuple[str, str]], **options: Any) -> tuple[TrainingStep, ...]:
    """`train` on (user message, answer) pairs."""
    return train(policy, encode_pairs(policy, pairs), **options)


def train(
    policy: Policy,
    encoded: Sequence[Pair],
    *,
    epochs: int,
    learning_rate: float,
    batch_size: int,
    seed: int,
    warmup_share: float = 0.03,
    max_gradient_norm: float = 1.0,
    on_step: OnStep | None = None,
    on_captured: Callable[[], None] = lambda: None,
    execution: Execution | None = None,
    world: World = ALONE,
) -> tuple[TrainingStep, ...]:
    """Train the policy's adapter, or its weights where they are open, in place; the loss of every step.

    `batch_size` counts the pairs of all processes. No pairs is no step. `on_captured` is called after each graph that
    is captured before the first step. Raises ValueError where the policy has no adapter, and DivergedError after a
    step whose loss or gradient is no finite number: what was trained is of no use then.
    """
    weights = trained_weights(policy)
    drawn = draw_batches(encoded, epochs, batch_size, seed)
    num_tokens = sum(len(tokens) for batch in drawn for tokens, _ in batch)
    execution = execution or choose_execution(policy, num_tokens // world.size)
    free_for_training(policy, is_long=execution.capture or execution.compile)
    gradients = Gradients(weights)
    # all of this process's work, known before the first step
    shares = [cut(share(batch, world.rank, world.size), execution.microbatch_tokens) for batch in drawn]
    policy.model.train()
    devices = [policy.device] if policy.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed((seed + world.rank) % 2**63)
        compute = make_step(policy, encoded, execution, gradients, chain.from_iterable(shares), on_captured)

        def add(parts: Sequence[Sequence[Pair]], num_answers: int) -> None:
            for part in parts:
                gradients.loss.add_(compute(part, num_answers))
                gradients.gather()

        batches = [
            Batch(
                learning_rate=learning_rate * learning_rate_share(step, len(drawn), warmup_share),
                num_tokens=sum(len(tokens) for tokens, _ in batch),
                add=partial(add, shares[step], sum(len(tokens) - prompt for tokens, prompt in batch)),
            )
            for step, batch in enumerate(drawn)
        ]
        points = descend(batches, gradients, make_optimizer(gradients), world, max_gradient_norm, on_step)
    policy.model.eval()
    return points
