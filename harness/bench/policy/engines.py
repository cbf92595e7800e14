"""Our own sampler and vLLM on the same model, prompts and adapter, both through the learner that every command uses.

Rates count the tokens of the texts that come back, so they hold what a run pays: reading prompts, merging or loading
the adapter, decoding. Each engine answers twice, since its first call compiles and captures; the second one counts.
Greedy texts of the two may part where two tokens are as likely up to rounding, so `same_characters`, the share of
characters before the first that differs, says more than whether whole texts are equal. Whether equal seeds give equal
texts, and whether an adapter changes them, is asked of each engine by itself. vLLM sleeps (`rest`) before its second
call, as between two rounds, and while ours is measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from os.path import commonprefix
from pathlib import Path
from typing import Literal

from attrs import evolve, frozen

from ....core.config import Config
from ....core.recipe.learner import Sampling
from ....core.seeds import derive
from ....core.text.prompts import user_message
from ...policy.learner import PolicyLearner, open_learner
from ...policy.training.distributed import ALONE
from ...tasks.suites import corpus_examples
from ..watching import describe_device

ENGINES: tuple[Literal["own", "vllm"], ...] = ("vllm", "own")
"""vLLM first, so that a machine without it says so at once."""
_GREEDY_TASKS = 16


@frozen(kw_only=True)
class EngineFigures:
    """One engine: seconds of opening it, of its first and of its second call, and the tokens a second of the second.

    `repeated_texts`: the share of texts that the second call gave again. `heeds_adapter`: whether the adapter changes
    greedy texts; null where none was given.
    """

    engine: str
    open_s: float
    first_s: float
    second_s: float
    num_tokens: int
    tokens_per_s: float
    repeated_texts: float
    heeds_adapter: bool | None


@frozen(kw_only=True)
class Comparison:
    """Both engines; `same_texts` and `same_characters` are shares of greedy texts and of their characters."""

    model: str
    device: str
    num_prompts: int
    samples: int
    engines: tuple[EngineFigures, ...]
    speedup: float
    same_texts: float
    same_characters: float


def compare_engines(
    config: Config, suite: str, num_tasks: int, samples: int, adapter: Path | None, seed: int
) -> Comparison:
    """Sample validation tasks of both levels with each engine; raises UsageError where vLLM is missing."""
    drawn = list(corpus_examples(f"{suite}:validation", seed, -(-num_tasks // 2), (1, 2)))[:num_tasks]
    prompts = [user_message(example.task) for example in drawn]
    sampling = Sampling.of(config, config.rl)
    figures: list[EngineFigures] = []
    greedy: list[list[str]] = []
    device = ""
    for engine in ENGINES:
        started = time.perf_counter()
        learner = open_learner(evolve(config.policy, engine=engine), ALONE, PolicyLearner)
        opened = time.perf_counter() - started
        measured, texts = _measure(learner, engine, opened, prompts, samples, adapter, sampling, seed)
        figures.append(measured)
        greedy.append(texts)
        device = describe_device(learner.policy.device)
        if learner.engine is not None:
            learner.engine.rest()
    pairs = list(zip(*greedy, strict=True))
    num_shared = sum(len(commonprefix(pair)) for pair in pairs)  # noqa: RUF071 (texts are meant, not paths)
    return Comparison(
        model=config.policy.name,
        device=device,
        num_prompts=len(prompts),
        samples=samples,
        engines=tuple(figures),
        speedup=figures[1].tokens_per_s / figures[0].tokens_per_s,
        same_texts=sum(one == other for one, other in pairs) / len(pairs),
        same_characters=num_shared / max(1, sum(max(map(len, pair)) for pair in pairs)),
    )


def _measure(
    learner: PolicyLearner,
    engine: str,
    open_s: float,
    prompts: Sequence[str],
    samples: int,
    adapter: Path | None,
    sampling: Sampling,
    seed: int,
) -> tuple[EngineFigures, list[str]]:
    """Measure one engine's figures, and its greedy texts with the adapter."""
    repeated = [prompt for prompt in prompts for _ in range(samples)]
    seeds = [derive(seed, "bench-engines", number) for number in range(len(repeated))]

    def answer() -> tuple[float, list[str]]:
        started = time.perf_counter()
        completions = learner.sample(adapter, repeated, seeds, sampling, lambda _: None)
        return time.perf_counter() - started, [completion.text for completion in completions]

    def answer_greedily(adapter: Path | None) -> list[str]:
        chosen, greedily = prompts[:_GREEDY_TASKS], evolve(sampling, temperature=0.0)
        completions = learner.sample(adapter, chosen, seeds[: len(chosen)], greedily, lambda _: None)
        return [completion.text for completion in completions]

    first_s, first = answer()
    if learner.engine is not None:
        learner.engine.rest()
    second_s, second = answer()
    greedy = answer_greedily(adapter)
    num_tokens = sum(len(learner.policy.encode_answer(text)) for text in second)
    figures = EngineFigures(
        engine=engine if learner.engine is None else learner.engine.version,
        open_s=open_s,
        first_s=first_s,
        second_s=second_s,
        num_tokens=num_tokens,
        tokens_per_s=num_tokens / second_s,
        repeated_texts=sum(one == other for one, other in zip(first, second, strict=True)) / len(first),
        heeds_adapter=None if adapter is None else answer_greedily(None) != greedy,
    )
    return figures, greedy
