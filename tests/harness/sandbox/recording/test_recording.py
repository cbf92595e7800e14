"""Recording: kernels in many styles become plans that compile and run right; broken ones are named."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from attrs import evolve
from tritonrl.core.candidate import Variant
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import BufferKind, LaunchPlan
from tritonrl.core.run import RunRequest, RunResult
from tritonrl.core.task import Profile
from tritonrl.harness.sandbox.sandbox import Sandbox

from ....conftest import SharedSandboxes
from ..conftest import SMALL_LIMITS, only, request
from ..kernels import DOUBLING, HEADER, LINEAR, POINTWISE, SOFTMAX_LIKE


@pytest.fixture(scope="module")
def sandbox(sandboxes: SharedSandboxes) -> Sandbox:
    """A sandbox in which a large block compiles on a slow processor too: it takes 3 to 4 s."""
    return sandboxes.get(evolve(SMALL_LIMITS, wall_s=20, cpu_s=10))


def run(
    sandbox: Sandbox, source: str, plan: LaunchPlan, values: dict[str, bytes], blobs: dict[str, bytes]
) -> RunResult:
    """The plan's result with these inputs, and the recorded values elsewhere."""
    storages = {
        index: values[buffer.name] if buffer.kind is BufferKind.INPUT else blobs[buffer.blob or ""]
        for index, buffer in enumerate(plan.buffers)
        if buffer.kind is not BufferKind.TEMPORARY
    }
    reply = sandbox.run(source, [RunRequest(variant=Variant.ORIGINAL, plan=plan, storages=storages)])
    assert reply.failure is None, reply.failure
    return reply.results[0]


@pytest.mark.parametrize("style", DOUBLING)
def test_style_records_compiles_and_runs(sandbox: Sandbox, style: str) -> None:
    """A genuine kernel in this style gives a compiled plan with its effects, and doubles its input when run."""
    source = DOUBLING[style]
    reply = sandbox.record(source, [request((24, 40), profile=Profile.DECLARED, compile=True), request((7, 11))])
    assert reply.failure is None
    declared, small = (recording.plan for recording in reply.recordings)
    assert declared is not None, reply.recordings[0].failure
    assert small is not None, reply.recordings[1].failure
    assert declared.target == "sm_90"
    assert not declared.arithmetic
    for kernel in declared.kernels:
        assert kernel.binary is not None
        assert reply.blobs[kernel.binary][:4] == b"\x7fELF"
        assert "x_ptr" in kernel.reads
        assert "x_ptr" not in kernel.writes
        assert "y_ptr" in kernel.writes
        assert ("y_ptr" in kernel.reads) == (style == "persistent with atomics")
    x = np.random.default_rng(0).random((7, 11), dtype=np.float32)
    result = run(sandbox, source, small, {"0": x.tobytes()}, reply.blobs)
    assert result.failure is None
    assert result.mutated == result.out_of_bounds == ()
    assert np.array_equal(np.frombuffer(result.outputs[0], np.float32).reshape(7, 11), 2 * x)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_linear_layer_uses_its_seeded_parameters_and_constants(sandbox: Sandbox, dtype: str) -> None:
    """Parameters and other tensors made in __init__ travel as blobs at small sizes, and give the layer's result."""
    reply = sandbox.record(LINEAR, [request((5, 32), init=(32, 20), dtype=dtype)])
    plan = only(reply).plan
    assert plan is not None, only(reply).failure
    kinds = {buffer.name: buffer.kind for buffer in plan.buffers if buffer.name}
    assert kinds == {
        "0": BufferKind.INPUT,
        "linear.weight": BufferKind.PARAMETER,
        "linear.bias": BufferKind.PARAMETER,
        "shift": BufferKind.CONSTANT,
    }
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(32, 20).to(getattr(torch, dtype))
    x = torch.rand(5, 32).to(getattr(torch, dtype))
    raw = bytes(x.view(torch.uint8).flatten().tolist())
    result = run(sandbox, LINEAR, plan, {"0": raw}, reply.blobs)
    assert result.failure is None, result.failure
    found = torch.frombuffer(bytearray(result.outputs[0]), dtype=x.dtype).reshape(5, 20)
    expected = layer(x).float() + 0.5
    assert (found.float() - expected).abs().max().item() < {"float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}[dtype]


def test_bfloat16_arithmetic_and_reductions_are_right(sandbox: Sandbox) -> None:
    """A kernel that computes in bfloat16 gives what PyTorch gives, within bfloat16's rounding."""
    import torch

    plan = only(sandbox.record(SOFTMAX_LIKE, [request((6, 32), dtype="bfloat16")])).plan
    assert plan is not None
    x = (4 * torch.randn(6, 32, generator=torch.Generator().manual_seed(0))).to(torch.bfloat16)
    result = run(sandbox, SOFTMAX_LIKE, plan, {"0": bytes(x.view(torch.uint8).flatten().tolist())}, {})
    assert result.failure is None, result.failure
    found = torch.frombuffer(bytearray(result.outputs[0]), dtype=torch.bfloat16).reshape(6, 32).float()
    wide = (x.float() - x.float().amax(1, keepdim=True)).exp()
    wide = torch.where(wide > 0.01, wide * 2 + 1, -wide)
    expected = wide / wide.sum(1, keepdim=True)
    close = (found - expected).abs() <= 0.02 * expected.abs() + 1e-3
    assert close.float().mean().item() > 0.97  # the threshold may fall on either side of one element


def test_declared_plan_carries_constants_but_no_parameters(sandbox: Sandbox) -> None:
    """At the declared sizes weights are not shipped, while constants that no reference names are."""
    reply = sandbox.record(LINEAR, [request((5, 64), init=(64, 64), profile=Profile.DECLARED, compile=True)])
    plan = only(reply).plan
    assert plan is not None, only(reply).failure
    blobs = {buffer.name: buffer.blob for buffer in plan.buffers if buffer.name}
    assert blobs["linear.weight"] is None
    assert reply.blobs[blobs["shift"] or ""] == np.float32(0.5).tobytes()
    assert plan.kernels[0].has_dot
    assert plan.kernels[0].dot_precision == "tf32"
    assert all(hashlib.sha256(blob).hexdigest() == name for name, blob in reply.blobs.items())


def _kernel(body: str, forward: str = "return y") -> str:
    return (
        HEADER
        + "@triton.jit\ndef kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):\n"
        + "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.empty_like(x)\n"
        + "        kernel[(1,)](x, y, x.numel(), BLOCK=64)\n"
        + "".join(f"        {line}\n" for line in forward.splitlines())
    )


REFUSED = {
    "range that is no power of two": (_kernel("tl.arange(0, 48)"), Outcome.COMPILE_FAILED, "power of 2"),
    "shapes that do not fit": (
        _kernel("value = tl.arange(0, 32) + at\ntl.store(y_ptr + at, value)"),
        Outcome.COMPILE_FAILED,
        "incompatible dimensions",
    ),
    "type error": (_kernel("value = tl.load(at)"), Outcome.COMPILE_FAILED, "Unsupported ptr type"),
    "unknown function": (_kernel("value = tl.does_not_exist(at)"), Outcome.COMPILE_FAILED, "does_not_exist"),
    "undefined name": (_kernel("value = nothing + at"), Outcome.COMPILE_FAILED, "nothing"),
    "shared memory": (
        HEADER
        + """
@triton.jit
def kernel(x_ptr, y_ptr, B: tl.constexpr):
    at = tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, 8):
        x = tl.load(x_ptr + k * B * B + at[:, None] * B + at[None, :])
        total += tl.dot(x, tl.trans(tl.load(x_ptr + at[:, None] * B + at[None, :] + k)))
    tl.store(y_ptr + at[:, None] * B + at[None, :], total)
class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(1,)](x, y, B=128, num_stages=4, num_warps=8)
        return y
""",
        Outcome.OUT_OF_RESOURCES,
        "shared memory",
    ),
    "clusters": (
        POINTWISE.replace("num_warps=", "num_ctas=32, num_warps="),
        Outcome.OUT_OF_RESOURCES,
        "clusters, required 32 blocks",
    ),
    "syntax": ("def", Outcome.IMPORT_FAILED, "SyntaxError"),
    "no model": ("x = 1", Outcome.IMPORT_FAILED, "ModelNew"),
    "missing module": ("import not_a_module", Outcome.IMPORT_FAILED, "not_a_module"),
    "init": (
        HEADER + "class ModelNew(nn.Module):\n    def __init__(self):\n        raise KeyError('oops')\n",
        Outcome.INIT_FAILED,
        "oops",
    ),
    "forward": (_kernel("pass", "raise ValueError('oops')"), Outcome.FORWARD_FAILED, "oops"),
    "item": (_kernel("pass", "return y * y.sum().item()"), Outcome.DATA_DEPENDENT, "value"),
    "branch on values": (_kernel("pass", "if y.max() > 0: return x\nreturn y"), Outcome.DATA_DEPENDENT, "value"),
    "counts its calls": (
        _kernel("pass", "self.calls = getattr(self, 'calls', 0) + 1\nreturn y if self.calls > 1 else x"),
        Outcome.NOT_REPRODUCIBLE,
        "two",
    ),
    "wrong argument": (
        POINTWISE.replace("BLOCK=128, num_warps", "BLOK=128, num_warps"),
        Outcome.FORWARD_FAILED,
        "BLOCK",
    ),
    "cpu tensor": (
        POINTWISE.replace("torch.empty_like(x)", "torch.empty(x.shape)"),
        Outcome.FORWARD_FAILED,
        "cannot be accessed from Triton",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_broken_candidate_is_named(sandbox: Sandbox, name: str) -> None:
    """What is wrong with a candidate is told by its outcome and by a message that has the essential words."""
    source, outcome, words = REFUSED[name]
    failure = only(sandbox.record(source, [request((128, 128), profile=Profile.DECLARED, compile=True)])).failure
    assert failure is not None
    assert failure.outcome is outcome, failure
    assert words in failure.message


def test_failed_compilation_leaves_the_other_recordings(sandbox: Sandbox) -> None:
    """A kernel that does not compile still records at the small sizes."""
    reply = sandbox.record(
        REFUSED["shared memory"][0],
        [request((128, 128), profile=Profile.DECLARED, compile=True), request((128, 128))],
    )
    assert reply.recordings[0].plan is None
    assert reply.recordings[1].plan is not None


def test_arithmetic_is_named(sandbox: Sandbox) -> None:
    """PyTorch operators that compute are listed, and views, allocation, fills and copies are not."""
    forward = (
        "z = torch.zeros_like(y)\nz.fill_(2.0)\nreturn torch.relu(y.view(-1).reshape(y.shape).to(torch.float16)) + 1"
    )
    plan = only(sandbox.record(_kernel("pass", forward), [request((4, 4))])).plan
    assert plan is not None
    assert plan.arithmetic == ("relu", "add")


def test_fill_with_infinity_is_a_step(sandbox: Sandbox) -> None:
    """A buffer that starts at minus infinity, as running maxima do, is a fill and no arithmetic."""
    source = _kernel("pass", "return torch.full((3,), float('-inf'), device=x.device)")
    plan = only(sandbox.record(source, [request((8,))])).plan
    assert plan is not None
    assert not plan.arithmetic
    result = run(sandbox, source, plan, {"0": bytes(32)}, {})
    assert np.array_equal(np.frombuffer(result.outputs[0], np.float32), np.full(3, -np.inf, np.float32))


def test_run_reports_writes_into_inputs(sandbox: Sandbox) -> None:
    """A store into an input is seen."""
    copy = "tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)"
    source = _kernel(f"{copy}\ntl.debug_barrier()\ntl.store(x_ptr, 7.0)")
    plan = only(sandbox.record(source, [request((8,))])).plan
    assert plan is not None
    result = run(sandbox, source, plan, {"0": bytes(32)}, {})
    assert [plan.buffers[index].kind for index in result.mutated] == [BufferKind.INPUT]


def test_exception_in_a_kernel_is_a_failed_run(sandbox: Sandbox) -> None:
    """What only the interpreter can meet is reported with its message, and the next request still runs."""
    source = _kernel("value = undefined_name + at")
    plan = only(sandbox.record(source, [request((8,))])).plan
    assert plan is not None
    requests = [RunRequest(variant=variant, plan=plan, storages={0: bytes(32)}) for variant in list(Variant)[:2]]
    reply = sandbox.run(source, requests)
    assert [result.variant for result in reply.results] == list(Variant)[:2]
    for result in reply.results:
        assert result.failure is not None
        assert result.failure.outcome is Outcome.RUN_FAILED
        assert "undefined_name" in result.failure.message


HOST_CALLS = {
    "moves that change nothing": ("x = x.to('cuda').to(x.device).to(x.dtype).to(x)", None, None),
    "a slice, and an assignment to it": ("x = torch.cat([x[:1], x[1:, ...]])\n        x[0, :] = 1.0", None, None),
    "another format": ("x = x.to(torch.float16).to(x.dtype)", None, None),
    "truth values as bytes": (
        "x = (x.to('cuda').view(torch.int8).to(torch.bool).view(torch.int8).view(x.dtype))",
        None,
        None,
    ),
    "a comparison with zero": ("x = x.to(torch.bool).to(x.dtype)", "_to_copy", None),
    "the same by a copy": ("y = torch.empty_like(x, dtype=torch.bool)\n        y.copy_(x)", "copy_", None),
    "the same on the way": ("x = x.to('cpu').to('cuda', torch.bool).to(x.dtype)", "_to_copy", None),
    "digits that are cut off": ("x = x.to(torch.int32).to(x.dtype)", "_to_copy", None),
    "the processor does the work": ("x = x.to('cpu').relu().to('cuda')", "relu", None),
    "a number from a tensor": ("x = x if float(x.sum()) > 0 else x", None, Outcome.DATA_DEPENDENT),
    "a branch on a tensor": ("x = x if x.sum() > 0 else x", None, Outcome.DATA_DEPENDENT),
    "a tensor as a list": ("x = x if x.tolist() else x", None, Outcome.DATA_DEPENDENT),
}


@pytest.mark.parametrize("name", HOST_CALLS)
def test_host_calls_are_recorded_alike_with_and_without_cuda(sandbox: Sandbox, name: str) -> None:
    """Moves and indexing are views and copies, work on the processor is arithmetic, and values are not to be had."""
    line, arithmetic, outcome = HOST_CALLS[name]
    source = POINTWISE.replace("def forward(self, x):\n", f"def forward(self, x):\n        {line}\n")
    assert line in source
    recording = only(sandbox.record(source, [request((7, 11))]))
    if outcome is not None:
        assert recording.failure is not None
        assert recording.failure.outcome is outcome
        return
    assert recording.plan is not None, recording.failure
    assert recording.plan.arithmetic == ((arithmetic,) if arithmetic else ())


COUNTERS = {
    "attribute": ("", "self.calls = getattr(self, 'calls', 0) + 1"),
    "class": ("", "type(self).calls = getattr(type(self), 'calls', 0) + 1"),
    "list": ("seen = []", "seen.append(1)"),
    "default": ("def count(calls=[0]):\n    calls[0] += 1", "count()"),
    "closure": (
        "def make():\n    calls = 0\n    def step():\n        nonlocal calls\n        calls += 1\n    return step\n"
        "count = make()",
        "count()",
    ),
    "second closure": (
        "def make(a=1):\n    calls, z = [0], [1]\n    def step():\n        calls[0] += a + len(z)\n    return step\n"
        "count = make()",
        "count()",
    ),
    "generator": (
        "def numbers():\n    n = 0\n    while True:\n        n += 1\n        yield n\nstream = numbers()",
        "next(stream)",
    ),
    "range": ("left = iter(range(100))", "next(left)"),
    "deque": ("from collections import deque\nseen = deque()", "seen.append(1)"),
    "library": ("", "triton.calls = getattr(triton, 'calls', 0) + 1"),
    "tensor": (
        "held = torch.zeros(1)",
        "held.calls = getattr(held, 'calls', 0) + 1",
    ),
    "tensor's size": ("", "self.held = getattr(self, 'held', y.reshape(-1))[1:]"),
    "tensor's strides": (
        "held = []",
        "held[:] = [held[0].as_strided((1,), (held[0].stride(0) + 1,)) if held else y.reshape(-1)[:1]]",
    ),
    "ring of tensors": ("held = [torch.zeros(1) for _ in range(5)]\nmark = held[4]", "held.append(held.pop(0))"),
    "iterator": ("import itertools\nnumbers = itertools.count()", "next(numbers)"),
    "model's class": (
        "class Other(nn.Module):\n    def forward(self, x):\n        return ModelNew.forward(self, x)\n\n\n"
        "class Another(Other):\n    pass",
        "self.__class__ = {'ModelNew': Other, 'Other': Another}.get(type(self).__name__, Other)",
    ),
    "class's function": (
        "def one(x):\n    return x\n\n\ndef other(x):\n    return x\n\n\nclass Held:\n    step = one",
        "Held.step = other if Held.step is one else one",
    ),
    "function's name": (
        "def one(x):\n    return x\n\n\ndef other(x):\n    return x\n\n\nsteps = [one]",
        "steps[0] = other if steps[0] is one else one",
    ),
    "chain": (
        "class Link:\n    def __init__(self, after):\n        self.after = after\n\n\nhead = None\n"
        "for _ in range(30):\n    head = Link(head)\nheld = [head]",
        "held[0] = held[0].after",
    ),
    "ring": (
        "ring = [object() for _ in range(5)]",
        "self.at = ring[(ring.index(getattr(self, 'at', ring[0])) + 1) % 5]",
    ),
    "key": ("seen = {0: None}", "seen.update({1 + seen.popitem()[0]: None})"),
    "set": ("seen = {0}", "seen.add(1 + seen.pop())"),
    "kernel": ("other = triton.jit(double_kernel.fn)\nheld = [double_kernel, other]", "held.reverse()"),
    "hook": ("", "self.register_forward_hook(print).remove()"),
    "registered class": ("import abc\nBase = abc.ABCMeta('Base', (), {})", "Base.register(type('Made', (), {}))"),
}
CACHES = {
    "grid by size": ("grids = {}", "grids.setdefault(x.shape, x.numel())"),
    "last size": ("", "self.size = x.numel()"),
    "first call": ("", "self.is_warm = True"),
    "buffer": ("", "self.kept = y"),
    "function": ("", "self.grid = lambda meta: (x.numel(),)"),
    "bound": ("", "self.launch = double_kernel[(1,)]"),
    "object": (
        "class Held:\n    pass",
        "self.held = Held()\n        self.held.shapes = [tuple(x.shape), (x.dtype, x.device)]",
    ),
    "views": ("", "self.halves = list(y.reshape(-1).split(4))"),
    "one tensor by two names": ("", "self.last, self.kept = y, [y]"),
    "deep": ("", "self.held = [[[[[[[[x.shape[0]]]]]]]]]"),
}


@pytest.mark.parametrize("name", COUNTERS)
def test_a_forward_that_counts_is_not_reproducible(sandbox: Sandbox, name: str) -> None:
    """Wherever the host code keeps count of its calls, the recording is refused though both plans are equal."""
    before, line = COUNTERS[name]
    source = POINTWISE.replace("class ModelNew", f"{before}\n\n\nclass ModelNew")
    source = source.replace("return y", f"{line}\n        return y")
    recording = only(sandbox.record(source, [request((7, 11))]))
    assert recording.failure is not None
    assert recording.failure.outcome is Outcome.NOT_REPRODUCIBLE
    assert "count" in recording.failure.message


@pytest.mark.parametrize("name", CACHES)
def test_a_forward_that_caches_is_reproducible(sandbox: Sandbox, name: str) -> None:
    """What the first pass stores and the second finds is no count."""
    before, line = CACHES[name]
    source = POINTWISE.replace("class ModelNew", f"{before}\n\n\nclass ModelNew")
    source = source.replace("return y", f"{line}\n        return y")
    assert only(sandbox.record(source, [request((7, 11))])).plan is not None


def test_constructors_are_given_tuples_as_tuples(sandbox: Sandbox) -> None:
    """A window's sides stay what a program asks for, within lists too."""
    source = LINEAR.replace("super().__init__()", "super().__init__(); assert type(sides) is tuple", 1)
    source = source.replace("def __init__(self, ", "def __init__(self, sides, ", 1)
    assert "type(sides)" in source
    assert "self, sides" in source
    reply = sandbox.record(source, [request((5, 32), init=((1, 2), 32, 20))])
    assert only(reply).plan is not None, only(reply).failure
