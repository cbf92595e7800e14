"""The policy as a grid's cells see it: sampling and fine-tuning as functions of an adapter's folder.

Every call loads the adapter that it names, so that no state passes from one call to the next, and a run that resumes
computes what an uninterrupted one does; what sampling keeps between calls (`cache`) is none of the adapter's. One of
several processes computes its share of every call (`training.distributed`).

Both hold the lock of a GPU that others time kernels on (`GpuLock`), shared, since work beside a measurement would be in
it. It is let go of ten times a second: nobody should wait to time for as long as a whole batch takes. Processes share a
GPU's memory too: what PyTorch's allocator holds in reserve is given back at a turn's end.

`policy.engine` says who samples: this project's own sampler, or vLLM, an engine that is kept beside the model.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import torch

from ...core.config import PolicyConfig
from ...core.recipe.learner import (
    Answer,
    Completion,
    OnDrawn,
    OnStep,
    PolicyUpdate,
    Sampling,
    Training,
    TrainingStep,
    UpdateFigures,
)
from ..errors import UsageError
from ..gpu.gpu_lock import GpuLock
from .model.load import LoraShape, Policy, load_policy
from .model.states import close_weights, continue_adapter, enter_state, open_weights, save_state
from .sampling.engine import sample
from .sampling.vllm_engine import VllmEngine, open_engine
from .training.descent import Gradients, load_moments, make_optimizer, save_moments
from .training.distributed import ALONE, World
from .training.finetune import finetune, trained_weights
from .training.policy_gradient import NUM_SUMS, PolicyGradient, plan_round

L = TypeVar("L", bound="PolicyLearner")
HOLD_S = 0.1
"""A measurement takes about as long, and several may be waiting."""
MOMENTS = "optimizer.safetensors"
"""The file beside an adapter with which the next round's optimizer goes on."""


class PolicyLearner:
    """A loaded policy as a `core.recipe.learner.Learner`."""

    def __init__(self, policy: Policy, world: World = ALONE, engine: VllmEngine | None = None) -> None:
        self.policy, self.world, self.engine = policy, world, engine
        self.gpu_lock = open_gpu_lock(policy.device)

    @property
    def fingerprint(self) -> str:
        """Identity of the base model: its weights, tokenizer, precision and quantization; and of a foreign engine."""
        if self.engine is None:
            return self.policy.fingerprint
        return hashlib.sha256(f"{self.policy.fingerprint} {self.engine.version}".encode()).hexdigest()

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Of each prompt with its answer, whether it is no longer than the model's context."""
        context = getattr(self.policy.base.config, "max_position_embeddings", None)
        if context is None:
            return [True] * len(pairs)
        return [len(prompt) + len(answer) <= int(context) for prompt, answer in self.policy.encode_pairs(pairs)]

    def sample(
        self,
        adapter: Path | None,
        prompts: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        on_done: Callable[[int], None],
        on_drawn: OnDrawn = lambda *_: None,
    ) -> list[Completion]:
        """One completion for each prompt, drawn with the seed beside it.

        `on_drawn` hears early of this process's own completions, from a GPU: processors are busy with sampling itself.
        """
        if self.engine is not None:
            return self.engine.sample(self.policy, adapter, prompts, seeds, sampling, on_done)
        enter_state(self.policy, adapter)
        share, size = self.world.slice_of(len(prompts)), self.world.size

        def tell(number: int, completion: Completion) -> None:
            on_drawn(share.start + number, completion)

        with holding_gpu_lock(self.gpu_lock, lambda done: on_done(min(len(prompts), done * size))) as report:
            completions = sample(
                self.policy,
                prompts[share],
                seeds[share],
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_new_tokens=sampling.max_new_tokens,
                on_progress=report,
                on_drawn=tell if self.policy.device.type == "cuda" else None,
            )
        parts = self.world.collect(completions)
        if size > 1:
            on_done(len(prompts))
        return [completion for part in parts for completion in part]

    def finetune(
        self,
        adapter: Path | None,
        pairs: Sequence[tuple[str, str]],
        training: Training,
        target: Path,
        on_step: OnStep,
    ) -> list[float]:
        """Train on from a state by an adapter, or by all weights, and save the result in `target`; the loss by step."""
        if self.engine is not None:
            self.engine.rest()
        if training.method == "full":
            open_weights(self.policy, adapter)
        else:
            shape = LoraShape(rank=training.lora_rank, alpha=training.lora_alpha, dropout=training.lora_dropout)
            continue_adapter(self.policy, adapter, shape, training.seed)
        try:
            with holding_gpu_lock(self.gpu_lock, lambda _: None) as report:
                points = finetune(
                    self.policy,
                    pairs,
                    epochs=training.epochs,
                    learning_rate=training.learning_rate,
                    batch_size=training.batch_size,
                    seed=training.seed,
                    warmup_share=training.warmup_share,
                    on_step=_tell(on_step, report),
                    on_captured=lambda: report(0),
                    world=self.world,
                )
            if self.world.rank == 0:
                save_state(self.policy, target, adapter)
        finally:
            close_weights(self.policy)
        return [point.loss for point in points]

    def reinforce(
        self,
        adapter: Path | None,
        answers: Sequence[Answer],
        update: PolicyUpdate,
        start: Path | None,
        target: Path,
        on_step: OnStep,
    ) -> UpdateFigures:
        """Make answers more or less likely from a state on; the new one is in `target`, the moments are beside it."""
        shape = LoraShape(rank=update.lora_rank, alpha=update.lora_alpha, dropout=update.lora_dropout)
        planned = plan_round(self.policy, answers, update)
        with holding_gpu_lock(self.gpu_lock, lambda _: None) as report:
            learning = PolicyGradient(self.policy, planned, update, self.world)
            at_start = None
            if start != adapter:
                continue_adapter(self.policy, start, shape, update.seed)
                at_start = learning.score()
            continue_adapter(self.policy, adapter, shape, update.seed)
            before = learning.score()
            report(0)
            at_start = at_start or before
            gradients = Gradients(trained_weights(self.policy), NUM_SUMS)
            optimizer = make_optimizer(gradients)
            num_before = 0 if adapter is None else load_moments(optimizer, adapter.with_name(MOMENTS))
            tell = _tell(on_step, report)
            steps = learning.take_steps(
                before, at_start, gradients, optimizer, num_before, tell, on_captured=lambda: report(0)
            )
            divergence = learning.estimate_divergence(before, at_start)
        if self.world.rank == 0:
            save_state(self.policy, target, adapter)
            save_moments(optimizer, target.with_name(MOMENTS))
        return UpdateFigures(
            losses=tuple(point.loss for point in steps),
            gradient_norms=tuple(point.gradient_norm for point in steps),
            clip_shares=tuple(point.sums[0] for point in steps),
            kl=divergence,
            entropy=before.entropy,
        )


def _tell(on_step: OnStep, report: Callable[[int], None]) -> OnStep:
    """What is to be called with each step: it tells of the step, and reports it done."""

    def tell(step: TrainingStep) -> None:
        on_step(step)
        report(step.num_done)

    return tell


def open_learner(config: PolicyConfig, world: World, kind: type[L]) -> L:
    """The learner that the configuration names, on this process's device; raises UsageError."""
    if config.engine == "vllm" and world.size > 1:
        raise UsageError("policy.engine: vllm spreads over GPUs itself; start one process, or sample with engine own")
    engine = open_engine(config) if config.engine == "vllm" else None
    return kind(load_policy(config, world.device), world, engine)


def open_gpu_lock(device: torch.device) -> GpuLock | None:
    """The lock of a device, as its executors take them; null where nothing is ever timed."""
    if device.type != "cuda":
        return None
    return GpuLock(f"GPU-{torch.cuda.get_device_properties(device).uuid}")


@contextmanager
def holding_gpu_lock(lock: GpuLock | None, on_done: Callable[[int], None]) -> Iterator[Callable[[int], None]]:
    """A shared turn for as long as the context lasts; `on_done` as it must be called, which now and then lets go."""
    if lock is None:
        yield on_done
        return
    with ExitStack() as stack:
        stack.enter_context(lock.shared())
        since = time.monotonic()

        def report(done: int) -> None:
            nonlocal since
            on_done(done)
            if time.monotonic() - since >= HOLD_S:
                _settle()
                stack.close()
                stack.enter_context(lock.shared())
                since = time.monotonic()

        try:
            yield report
        finally:
            _settle()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def _settle() -> None:
    """Wait for what this process has queued: a turn is over when the GPU is done with it."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
