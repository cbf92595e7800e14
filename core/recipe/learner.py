"""What a cell asks of a model and of a verifier: two protocols, so that a cell depends on neither's machinery.

A learner names its state by a folder, mostly an adapter's (`None`: the base model). Its operations are functions of
their arguments and of the learner's fingerprint alone, which is what allows their results to be stored by content.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from typing import Any, Literal, Protocol

from attrs import frozen

from ..candidate import Candidate
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
    method: Literal["lora", "full"] = "lora"
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
    """How far a fine-tuning is: steps done, the loss of the last one, and its learning rate."""

    num_done: int
    loss: float
    learning_rate: float


OnStep = Callable[[TrainingStep], None]


class Learner(Protocol):
    """A language model that can be sampled and fine-tuned."""

    @property
    def fingerprint(self) -> str:
        """Identity of the base model: its weights, tokenizer, precision and quantization."""

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Of each prompt and answer, whether the model can read both at once."""

    def sample(
        self, adapter: Path | None, prompts: Sequence[str], seeds: Sequence[int], sampling: Sampling, on_done: OnDone
    ) -> list[str]:
        """One completion for each prompt, drawn with the seed beside it."""

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
    ) -> list[Verdict]:
        """A verdict for each (task, source), in order."""

    def gather(self, task: Task, source: str, spec: VerifierSpec) -> Candidate:
        """The candidate with the evidence behind its verdict."""
