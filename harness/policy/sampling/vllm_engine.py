"""Sampling by vLLM: `policy.engine = "vllm"`, for models of 7 B parameters and more on GPUs.

Our own sampler (`continuous_batching`) holds one copy of the weights beside the model and one GPU; vLLM pages its keys
and values. It is optional: imported only where it is asked for, and nothing else of the project depends on it. The
interface is that of `PolicyLearner.sample`: an adapter's folder, prompts, a seed for each. The prompts are tokenised by
the policy, so both engines read the same tokens, and adapters are handed on as folders, which is peft's format.

A policy in 8 bit is sampled from its whole weights in bfloat16: of weights that are not quantized already vLLM's
bitsandbytes makes 4 bits, which is further from what is trained than no quantization at all.

The engine sleeps while the model is trained (`rest`): its weights go to the CPU's memory and its cache is given up.
Its own random streams follow the seeds, so that a call repeats but for rounding, which depends on what is computed
beside it (97.7% of 128 texts of `nano` came again on an H100 with vLLM 0.25.1). They are not our sampler's, which is
why the engine is part of a learner's identity.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ....core.config import PolicyConfig
from ....core.recipe.learner import Completion, Sampling
from ...errors import UsageError
from ..model.load import Policy, find_weights
from ..model.shapes import PREFIX
from .engine import read_completion

MEMORY_SHARE = 0.6
"""Of a GPU's memory, for the engine while it is awake."""
MAX_RANK = 64
CHUNK = 512
"""Prompts handed over at once, so that progress can be told; vLLM queues what exceeds its slots."""


class VllmEngine:
    """A vLLM engine for one base model and any adapters of it."""

    def __init__(self, vllm: Any, source: str, config: PolicyConfig) -> None:
        self.vllm = vllm
        self.version = f"vllm {getattr(vllm, '__version__', 'unknown')}"
        self.llm = vllm.LLM(
            model=source,
            # what the policy computes with on a GPU; vLLM's own "auto" may take float16 for weights in float32
            dtype="bfloat16" if config.dtype == "auto" else config.dtype,
            enable_lora=True,
            max_lora_rank=MAX_RANK,
            max_loras=1,
            gpu_memory_utilization=MEMORY_SHARE,
            enable_sleep_mode=True,
            enable_prefix_caching=True,
            seed=0,
        )
        self.is_awake = True
        self.numbers: dict[str, int] = {}

    def rest(self) -> None:
        """Give the GPU's memory to others until the next call."""
        if self.is_awake:
            self.llm.sleep(level=1)
            self.is_awake = False

    def sample(
        self,
        policy: Policy,
        adapter: Path | None,
        prompts: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        on_done: Callable[[int], None],
    ) -> list[Completion]:
        """One completion for each prompt, drawn with the seed beside it."""
        if not self.is_awake:
            # what training's allocator holds in reserve is no one's, and the engine needs it
            torch.cuda.empty_cache()
            self.llm.wake_up()
            self.is_awake = True
        encoded = {prompt: policy.encode_prompt(prompt) for prompt in dict.fromkeys(prompts)}
        request = None if adapter is None else self._request(adapter)
        completions: list[Completion] = []
        for start in range(0, len(prompts), CHUNK):
            part = slice(start, start + CHUNK)
            outputs = self.llm.generate(
                [{"prompt_token_ids": encoded[prompt]} for prompt in prompts[part]],
                [self._parameters(policy, sampling, seed) for seed in seeds[part]],
                lora_request=request,
                use_tqdm=False,
            )
            for output in outputs:
                completions.append(read_completion(policy, list(output.outputs[0].token_ids)))
            on_done(len(completions))
        return completions

    def _parameters(self, policy: Policy, sampling: Sampling, seed: int) -> Any:
        return self.vllm.SamplingParams(
            n=1,
            temperature=sampling.temperature,
            # for temperature 0 vLLM takes the likeliest, whatever the nucleus is
            top_p=sampling.top_p,
            max_tokens=sampling.max_new_tokens,
            seed=seed % 2**63,
            stop_token_ids=sorted(policy.end_tokens),
            detokenize=False,
        )

    def _request(self, adapter: Path) -> Any:
        """vLLM knows an adapter by a number, and keeps what it has loaded: other contents are another number."""
        if (adapter / "base").exists() or not (adapter / "adapter_config.json").exists():
            raise UsageError(f"{adapter}: weights of their own; with policy.engine = vllm name them with policy.name")
        digest = hashlib.sha256((adapter / "adapter_model.safetensors").read_bytes()).hexdigest()
        number = self.numbers.setdefault(digest, len(self.numbers) + 1)
        rank = int(json.loads((adapter / "adapter_config.json").read_text())["r"])
        if rank > MAX_RANK:
            raise UsageError(f"{adapter}: LoRA of rank {rank}; with policy.engine = vllm it is at most {MAX_RANK}")
        request = importlib.import_module("vllm.lora.request").LoRARequest
        return request(f"adapter-{digest[:12]}", number, str(adapter.resolve()))


def open_engine(config: PolicyConfig) -> VllmEngine:
    """The engine of the configured policy; raises UsageError where vLLM is missing or cannot have the model."""
    if importlib.util.find_spec("vllm") is None:
        raise UsageError("policy.engine: vllm is not installed: `pip install vllm`, or set policy.engine=own")
    if config.name.startswith(PREFIX):
        raise UsageError(f"policy.engine: vllm reads weights from a folder or the hub, and {config.name} has none")
    source, _ = find_weights(config.name)
    # its log goes to stdout otherwise, where a command's JSON stands alone
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    return VllmEngine(importlib.import_module("vllm"), source, config)
