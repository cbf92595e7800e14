"""Undefined memory: it reads as NaN, and what is written over it shows."""

from __future__ import annotations

import pytest
import torch
from attrs import evolve
from tritonrl.core.candidate import Variant
from tritonrl.core.run import RunRequest, RunResult, TensorSpec
from tritonrl.harness.sandbox.interpreter.semantics.poison import make_unwritten
from tritonrl.harness.sandbox.interpreter.semantics.run_state import begin_run
from tritonrl.harness.sandbox.sandbox import Sandbox

from ...conftest import only, request
from ...kernels import HEADER

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", FLOATS)
def test_unwritten_floats_begin_with_nan_and_hold_both_extremes(dtype: torch.dtype) -> None:
    """A sum meets NaN; a maximum and a minimum, which skip NaN, meet an extreme."""
    memory = torch.zeros(7, dtype=dtype)
    make_unwritten(memory)
    assert memory.isnan().tolist() == [True, False, False, True, False, False, True]
    assert memory[1] == torch.finfo(dtype).max
    assert memory[2] == torch.finfo(dtype).min


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_unwritten_integers_are_near_both_ends(dtype: torch.dtype) -> None:
    """No two or three of them cancel each other."""
    memory = torch.zeros(3, dtype=dtype)
    make_unwritten(memory)
    values = memory.tolist()
    assert values[0] == torch.iinfo(dtype).max - 6
    assert min(values) <= torch.iinfo(dtype).min + 3
    assert all(one + other != 0 for one in values for other in values if one)
    assert sum(values) != 0


@pytest.mark.parametrize("dtype", [*FLOATS, torch.bool, torch.int32])
def test_unwritten_memory_is_zero_where_that_is_asked(dtype: torch.dtype) -> None:
    """And only until the next run begins."""
    memory = torch.ones(7, dtype=dtype)
    begin_run(0, holds_zeros=True)
    make_unwritten(memory)
    assert not memory.any()
    begin_run(0)
    make_unwritten(memory)
    assert memory.any()


LOAD = "x = tl.load(x_ptr + at, mask=at < n)\n"
BLOCK_LOAD = (
    "b = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))\nx = tl.load(b, boundary_check=(0,){padding})\n"
)
SUM = "tl.store(y_ptr + at, (x + tl.sum(x)).to(x.dtype), mask=at < n)"


def run(sandbox: Sandbox, body: str, dtype: str) -> tuple[RunResult, torch.Tensor]:
    """What a kernel with this body makes of five ones in a block of eight, on one program."""
    source = (
        HEADER
        + "@triton.jit\ndef kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):\n    at = tl.arange(0, BLOCK)\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.empty_like(x)\n"
        + "        kernel[(1,)](x, y, x.numel(), BLOCK=8)\n        return y\n"
    )
    model_dtype = dtype if getattr(torch, dtype).is_floating_point else "float32"
    asked = evolve(request((5,), dtype=model_dtype), inputs=(TensorSpec(shape=(5,), dtype=dtype),))
    plan = only(sandbox.record(source, [asked])).plan
    assert plan is not None
    kind = getattr(torch, dtype)
    data = bytes(torch.ones(5, dtype=kind).view(torch.uint8).tolist())
    reply = sandbox.run(source, [RunRequest(variant=Variant.ORIGINAL, plan=plan, storages={0: data})])
    assert reply.failure is None, reply.failure
    (result,) = reply.results
    assert result.failure is None, result.failure
    return result, torch.frombuffer(bytearray(result.outputs[0]), dtype=kind)


SCALAR_LOAD = "z = tl.load(x_ptr + n, mask=n < 0, other={other})\nx = tl.load(x_ptr + at, mask=at < n, other=0)\n"
SCALAR_SUM = "tl.store(y_ptr + at, (x + z + 5).to(x.dtype), mask=at < n)"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (LOAD + SUM, 6),
        (LOAD.replace("at < n", "at < n, other=0") + SUM, 6),
        (LOAD.replace("at < n", "at < n, other=2") + SUM, 12),
        (LOAD + "x = tl.where(at < n, x, tl.zeros_like(x))\n" + SUM, 6),
        (BLOCK_LOAD.format(padding="") + SUM, 6),
        (BLOCK_LOAD.format(padding=', padding_option="zero"') + SUM, 6),
        (SCALAR_LOAD.format(other="0") + SCALAR_SUM, 6),
        (SCALAR_LOAD.format(other="3") + SCALAR_SUM, 9),
    ],
    ids=["none", "0", "2", "where", "block pointer", "padded block pointer", "scalar 0", "scalar 3"],
)
def test_lanes_that_were_not_loaded_hold_what_compiled_code_puts_there(
    sandbox: Sandbox, body: str, expected: int, dtype: str
) -> None:
    """They are `other=`, also where that is 0 for a single number, and 0 without it."""
    _, found = run(sandbox, body, dtype)
    assert bool((found == expected).all())


@pytest.mark.parametrize("function", ["max", "min"])
def test_an_extreme_over_lanes_that_were_not_loaded_meets_zero(sandbox: Sandbox, function: str) -> None:
    """A maximum of negative values is wrong without `other=`, as it is on a GPU."""
    body = LOAD + f"tl.store(y_ptr + at, tl.{function}(x if {function == 'min'} else -x, 0) + x * 0, mask=at < n)"
    _, found = run(sandbox, body, "float32")
    assert bool((found == 0).all())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_lanes_that_are_never_stored_do_no_harm(sandbox: Sandbox, dtype: str) -> None:
    """A pointwise kernel may leave `other=` out, since it stores under the same mask."""
    result, found = run(sandbox, LOAD + "tl.store(y_ptr + at, x * 2, mask=at < n)", dtype)
    assert bool((found == 2).all())
    assert result.out_of_bounds == result.mutated == ()
