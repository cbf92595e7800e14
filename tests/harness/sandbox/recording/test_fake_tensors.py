"""What is recorded cannot be told from what is used: by class, device, address or text, in forward or `__init__`.

Addresses of tensors without memory: apart, aligned, and near each other as an allocator's are. What stands for a
model's tensors: on which device, which of them are one, and whose values are taken.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import BufferKind
from tritonrl.core.task import Profile
from tritonrl.harness.sandbox.recording import fake_tensors
from tritonrl.harness.sandbox.recording.fake_tensors import CPU, CUDA, Allocator, FakeDevices, replace_tensors
from tritonrl.harness.sandbox.recording.refusal import Refusal
from tritonrl.harness.sandbox.sandbox import Sandbox

from ..conftest import only, request
from ..kernels import LINEAR, POINTWISE

ON_A_GPU = {
    "class": "type(x) is torch.Tensor and x.__class__ is torch.Tensor",
    "class of a result": "type(torch.empty_like(x)) is torch.Tensor",
    "device": "x.device == torch.device('cuda', 0) and x.device.type == 'cuda' and x.device.index == 0",
    "device flags": "x.is_cuda and not x.is_cpu and not x.is_meta and x.get_device() == 0 and torch.get_device(x) == 0",
    "legacy type": "x.type() == 'torch.cuda.FloatTensor' and isinstance(x, torch.cuda.FloatTensor)",
    "other legacy types": "not isinstance(x, torch.FloatTensor) and not isinstance(x, torch.cuda.HalfTensor)",
    "address": "x.data_ptr() != 0 and x.data_ptr() % 256 == 0 and x[1:].data_ptr() == x.data_ptr() + 44",
    "addresses": "torch.empty_like(x).data_ptr() != torch.empty_like(x).data_ptr()",
    "flags": "x.is_shared() and not x.is_pinned()",
    "one GPU": "refuses(lambda: torch.empty(1, device='cuda:7')) and refuses(lambda: x.to('cuda:1'))",
    "view": "x.t().is_cuda and x[0].device == x.device and x.view(-1).is_cuda",
    "moved": "x.cpu().device.type == 'cpu' and not x.cpu().is_cuda and x.cpu().cuda().is_cuda",
    "moved as another": "x.cpu().to(x).is_cuda and x.to(x.cpu()).is_cpu",
    "made where it is": "torch.zeros(3, device=x.device).is_cuda and x.new_empty(3).is_cuda",
    "made elsewhere": "torch.empty(3).device.type == 'cpu' and torch.empty(3, device='cpu').get_device() == -1",
    "made of numbers": "torch.tensor([1.0], device='cuda').is_cuda and not torch.tensor([1.0]).is_cuda",
    "made of a tensor": "torch.as_tensor(x) is x and torch.asarray(x.cpu(), device='cuda').is_cuda",
    "build": "torch.version.cuda and '+cpu' not in torch.__version__ and torch.backends.cuda.is_built()",
    "libraries": "torch.backends.cudnn.is_available() and torch.backends.cudnn.version() > 8000",
    "architectures": "'sm_90' in torch.cuda.get_arch_list() and 'sm_90' in torch.cuda.get_gencode_flags()",
    "accelerator": "not hasattr(torch, 'accelerator') or torch.accelerator.is_available()",
    "name": "torch.cuda.get_device_name().startswith('NVIDIA') and torch.cuda.get_device_properties(0).major == 9",
    "runtime": "torch.cuda.is_available() and torch.cuda.is_initialized()",
    "computed": "(x + 1.0).is_cuda and x.sum().is_cuda and not (torch.ones(3) * 2).is_cuda",
}
NEEDS_VALUES = {
    "item": "x.sum().item()",
    "list": "x.tolist()",
    "array": "x.cpu().numpy()",
    "truth": "bool(x[0, 0] > 0)",
    "nonzero": "x.nonzero()",
    "mask": "x[x > 0]",
    "unique": "torch.unique(x)",
    "number in a text": "f'{x.sum():.3f}'",
    "text": "repr(x)",
    "text of what numbers made": "str(torch.arange(3, device=x.device))",
}
REFUSED = (
    "torch.cuda.memory_allocated()",
    "torch.cuda.mem_get_info()",
    "x.untyped_storage().device",
    "x.storage()",
    "x.cpu().untyped_storage().data_ptr()",
    "x.share_memory_()",
    "torch.cuda.get_allocator_backend()",
    "torch.cuda.get_device_properties(0).uuid",
    "double_kernel.device_caches",
    "getattr(double_kernel[(1,)](x, y, 0, 2.0, BLOCK=128), 'n_regs', 0)",
    "double_kernel.warmup(x, y, 0, 2.0, BLOCK=128, grid=(1,)).asm",
)


ASKING = """
def refuses(make):
    try:
        make()
    except RuntimeError:
        return True
    return False
"""


def with_line(line: str) -> str:
    """The pointwise model with one more line in forward."""
    return ASKING + POINTWISE.replace("return y", f"{line}\n        return y")


@pytest.mark.parametrize("profile", [Profile.TINY, Profile.DECLARED])
@pytest.mark.parametrize("name", ON_A_GPU)
def test_a_tensor_is_what_it_would_be_on_a_gpu(sandbox: Sandbox, name: str, profile: Profile) -> None:
    """At every size host code sees a plain tensor on cuda:0."""
    source = with_line(f"assert {ON_A_GPU[name]}")
    recording = only(sandbox.record(source, [request((7, 11), profile=profile)]))
    assert recording.failure is None


@pytest.mark.parametrize("name", NEEDS_VALUES)
def test_values_are_asked_for_in_vain(sandbox: Sandbox, name: str) -> None:
    """There are none, on whatever device, and the recording says so."""
    recording = only(sandbox.record(with_line(f"held = {NEEDS_VALUES[name]}"), [request((7, 11))]))
    assert recording.failure is not None
    assert recording.failure.outcome is Outcome.DATA_DEPENDENT


@pytest.mark.parametrize("expression", REFUSED)
def test_a_storage_or_a_measure_is_refused(sandbox: Sandbox, expression: str) -> None:
    """A storage would say where it is, and a device's memory whether it is used."""
    recording = only(sandbox.record(with_line(f"held = {expression}"), [request((7, 11))]))
    assert recording.failure is not None
    assert recording.failure.outcome is Outcome.UNSUPPORTED


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_refused_cannot_be_caught(sandbox: Sandbox, expression: str) -> None:
    """Host code that goes on is refused all the same."""
    tried = f"try:\n            {expression}\n        except Exception:\n            pass"
    found = only(sandbox.record(with_line(tried), [request((3, 4))]))
    assert found.failure is not None
    assert found.failure.outcome is Outcome.UNSUPPORTED


def test_a_launch_gives_a_kernel_that_is_there(sandbox: Sandbox) -> None:
    """It is true, of the class that it would be, and the same again."""
    launch = "double_kernel[(1,)](x, y, 0, 2.0, BLOCK=128)"
    line = f"one, other = {launch}, {launch}\n        assert one and one is other and one is not None, repr(one)"
    assert only(sandbox.record(with_line(line), [request((3, 4))])).failure is None


def test_parameters_are_what_they_were(sandbox: Sandbox) -> None:
    """Their class, and whether they would be trained, are not changed by taking their values."""
    condition = "type(self.linear.weight) is nn.Parameter and self.linear.weight.requires_grad"
    source = LINEAR.replace("return y", f"assert {condition} and self.linear.weight.is_leaf\n        return y")
    assert only(sandbox.record(source, [request((5, 20), init=(20, 9))])).failure is None


def test_two_devices_do_not_mix(sandbox: Sandbox) -> None:
    """An operator on a tensor of the CPU and one of the GPU raises, as it would in use."""
    recording = only(sandbox.record(with_line("held = x + torch.ones(7, 11)"), [request((7, 11))]))
    assert recording.failure is not None
    assert recording.failure.outcome is Outcome.FORWARD_FAILED
    assert "same device" in recording.failure.message


@pytest.mark.parametrize("profile", [Profile.SMALL, Profile.DECLARED])
@pytest.mark.parametrize(
    "condition",
    [
        "type(self.linear.weight) is nn.Parameter and type(torch.empty(2)) is torch.Tensor",
        "self.linear.weight.device.type == 'cpu' and not self.linear.weight.is_meta",
        "torch.tensor([2.0]).item() == 2.0 and torch.tensor([1, 2]).tolist() == [1, 2]",
        "self.linear.weight.data_ptr() != 0",
        "self.linear.weight.untyped_storage().device.type == 'cpu'",
        "float(self.linear.weight.abs().max()) > 0.0",
    ],
)
def test_a_model_is_built_alike_at_all_sizes(sandbox: Sandbox, condition: str, profile: Profile) -> None:
    """What `__init__` sees at the declared sizes, where it is built without values, is what it sees at the others."""
    line = "self.linear = nn.Linear"
    start = LINEAR.index(line)
    end = LINEAR.index("\n", start)
    source = f"{LINEAR[:end]}\n        assert {condition}{LINEAR[end:]}"
    recording = only(sandbox.record(source, [request((5, 20), init=(20, 9), profile=profile)]))
    assert recording.failure is None


def test_views_are_where_their_storage_is() -> None:
    """A device is kept by storage: views share it, and other tensors do not."""
    devices = FakeDevices()
    one, other = torch.empty(4, 4, device="meta"), torch.empty(4, 4, device="meta")
    devices.place(one, torch.device("cuda"))
    devices.place(other, CPU)
    assert devices.of(one.t()[1:]) == CUDA
    assert devices.of(other[0]) == CPU
    assert devices.of(torch.ones(2)) == CPU
    assert devices.address(one[1:]) - devices.address(one) == 16
    assert devices.address(one) != devices.address(other)


SIZES = st.lists(st.one_of(st.integers(0, 1 << 12), st.integers(0, 1 << 25)), min_size=1, max_size=40)


@given(seed=st.integers(0, 1 << 40), sizes=SIZES)
def test_no_two_overlap_and_all_are_near(seed: int, sizes: list[int]) -> None:
    """Each begins at a multiple of 512, and all lie in no more than four times what they take, and two segments."""
    allocator = Allocator(seed, "cuda")
    taken = [(allocator.take(size), max(1, size)) for size in sizes]
    assert all(begin % 512 == 0 and begin > 0 for begin, _ in taken)
    ordered = sorted(taken)
    assert all(begin + size <= after for (begin, size), (after, _) in itertools.pairwise(ordered))
    span = ordered[-1][0] + ordered[-1][1] - ordered[0][0]
    assert span <= 4 * sum(max(512, size) for size in sizes) + (22 << 20)


def test_the_first_is_drawn() -> None:
    """A constant does not know it, and the same seed gives it again."""
    first = [Allocator(seed, "cuda").take(100) for seed in range(20)]
    assert len(set(first)) == 20
    assert first == [Allocator(seed, "cuda").take(100) for seed in range(20)]
    assert Allocator(3, "cuda").take(1) != Allocator(3, "cpu").take(1)


class Holder(torch.nn.Module):
    """A model with a tied weight, a buffer, and tensors in plain attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, 3).t())
        self.layer = torch.nn.Linear(3, 3, bias=False)
        self.layer.weight = self.weight
        self.register_buffer("mean", torch.ones(3))
        self.kept = {"of": [torch.zeros(2)], "weight": self.weight, "number": 7}
        self.plain = [1, 2]


@pytest.mark.parametrize("with_parameters", [False, True])
def test_tensors_that_are_one_stay_one(with_parameters: bool) -> None:
    """A tied weight has one stand-in; constants' values are always taken, parameters' where that is asked."""
    model, devices, blobs = Holder(), FakeDevices(), dict[str, bytes]()
    plain, shape, stride = model.plain, model.weight.shape, model.weight.stride()
    made = {each.name: each for each in replace_tensors(model, devices, blobs, with_parameters)}
    assert model.weight is model.layer.weight is model.kept["weight"]
    assert isinstance(model.weight, torch.nn.Parameter)
    assert (model.weight.shape, model.weight.stride()) == (shape, stride)
    assert model.plain is plain
    assert model.kept["number"] == 7
    is_parameter = {name: each.kind is BufferKind.PARAMETER for name, each in made.items()}
    assert is_parameter == {"mean": True, "kept": False, "weight": True}
    assert {name: devices.of(each.tensor) for name, each in made.items()} == {
        "mean": CUDA,
        "kept": CPU,
        "weight": CUDA,
    }
    assert {name for name, each in made.items() if each.blob is not None} == {
        "kept",
        *(("mean", "weight") if with_parameters else ()),
    }
    assert set(blobs) == {each.blob for each in made.values() if each.blob is not None}


def test_a_parameter_that_another_module_keeps_too_moves_with_it() -> None:
    """What a list holds of a child's parameters stands on the device, as after `model.to("cuda")`."""
    model, devices = torch.nn.Module(), FakeDevices()
    model.layer = torch.nn.Linear(3, 3)
    model.weights = [model.layer.weight]
    made = replace_tensors(model, devices, {}, with_parameters=False)
    assert model.weights[0] is model.layer.weight
    assert {each.name for each in made} == {"layer.weight", "layer.bias"}
    assert all(devices.of(each.tensor) == CUDA for each in made)


def test_values_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is larger than an answer may be is refused before it is sent."""
    monkeypatch.setattr(fake_tensors, "_MAX_BLOB_BYTES", 4)
    with pytest.raises(Refusal):
        replace_tensors(Holder(), FakeDevices(), {}, with_parameters=True)
