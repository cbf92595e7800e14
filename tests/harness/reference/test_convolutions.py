"""Convolutions of the oracle: PyTorch's own results, whatever the parts in which they are computed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.reference import convolutions
from tritonrl.harness.reference.convolutions import ConvolutionsInParts


@st.composite
def _calls(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, tuple[object, ...]]:
    """Draw what `torch.convolution` is given."""
    num_axes, groups, is_transposed = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.booleans())
    each = st.lists(st.integers(1, 3), min_size=num_axes, max_size=num_axes)
    stride = draw(st.just([1] * num_axes) | each)
    taps, dilation = draw(each), draw(each)
    padding = [number - 1 for number in draw(each)]
    more = [draw(st.integers(0, max(pair) - 1)) * is_transposed for pair in zip(stride, dilation, strict=True)]
    sizes = [draw(st.integers(7, 9)) for _ in range(num_axes)]
    before, after = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    dtype = draw(st.sampled_from([torch.float64, torch.float64, torch.float32]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    x = torch.randn(draw(st.integers(1, 3)), before * groups, *sizes, generator=generator, dtype=dtype)
    channels = (before * groups, after) if is_transposed else (after * groups, before)
    weight = torch.randn(*channels, *taps, generator=generator, dtype=dtype)
    bias = torch.randn(after * groups, generator=generator, dtype=dtype) if draw(st.booleans()) else None
    return x, weight, bias, (stride, padding, dilation, is_transposed, more, groups)


@pytest.fixture(scope="module", params=[1, 1 << 10, 1 << 12, 1 << 24])
def most_bytes(request: pytest.FixtureRequest) -> int:
    """Bytes of a part's matrix, from those of a row of a sample to those of all."""
    return int(request.param)


@given(call=_calls())
def test_parts_make_the_whole(most_bytes: int, call: tuple[torch.Tensor, torch.Tensor, object, tuple[object]]) -> None:
    """Results of float64 are PyTorch's to rounding, others the very same."""
    x, weight, bias, settings = call
    with pytest.MonkeyPatch.context() as patch, ConvolutionsInParts():
        patch.setattr(convolutions, "_MOST_BYTES", most_bytes)
        found = torch.convolution(x, weight, bias, *settings)
    wanted = torch.convolution(x, weight, bias, *settings)
    is_double = x.dtype is torch.float64
    torch.testing.assert_close(found, wanted, rtol=0.0, atol=1e-12 if is_double else 0.0)


@pytest.mark.parametrize("padding", ["valid", "same", 2])
def test_padding_may_have_a_name(monkeypatch: pytest.MonkeyPatch, padding: str | int) -> None:
    """One number for all axes, as PyTorch hands on, is as many."""
    x, weight = torch.randn(2, 3, 9, 9, dtype=torch.float64), torch.randn(4, 3, 3, 3, dtype=torch.float64)
    monkeypatch.setattr(convolutions, "_MOST_BYTES", 1)
    with ConvolutionsInParts():
        found = torch.nn.functional.conv2d(x, weight, padding=padding)
    torch.testing.assert_close(found, torch.nn.functional.conv2d(x, weight, padding=padding))


def test_infinite_weights_spoil_what_they_reach_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No weight is multiplied with zeros that PyTorch does not have."""
    x, weight = torch.ones(1, 1, 6, dtype=torch.float64), torch.ones(1, 2, 3, dtype=torch.float64)
    weight[0, 0, 2] = torch.inf
    monkeypatch.setattr(convolutions, "_MOST_BYTES", 1)
    with ConvolutionsInParts():
        found = torch.nn.functional.conv_transpose1d(x, weight)
    torch.testing.assert_close(found, torch.nn.functional.conv_transpose1d(x, weight))
    assert found[0, 0, 0] == 1.0


def test_what_pytorch_refuses_is_refused() -> None:
    """A kernel larger than its input is no convolution."""
    x, weight = torch.ones(1, 1, 2, dtype=torch.float64), torch.ones(1, 1, 5, dtype=torch.float64)
    with ConvolutionsInParts(), pytest.raises(RuntimeError):
        torch.nn.functional.conv1d(x, weight)
