"""Refilled rows say what completions in step say, without graphs on a CPU, with them on a GPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import ModuleType

import plain_ops
import pytest
import torch
from tritonrl.harness.policy.model.load import LoraShape, Policy
from tritonrl.harness.policy.model.lora_adapters import attach_adapter
from tritonrl.harness.policy.sampling import engine as sampling
from tritonrl.harness.policy.sampling.continuous_batching import Request, can_capture, complete
from tritonrl.harness.policy.sampling.engine import sample, sample_tokens
from tritonrl.harness.policy.sampling.fused_model import FusedModel
from tritonrl.harness.policy.sampling.kv_pool import bucket

MakePolicy = Callable[[str], Policy]
TEXTS = ["one", "def forward(self, x):\n    return x * 12", "a rather longer request " * 6, "1 2 3"]
REPEATED = [text for text in TEXTS for _ in range(4)]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def refilled(
    policy: Policy,
    temperature: float,
    most_rows: int,
    ends: frozenset[int] = frozenset(),
    module: ModuleType = plain_ops,
) -> list[list[int]]:
    seen: dict[int, list[int]] = {}
    prompts = [[7], *(policy.encode_prompt(text) for text in REPEATED)]
    request = Request(
        prompts=prompts,
        seeds=range(len(prompts)),
        ends=ends,
        temperature=temperature,
        top_p=1.0,
        max_new_tokens=21,
    )
    with torch.inference_mode():
        model = FusedModel(policy.base)
        captures = module is not plain_ops
        written = complete(model, module, request, most_rows=most_rows, captures=captures, on_ended=seen.__setitem__)
    assert [seen[number] for number in range(len(prompts))] == written
    return written


def in_step(policy: Policy, temperature: float, ends: frozenset[int] = frozenset()) -> list[list[int]]:
    prompts = [[7], *(policy.encode_prompt(text) for text in REPEATED)]
    return sample_tokens(policy, prompts, range(len(prompts)), temperature=temperature, max_new_tokens=21, ends=ends)


def train_adapter(policy: Policy) -> None:
    attach_adapter(policy, LoraShape(rank=4), 0)
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.2)


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
@pytest.mark.parametrize("most_rows", [3, 64])
def test_refilled_rows_write_the_same(make_varied_policy: MakePolicy, architecture: str, most_rows: int) -> None:
    """Few rows, given one completion after the other, write what all completions write in step, ends included."""
    policy = make_varied_policy(architecture)
    train_adapter(policy)
    assert refilled(policy, 0.0, most_rows) == in_step(policy, 0.0)
    drawn = in_step(policy, 1.0)
    assert refilled(policy, 1.0, most_rows) == drawn
    ends = frozenset(token for tokens in drawn[:6] for token in tokens[3:7])
    ended = in_step(policy, 1.0, ends)
    assert refilled(policy, 1.0, most_rows, ends) == ended
    assert len({len(tokens) for tokens in ended}) > 3


def test_weights_stay(make_varied_policy: MakePolicy) -> None:
    """Merging an adapter for sampling leaves the policy's weights and its adapter as they are."""
    policy = make_varied_policy("llama")
    train_adapter(policy)
    before = copy.deepcopy(policy.model.state_dict())
    refilled(policy, 1.0, 3)
    after = policy.model.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


def test_buckets() -> None:
    """A size holds its count, at most four times over from eight on, and never more than there are rows."""
    for most in (1, 5, 48, 256):
        for count in range(1, most + 1):
            size = bucket(count, most)
            assert count <= size <= min(most, max(8, 4 * count - 1))


@needs_gpu
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_graphs_write_what_the_cpu_writes(make_varied_policy: MakePolicy, architecture: str) -> None:
    """In float32 the kernels and graphs of a GPU write, token for token, what the CPU does."""
    from tritonrl.harness.policy.sampling import triton_ops

    policy = make_varied_policy(architecture)
    train_adapter(policy)
    expected = [in_step(policy, temperature) for temperature in (0.0, 1.0)]
    policy.model.to("cuda")
    assert can_capture(policy.base)
    for temperature, tokens in zip((0.0, 1.0), expected, strict=True):
        assert refilled(policy, temperature, 3, module=triton_ops) == tokens
        assert refilled(policy, temperature, 64, module=triton_ops) == tokens


@needs_gpu
def test_sample_uses_the_gpu(make_varied_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sample` on a GPU gives the texts of the CPU in float32, with nucleus sampling too, and never goes in step."""
    policy = make_varied_policy("llama")
    expected = sample(policy, REPEATED, range(16), temperature=1.0, top_p=0.9, max_new_tokens=20)
    policy.model.to("cuda")
    monkeypatch.delattr(sampling, "_complete_in_step")
    assert sample(policy, REPEATED, range(16), temperature=1.0, top_p=0.9, max_new_tokens=20) == expected
