"""Products of references on a CPU: convolutions in parts, and none at all where only refusals are asked for.

For a convolution in float64, and for a transposed one in float32 too, PyTorch writes out what each position is
multiplied with. The matrix that it writes for a sample, or for a batch, may have gigabytes, and memory that is new
takes several times as long as the product. So the oracle computes a large convolution in parts. A transposed one with
strides of 1 is a convolution of the other channels: its matrix has the input's, and as it is the result's, which are
often more.

Whether a reference runs at some sizes hangs on shapes, and on values that are given, but seldom on a product's values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

_MOST_BYTES = 1 << 24
"""Of a part's matrix, for each thread: the C library gives so much again and again, and asks for no new memory."""

_PRODUCTS = frozenset(
    {torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm, torch.ops.aten.convolution}
)


class UncomputedProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Returns zeros for matrix products and convolutions: shapes, strides and refusals are as computed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.num_left_out = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        if func.overloadpacket not in _PRODUCTS or len({value.dtype for value in tensors}) > 1:
            return func(*args, **(kwargs or {}))
        if func is torch.ops.aten.convolution.default:
            func(args[0][:0], *args[1:])  # of no sample: without values it refuses less
        self.num_left_out += 1
        given, named = tree_map_only(torch.Tensor, lambda value: value.to("meta"), (args, kwargs or {}))
        return torch.zeros_like(func(*given, **named), device="cpu")


class ConvolutionsInParts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Computes convolutions of float64 on a CPU by `convolve`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.convolution.default and args[0].is_cpu and args[0].dtype is torch.float64:
            return convolve(*args)
        return func(*args, **(kwargs or {}))


def convolve(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    is_transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """Return what `torch.convolution` does, but for rounding where it is large."""
    given = (stride, padding, dilation, is_transposed, output_padding, groups)
    num_axes = x.ndim - 2
    stride, padding, dilation, output_padding = (
        [*each] * (num_axes // len(each)) for each in (stride, padding, dilation, output_padding)
    )
    reach = [step * (length - 1) for step, length in zip(dilation, weight.shape[2:], strict=True)]
    if is_transposed:
        padding = [far - pad for far, pad in zip(reach, padding, strict=True)]
    # it is zero where there is none, as in a convolution that is not transposed
    ends = [(pad, pad + more) for pad, more in zip(padding, output_padding, strict=True)]
    inner = [length + sum(pair) - far for length, pair, far in zip(x.shape[2:], ends, reach, strict=True)]
    sizes = [(length - 1) // step + 1 for length, step in zip(inner, stride, strict=True)]
    most = _MOST_BYTES * torch.get_num_threads()
    num_bytes = x.element_size() * weight[0].numel() * math.prod(x.shape[2:] if is_transposed else sizes)
    is_kept = is_transposed and not _is_better_turned(weight, stride, groups)
    if is_kept or min(sizes) < 1 or len(x) * num_bytes <= most:
        return torch.convolution(x, weight, bias, *given)

    if is_transposed:
        weight = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2).flatten(0, 1).flip(*range(2, x.ndim))
        num_bytes = x.element_size() * weight[0].numel() * math.prod(sizes)
    padded = torch.nn.functional.pad(x, [number for pair in reversed(ends) for number in pair])
    none, rows = [0] * num_axes, max(1, most * sizes[0] // num_bytes)

    def convolve_rows(samples: torch.Tensor, low: int) -> torch.Tensor:
        num_rows = (min(rows, sizes[0] - low) - 1) * stride[0] + reach[0] + 1
        part = samples.narrow(2, low * stride[0], num_rows)
        return torch.convolution(part, weight, bias, stride, none, dilation, False, none, groups)

    few, lows = max(1, most // num_bytes), range(0, sizes[0], rows)
    samples = (padded[at : at + few] for at in range(0, len(x), few))
    return torch.cat([torch.cat([convolve_rows(each, low) for low in lows], 2) for each in samples])


def _is_better_turned(weight: torch.Tensor, stride: Sequence[int], groups: int) -> bool:
    """Whether a transposed convolution is a convolution of no more channels than its result has.

    With infinite weights it is none: times zeros of the padding they would be NaN.
    """
    return max(stride) == 1 and weight.shape[1] * groups >= weight.shape[0] and bool(weight.isfinite().all())
