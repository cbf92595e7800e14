"""Measures how fast a policy is sampled, beside transformers' `generate` and what memory bandwidth allows.

All completions are as long as they may be, and no two prompts are equal: both sides do the same work. A second
figure of ours has several times as many completions as slots, with ends that come at random, as in reinforcement
learning: rows that end are refilled.

The bound is the time that reading all weights, and the keys and values that a step needs, takes at the bandwidth of a
large copy on the same device. Our first call makes what later ones find, as in a run (`policy.keeping`); every call
merges its weights. The check of greedy tokens lets transformers read what we wrote: each token must be the likeliest by
transformers' own logits, or as likely up to the noise of its own arithmetic, which is measured as the distance of its
logits to those in float32.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from attrs import frozen

from ....core.config import PolicyConfig
from ...policy.model import shapes
from ...policy.model.load import Policy, load_policy
from ...policy.sampling.cache import release
from ...policy.sampling.continuous_batching import can_capture
from ...policy.sampling.cpu_decoder import has_fused_form
from ...policy.sampling.engine import sample_tokens
from ...policy.sampling.fused_model import FusedModel
from ...policy.sampling.kv_pool import Drawing, Sizes, Slots, Start, uniforms
from ..watching import describe_device, wait_for

_REFILLED = 4
"""Completions for each slot where rows are refilled."""
_CHECKED = (16, 64)
"""Completions, and tokens of each, of the greedy check."""
_COPY_BYTES = {"cuda": 4 << 30, "cpu": 256 << 20}
_STEPS = 32


@frozen(kw_only=True)
class GreedyFigures:
    """Our greedy tokens as transformers sees them: `largest_gap` to the likeliest and its own `noise`, in logits."""

    num_tokens: int
    num_distinct: int
    share_likeliest: float
    largest_gap: float
    noise: float

    @property
    def is_equal(self) -> bool:
        """Return whether every token is the likeliest up to noise, which either of two logits may have."""
        return self.largest_gap <= 2.0 * self.noise


@frozen(kw_only=True)
class SamplingFigures:
    """Tokens a second, and what bounds them; null = not measured."""

    model: str
    device: str
    dtype: str
    num_parameters: int
    batch: int
    prompt_tokens: int
    new_tokens: int
    first_s: float
    seconds: tuple[float, ...]
    tokens_per_s: float
    generate_s: float | None
    generate_tokens_per_s: float | None
    speedup: float | None
    refilled_completions: int | None
    refilled_tokens_per_s: float | None
    step_ms: float | None
    copy_gb_per_s: float
    step_gb: float
    bound_tokens_per_s: float
    share_of_bound: float
    step_share_of_bound: float | None
    greedy: GreedyFigures


def measure_sampling(
    name: str | None,
    shape: str | None,
    batch: int,
    prompt_tokens: int,
    new_tokens: int,
    repeats: int,
    seed: int,
    threads: int,
    with_generate: bool,
) -> SamplingFigures:
    """Measure one policy, or random weights of a shape, on the GPU where there is one."""
    if threads:
        torch.set_num_threads(threads)
    policy = make_random(shape, seed) if shape else load_policy(PolicyConfig(name=name or "nano", threads=threads))
    model, device = policy.base, policy.device
    torch.manual_seed(seed)
    prompts = torch.randint(model.config.vocab_size, (batch, prompt_tokens))
    first_s, *timed = (
        _time(lambda: _sample(policy, prompts, batch, new_tokens), device)[0] for _ in range(1 + repeats)
    )
    is_fast = has_fused_form(policy) and can_capture(model)
    refilled = _measure_refilled(policy, prompts, new_tokens) if is_fast else None
    # what follows has the memory that it would have alone
    release(policy)
    step_s = _time_step(policy, prompts.tolist(), new_tokens) if is_fast else None
    bandwidth = _copy_bandwidth(device)
    step_bytes = _bytes_of_step(model, batch, prompt_tokens + (new_tokens + 1) / 2)
    bound = batch * bandwidth / step_bytes
    generate_s = _time_generate(model, prompts.to(device), new_tokens) if with_generate else None
    seconds = statistics.median(timed)
    tokens_per_s = batch * new_tokens / seconds
    return SamplingFigures(
        model=policy.name,
        device=describe_device(device),
        dtype=str(model.dtype).removeprefix("torch."),
        num_parameters=model.num_parameters(),
        batch=batch,
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        first_s=first_s,
        seconds=tuple(timed),
        tokens_per_s=tokens_per_s,
        generate_s=generate_s,
        generate_tokens_per_s=batch * new_tokens / generate_s if generate_s else None,
        speedup=generate_s / seconds if generate_s else None,
        refilled_completions=_REFILLED * batch if refilled else None,
        refilled_tokens_per_s=refilled,
        step_ms=step_s * 1e3 if step_s else None,
        copy_gb_per_s=bandwidth / 1e9,
        step_gb=step_bytes / 1e9,
        bound_tokens_per_s=bound,
        share_of_bound=tokens_per_s / bound,
        step_share_of_bound=batch / step_s / bound if step_s else None,
        greedy=_check_greedy(policy, prompts[: _CHECKED[0]]),
    )


def _sample(
    policy: Policy, prompts: torch.Tensor, count: int, new_tokens: int, ends: frozenset[int] = frozenset()
) -> int:
    """Sample `count` completions of `prompts` (batch, length), in turns and rotated; returns the tokens written."""
    batch = len(prompts)
    repeated = [prompts[number % batch].roll(number // batch).tolist() for number in range(count)]
    written = sample_tokens(
        policy, repeated, range(count), temperature=1.0, max_new_tokens=new_tokens, ends=ends, max_slots=batch
    )
    return sum(map(len, written))


def _measure_refilled(policy: Policy, prompts: torch.Tensor, new_tokens: int) -> float:
    """Measure tokens a second with several times as many completions as slots, whose ends come at random."""
    # tokens that end a completion, so many that half of them have ended by half of the limit if all are as likely
    ends = frozenset(range(max(1, round(1.4 * policy.base.config.vocab_size / new_tokens))))
    # twice, because the first call compiles kernels for fewer rows
    for _ in range(2):
        seconds, count = _time(
            lambda: _sample(policy, prompts, _REFILLED * len(prompts), new_tokens, ends), policy.device
        )
    return count / seconds


def make_random(shape: str, seed: int) -> Policy:
    """Make a policy without a tokenizer, of random weights of a shape that `policy.shapes` knows."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = shapes.make_random(shapes.read_shape(shape), seed, device, dtype)
    return Policy(model=model, tokenizer=None, name=f"random weights, {shape}", fingerprint=shape)


def _time(work: Callable[[], int], device: torch.device) -> tuple[float, int]:
    wait_for(device)
    started = time.perf_counter()
    result = work()
    wait_for(device)
    return time.perf_counter() - started, result


@torch.no_grad()
def _time_step(policy: Policy, prompts: list[list[int]], new_tokens: int) -> float:
    """Measure seconds of one step where half of the tokens are written."""
    from ...policy.sampling import triton_ops

    count, longest = len(prompts), max(map(len, prompts))
    sizes = Sizes(rows=count, prompts=count, prompt_tokens=longest, new_tokens=new_tokens)
    model = FusedModel(policy.base)
    drawing = Drawing(ends=frozenset(), temperature=1.0, top_p=1.0)
    slots = Slots(model, triton_ops, sizes, drawing, captures=True)
    slots.read(prompts, range(count))
    slots.begin(
        [
            Start(row=row, prompt=row, length=len(prompt), token=prompt[-1], uniforms=uniforms(row, new_tokens))
            for row, prompt in enumerate(prompts)
        ]
    )
    steps = min(_STEPS, new_tokens // 2)
    slots.advance(range(count), max(1, (new_tokens - steps) // 2))
    seconds, _ = _time(lambda: len(slots.advance(range(count), steps)), model.device)
    return seconds / steps


@torch.inference_mode()
def _time_generate(model: Any, prompts: torch.Tensor, new_tokens: int) -> float:
    def generate(count: int) -> int:
        written = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            eos_token_id=None,
            pad_token_id=0,
            max_new_tokens=count,
            min_new_tokens=count,
        )
        return int(written.shape[1])

    generate(4)
    seconds, length = _time(lambda: generate(new_tokens), prompts.device)
    if length != prompts.shape[1] + new_tokens:
        raise RuntimeError(f"generate wrote {length - prompts.shape[1]} tokens, not {new_tokens}")
    return seconds


def _copy_bandwidth(device: torch.device) -> float:
    """Measure bytes a second, read and written, of the best of several large copies."""
    source = torch.ones(_COPY_BYTES[device.type] // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)

    def fill() -> int:
        target.copy_(source)
        return 0

    return 2 * source.nbytes / min(_time(fill, device)[0] for _ in range(6))


def _bytes_of_step(model: Any, batch: int, length: float) -> float:
    """Return the bytes that a step must read: each weight once, and all keys and values."""
    config = model.config
    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    if not config.tie_word_embeddings:
        embedding = model.get_input_embeddings().weight
        weights -= embedding.numel() * embedding.element_size()
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    element = model.get_input_embeddings().weight.element_size()
    per_token = 2 * config.num_hidden_layers * config.num_key_value_heads * size * element
    return float(weights + batch * length * per_token)


@torch.inference_mode()
def _check_greedy(policy: Policy, prompts: torch.Tensor) -> GreedyFigures:
    """Let transformers read our greedy completions."""
    model, count = policy.base, _CHECKED[1]
    written = sample_tokens(policy, prompts.tolist(), range(len(prompts)), temperature=0.0, max_new_tokens=count)
    answer = torch.tensor(written, device=policy.device)
    whole = torch.cat((prompts.to(policy.device), answer), dim=1)
    logits = model(input_ids=whole, logits_to_keep=count + 1).logits[:, :-1].float()
    gaps = logits.amax(-1) - logits.gather(-1, answer[:, :, None])[:, :, 0]
    noise = 1e-4
    if model.dtype != torch.float32:
        # a copy, because buffers must not be rounded on the way back
        exact = copy.deepcopy(model).float()(input_ids=whole, logits_to_keep=count + 1).logits[:, :-1]
        noise = float((exact - logits).abs().max())
    return GreedyFigures(
        num_tokens=answer.numel(),
        num_distinct=len(set(answer.flatten().tolist())),
        share_likeliest=float((gaps == 0).float().mean()),
        largest_gap=float(gaps.max()),
        noise=noise,
    )
