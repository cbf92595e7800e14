"""The comparison of engines: figures that fit together, with learners that answer by rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tritonrl.core.config import Config, PolicyConfig
from tritonrl.core.recipe.learner import Completion, Sampling
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.bench.policy import engines
from tritonrl.harness.bench.policy.engines import Comparison, compare_engines


class Answering:
    """A learner: greedy answers are the adapter's name and `ending`, others the seed, or a count with `drifts`."""

    def __init__(self, version: str | None, ending: str, drifts: bool, heeds: bool) -> None:
        self.ending, self.drifts, self.heeds, self.calls = ending, drifts, heeds, 0
        self.rests = 0
        self.engine = None if version is None else SimpleNamespace(version=version, rest=self._rest)
        self.policy = SimpleNamespace(device=torch.device("cpu"), encode_answer=lambda text: [*text, "end"])

    def _rest(self) -> None:
        self.rests += 1

    def sample(
        self,
        adapter: Path | None,
        prompts: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        on_done: Callable[[int], None],
    ) -> list[Completion]:
        self.calls += 1
        texts = [f"{seed % 10}{self.calls if self.drifts else 0}" for seed in seeds]
        if sampling.temperature == 0:
            texts = [f"{adapter if self.heeds else None} {self.ending}" for _ in prompts]
        return [Completion(text=text, tokens=(), finished=True) for text in texts]


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Comparison, Answering]]:
    """The comparison of our own learner and a vLLM that answers as told."""

    def run_with(adapter: Path | None, ending: str, drifts: bool, heeds: bool) -> tuple[Comparison, Answering]:
        learners = {"own": Answering(None, "abcd", False, True), "vllm": Answering("vllm 1", ending, drifts, heeds)}

        def open_one(config: PolicyConfig, *rest: Any) -> Answering:
            return learners[config.engine]

        monkeypatch.setattr(engines, "open_learner", open_one)
        return compare_engines(Config(), "core13", 3, 2, adapter, 0), learners["vllm"]

    return run_with


def test_figures_of_two_engines_fit_together(measure: Callable[..., tuple[Comparison, Answering]]) -> None:
    """Tokens are those of the second call's texts, with their ends; equal texts share all of their characters."""
    figures, vllm = measure(Path("a"), "abcd", False, True)
    assert [one.engine for one in figures.engines] == ["vllm 1", "own"]
    assert [one.num_tokens for one in figures.engines] == [3 * 2 * 3] * 2
    assert figures.speedup == pytest.approx(figures.engines[1].tokens_per_s / figures.engines[0].tokens_per_s)
    assert (figures.same_texts, figures.same_characters) == (1.0, 1.0)
    assert all(one.repeated_texts == 1.0 and one.heeds_adapter for one in figures.engines)
    assert vllm.rests == 2
    assert to_plain(figures)["num_prompts"] == 3


def test_what_an_engine_gets_wrong_is_seen(measure: Callable[..., tuple[Comparison, Answering]]) -> None:
    """Other texts for equal seeds, an adapter without effect, and greedy texts that part half-way."""
    figures, _ = measure(Path("a"), "abXY", True, False)
    assert [one.repeated_texts for one in figures.engines] == [0.0, 1.0]
    assert [one.heeds_adapter for one in figures.engines] == [False, True]
    assert figures.same_texts == 0.0
    assert 0.0 <= figures.same_characters < 1.0


def test_without_an_adapter_nothing_is_said_of_it(measure: Callable[..., tuple[Comparison, Answering]]) -> None:
    """No adapter: greedy texts that part after seven of nine characters share that much."""
    figures, _ = measure(None, "abXY", False, True)
    assert [one.heeds_adapter for one in figures.engines] == [None, None]
    assert figures.same_characters == pytest.approx(7 / 9)
