"""References: failures are one error, values lie in memory as inputs do, results are compared where they are."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from tritonrl.core.task import Profile, Task
from tritonrl.harness.errors import TaskError
from tritonrl.harness.evaluation.suite_criterion import find_excess
from tritonrl.harness.reference import device_comparison
from tritonrl.harness.reference.device_comparison import compare_on_device, find_excess_on_device
from tritonrl.harness.reference.reference import (
    call_model,
    count_stored,
    draw_inputs,
    draw_signs,
    fake_reference,
    load_task,
    randomise,
)
from tritonrl.harness.reference.values import make_alike, place_like
from tritonrl.stages.tolerance import accepts, compare

VALUES = st.one_of(
    st.floats(-1e3, 1e3, width=32),
    st.floats(width=32, allow_nan=True, allow_infinity=True),
)
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "left half": lambda x: x[:, :3],
    "right half": lambda x: x[:, 3:],
    "every second": lambda x: x[:, ::2],
    "one row": lambda x: x[2],
    "expanded": lambda x: x[0].expand(5, 6),
}
SOURCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x @ x[:, :3]


def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What torch logs of fake tensors."""
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger, handler = logging.getLogger("torch._subclasses.fake_tensor"), Keep()
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


def make(source: str) -> Task:
    """A made-up task."""
    return Task(task_id="made-up", level=1, family="made-up", description="made up", source=source)


def test_a_reference_that_fails_is_not_logged(logged: list[logging.LogRecord]) -> None:
    """Wherever it fails on fake tensors; what others do with fake tensors is logged as ever."""
    task = make(SOURCE)
    with (
        pytest.raises(TaskError, match="running the reference failed"),
        fake_reference(task, Profile.DECLARED, "float32") as (model, inputs),
    ):
        call_model(task, model, inputs)
    task = make(SOURCE.replace("torch.randn(4, 8)", "torch.randn(4, 8) @ torch.randn(4, 8)"))
    with pytest.raises(TaskError, match=r"get_inputs\(\) failed"), FakeTensorMode():
        draw_inputs(task, load_task(task, Profile.DECLARED), None)
    assert logged == []
    with pytest.raises(RuntimeError), FakeTensorMode():
        torch.randn(4, 8) @ torch.randn(4, 8)
    assert logged != []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("name", LAYOUTS)
def test_values_are_placed_as_they_were_drawn(name: str, dtype: torch.dtype) -> None:
    """Shape, strides, place and what lies around stay; the values are the given ones."""
    base = torch.arange(24).reshape(4, 6).to(dtype)
    drawn = LAYOUTS[name](base)
    values = np.broadcast_to(100.0 + np.arange(drawn.shape[-1]), drawn.shape)
    placed = place_like(drawn, values.astype(np.int64) if dtype is torch.int64 else values, dtype)
    assert (placed.shape, placed.stride(), placed.dtype) == (drawn.shape, drawn.stride(), dtype)
    assert (placed.storage_offset(), count_stored(placed)) == (drawn.storage_offset(), count_stored(drawn))
    assert np.array_equal(placed.double().numpy(), torch.from_numpy(values.copy()).to(dtype).double().numpy())
    around = placed.as_strided((24,), (1,), 0)
    is_around = around < 100
    assert torch.equal(around[is_around], base.reshape(-1)[is_around])


@given(
    pairs=st.lists(st.tuples(VALUES, VALUES, st.booleans()), min_size=1, max_size=30),
    dtype=st.sampled_from(["float32", "float16", "bfloat16"]),
    piece=st.sampled_from([3, 1 << 20]),
)
def test_figures_are_those_of_arrays(pairs: list[tuple[float, float, bool]], dtype: str, piece: int) -> None:
    """In pieces of any size; of results that one side lacks as finite ones it is enough that they are refused."""
    wanted = np.array([one for one, _, _ in pairs], dtype=np.float32)
    actual = np.array([one if same else other for one, other, same in pairs], dtype=np.float32)
    before, device_comparison._PIECE = device_comparison._PIECE, piece
    try:
        found = compare_on_device(torch.from_numpy(actual), torch.from_numpy(wanted), dtype, dtype)
        excess = find_excess_on_device(torch.from_numpy(actual), torch.from_numpy(wanted))
    finally:
        device_comparison._PIECE = before
    expected = compare(actual, wanted, dtype, dtype)
    assert found.num_nonfinite == expected.num_nonfinite
    assert accepts(found) == accepts(expected)
    assert found.relative_error == pytest.approx(expected.relative_error, rel=1e-6, abs=1e-12)
    assert found.worst_excess == pytest.approx(expected.worst_excess, rel=1e-6, abs=1e-12)
    assert excess == pytest.approx(find_excess(actual, wanted), rel=1e-6)


def test_forms_and_integers() -> None:
    """Another shape or dtype is seen, and integers are compared exactly."""
    whole = torch.arange(6)
    assert compare_on_device(whole, whole + (whole == 3), "int64", "int64").num_different == 1
    assert not accepts(compare_on_device(whole.reshape(2, 3), whole, "int64", "int64"))
    assert not accepts(compare_on_device(whole, whole, "int32", "int64"))


@given(num=st.integers(1, 9), seed=st.integers(0, 99))
def test_half_of_a_parameter_changes_its_sign(num: int, seed: int) -> None:
    """One element at least, and none of a parameter that stays as constructed; magnitudes stay."""
    model = torch.nn.PReLU(num)
    draw_signs(model, (), torch.Generator().manual_seed(seed))
    assert int((model.weight < 0).sum()) == (num + 1) // 2
    assert torch.equal(model.weight.abs(), torch.full((num,), 0.25))
    drawn = model.weight.detach().clone()
    draw_signs(model, ("weight",), torch.Generator().manual_seed(seed + 1))
    assert torch.equal(model.weight, drawn)


@given(st.sampled_from([1e-6, -1e-5, 0.0, 0.02, 1.0]), st.booleans(), st.integers(0, 2**32))
def test_no_parameter_is_next_to_nothing(start: float, is_constant: bool, seed: int) -> None:
    """A scale that construction makes 1e-6 is judged as what it is trained to; others keep their scale."""
    model = torch.nn.Module()
    values = torch.ones(64) if is_constant else torch.linspace(-1.0, 1.0, 64)
    model.gamma = torch.nn.Parameter(start * values)
    randomise(model, torch.Generator().manual_seed(seed), (), torch.float32)
    largest = float(model.gamma.abs().max())
    if abs(start) >= 1e-3:
        assert 0.5 * start < largest < 2.0 * start
    else:
        assert 0.25 < largest < 1.75


@given(num=st.integers(3, 40), seed=st.integers(0, 2**32))
def test_edges_that_rise_rise_still(num: int, seed: int) -> None:
    """However few there are at tiny sizes, a bisection finds its place among them; others are in no order."""
    model = torch.nn.Module()
    model.register_buffer("edges", torch.linspace(-2.0, 2.0, num))
    model.register_buffer("falling", torch.linspace(2.0, -2.0, 40))
    randomise(model, torch.Generator().manual_seed(seed), (), torch.float32)
    assert bool((model.edges.diff() >= 0).all())
    assert not bool((model.falling.diff() >= 0).all())


def test_inputs_of_one_shape_become_alike() -> None:
    """They nearly agree with the first one and differ from it; the others stay."""
    first, second, other = torch.randn(4, 5), torch.randn(4, 5), torch.randn(5, 4)
    made = make_alike([first, 7, second, other], 2.0**-10)
    assert made[0] is first
    assert made[1] == 7
    assert made[3] is other
    assert torch.allclose(made[2], first, rtol=2.0**-9, atol=0.0)
    assert torch.equal(made[2][::2], first[::2])
    assert not torch.equal(made[2], first)


def test_inputs_of_other_lengths_become_alike_as_far_as_both_go() -> None:
    """The rows that one of them lacks stay as drawn; a number is like another number."""
    first, longer, scalar, last = torch.randn(3, 5), torch.randn(4, 5), torch.tensor(2.0), torch.tensor(3.0)
    made = make_alike([first, longer, scalar, last], 2.0**-10)
    assert torch.allclose(made[1][:3], first, rtol=2.0**-9, atol=0.0)
    assert torch.equal(made[1][3], longer[3])
    assert made[3] == pytest.approx(2.0, rel=2.0**-9)
