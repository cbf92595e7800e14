"""The policy as a grid's cells see it: sampling and fine-tuning as functions of an adapter's folder.

Every call loads the adapter that it names, so that no state passes from one call to the next, and a run that resumes
computes what an uninterrupted one does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..learner import Sampling, Training
from .adapters import attach_adapter, load_adapter, reset_adapter, save_adapter
from .finetune import finetune
from .load import LoraShape, Policy
from .sample import sample


class PolicyLearner:
    """A loaded policy as a `harness.learner.Learner`."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @property
    def fingerprint(self) -> str:
        """Identity of the base model: its weights, tokenizer, precision and quantization."""
        return self.policy.fingerprint

    def sample(
        self,
        adapter: Path | None,
        prompts: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        on_done: Callable[[int], None],
    ) -> list[str]:
        """The text of one completion for each prompt, drawn with the seed beside it."""
        if adapter is not None:
            load_adapter(self.policy, adapter)
        elif self.policy.lora is not None:
            reset_adapter(self.policy, 0)
        completions = sample(
            self.policy,
            prompts,
            seeds,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_new_tokens=sampling.max_new_tokens,
            on_progress=on_done,
        )
        return [completion.text for completion in completions]

    def finetune(
        self,
        adapter: Path | None,
        pairs: Sequence[tuple[str, str]],
        training: Training,
        target: Path,
        on_done: Callable[[int], None],
    ) -> list[float]:
        """Continue from `adapter`, or from a new one, and save the result in `target`; the loss by step."""
        if adapter is None:
            shape = LoraShape(rank=training.lora_rank, alpha=training.lora_alpha, dropout=training.lora_dropout)
            attach_adapter(self.policy, shape, training.seed)
        else:
            load_adapter(self.policy, adapter)
        points = finetune(
            self.policy,
            pairs,
            epochs=training.epochs,
            learning_rate=training.learning_rate,
            batch_size=training.batch_size,
            seed=training.seed,
            warmup_share=training.warmup_share,
            on_step=lambda point: on_done(point.step + 1),
        )
        save_adapter(self.policy, target)
        return [point.loss for point in points]
