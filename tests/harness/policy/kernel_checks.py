"""Checks of the decoding kernels against plain torch, which `test_attention` runs, interpreted without a GPU."""

from __future__ import annotations

import plain_ops
import pytest
import torch
from plain_ops import Places
from tritonrl.harness.policy.sampling import triton_ops

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(4, 2, 16), (3, 1, 64), (7, 1, 24), (2, 2, 32)]
"""Heads, heads of keys and values, and their size."""
SPLITS = [*((*shape, 1) for shape in SHAPES), (4, 2, 16, 4), (3, 1, 64, 4)]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def make_places() -> Places:
    """Six slots: a prompt that two share, no prompt, and lengths at and beside the size of a block."""
    return Places(
        prompt_starts=torch.tensor([0, 0, 130, 130, 260, 0], device=DEVICE),
        prompt_lengths=torch.tensor([64, 64, 0, 130, 1, 65], device=DEVICE),
        own_starts=torch.tensor([400, 500, 600, 700, 800, 900], device=DEVICE),
        own_lengths=torch.tensor([1, 64, 3, 65, 90, 2], device=DEVICE),
    )


@pytest.mark.parametrize("width", [64, 100])
def test_add_norm(width: int) -> None:
    """The sum, and its normalisation; without a second summand the first is left as it is."""
    hidden, added, weight = (torch.randn(*size, device=DEVICE) for size in ((5, width), (5, width), (width,)))
    for second in (added, None):
        expected = plain_ops.add_norm(hidden, second, weight, 1e-6)
        torch.testing.assert_close(triton_ops.add_norm(hidden, second, weight, 1e-6), expected)


@pytest.mark.parametrize(("num_heads", "num_kv_heads", "size"), SHAPES)
def test_place(num_heads: int, num_kv_heads: int, size: int) -> None:
    """Keys and values go where the slots' tokens are and nowhere else, turned by their positions."""
    places = make_places()
    fused = torch.randn(6, (num_heads + 2 * num_kv_heads) * size, device=DEVICE)
    angles = torch.randn(250, size // 2, device=DEVICE).repeat(1, 2)
    pools = [torch.zeros(1000, num_kv_heads, size, device=DEVICE) for _ in range(4)]
    expected = plain_ops.place(fused, pools[0], pools[1], places, angles.cos(), angles.sin(), num_heads)
    found = triton_ops.place(fused, pools[2], pools[3], places, angles.cos(), angles.sin(), num_heads)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(pools[2:], pools[:2])


@pytest.mark.parametrize(("num_heads", "num_kv_heads", "size", "num_splits"), SPLITS)
def test_attend(num_heads: int, num_kv_heads: int, size: int, num_splits: int) -> None:
    """Attention to the shared prompt and the slot's own tokens, and to nothing behind their ends."""
    places = make_places()
    fused = torch.randn(6, (num_heads + 2 * num_kv_heads) * size, device=DEVICE)
    angles = torch.randn(250, size // 2, device=DEVICE).repeat(1, 2)
    pools = [torch.randn(1000, num_kv_heads, size, device=DEVICE) for _ in range(2)]
    held = torch.zeros(1000, dtype=torch.bool)
    for start, length in ((0, 65), (130, 130), (260, 1)):
        held[start : start + length] = True
    for start, length in zip(places.own_starts.tolist(), places.own_lengths.tolist(), strict=True):
        held[start : start + length - 1] = True
    for pool in pools:
        pool[~held.to(DEVICE)] = torch.nan
    found_pools = [pool.clone() for pool in pools]
    tables = (angles.cos(), angles.sin(), num_heads)
    expected = plain_ops.attend(fused, *pools, places, *tables)
    found = triton_ops.attend(fused, *found_pools, places, *tables, num_splits)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found_pools, pools, equal_nan=True)
    assert not found.isnan().any()


def test_gate() -> None:
    """Half of the columns gate the other half."""
    gates = torch.randn(5, 2 * 1100, device=DEVICE)
    torch.testing.assert_close(triton_ops.gate(gates), plain_ops.gate(gates))


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_draw(temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token whose share of the distribution the uniform falls into, over several blocks."""
    monkeypatch.setattr(triton_ops, "CHOICES_PER_BLOCK", 64)
    logits = torch.randn(12, 300, device=DEVICE) * 2
    logits[:, 290:] = -torch.inf
    even = ((torch.arange(12) + 0.5) / 12).to(DEVICE, torch.float64)
    even[0], even[-1] = 0.0, 1.0 - 2**-53
    found = triton_ops.draw(logits, even, temperature, 1.0)
    assert found.tolist() == plain_ops.draw(logits, even, temperature, 1.0).tolist()
