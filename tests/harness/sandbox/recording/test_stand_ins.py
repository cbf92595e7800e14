"""What stands for a model's tensors: on which device, which of them are one, and whose values are taken."""

from __future__ import annotations

import pytest
import torch
from tritonrl.core.plan import BufferKind
from tritonrl.harness.sandbox.recording import stand_ins
from tritonrl.harness.sandbox.recording.fake_tensors import CPU, CUDA, FakeDevices
from tritonrl.harness.sandbox.recording.refusal import Refusal
from tritonrl.harness.sandbox.recording.stand_ins import replace_tensors


class Model(torch.nn.Module):
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
    model, devices, blobs = Model(), FakeDevices(), dict[str, bytes]()
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
    monkeypatch.setattr(stand_ins, "_MAX_BLOB_BYTES", 4)
    with pytest.raises(Refusal):
        replace_tensors(Model(), FakeDevices(), {}, with_parameters=True)
