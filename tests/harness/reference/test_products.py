"""Products of references: convolutions are PyTorch's own, whatever their parts; uncomputed ones have their shapes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.task import Task
from tritonrl.harness.reference import products
from tritonrl.harness.reference.operators import trace_operators
from tritonrl.harness.reference.products import ConvolutionsInParts, UncomputedProducts
from tritonrl.harness.reference.reference import runs_with
from tritonrl.harness.reference.sizes.declared_sizes import is_quick, is_within_reach, measure_peak, with_declared

CHANNELS = 4
"""Of each group."""


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
        patch.setattr(products, "_MOST_BYTES", most_bytes)
        found = torch.convolution(x, weight, bias, *settings)
    wanted = torch.convolution(x, weight, bias, *settings)
    is_double = x.dtype is torch.float64
    torch.testing.assert_close(found, wanted, rtol=0.0, atol=1e-12 if is_double else 0.0)


@pytest.mark.parametrize("padding", ["valid", "same", 2])
def test_padding_may_have_a_name(monkeypatch: pytest.MonkeyPatch, padding: str | int) -> None:
    """One number for all axes, as PyTorch hands on, is as many."""
    x, weight = torch.randn(2, 3, 9, 9, dtype=torch.float64), torch.randn(4, 3, 3, 3, dtype=torch.float64)
    monkeypatch.setattr(products, "_MOST_BYTES", 1)
    with ConvolutionsInParts():
        found = torch.nn.functional.conv2d(x, weight, padding=padding)
    torch.testing.assert_close(found, torch.nn.functional.conv2d(x, weight, padding=padding))


def test_infinite_weights_spoil_what_they_reach_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No weight is multiplied with zeros that PyTorch does not have."""
    x, weight = torch.ones(1, 1, 6, dtype=torch.float64), torch.ones(1, 2, 3, dtype=torch.float64)
    weight[0, 0, 2] = torch.inf
    monkeypatch.setattr(products, "_MOST_BYTES", 1)
    with ConvolutionsInParts():
        found = torch.nn.functional.conv_transpose1d(x, weight)
    torch.testing.assert_close(found, torch.nn.functional.conv_transpose1d(x, weight))
    assert found[0, 0, 0] == 1.0


def test_what_pytorch_refuses_is_refused() -> None:
    """A kernel larger than its input is no convolution."""
    x, weight = torch.ones(1, 1, 2, dtype=torch.float64), torch.ones(1, 1, 5, dtype=torch.float64)
    with ConvolutionsInParts(), pytest.raises(RuntimeError):
        torch.nn.functional.conv1d(x, weight)


@given(call=_calls())
def test_uncomputed_products_have_their_shapes(call: tuple[torch.Tensor, torch.Tensor, object, tuple[object]]) -> None:
    """Shapes, strides and dtypes are PyTorch's, and so is what it refuses; values are zeros."""
    x, weight, bias, settings = call
    wanted = torch.convolution(x, weight, bias, *settings)
    rows = wanted.flatten(1)
    with UncomputedProducts() as mode:
        found = torch.convolution(x, weight, bias, *settings)
        squares = torch.addmm(rows @ rows.T, rows, rows.T)
        with pytest.raises(RuntimeError):
            _ = rows @ rows.T.expand(2, -1, -1)[:, :-1]
    assert (found.shape, found.stride(), found.dtype) == (wanted.shape, wanted.stride(), wanted.dtype)
    assert squares.shape == (len(x), len(x))
    assert not found.any()
    assert not squares.any()
    assert mode.num_left_out == 4


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(
    ("x", "weight", "groups"),
    [
        ((2, 8, 9, 9), (23, 4, 3, 3), 2),  # 23 channels in 2 groups
        ((2, 23, 9, 9), (23, 11, 3, 3), 2),
        ((2, 8, 9, 9), (6, 3, 3, 3), 2),
        ((2, 4, 2, 2), (4, 4, 5, 5), 1),  # a kernel larger than what it is moved over
        ((2, 5, 9, 9), (4, 4, 3, 3), 1),
        ((2, 8, 9, 9), (8, 4, 3, 3), 2),
    ],
)
def test_uncomputed_convolutions_refuse_what_computed_ones_do(
    x: tuple[int, ...], weight: tuple[int, ...], groups: int, is_transposed: bool
) -> None:
    """Divisibility by groups among it, which PyTorch does not look at without values."""

    def is_refused() -> bool:
        settings = ([1, 1], [0, 0], [1, 1], is_transposed, [0, 0], groups)
        try:
            torch.convolution(torch.ones(x), torch.ones(weight), None, *settings)
        except RuntimeError:
            return True
        return False

    wanted = is_refused()
    with UncomputedProducts():
        assert is_refused() is wanted


def test_uncomputed_products_of_two_dtypes_are_refused() -> None:
    """As computed ones are."""
    with UncomputedProducts(), pytest.raises(RuntimeError):
        torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float64)


REFUSES_ZEROS = """
import torch
import torch.nn as nn

ROWS = 4


class Model(nn.Module):
    def forward(self, x):
        return torch.linalg.cholesky(x @ x.T)


def get_inputs():
    return [torch.randn(ROWS, 64)]


def get_init_inputs():
    return []
"""


def test_a_reference_that_refuses_zeros_is_asked_again() -> None:
    """Its product is computed where that alone shows that it runs; 70 rows of 64 columns have no such factor."""
    task = Task(task_id="cholesky", level=1, family="made-up", description="made up", source=REFUSES_ZEROS)
    assert runs_with(task, (("ROWS", 8),))
    assert not runs_with(task, (("ROWS", 70),))


WIDE = """
import torch
import torch.nn as nn

SIZE = 16384


class Model(nn.Module):
    def forward(self, x):
        return (x[:, None] * x[None, :]).sum(1)


def get_inputs():
    return [torch.randn(SIZE)]


def get_init_inputs():
    return []
"""


def test_memory_on_the_way_counts() -> None:
    """What is given and returned has 128 KB, and the sum reads a gigabyte, of which half counts."""
    task = Task(task_id="wide", level=1, family="made-up", description="made up", source=WIDE)
    assert measure_peak(task)[0] == pytest.approx(16384**2 * 4 / 2, rel=1e-3)
    assert not is_within_reach(task)
    assert not is_quick(task)
    assert is_quick(with_declared(task, (("SIZE", 1024),)))


@pytest.mark.parametrize("is_transposed", [False, True])
def test_a_convolutions_sum_has_all_taps(is_transposed: bool) -> None:
    """Those between the strides of a transposed one too, which a kernel goes through to leave them out."""
    layer = f"nn.ConvTranspose2d({2 * CHANNELS}, 6, (3, 7), stride=2, groups=2)"
    if not is_transposed:
        layer = f"nn.Conv2d({2 * CHANNELS}, 6, (3, 7), stride=2, groups=2)"
    source = f"""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {layer}

    def forward(self, x):
        return self.layer(x)


def get_inputs():
    return [torch.randn(2, {2 * CHANNELS}, 9, 9)]


def get_init_inputs():
    return []
"""
    (operator,) = trace_operators(Task(task_id="taps", level=1, family="made-up", description="", source=source))
    assert operator.num_along == CHANNELS * 3 * 7
