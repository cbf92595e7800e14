"""What host code moves, keeps and makes of numbers: fills, copies and constants of a plan, and no arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import Variant
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import BufferKind
from tritonrl.core.run import RunRequest, RunResult
from tritonrl.harness.sandbox.recording.forward_pass import copies, padding
from tritonrl.harness.sandbox.sandbox import Sandbox

from ..conftest import only, request
from ..kernels import POINTWISE

SIZES = st.integers(min_value=0, max_value=4)
WIDTHS = st.integers(min_value=-2, max_value=3)
DOUBLED = POINTWISE.replace("return y", "{line}\n        return y")


def made(name: str, args: tuple[object, ...], like: torch.Tensor) -> torch.Tensor:
    """A call's result by the fill and the copies that a plan gets."""
    result = torch.full_like(like, -7.0)
    border = padding(name, args, {})
    if border is not None:
        result.fill_(border)
    for source, target in copies(name, args, {}, result):
        target.copy_(source)
    return result


def numbers(*shape: int) -> torch.Tensor:
    """Values that all differ."""
    return torch.arange(1.0, 1.0 + int(np.prod(shape))).reshape(shape)


@given(st.lists(SIZES, min_size=1, max_size=4), SIZES, st.sampled_from([0, 1, -1, -2]), st.booleans())
def test_cat_is_its_copies(sizes: list[int], other: int, dim: int, has_empty: bool) -> None:
    """Tensors of any sizes, along any dimension, also with the empty one that `cat` leaves out."""
    is_first = dim in (0, -2)
    tensors = [numbers(size, other) if is_first else numbers(other, size) for size in sizes]
    tensors += [torch.empty(0)] if has_empty else []
    wanted = torch.cat(tensors, dim)
    assert torch.equal(made("cat", (tensors, dim), wanted), wanted)


@given(SIZES, SIZES, st.integers(min_value=1, max_value=3), st.integers(min_value=-3, max_value=2))
def test_stack_is_its_copies(rows: int, columns: int, count: int, dim: int) -> None:
    """Along any dimension of the result."""
    tensors = [numbers(rows, columns) + number for number in range(count)]
    wanted = torch.stack(tensors, dim)
    assert torch.equal(made("stack", (tensors, dim), wanted), wanted)


@given(st.lists(WIDTHS, min_size=1, max_size=2), st.lists(WIDTHS, min_size=1, max_size=2), st.sampled_from([0.0, -1.5]))
def test_padding_is_a_fill_and_a_copy(first: list[int], second: list[int], value: float) -> None:
    """Widths may be negative: then they cut."""
    widths = [*(first * 2)[:2], *(second * 2)[:2]]
    tensor = numbers(5, 6)
    wanted = torch.nn.functional.pad(tensor, widths, value=value)
    assert torch.equal(made("constant_pad_nd", (tensor, widths, value), wanted), wanted)


def run(sandbox: Sandbox, line: str, before: str = "") -> RunResult:
    """What a forward that ends so returns for the inputs 1 to 6, by the plan of its second recording."""
    source = DOUBLED.format(line=line).replace("class ModelNew", f"{before}\n\n\nclass ModelNew")
    reply = sandbox.record(source, [request((3, 5)), request((2, 3))])
    assert reply.failure is None, reply.failure
    plan = reply.recordings[1].plan
    assert plan is not None, reply.recordings[1].failure
    assert not plan.arithmetic
    given_bytes = {
        index: numbers(2, 3).numpy().tobytes() if buffer.kind is BufferKind.INPUT else reply.blobs[buffer.blob or ""]
        for index, buffer in enumerate(plan.buffers)
        if buffer.kind is not BufferKind.TEMPORARY
    }
    ran = sandbox.run(source, [RunRequest(variant=Variant.ORIGINAL, plan=plan, storages=given_bytes)])
    assert ran.failure is None, ran.failure
    assert ran.results[0].failure is None, ran.results[0].failure
    return ran.results[0]


TWICE = 2 * numbers(2, 3)
RESULTS = {
    "cat": ("y = torch.cat([y, x[:1]])", torch.cat([TWICE, numbers(2, 3)[:1]])),
    "hstack": ("y = torch.hstack((y, x))", torch.hstack((TWICE, numbers(2, 3)))),
    "stack": ("y = torch.stack([y, x], dim=1)", torch.stack([TWICE, numbers(2, 3)], dim=1)),
    "pad": ("y = torch.nn.functional.pad(y, (1, -1), value=0.5)", torch.nn.functional.pad(TWICE, (1, -1), value=0.5)),
    "tensor": ("y[0, :] = torch.tensor([7.0, 8.0, 9.0], device='cuda')", None),
    "moved": ("y[0, :] = torch.tensor([7.0, 8.0, 9.0]).to(x.device)", None),
    "arange": ("y[0, :] = torch.arange(7, 10, device=x.device)", None),
    "as_tensor": ("y[0, :] = torch.as_tensor((7.0, 8.0, 9.0), dtype=x.dtype).cuda()", None),
    "kept": (
        "if KEPT is None:\n            KEPT = torch.tensor([7.0, 8.0, 9.0]).cuda()\n        y[0, :] = KEPT",
        None,
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_values_are_those_that_pytorch_gives(sandbox: Sandbox, name: str) -> None:
    """Moved data and made constants are in the result, also those that an earlier recording made and kept."""
    line, wanted = RESULTS[name]
    if wanted is None:
        wanted = TWICE.clone()
        wanted[0] = torch.tensor([7.0, 8.0, 9.0])
    if name == "kept":
        line = f"global KEPT\n        {line}"
    result = run(sandbox, line, "KEPT = None")
    assert result.mutated == ()
    assert np.array_equal(np.frombuffer(result.outputs[0], np.float32), wanted.numpy().ravel())


@pytest.mark.parametrize("line", ["c = torch.tensor([1.0, 2.0], device='cuda')\n        c.fill_(3.0)"])
def test_a_constant_that_is_written_is_seen(sandbox: Sandbox, line: str) -> None:
    """Its values are beside the plan, so a write to it is a write to what was given."""
    assert run(sandbox, line).mutated != ()


def test_many_numbers_are_arithmetic(sandbox: Sandbox) -> None:
    """A table as large as a result is no constant of the host's."""
    source = DOUBLED.format(line="z = torch.arange(1 << 17, device=x.device)")
    plan = only(sandbox.record(source, [request((2, 3))])).plan
    assert plan is not None
    assert plan.arithmetic == ("arange",)


WORKSPACE = "if KEPT is None:\n            KEPT = torch.{make}(x.shape, device=x.device)"
LAUNCH = "double_kernel[(triton.cdiv(n, 128),)](x, y, n, 2.0, BLOCK=128, num_warps=2)"
THROUGH = (
    "double_kernel[(1,)](x, KEPT, n, 2.0, BLOCK=128, num_warps=2)\n"
    "        double_kernel[(1,)](KEPT, y, n, 1.0, BLOCK=128, num_warps=2)"
)


def keeping(make: str, launches: str = THROUGH) -> str:
    """A forward that keeps a workspace, allocated before the result in the first pass."""
    text = POINTWISE.replace("class ModelNew", "KEPT = None\n\n\nclass ModelNew").replace(LAUNCH, launches)
    return text.replace(
        "def forward(self, x):\n", f"def forward(self, x):\n        global KEPT\n        {WORKSPACE}\n"
    ).format(make=make)


def test_a_kept_workspace_is_reproducible(sandbox: Sandbox) -> None:
    """The passes number their memory otherwise, and do the same."""
    assert only(sandbox.record(keeping("empty"), [request((2, 3))])).plan is not None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (keeping("zeros"), "step 1 is a fill with 0 in the first pass, a launch of double_kernel on (1, 1, 1) in"),
        (
            keeping("empty", THROUGH.replace("n, 1.0", "n, self.factor"))
            .replace("return y", "self.factor = 1.0\n        return y")
            .replace("class ModelNew(nn.Module):", "class ModelNew(nn.Module):\n    factor = 3.0\n"),
            "step 2 is a launch of double_kernel on (1, 1, 1) in the first pass, the same with other arguments in",
        ),
    ],
)
def test_passes_that_differ_are_explained(sandbox: Sandbox, source: str, words: str) -> None:
    """The first step that differs is named."""
    recording = only(sandbox.record(source, [request((2, 3))]))
    assert recording.failure is not None
    assert recording.failure.outcome is Outcome.NOT_REPRODUCIBLE
    assert words in recording.failure.message
