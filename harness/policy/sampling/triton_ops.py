"""The steps of decoding a token in every slot as Triton kernels, for few rows and one pass over keys and values.

At one token a slot everything is bound by memory and by the number of launches, so each kernel does all that lies
between two matrix products. Attention reads only what a sequence holds: lengths come from the device, so that one
captured graph serves every length. Grouped queries are the rows of one small matrix product, so keys and values are
read once for all heads that share them; few slots are spread over the GPU by splitting their sequences.

Rounding follows transformers where it costs nothing: a sum is rounded before it is normalised, and a normalised value
before it meets the weight.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .kv_pool import Places
from .kv_pool import draw as draw_plainly

MOST_SPLITS = 16
PROGRAMS_PER_PROCESSOR = 4
"""Attention programs that a processor should have at the least."""
TOKENS_PER_BLOCK = 32
ATTENTION_WARPS = 1
ATTENTION_STAGES = 4
"""The best of a dozen on an H200 (256 slots, head size 64), by 3% over blocks of 64 tokens and 4 warps."""
CHOICES_PER_BLOCK = 4096


@triton.jit
def _add_norm(hidden, added, weight, total, normed, width, epsilon, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    inside = columns < width
    at = row * width + columns
    value = tl.load(hidden + at, mask=inside, other=0.0)
    if ADDS:
        value = (value.to(tl.float32) + tl.load(added + at, mask=inside, other=0.0).to(tl.float32)).to(value.dtype)
        tl.store(total + at, value, mask=inside)
    wide = value.to(tl.float32)
    scaled = (wide * tl.rsqrt(tl.sum(wide * wide, axis=0) / width + epsilon)).to(value.dtype)
    tl.store(normed + at, scaled * tl.load(weight + columns, mask=inside, other=0.0), mask=inside)


def add_norm(hidden: Tensor, added: Tensor | None, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """`hidden + added`, and its root mean square normalisation."""
    rows, width = hidden.shape
    normed = torch.empty_like(hidden)
    total = hidden if added is None else torch.empty_like(hidden)
    block = triton.next_power_of_2(width)
    _add_norm[(rows,)](
        hidden,
        hidden if added is None else added,
        weight,
        total,
        normed,
        width,
        epsilon,
        ADDS=added is not None,
        BLOCK=block,
        num_warps=max(1, min(8, block // 256)),
    )
    return total, normed


@triton.jit
def _place(
    fused,
    queries,
    keys,
    values,
    prompt_lengths,
    own_starts,
    own_lengths,
    cosines,
    sines,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    slot, head = tl.program_id(0), tl.program_id(1)
    half: tl.constexpr = SIZE // 2
    columns = tl.arange(0, BLOCK)
    inside = columns < half
    source = fused + (slot * (HEADS + 2 * KV_HEADS) + head) * SIZE + columns
    first, second = tl.load(source, mask=inside), tl.load(source + half, mask=inside)
    own_length = tl.load(own_lengths + slot)
    token = (tl.load(own_starts + slot) + own_length - 1).to(tl.int64)
    if head >= HEADS + KV_HEADS:
        target = values + (token * KV_HEADS + head - HEADS - KV_HEADS) * SIZE + columns
        tl.store(target, first, mask=inside)
        tl.store(target + half, second, mask=inside)
    else:
        turn = (tl.load(prompt_lengths + slot) + own_length - 1) * SIZE + columns
        cosine = tl.load(cosines + turn, mask=inside).to(tl.float32)
        sine = tl.load(sines + turn, mask=inside).to(tl.float32)
        turned = first * cosine - second * sine
        turned_too = second * cosine + first * sine
        if head < HEADS:
            target = queries + (slot * HEADS + head) * SIZE + columns
        else:
            target = keys + (token * KV_HEADS + head - HEADS) * SIZE + columns
        tl.store(target, turned.to(first.dtype), mask=inside)
        tl.store(target + half, turned_too.to(first.dtype), mask=inside)


def place(
    fused: Tensor, keys: Tensor, values: Tensor, places: Places, cosines: Tensor, sines: Tensor, num_heads: int
) -> Tensor:
    """Put the rotated key and the value of each slot's token in the pool; the rotated queries (slots, heads, size)."""
    num_kv_heads, size = keys.shape[1:]
    queries = fused.new_empty(len(fused), num_heads, size)
    _place[(len(fused), num_heads + 2 * num_kv_heads)](
        fused,
        queries,
        keys,
        values,
        places.prompt_lengths,
        places.own_starts,
        places.own_lengths,
        cosines,
        sines,
        HEADS=num_heads,
        KV_HEADS=num_kv_heads,
        SIZE=size,
        BLOCK=triton.next_power_of_2(size // 2),
        num_warps=1,
    )
    return queries


@triton.jit
def _turn(row, table_row, cosines, sines, columns, inside, SIZE: tl.constexpr):
    """One or several heads, read where `row` points, turned to a position."""
    half: tl.constexpr = SIZE // 2
    lower = columns < half
    value = tl.load(row + columns, mask=inside, other=0.0)
    partner = tl.load(row + tl.where(lower, columns + half, columns - half), mask=inside, other=0.0)
    cosine = tl.load(cosines + table_row + columns, mask=columns < SIZE, other=0.0).to(tl.float32)
    sine = tl.load(sines + table_row + columns, mask=columns < SIZE, other=0.0).to(tl.float32)
    return (value * cosine + partner * tl.where(lower, -sine, sine)).to(value.dtype)


@triton.jit
def _attend(
    fused,
    keys,
    values,
    prompt_starts,
    prompt_lengths,
    own_starts,
    own_lengths,
    cosines,
    sines,
    mixed,
    parts,
    maxima,
    totals,
    scale,
    KV_HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    SIZE: tl.constexpr,
    SPLITS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TOKENS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    slot, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    prompt_start, prompt_length = tl.load(prompt_starts + slot), tl.load(prompt_lengths + slot)
    own_start, num_before = tl.load(own_starts + slot), tl.load(own_lengths + slot) - 1
    prompt_blocks = tl.cdiv(prompt_length, TOKENS)
    num_blocks = prompt_blocks + tl.cdiv(num_before, TOKENS)
    share = tl.cdiv(num_blocks, SPLITS)
    begin = split * share
    end = tl.minimum(begin + share, num_blocks)

    rows, columns, steps = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, TOKENS)
    inside = (rows < GROUPS)[:, None] & (columns < SIZE)[None, :]
    turn = (prompt_length + num_before) * SIZE
    start = fused + slot * (GROUPS + 2) * KV_HEADS * SIZE
    heads = start + (head * GROUPS + rows)[:, None] * SIZE
    query = _turn(heads, turn, cosines, sines, columns[None, :], inside, SIZE)

    # this step's token comes from here and not from the pool, which the first split writes meanwhile
    new_key = _turn(start + (GROUPS * KV_HEADS + head) * SIZE, turn, cosines, sines, columns, columns < SIZE, SIZE)
    new_value = tl.load(start + ((GROUPS + 1) * KV_HEADS + head) * SIZE + columns, mask=columns < SIZE, other=0.0)
    new_score = tl.sum(query.to(tl.float32) * new_key.to(tl.float32)[None, :], axis=1) * scale
    is_first = split == 0
    target = ((own_start + num_before).to(tl.int64) * KV_HEADS + head) * SIZE + columns
    tl.store(keys + target, new_key, mask=(columns < SIZE) & is_first)
    tl.store(values + target, new_value, mask=(columns < SIZE) & is_first)
    maximum = tl.where(is_first, new_score, float("-inf"))
    total = tl.where(is_first, tl.full([ROWS], 1.0, tl.float32), 0.0)
    result = tl.where(is_first, tl.zeros([ROWS, COLUMNS], tl.float32) + new_value.to(tl.float32)[None, :], 0.0)

    for block in range(begin, end):
        in_prompt = block < prompt_blocks
        offsets = tl.where(in_prompt, block, block - prompt_blocks) * TOKENS + steps
        held = offsets < tl.where(in_prompt, prompt_length, num_before)
        tokens = (tl.where(in_prompt, prompt_start, own_start) + offsets).to(tl.int64)
        address = (tokens[:, None] * KV_HEADS + head) * SIZE + columns[None, :]
        there = held[:, None] & (columns < SIZE)[None, :]
        key = tl.load(keys + address, mask=there, other=0.0)
        value = tl.load(values + address, mask=there, other=0.0)
        # in powers of two, which is what the hardware has: `scale` holds the factor
        scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
        scores = tl.where(held[None, :], scores, float("-inf"))
        larger = tl.maximum(maximum, tl.max(scores, axis=1))
        weights = tl.exp2(scores - larger[:, None])
        shrink = tl.exp2(maximum - larger)
        total = total * shrink + tl.sum(weights, axis=1)
        result = result * shrink[:, None] + tl.dot(weights.to(value.dtype), value, input_precision=PRECISION)
        maximum = larger
    at = (slot * KV_HEADS + head) * GROUPS + rows
    if SPLITS == 1:
        tl.store(mixed + at[:, None] * SIZE + columns[None, :], (result / total[:, None]).to(query.dtype), mask=inside)
    else:
        at = at * SPLITS + split
        tl.store(maxima + at, maximum, mask=rows < GROUPS)
        tl.store(totals + at, total, mask=rows < GROUPS)
        tl.store(parts + at[:, None] * SIZE + columns[None, :], result, mask=inside)


@triton.jit
def _join(mixed, parts, maxima, totals, SIZE: tl.constexpr, SPLITS: tl.constexpr, COLUMNS: tl.constexpr):
    row, splits, columns = tl.program_id(0), tl.arange(0, SPLITS), tl.arange(0, COLUMNS)
    inside = columns < SIZE
    maximum = tl.load(maxima + row * SPLITS + splits)
    weights = tl.exp2(maximum - tl.max(maximum, axis=0))
    total = tl.sum(weights * tl.load(totals + row * SPLITS + splits), axis=0)
    at = (row * SPLITS + splits)[:, None] * SIZE + columns[None, :]
    part = tl.load(parts + at, mask=inside[None, :], other=0.0)
    result = tl.sum(part * weights[:, None], axis=0) / total
    tl.store(mixed + row * SIZE + columns, result.to(mixed.dtype.element_ty), mask=inside)


@cache
def _num_processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 1


def _num_splits(num_programs: int, device: torch.device) -> int:
    wanted = triton.cdiv(PROGRAMS_PER_PROCESSOR * _num_processors(device), num_programs)
    return min(MOST_SPLITS, int(triton.next_power_of_2(wanted)))


def attend(
    fused: Tensor,
    keys: Tensor,
    values: Tensor,
    places: Places,
    cosines: Tensor,
    sines: Tensor,
    num_heads: int,
    num_splits: int | None = None,
) -> Tensor:
    """`place`, and attention of each slot's token to its sequence: (slots, heads * size)."""
    slots, (num_kv_heads, size) = len(fused), keys.shape[1:]
    groups = num_heads // num_kv_heads
    splits = num_splits or _num_splits(slots * num_kv_heads, fused.device)
    columns = max(16, triton.next_power_of_2(size))
    mixed = fused.new_empty(slots, num_heads * size)
    parts = maxima = totals = mixed
    if splits > 1:
        parts = fused.new_empty(slots, num_heads, splits, size, dtype=torch.float32)
        maxima = fused.new_empty(slots, num_heads, splits, dtype=torch.float32)
        totals = torch.empty_like(maxima)
    _attend[(slots, num_kv_heads, splits)](
        fused,
        keys,
        values,
        places.prompt_starts,
        places.prompt_lengths,
        places.own_starts,
        places.own_lengths,
        cosines,
        sines,
        mixed,
        parts,
        maxima,
        totals,
        size**-0.5 * 1.4426950408889634,
        KV_HEADS=num_kv_heads,
        GROUPS=groups,
        SIZE=size,
        SPLITS=splits,
        ROWS=max(16, triton.next_power_of_2(groups)),
        COLUMNS=columns,
        TOKENS=TOKENS_PER_BLOCK,
        PRECISION="ieee",
        num_warps=ATTENTION_WARPS,
        num_stages=ATTENTION_STAGES if fused.element_size() == 2 and columns <= 128 else 1,
    )
    if splits > 1:
        _join[(slots * num_heads,)](
            mixed, parts, maxima, totals, SIZE=size, SPLITS=splits, COLUMNS=columns, num_warps=1
        )
    return mixed


@triton.jit
def _gate(gates, result, width, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    first = tl.load(gates + row * 2 * width + columns, mask=inside, other=0.0)
    second = tl.load(gates + row * 2 * width + width + columns, mask=inside, other=0.0)
    wide = first.to(tl.float32)
    tl.store(result + row * width + columns, (wide / (1.0 + tl.exp(-wide))).to(first.dtype) * second, mask=inside)


def gate(gates: Tensor) -> Tensor:
    """The gated half of a feed-forward layer."""
    rows, width = len(gates), gates.shape[1] // 2
    result = gates.new_empty(rows, width)
    block = min(1024, triton.next_power_of_2(width))
    _gate[(rows, triton.cdiv(width, block))](gates, result, width, BLOCK=block, num_warps=4)
    return result


@triton.jit
def _draw(logits, uniforms, chosen, count, factor, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    logits += row.to(tl.int64) * count
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, count, BLOCK):
        at = start + columns
        highest = tl.maximum(highest, tl.load(logits + at, mask=at < count, other=float("-inf")).to(tl.float32))
    maximum = tl.max(highest, axis=0)
    total = 0.0
    last = 0
    for start in range(0, count, BLOCK):
        at = start + columns
        value = tl.load(logits + at, mask=at < count, other=float("-inf")).to(tl.float32)
        weights = tl.exp2((value - maximum) * factor)
        total += tl.sum(weights, axis=0)
        last = tl.maximum(last, tl.max(tl.where(weights > 0.0, at, 0), axis=0))
    target = tl.load(uniforms + row).to(tl.float32) * total
    before = 0.0
    result = 0
    for start in range(0, count, BLOCK):
        at = start + columns
        value = tl.load(logits + at, mask=at < count, other=float("-inf")).to(tl.float32)
        weights = tl.exp2((value - maximum) * factor)
        inside = tl.sum(weights, axis=0)
        if before + inside <= target:
            result += BLOCK
        elif before <= target:
            result += tl.sum((before + tl.cumsum(weights, axis=0) <= target).to(tl.int32), axis=0)
        before += inside
    tl.store(chosen + row, tl.minimum(result, last).to(tl.int64))


def draw(logits: Tensor, uniform: Tensor, temperature: float, top_p: float) -> Tensor:
    """One token for each row of `logits`, as `kv_pool.draw` does it, but in one kernel where nothing must be sorted."""
    if temperature == 0.0 or top_p < 1.0:
        return draw_plainly(logits, uniform, temperature, top_p)
    chosen = torch.empty(len(logits), dtype=torch.long, device=logits.device)
    factor: Any = 1.4426950408889634 / temperature
    _draw[(len(logits),)](logits, uniform, chosen, logits.shape[1], factor, BLOCK=CHOICES_PER_BLOCK, num_warps=8)
    return chosen
