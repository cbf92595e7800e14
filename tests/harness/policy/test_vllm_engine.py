"""The optional engine: vLLM's public interface as a fake module, and one line where it is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from attrs import define, frozen
from tritonrl.core.config import Config as WholeConfig
from tritonrl.core.config import ConfigError, PolicyConfig, identity, with_overrides
from tritonrl.core.recipe.learner import Sampling, Training
from tritonrl.harness.errors import UsageError
from tritonrl.harness.policy.learner import PolicyLearner
from tritonrl.harness.policy.model.load import Policy
from tritonrl.harness.policy.sampling.vllm_engine import VllmEngine, open_engine

MakePolicy = Callable[[str], Policy]
SAMPLING = Sampling(temperature=0.7, top_p=0.9, max_new_tokens=12)
TRAINING = Training(
    epochs=1,
    learning_rate=1e-2,
    batch_size=2,
    warmup_share=0.0,
    lora_rank=4,
    lora_alpha=8,
    lora_dropout=0.0,
    seed=5,
)


@frozen(kw_only=True)
class SamplingParams:
    """The fields that vLLM's class of this name has, as far as they are used; another one is a TypeError."""

    n: int
    temperature: float
    top_p: float
    max_tokens: int
    seed: int
    stop_token_ids: list[int]
    detokenize: bool


@frozen
class LoRARequest:
    """vLLM's adapter of a request."""

    lora_name: str
    lora_int_id: int
    lora_path: str


@define
class FakeLLM:
    """Answers with what it was given as tokens: the prompt's first, the seed, the adapter's number, the end."""

    options: dict[str, Any]
    log: list[str]

    def generate(
        self, prompts: list[dict[str, list[int]]], params: list[SamplingParams], *, lora_request: Any, use_tqdm: bool
    ) -> list[Any]:
        assert not use_tqdm
        self.log.append("generate")
        number = lora_request.lora_int_id if lora_request else 0
        if lora_request:
            assert (Path(lora_request.lora_path) / "adapter_model.safetensors").exists()
        return [
            SimpleNamespace(
                outputs=[
                    SimpleNamespace(
                        token_ids=(
                            *prompt["prompt_token_ids"][:3],
                            100 + one.seed,
                            200 + number,
                            one.stop_token_ids[-1],
                        )
                    )
                ]
            )
            for prompt, one in zip(prompts, params, strict=True)
        ]

    def sleep(self, level: int) -> None:
        self.log.append(f"sleep {level}")

    def wake_up(self) -> None:
        self.log.append("wake up")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a fake vllm, installed for the test, was told to do."""
    told: list[str] = []
    # opening an engine sets it for the process; what it was comes back with the test's end
    monkeypatch.setenv("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    vllm, lora, request = ModuleType("vllm"), ModuleType("vllm.lora"), ModuleType("vllm.lora.request")
    vllm.__version__ = "0.20"  # type: ignore[attr-defined]
    vllm.__spec__ = SimpleNamespace(name="vllm")  # type: ignore[assignment]
    vllm.LLM = lambda **options: FakeLLM(options, told)  # type: ignore[attr-defined]
    vllm.SamplingParams = SamplingParams  # type: ignore[attr-defined]
    request.LoRARequest = LoRARequest  # type: ignore[attr-defined]
    for module in (vllm, lora, request):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return told


def test_an_engine_samples_and_sleeps_while_the_model_is_trained(
    make_policy: MakePolicy, log: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts, seeds and the adapter reach vLLM; two adapters have two numbers, one adapter keeps its own."""
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: log.append("give back"))
    policy = make_policy("llama")
    learner = PolicyLearner(policy, engine=open_engine(PolicyConfig(engine="vllm")))
    done: list[int] = []

    def tell(adapter: Path | None) -> list[str]:
        completions = learner.sample(adapter, ["a", "b", "a"], [1, 2, 3], SAMPLING, done.append)
        assert all(completion.finished for completion in completions)
        return [completion.text for completion in completions]

    def expect(number: int) -> list[str]:
        return [
            policy.tokenizer.decode(
                [*policy.encode_prompt(prompt)[:3], 100 + seed, 200 + number], skip_special_tokens=True
            )
            for prompt, seed in (("a", 1), ("b", 2), ("a", 3))
        ]

    assert tell(None) == expect(0)
    # an end that the tokenizer takes for an ordinary token is not written either
    policy.model.generation_config.eos_token_id = 300
    assert tell(None) == expect(0)
    learner.finetune(None, [("a", "b"), ("c", "d")], TRAINING, tmp_path / "one", lambda _: None)
    learner.finetune(tmp_path / "one", [("a", "b")], TRAINING, tmp_path / "two", lambda _: None)
    assert [tell(tmp_path / name) for name in ("one", "two", "one")] == [expect(1), expect(2), expect(1)]
    assert log == ["generate", "generate", "sleep 1", "give back", "wake up", *["generate"] * 3]
    assert done == [3] * 5
    assert learner.fingerprint != policy.fingerprint


def test_the_engine_logs_on_stderr(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's JSON is alone on stdout; who has chosen another stream for vLLM's log keeps it."""
    monkeypatch.delenv("VLLM_LOGGING_STREAM", raising=False)
    open_engine(PolicyConfig(engine="vllm"))
    assert os.environ["VLLM_LOGGING_STREAM"] == "ext://sys.stderr"
    monkeypatch.setenv("VLLM_LOGGING_STREAM", "ext://elsewhere")
    open_engine(PolicyConfig(engine="vllm"))
    assert os.environ["VLLM_LOGGING_STREAM"] == "ext://elsewhere"


def test_the_engine_reads_what_the_policy_names(log: list[str]) -> None:
    """The engine loads the policy's own folder with LoRA switched on, in the policy's dtype.

    It quantizes nothing: what vLLM makes of weights that are not quantized yet has 4 bits.
    """
    engine = open_engine(PolicyConfig(engine="vllm", quantization="8bit"))
    assert isinstance(engine, VllmEngine)
    assert Path(engine.llm.options["model"], "config.json").exists()
    assert engine.llm.options["enable_lora"] is True
    assert engine.llm.options["dtype"] == "bfloat16"
    assert "quantization" not in engine.llm.options
    with pytest.raises(UsageError, match="has none"):
        open_engine(PolicyConfig(name="random:smollm2-135m", engine="vllm"))


def test_a_missing_engine_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vLLM the error says how to go on, and an engine that nobody knows is an error of configuration."""
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UsageError, match=r"pip install vllm|policy\.engine"):
        open_engine(PolicyConfig(engine="vllm"))
    with pytest.raises(ConfigError, match=r"policy\.engine"):
        with_overrides(WholeConfig(), {"policy.engine": "sglang"})


def test_the_default_engine_identifies_nothing() -> None:
    """Results of before the key was there stay the same; vLLM's are others."""
    config = WholeConfig()
    assert "engine" not in identity(config)["policy"]
    assert identity(with_overrides(config, {"policy.engine": "vllm"})) != identity(config)
