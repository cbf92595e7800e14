"""The policy-gradient step: drawn answers become more or less likely by their advantages (`core.recipe.advantages`).

Of each token the ratio of its probability now to that before the round's first step is what counts, bounded as in PPO
with bounds of their own on each side (2503.14476): a step gains nothing by moving a token further than that. Both are
probabilities at the sampler's temperature, computed by the same forward pass, so that the first step's ratios are 1. No
token is drawn anew: the answers' tokens are those that the sampler has drawn. Dropout is off. Equal answers to a prompt
go through the model once, and weigh as many times: of eight samples of a policy that is sure, three are distinct.

Divergence from the start is estimated on the drawn tokens, as the mean of exp(d) - d - 1 with d the start's
log-probability minus the policy's; it is told each round, and weighs in the loss where the update asks for it.

Gradients, packed rows, captured graphs and several processes are those of fine-tuning (`finetune`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import torch
from attrs import frozen
from torch import Tensor

from ....core.recipe.advantages import weigh_tokens
from ....core.recipe.learner import Answer, OnStep, PolicyUpdate, TrainingStep
from ..model.load import Policy
from ..model.transformer import is_supported
from ..sampling.cache import free_for_training
from .chunked_loss import judged_loss, score
from .cuda_graphs import GRAIN, Objective, StaticSteps
from .descent import Batch, Gradients, descend
from .distributed import World
from .finetune import Execution, PackedLoss, choose_execution, padded_logits
from .packing import Pair, cut, share

NUM_SUMS = 2
"""The loss, and the share of tokens whose ratio was clipped."""
NUM_NUMBERS = 4
"""Of a token: the answer's weight, its share in the step's means, and log-probabilities before and at the start."""
MAX_GRADIENT_NORM = 1.0


class Document(NamedTuple):
    """An answer behind its prompt, as `packing.Pair` has it, its number among distinct ones, and how often it came."""

    tokens: list[int]
    prompt: int
    number: int
    copies: int

    @property
    def pair(self) -> Pair:
        """What goes through the model."""
        return self.tokens, self.prompt

    @property
    def length(self) -> int:
        return len(self.tokens) - self.prompt


@frozen(kw_only=True, eq=False)
class Scores:
    """Log-probabilities of answers' tokens by answer, and the mean entropy of what they were drawn from."""

    by_answer: dict[int, Tensor]
    entropy: float


def make_objective(update: PolicyUpdate) -> Objective:
    """What a step minimises: the clipped gain, negative, and the divergence from the start."""
    low, high = 1.0 - update.clip_low, 1.0 + update.clip_high

    def objective(hidden: Tensor, targets: Tensor, head: Tensor | None, numbers: Tensor) -> tuple[Tensor, Tensor]:
        sums = torch.zeros(NUM_SUMS, dtype=torch.float32, device=hidden.device)

        def judge(losses: Tensor, part: slice) -> tuple[Tensor, Tensor | None]:
            weight, mean, before, start = numbers[:, part]
            counts = mean > 0.0
            ratio = torch.where(counts, -losses - before, 0.0).exp()
            free, bounded = ratio * weight, ratio.clamp(low, high) * weight
            is_clipped = bounded < free
            sums[1] += (mean * is_clipped).sum()
            loss = -torch.minimum(free, bounded).sum()
            # cross-entropies fall as log-probabilities rise
            slopes = free.masked_fill(is_clipped, 0.0)
            if update.kl_coefficient > 0.0:
                apart = torch.where(counts, start + losses, 0.0)
                scale = update.kl_coefficient * mean
                loss = loss + (scale * (apart.exp() - apart - 1.0)).sum()
                slopes = slopes + scale * (apart.exp() - 1.0)
            return loss, slopes

        loss = judged_loss(hidden, targets, head, update.temperature, judge)
        sums[0] = loss.detach()
        return loss, sums

    return objective


@frozen(kw_only=True, eq=False)
class Round:
    """A round's distinct answers as documents, what a token of each weighs, and the steps that are made of them."""

    documents: tuple[Document, ...]
    weights: dict[int, float]
    means: dict[int, float]
    minibatches: tuple[tuple[Document, ...], ...]


def plan_round(policy: Policy, answers: Sequence[Answer], update: PolicyUpdate) -> Round:
    """Spread the answers over the steps in an order that the seed decides, and weigh their tokens within each step.

    Equal answers are one document, all copies in the same step.
    """
    prompts = {prompt: policy.encode_prompt(prompt) for prompt in dict.fromkeys(answer.prompt for answer in answers)}
    distinct = Counter(answers)
    documents = tuple(
        Document([*prompts[answer.prompt], *answer.tokens], len(prompts[answer.prompt]), number, copies)
        for number, (answer, copies) in enumerate(distinct.items())
    )
    generator = torch.Generator().manual_seed(update.seed % 2**63)
    order = torch.randperm(len(documents), generator=generator)
    parts = [part.tolist() for part in torch.tensor_split(order, update.minibatches) if len(part)]
    weights: dict[int, float] = {}
    means: dict[int, float] = {}
    advantages = [answer.advantage for answer in distinct]
    for part in parts:
        each = [number for number in part for _ in range(documents[number].copies)]
        lengths = [documents[number].length for number in each]
        weighed = weigh_tokens(update.algorithm, [advantages[number] for number in each], lengths, update.most_tokens)
        of_one = dict(zip(each, weighed, strict=True))
        weights |= {number: documents[number].copies * of_one[number] for number in part}
        means |= {number: documents[number].copies / sum(lengths) for number in part}
    steps = tuple(tuple(documents[number] for number in part) for part in parts)
    return Round(documents=documents, weights=weights, means=means, minibatches=steps)


class PolicyGradient:
    """One round's update of a policy's adapter; `execution` is how the model is run."""

    def __init__(
        self, policy: Policy, planned: Round, update: PolicyUpdate, world: World, execution: Execution | None = None
    ) -> None:
        self.policy, self.planned, self.update, self.world = policy, planned, update, world
        num_tokens = sum(len(document.tokens) for document in planned.documents)
        self.execution = execution or choose_execution(policy, num_tokens // world.size)
        self.longest = max(max((len(document.tokens) for document in planned.documents), default=1), GRAIN)
        limit = self.execution.microbatch_tokens
        shares = [share(step, world.rank, world.size) for step in planned.minibatches]
        self.shares = [cut(documents, limit) for documents in shares]
        self.scored = cut(list(chain.from_iterable(shares)), self.execution.scoring_tokens)

    def score(self) -> Scores:
        """Score this process's answers by the policy as it is now; the entropy is that of all processes' answers."""
        self.policy.model.eval()
        states = self._make_states()
        found: dict[int, Tensor] = {}
        total = torch.zeros(2, dtype=torch.float32, device=self.policy.device)
        for part in self.scored:
            with torch.no_grad():
                log_probabilities, entropies = score(*states(part), self.update.temperature)
            lengths = [document.length for document in part]
            copies = entropies.new_tensor([document.copies for document in part])
            copies = copies.repeat_interleave(torch.tensor(lengths, device=copies.device))
            total += torch.stack((entropies @ copies, copies.sum()))
            for document, scores in zip(part, torch.split(log_probabilities.cpu(), lengths), strict=True):
                found[document.number] = scores
        self.world.add_up(total)
        return Scores(by_answer=found, entropy=float(total[0] / total[1].clamp_min(1.0)))

    def estimate_divergence(self, before: Scores, start: Scores) -> float:
        """Estimate the divergence of the policy before the update from the start, in nats a token."""
        total = torch.zeros(2, dtype=torch.float32)
        for number, scores in before.by_answer.items():
            apart, copies = start.by_answer[number] - scores, self.planned.documents[number].copies
            total += copies * torch.stack(((apart.exp() - apart - 1.0).sum(), apart.new_tensor(len(apart))))
        total = total.to(self.policy.device)
        self.world.add_up(total)
        return float(total[0] / total[1].clamp_min(1.0))

    def take_steps(
        self,
        before: Scores,
        start: Scores,
        gradients: Gradients,
        optimizer: torch.optim.Optimizer,
        num_before: int,
        on_step: OnStep,
        on_captured: Callable[[], None] = lambda: None,
    ) -> tuple[TrainingStep, ...]:
        """Take a step for each minibatch, after `num_before` of earlier rounds; raises DivergedError."""
        free_for_training(self.policy, is_long=self.execution.capture or self.execution.compile)
        # not in training mode: dropout would make the first step's ratios differ from 1
        self.policy.model.eval()
        compute = self._make_step(gradients, on_captured)

        def add(parts: Sequence[Sequence[Document]]) -> None:
            for part in parts:
                numbers = torch.cat([self._numbers(document, before, start) for document in part], dim=1)
                gradients.sums.add_(compute([document.pair for document in part], numbers))
                gradients.gather()

        batches = [
            Batch(
                learning_rate=self._rate(num_before + step),
                num_tokens=sum(len(document.tokens) for document in documents),
                add=partial(add, self.shares[step]),
            )
            for step, documents in enumerate(self.planned.minibatches)
        ]
        return descend(batches, gradients, optimizer, self.world, MAX_GRADIENT_NORM, on_step)

    def _rate(self, step: int) -> float:
        return self.update.learning_rate * min(1.0, (step + 1) / (self.update.warmup_steps + 1))

    def _numbers(self, document: Document, before: Scores, start: Scores) -> Tensor:
        scores = before.by_answer[document.number]
        weight, mean = self.planned.weights[document.number], self.planned.means[document.number]
        constants = torch.full_like(scores, weight), torch.full_like(scores, mean)
        return torch.stack((*constants, scores, start.by_answer[document.number]))

    def _make_states(self) -> Callable[[Sequence[Document]], tuple[Tensor, Tensor, Tensor | None]]:
        """How states (answers, size), targets (answers,) and the head come of documents; logits where there is none."""
        if not is_supported(self.policy.base):
            return lambda part: (*padded_logits(self.policy, [document.pair for document in part]), None)
        loss = PackedLoss(self.policy, self.longest, self.execution)
        return lambda part: (*loss.states([document.pair for document in part]), loss.head)

    def _make_step(
        self, gradients: Gradients, on_captured: Callable[[], None]
    ) -> Callable[[Sequence[Pair], Tensor], Tensor]:
        """How a microbatch adds to the gradients; it gives its part of the step's sums."""
        objective = make_objective(self.update)
        if self.execution.capture and is_supported(self.policy.base):
            loss = PackedLoss(self.policy, self.longest, self.execution)
            steps = StaticSteps(loss.hidden, loss.head, self.longest, gradients, objective, NUM_NUMBERS)
            coming = chain.from_iterable(self.shares)
            steps.prepare(([document.pair for document in part] for part in coming), on_captured)
            return steps
        states = self._make_states()

        def step(pairs: Sequence[Pair], numbers: Tensor) -> Tensor:
            part = [Document(tokens, prompt, 0, 1) for tokens, prompt in pairs]
            found, sums = objective(*states(part), numbers.to(self.policy.device))
            torch.autograd.backward(found)
            return sums

        return step
