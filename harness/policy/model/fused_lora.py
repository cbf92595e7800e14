"""LoRA layers of one input computed together: query, key and value, and gate and up.

peft computes each layer by itself: a dropout, two small products, a scaling and a sum for every one of them, in
float32 where the model is in bfloat16, and it keeps the input, its mask and its masked copy until the gradients are
due. Here the layers that read one input share its dropout and their first factors are one product; what is kept is
the input once and a mask of bytes; and everything is computed in the input's dtype, while the factors and their
gradients stay in float32. Each layer alone computes what peft's computes. Sharing a mask among layers of one input is
the one difference, and none in distribution for each of them.

Weights in 8 bit, and modules that are not plain, are called as they are.

Their dropout draws 16 random bits an element instead of 32 or more: on a CPU torch's own took a fifth of a training
step (measured: 280 of 1,400 ms for 3,900 tokens of `nano`). One 64-bit draw decides four elements, so that
probabilities are multiples of 1/65536. GPUs have one kernel that writes the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def keep_mask(shape: torch.Size, probability: float, device: torch.device) -> Tensor:
    """Draw booleans of `shape`, each False with `probability`, from torch's global generator."""
    if device.type != "cpu":
        if torch.compiler.is_compiling():
            return torch.rand(shape, device=device) >= probability
        return torch.empty(shape, dtype=torch.bool, device=device).bernoulli_(1.0 - probability)
    count = shape.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64, device=device).random_(-(2**63), None)
    threshold = round(probability * 2**16) - 2**15
    return (words.view(torch.int16)[:count] >= threshold).view(shape)


class SparseDropout(nn.Module):
    """`nn.Dropout` with cheaper random numbers."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, states: Tensor) -> Tensor:
        """In training, zeros with the probability, the rest scaled up; otherwise the states."""
        if not self.training:
            return states
        scale = keep_mask(states.shape, self.probability, states.device).to(states.dtype)
        return states * scale.mul_(1.0 / (1.0 - self.probability))


def probability_of(module: nn.Module) -> float:
    """The probability with which a dropout module, or none, makes zeros now: nothing is dropped out of training."""
    if not module.training:
        return 0.0
    return float(module.probability) if isinstance(module, SparseDropout) else float(getattr(module, "p", 0.0))


def make_dropout(probability: float) -> nn.Module:
    return SparseDropout(probability)


class _Together(torch.autograd.Function):
    """Several LoRA layers of one input, their base weights frozen."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, mask: Tensor | None, scales: tuple[float, ...], *tensors: Tensor | None
    ) -> tuple[Tensor, ...]:
        weights, biases, firsts, seconds = (tensors[start::4] for start in range(4))
        dtype = states.dtype
        first = torch.cat([one.to(dtype) for one in firsts if one is not None])
        second = [one.to(dtype) for one in seconds if one is not None]
        flat = states.flatten(0, -2)
        kept = flat if mask is None else flat * mask.view_as(flat)
        inner = kept @ first.t()
        results = []
        for weight, bias, factor, part, scale in zip(
            weights, biases, second, _parts(inner, second), scales, strict=True
        ):
            assert weight is not None
            result = functional.linear(flat, weight, bias)
            results.append(result.addmm_(part, factor.t(), alpha=scale).view(*states.shape[:-1], -1))
        ctx.save_for_backward(states, mask, inner, first, *second, *weights)
        ctx.scales = scales
        ctx.dtypes = [one.dtype for one in firsts if one is not None]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, mask, inner, first, *others = ctx.saved_tensors
        seconds, weights = others[: len(gradients)], others[len(gradients) :]
        flat = states.flatten(0, -2)
        flats = [gradient.reshape(-1, gradient.shape[-1]) for gradient in gradients]
        kept = flat if mask is None else flat * mask.view_as(flat)
        through, of_seconds = [], []
        for gradient, second, part, scale, dtype in zip(
            flats, seconds, _parts(inner, seconds), ctx.scales, ctx.dtypes, strict=True
        ):
            of_seconds.append((gradient.t() @ part).to(dtype).mul_(scale))
            through.append((gradient @ second).mul_(scale))
        inward = torch.cat(through, dim=1)
        of_firsts = _rows(inward.t() @ kept, seconds)
        of_states = None
        if ctx.needs_input_grad[0]:
            added = inward @ first
            of_states = added if mask is None else added.mul_(mask.view_as(flat))
            for gradient, weight in zip(flats, weights, strict=True):
                of_states.addmm_(gradient, weight)
            of_states = of_states.view_as(states)
        found: list[Tensor | None] = []
        for of_first, of_second, dtype in zip(of_firsts, of_seconds, ctx.dtypes, strict=True):
            found += [None, None, of_first.to(dtype), of_second]
        return (of_states, None, None, *found)


def _parts(inner: Tensor, seconds: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The columns of `inner` that belong to each layer."""
    return torch.split(inner, [second.shape[1] for second in seconds], dim=1)


def _rows(firsts: Tensor, seconds: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return torch.split(firsts, [second.shape[1] for second in seconds])


def is_plain(module: Any) -> bool:
    """Whether a module is peft's LoRA layer with one adapter over plain weights, which `project_together` computes."""
    adapters = getattr(module, "active_adapters", None)
    return (
        adapters is not None
        and len(adapters) == 1
        and type(module.get_base_layer()) is nn.Linear
        and not module.merged
        and not module.disable_adapters
        and not getattr(module, "use_dora", {}).get(adapters[0], False)
    )


def project_together(modules: Sequence[Any], states: Tensor) -> list[Tensor]:
    """What each of `modules`, linear layers with or without LoRA, makes of `states` (..., features)."""
    if not all(is_plain(module) for module in modules):
        return [module(states) for module in modules]
    tensors: list[Tensor | None] = []
    scales, probability = [], 0.0
    for module in modules:
        (name,) = module.active_adapters
        base = module.get_base_layer()
        tensors += [base.weight, base.bias, module.lora_A[name].weight, module.lora_B[name].weight]
        scales.append(float(module.scaling[name]))
        probability = probability_of(module.lora_dropout[name])
    mask = None
    if probability > 0.0:
        mask = keep_mask(states.shape, probability, states.device)
        scales = [scale / (1.0 - probability) for scale in scales]
    if torch.compiler.is_compiling():  # a compiler fuses the plain sums itself
        return _plainly(states, mask, scales, tensors)
    results: tuple[Tensor, ...] = _Together.apply(states, mask, tuple(scales), *tensors)  # type: ignore[no-untyped-call]
    return list(results)


def _plainly(
    states: Tensor, mask: Tensor | None, scales: Sequence[float], tensors: Sequence[Tensor | None]
) -> list[Tensor]:
    """What `_Together` computes, by operations that autograd knows."""
    kept = states if mask is None else states * mask
    results = []
    for number, scale in enumerate(scales):
        weight, bias, first, second = tensors[4 * number : 4 * number + 4]
        assert weight is not None
        assert first is not None
        assert second is not None
        inner = functional.linear(kept, first.to(states.dtype))
        added = functional.linear(inner, second.to(states.dtype))
        results.append(functional.linear(states, weight, bias) + scale * added)
    return results
