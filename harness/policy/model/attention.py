"""Attention within documents that lie one after another in one row: a token sees its own document up to itself.

Packing is only right if nothing leaks from one document to the next. Three ways give the same result:
`attend_by_parts` cuts the row at the borders, which is best on a CPU; `attend_by_lengths` hands the borders to one
kernel (FlashAttention in torch, half precision on a GPU); and a mask of equal documents, dense or compiled by
FlexAttention, is what pretraining uses, whose rows all have one length. `attend_by_borders` reads the borders from a
tensor alone, which a captured graph needs where there is no such kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from .transformer import Attend, attend_causally, attend_densely


def attend_by_parts(queries: Tensor, keys: Tensor, values: Tensor, lengths: list[int]) -> Tensor:
    """Each document of one row by itself."""
    parts = zip(*(torch.split(states, lengths, dim=2) for states in (queries, keys, values)), strict=True)
    return torch.cat([attend_causally(*part) for part in parts], dim=2)


def attend_by_lengths(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    borders: Tensor,
    longest: int,
    kernel: Callable[..., Any],
    shares_heads: bool,
) -> Tensor:
    """All documents of one row in one kernel; `borders` are their starts and the end, int32 on the device."""
    if not shares_heads and queries.shape[1] != keys.shape[1]:
        groups = queries.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(groups, dim=1), values.repeat_interleave(groups, dim=1)
    flat = (states[0].transpose(0, 1).contiguous() for states in (queries, keys, values))
    result: Tensor = kernel(*flat, borders, borders, longest, longest)
    return result.transpose(0, 1)[None]


def by_lengths(borders: Tensor, longest: int) -> Attend:
    """`attend_by_lengths` by torch's kernel, which is looked up here so that no compiler has to."""
    kernel, shares_heads = _variable_length_attention()
    return partial(attend_by_lengths, borders=borders, longest=longest, kernel=kernel, shares_heads=shares_heads)


def attend_by_borders(queries: Tensor, keys: Tensor, values: Tensor, borders: Tensor) -> Tensor:
    """All documents of one row by a dense mask, made of their starts and the end."""
    places = torch.arange(queries.shape[2], dtype=borders.dtype, device=borders.device)
    documents = torch.searchsorted(borders, places, right=True)
    return attend_densely(queries, keys, values, (documents[:, None] == documents).tril())


@cache
def _variable_length_attention() -> tuple[Callable[..., Any], bool]:
    """torch's causal kernel, and whether it takes fewer heads of keys than of queries: its versions differ."""
    from torch.nn.attention.varlen import varlen_attn

    known = inspect.signature(varlen_attn).parameters
    options: dict[str, Any] = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    if "enable_gqa" in known:
        options["enable_gqa"] = True
    return partial(varlen_attn, **options), "enable_gqa" in known


def has_kernel(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether `attend_by_lengths` works for this device and dtype."""
    if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return False
    try:
        _variable_length_attention()
    except ImportError:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


def attend_within(lengths: Sequence[int], device: torch.device, dtype: torch.dtype, longest: int) -> Attend:
    """Causal attention within each of the documents of these lengths, which fill one row; none is over `longest`.

    `longest` may be more than this row's, and should be the same for all: what is compiled for it serves every row.
    """
    if not has_kernel(device, dtype):
        return partial(attend_by_parts, lengths=list(lengths))
    borders = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32).to(device, non_blocking=True)
    return by_lengths(borders, longest)
