"""What is kept between calls: adapters in any order give what each gives alone, and nothing grows."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import plain_ops
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from tritonrl.core.recipe.learner import Sampling, Training
from tritonrl.harness.policy.learner import PolicyLearner
from tritonrl.harness.policy.model.load import LoraShape, Policy
from tritonrl.harness.policy.model.lora_adapters import attach_adapter, load_adapter, reset_adapter, save_adapter
from tritonrl.harness.policy.sampling import cache
from tritonrl.harness.policy.sampling import kv_pool as slotting
from tritonrl.harness.policy.sampling.cache import SamplerCache, free_for_training, merge, release
from tritonrl.harness.policy.sampling.continuous_batching import Request, complete
from tritonrl.harness.policy.sampling.engine import sample
from tritonrl.harness.policy.sampling.fused_model import FusedModel
from tritonrl.harness.policy.sampling.kv_pool import Slots
from tritonrl.harness.policy.training import finetune as tuning
from tritonrl.harness.policy.training.finetune import Execution, finetune

MakePolicy = Callable[[str], Policy]
PROMPTS = [text for text in ("one", "def forward(self, x):\n    return x * 12", "1 2 3") for _ in range(3)]
PAIRS = [(f"write {word}", f"def {word}(x):\n    return x * {number}") for number, word in enumerate("abcd", start=1)]
TRAINING = Training(
    epochs=2, learning_rate=1e-2, batch_size=2, warmup_share=0.0, lora_rank=4, lora_alpha=8, lora_dropout=0.1, seed=3
)
ORDER = (None, "a", "b", "a", "wide", None, "b")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def adapters(make_varied_policy: MakePolicy, tmp_path: Path) -> Callable[[str], dict[str | None, Path | None]]:
    """Folders of adapters that change much, two of one shape and one of another; null is the base model."""

    def make(architecture: str) -> dict[str | None, Path | None]:
        folders: dict[str | None, Path | None] = {None: None}
        for number, (name, rank) in enumerate((("a", 4), ("b", 4), ("wide", 6))):
            policy = make_varied_policy(architecture)
            attach_adapter(policy, LoraShape(rank=rank, alpha=8, dropout=0.1), number)
            torch.manual_seed(number)
            with torch.no_grad():
                for key, weight in policy.model.named_parameters():
                    if "lora_B" in key:
                        weight.normal_(std=0.2)
            save_adapter(policy, tmp_path / name)
            folders[name] = tmp_path / name
        return folders

    return make


def texts_of(
    learner: PolicyLearner, adapter: Path | None, temperature: float, prompts: Sequence[str] = PROMPTS
) -> list[str]:
    sampling = Sampling(temperature=temperature, top_p=1.0, max_new_tokens=24)
    completions = learner.sample(adapter, prompts, range(len(prompts)), sampling, lambda _: None)
    return [completion.text for completion in completions]


def put(policy: Policy, folder: Path | None) -> None:
    if folder is not None:
        load_adapter(policy, folder)
    elif policy.lora is not None:
        reset_adapter(policy, 0)


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_any_order_gives_what_each_gives_alone(
    make_varied_policy: MakePolicy, adapters: Callable[[str], dict[str | None, Path | None]], architecture: str
) -> None:
    """One learner that samples adapters in turn, and trains in between, writes what a new learner for each writes."""
    folders = adapters(architecture)
    expected = {
        (name, temperature): texts_of(PolicyLearner(make_varied_policy(architecture)), folder, temperature)
        for name, folder in folders.items()
        for temperature in (0.0, 1.0)
    }
    assert len({tuple(texts) for texts in expected.values()}) == len(expected)
    learner, folder = PolicyLearner(make_varied_policy(architecture)), folders["a"]
    assert folder is not None
    models = set()
    for turn, name in enumerate(ORDER):
        for temperature in (0.0, 1.0):
            assert texts_of(learner, folders[name], temperature) == expected[name, temperature], (turn, name)
        models.add(id(learner.policy.cache.model))
        learner.finetune(folders[name], PAIRS, TRAINING, folder.with_name("trained"), lambda _: None)
    assert len(models) == 1


def test_training_after_sampling_is_training(
    make_varied_policy: MakePolicy, adapters: Callable[[str], dict[str | None, Path | None]]
) -> None:
    """An adapter that is trained after sampling with another is, bit for bit, the one that is trained at once."""
    folder = adapters("llama")["a"]
    assert folder is not None
    files = []
    for name, samples_first in (("at_once", False), ("after", True)):
        learner = PolicyLearner(make_varied_policy("llama"))
        if samples_first:
            texts_of(learner, folder, 1.0)
        learner.finetune(None, PAIRS, TRAINING, folder.with_name(name), lambda _: None)
        files.append((folder.with_name(name) / "adapter_model.safetensors").read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_merged_weights_are_exact(
    make_varied_policy: MakePolicy, adapters: Callable[[str], dict[str | None, Path | None]], dtype: torch.dtype
) -> None:
    """After any adapters the tensors hold base plus delta, bit for bit, where they were; the base never changes."""
    folders = adapters("qwen2")
    policy = make_varied_policy("qwen2")
    policy.model.to(dtype)
    base = copy.deepcopy(policy.model.state_dict())
    places = set()
    for name in ORDER:
        put(policy, folders[name])
        model = merge(policy)
        places.add(tuple(tensor.data_ptr() for layer in model.layers for pair in layer.fused for tensor in pair[:1]))
        for own, layer in zip(model.layers, policy.base.model.layers, strict=True):
            attention, mlp = layer.self_attn, layer.mlp
            parts = [(attention.q_proj, attention.k_proj, attention.v_proj), (attention.o_proj,)]
            parts += [(mlp.gate_proj, mlp.up_proj), (mlp.down_proj,)]
            for (weight, bias), linears in zip(own.fused, parts, strict=True):
                assert torch.equal(weight, torch.cat([merged_weight(linear) for linear in linears]))
                if bias is not None:
                    assert torch.equal(bias, torch.cat([linear.bias for linear in linears]))
        after = {key.replace("base_layer.", ""): value for key, value in policy.base.state_dict().items()}
        assert all(torch.equal(after[key], value) for key, value in base.items())
    assert len(places) == 1


def merged_weight(linear: torch.nn.Module) -> torch.Tensor:
    """A layer's weight, with its delta rounded to the weight's type and added, in new tensors."""
    if not hasattr(linear, "get_delta_weight"):
        return linear.weight.detach()
    weight = linear.get_base_layer().weight.detach()
    return weight + linear.get_delta_weight("default").detach().to(weight.dtype)


def requests(policy: Policy) -> list[Request]:
    """Requests that exceed one another in rows, prompts or tokens, and others of one size that draw otherwise."""
    encoded = [policy.encode_prompt(prompt) for prompt in PROMPTS]
    several = [policy.encode_prompt(f"{number}") for number in range(6)]
    longer = [policy.encode_prompt(f"{word} rather longer request " * 6) for word in ("a", "some")]

    def request(prompts: Sequence[list[int]], temperature: float, ends: Sequence[int] = (), most: int = 12) -> Request:
        return Request(
            prompts=prompts,
            # from 0 on, seed 7 has a uniform within 3e-8 of a token's bound: rounding decides
            seeds=range(100, len(prompts) + 100),
            ends=frozenset(ends),
            temperature=temperature,
            top_p=0.9 if ends else 1.0,
            max_new_tokens=most,
        )

    return [
        request(encoded, 1.0),
        request(encoded[:4], 0.0),
        request(several, 0.7),
        request([[7], *longer], 1.0),
        request(encoded, 0.7),
        request(encoded, 1.0, range(0, 600, 9)),
        request([*encoded, *several] * 2, 1.0, range(0, 600, 9)),
        request(encoded[:1], 1.0, range(50)),
        request(encoded, 1.0, most=9),
    ]


def answer(
    model: FusedModel,
    request: Request,
    kept: SamplerCache | None,
    most_rows: int,
    on_ended: Callable[[int, list[int]], None] = lambda *_: None,
    captures: bool = False,
) -> list[list[int]]:
    return complete(model, plain_ops, request, most_rows=most_rows, captures=captures, on_ended=on_ended, kept=kept)


@pytest.mark.parametrize("most_rows", [3, 64])
def test_slots_serve_one_request_after_the_other(
    make_varied_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch, most_rows: int
) -> None:
    """Slots that served other requests, larger and smaller ones, write what new ones write; soon none is made anew."""
    monkeypatch.setattr(cache, "PROMPT_GRAIN", 1)
    policy = make_varied_policy("llama")
    model = FusedModel(policy.base)
    kept = SamplerCache(model)
    expected = [answer(model, request, None, most_rows) for request in requests(policy)]
    assert [answer(model, request, kept, most_rows) for request in requests(policy)[:-1]] == expected[:-1]
    largest = kept.slots
    for request, tokens in list(zip(requests(policy), expected, strict=True))[:-1]:
        assert answer(model, request, kept, most_rows) == tokens
        assert kept.slots is largest
    assert answer(model, requests(policy)[-1], kept, most_rows) == expected[-1]


class Recording(TorchDispatchMode):
    """What a captured graph is, on a CPU: operations that run again on the tensors that they ran on.

    Like a graph it owns what its operations made, and of what they found it knows the place alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any]] = []
        self.made: dict[int, torch.Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments = (args, kwargs or {})
        found = {id(leaf) for leaf in tree_leaves(arguments)}
        lent = tree_map_only(torch.Tensor, self.lend, arguments)
        result = func(*args, **arguments[1])
        self.made.update((id(made), made) for made in tree_leaves(result) if id(made) not in found)
        self.calls.append((func, lent, tree_map_only(torch.Tensor, self.lend, result)))
        return result

    def lend(self, tensor: torch.Tensor) -> weakref.ref[torch.Tensor]:
        return weakref.ref(tensor)

    def replay(self) -> None:
        for func, lent, results in self.calls:
            args, kwargs = tree_map_only(weakref.ref, lambda reference: reference(), lent)
            for old, new in zip(tree_leaves(results), tree_leaves(func(*args, **kwargs)), strict=True):
                if old().data_ptr() != new.data_ptr():
                    old().copy_(new)

    def pool(self) -> None:
        """Memory of its own."""


def record(work: Callable[[], object], device: torch.device, memory: object) -> Recording:
    with Recording() as recording:
        work()
    return recording


def test_kept_graphs_serve_other_adapters(
    make_varied_policy: MakePolicy,
    adapters: Callable[[str], dict[str | None, Path | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Recorded steps, which fix all but the contents of tensors, write for later adapters what new steps write."""
    monkeypatch.setattr(cache, "PROMPT_GRAIN", 1)
    monkeypatch.setattr(slotting, "capture", record)
    folders = adapters("llama")
    expected: dict[str, list[list[list[int]]]] = {}
    for name in ("a", "b"):
        policy = make_varied_policy("llama")
        put(policy, folders[name])
        expected[name] = [answer(merge(policy), request, None, 64) for request in requests(policy)[:-1]]
    assert len({str(tokens) for answers in expected.values() for tokens in answers}) == 2 * 8
    sizes = set()
    for request in requests(policy)[:-1]:
        release(policy)
        answer(merge(policy), request, policy.cache, 64, captures=True)
        sizes |= set(policy.cache.slots.graphs)

    policy, graphs = make_varied_policy("llama"), []
    for name in ("a", "b", "a"):
        put(policy, folders[name])
        for request, tokens in zip(requests(policy), expected[name], strict=False):
            assert answer(merge(policy), request, policy.cache, 64, captures=True) == tokens, name
        graphs.append({key: id(graph) for key, graph in policy.cache.slots.graphs.items()})
    # with the first adapter slots may have grown; what is computed together is decided by a request alone
    assert graphs[1] == graphs[2]
    assert set(graphs[2]) == sizes


def test_a_failed_call_leaves_nothing(make_varied_policy: MakePolicy) -> None:
    """Slots of a call that fails are gone, and the next call is right."""
    policy = make_varied_policy("llama")
    model = FusedModel(policy.base)
    kept, request = SamplerCache(model), requests(policy)[0]
    expected = answer(model, request, kept, 3)
    assert kept.slots is not None

    def fail(*_: object) -> None:
        raise RuntimeError("the progress bar broke")

    with pytest.raises(RuntimeError):
        answer(model, request, kept, 3, on_ended=fail)
    assert kept.slots is None
    assert answer(model, request, kept, 3) == expected


def test_only_what_is_small_is_kept(make_varied_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights above the limit are not kept, nor is a pool with which they exceed it; the tokens are the same."""
    policy = make_varied_policy("llama")
    request = requests(policy)[0]
    expected = answer(merge(policy), request, policy.cache, 64)
    assert isinstance(policy.cache.slots, Slots)
    limit = policy.cache.model.num_bytes
    for most, keeps_weights in ((limit - 1, False), (limit, True)):
        monkeypatch.setattr(cache, "KEPT_BYTES", most)
        release(policy)
        assert answer(merge(policy), request, policy.cache, 64) == expected
        assert (policy.cache is not None) is keeps_weights
        assert policy.cache is None or policy.cache.slots is None


def test_kept_weights_are_of_the_model(make_varied_policy: MakePolicy) -> None:
    """Where a policy's weights were replaced or moved, nothing old is used; training on a CPU gives nothing up."""
    policy = make_varied_policy("llama")
    sample(policy, PROMPTS, range(9), temperature=0.0, max_new_tokens=8)
    before = policy.cache
    free_for_training(policy, is_long=True)
    assert policy.cache is before
    policy.model = make_varied_policy("llama").model
    with torch.no_grad():
        policy.model.model.norm.weight.normal_()
    found = sample(policy, PROMPTS, range(9), temperature=0.0, max_new_tokens=8)
    assert policy.cache is not before
    release(policy)
    assert sample(policy, PROMPTS, range(9), temperature=0.0, max_new_tokens=8) == found


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kept_graphs_write_what_new_ones_write(
    make_varied_policy: MakePolicy,
    adapters: Callable[[str], dict[str | None, Path | None]],
    monkeypatch: pytest.MonkeyPatch,
    dtype: torch.dtype,
) -> None:
    """On a GPU adapters in turn, with captured training between, write what each writes alone; nothing grows."""
    folders = adapters("llama")
    calls = [(name, temperature, count) for name in ORDER for temperature in (0.0, 1.0) for count in (9, 40)]

    def prompts(count: int) -> list[str]:
        return [f"{PROMPTS[number % 9]} {number % 5}" for number in range(count)]

    def open_learner() -> PolicyLearner:
        policy = make_varied_policy("llama")
        policy.model.to("cuda", dtype)
        return PolicyLearner(policy)

    expected = [
        texts_of(open_learner(), folders[name], temperature, prompts(count)) for name, temperature, count in calls
    ]
    assert len({tuple(texts) for texts in expected}) == 2 * 2 * len(folders)

    # what is kept stays beside the graphs of training, although a long one would give it up
    monkeypatch.setattr(tuning, "free_for_training", lambda *_, **__: None)
    execution = Execution(microbatch_tokens=4096, capture=dtype == torch.bfloat16)

    def train(policy: Policy) -> list[float]:
        attach_adapter(policy, LoraShape(rank=4, alpha=8, dropout=0.1), 0)
        points = finetune(policy, PAIRS, epochs=2, learning_rate=1e-2, batch_size=2, seed=0, execution=execution)
        return [point.loss for point in points]

    losses, learner = train(open_learner().policy), open_learner()
    graphs, used = [], []
    for _ in range(3):
        for (name, temperature, count), texts in zip(calls, expected, strict=True):
            assert texts_of(learner, folders[name], temperature, prompts(count)) == texts, (name, temperature, count)
        graphs.append({key: id(graph) for key, graph in learner.policy.cache.slots.graphs.items()})
        assert train(learner.policy) == pytest.approx(losses, rel=0.05)
        gc.collect()
        used.append(torch.cuda.memory_allocated())
    assert graphs[0]
    assert graphs[0] == graphs[1] == graphs[2]
    assert used[1] == used[2]


@needs_gpu
def test_training_on_a_gpu_gives_up_what_is_kept(
    make_varied_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a long training, or where little is free, what sampling keeps goes back; else it stays."""
    policy = make_varied_policy("llama")
    policy.model.to("cuda")

    def kept_after(is_long: bool) -> bool:
        sample(policy, PROMPTS, range(9), temperature=1.0, max_new_tokens=8)
        assert policy.cache.slots is not None
        free_for_training(policy, is_long=is_long)
        return policy.cache is not None

    assert kept_after(False)
    assert not kept_after(True)
    monkeypatch.setattr(cache, "FREE_SHARE", 1.0)
    assert not kept_after(False)
