"""What a cell asks of a model and of a verifier: two protocols, so that a cell depends on neither's machinery.

A learner names its state by a folder, mostly an adapter's (`None`: the base model). Its operations are functions of
their arguments and of the learner's fingerprint alone, which is what allows their results to be stored by content.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import ceil
from pathlib import Path
from typing import Any, Protocol

from attrs import frozen

from ..candidate import Candidate
from ..config import Algorithm, Config, EvaluationConfig, RlConfig, SftMethod
from ..serialisation import to_plain
from ..task import Task
from ..verdict import Verdict
from .extensions import VerifierSpec

OnDone = Callable[[int], None]
"""Called with the number of items done so far."""
COMPLETIONS = "completions"
"""The kind of work (`harness.work`) that sampling is."""


@frozen(kw_only=True)
class Sampling:
    """How completions are drawn."""

    temperature: float
    top_p: float
    max_new_tokens: int

    @classmethod
    def of(cls, config: Config, phase: EvaluationConfig | RlConfig) -> Sampling:
        return cls(temperature=phase.temperature, top_p=phase.top_p, max_new_tokens=config.policy.max_new_tokens)


@frozen(kw_only=True)
class Completion:
    """One completion with the tokens that were drawn, the end token among them; `finished` says that there was one.

    Without it the answer was cut at the limit of tokens. Models behind an API tell no tokens.
    """

    text: str
    tokens: tuple[int, ...]
    finished: bool

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)


OnDrawn = Callable[[int, Completion], None]
"""Called with a completion and the position of its prompt."""


@frozen(kw_only=True)
class Answer:
    """Drawn tokens that follow a prompt, and how much more likely than now they are to become."""

    prompt: str
    tokens: tuple[int, ...]
    advantage: float


@frozen(kw_only=True)
class PolicyUpdate:
    """One round's steps of a policy gradient (`core.config.RlConfig`); `temperature` is that of the sampler.

    The LoRA fields shape a new adapter where there is none yet.
    """

    algorithm: Algorithm
    minibatches: int
    learning_rate: float
    warmup_steps: int
    clip_low: float
    clip_high: float
    kl_coefficient: float
    temperature: float
    most_tokens: int
    lora_rank: int
    lora_alpha: int
    lora_dropout: float
    seed: int


@frozen(kw_only=True)
class UpdateFigures:
    """What an update was like, by step and over all of its answers' tokens; divergence and entropy are estimates.

    `clip_shares`: of tokens whose ratio was clipped. `kl`: of the policy before the update from the start, in nats a
    token. `entropy`: of the next token's distribution at the sampler's temperature, in nats.
    """

    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    clip_shares: tuple[float, ...]
    kl: float
    entropy: float


@frozen(kw_only=True)
class Training:
    """One fine-tuning run on (prompt, answer) pairs; the LoRA fields shape a new adapter where there is none yet."""

    epochs: int
    learning_rate: float
    batch_size: int
    warmup_share: float
    lora_rank: int
    lora_alpha: int
    lora_dropout: float
    seed: int
    method: SftMethod = "lora"
    """Whether an adapter is trained, or all weights."""

    def identify(self) -> dict[str, Any]:
        """Return what decides a run's result as plain data; training by LoRA is told as before there was another."""
        plain: dict[str, Any] = to_plain(self)
        return {name: value for name, value in plain.items() if (name, value) != ("method", "lora")}

    def num_steps(self, num_pairs: int) -> int:
        """Return how many steps so many pairs take."""
        return self.epochs * ceil(num_pairs / self.batch_size)


@frozen(kw_only=True)
class TrainingStep:
    """One optimizer step: how many are done, the mean loss of the batch's answer tokens, and the tokens that were read.

    `gradient_norm` is that before clipping; `sums` are further figures of the step, where its loss has any.
    """

    num_done: int
    loss: float
    learning_rate: float
    num_tokens: int
    gradient_norm: float = 0.0
    sums: tuple[float, ...] = ()


OnStep = Callable[[TrainingStep], None]


class Learner(Protocol):
    """A language model that can be sampled and fine-tuned."""

    @property
    def fingerprint(self) -> str:
        """Identity of the base model: its weights, tokenizer, precision and quantization."""

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Of each prompt and answer, whether the model can read both at once."""

    def sample(
        self,
        adapter: Path | None,
        prompts: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        on_done: OnDone,
        on_drawn: OnDrawn = lambda *_: None,
    ) -> list[Completion]:
        """One completion for each prompt, drawn with the seed beside it.

        `on_drawn` is told of a completion before others are drawn, where something else can be done meanwhile.
        """

    def reinforce(
        self,
        adapter: Path | None,
        answers: Sequence[Answer],
        update: PolicyUpdate,
        start: Path | None,
        target: Path,
        on_step: OnStep,
    ) -> UpdateFigures:
        """Make answers more or less likely from `adapter` on, save the new adapter and the optimizer's moments.

        `start` is the state whose divergence is told; moments are beside the adapter, where the next round finds them.
        """

    def finetune(
        self, adapter: Path | None, pairs: Sequence[tuple[str, str]], training: Training, target: Path, on_step: OnStep
    ) -> list[float]:
        """Continue from `adapter` on (prompt, answer) pairs, save the new adapter in `target`; the loss by step."""


class Judge(Protocol):
    """A verifier."""

    @property
    def backend(self) -> str:
        """Where plans run: "interpret" or "cuda"."""

    def verify_many(
        self,
        pairs: Sequence[tuple[Task, str]],
        spec: VerifierSpec,
        jobs: int = 1,
        on_done: Callable[[int, Verdict], None] | None = None,
        on_bad_task: Callable[[int, Exception], None] | None = None,
    ) -> list[Verdict]:
        """A verdict for each (task, source), in order; none where `on_bad_task` is told why its task has none."""

    def verify_ahead(self, spec: VerifierSpec, jobs: int) -> AbstractContextManager[Callable[[Task, str], None]]:
        """What is called with a task and a source has it verified, for `verify_many` to find; leaving waits for all."""

    def gather(self, task: Task, source: str, spec: VerifierSpec) -> Candidate:
        """The candidate with the evidence behind its verdict."""
