"""Forward must do the same in every circumstance that a user's call may have, and return memory of its own."""

from __future__ import annotations

import contextlib

import pytest
from attrs import evolve
from tritonrl.core.outcome import Outcome
from tritonrl.core.task import Profile
from tritonrl.harness.sandbox.recording.circumstances import NUM_PASSES, Circumstance, draw_passes
from tritonrl.harness.sandbox.sandbox import Sandbox

from ..conftest import only, request
from ..kernels import POINTWISE

TOLD = {
    "evaluation": "not self.training",
    "gradients": "torch.is_grad_enabled()",
    "required": "x.requires_grad",
    "a parameter": "isinstance(x, nn.Parameter)",
    "devices": "torch.cuda.device_count() > 1",
    "default device": "torch.get_default_device().type != 'cpu'",
    "inference": "torch.is_inference_mode_enabled()",
    "autocast": "torch.is_autocast_enabled()",
    "determinism": "torch.are_deterministic_algorithms_enabled()",
    "dtype": "torch.get_default_dtype() != torch.float32",
    "capture": "torch.cuda.is_current_stream_capturing()",
    "evaluation alone": "not self.training and not torch.is_grad_enabled() and not torch.is_inference_mode_enabled()",
}
COUNTED = {
    "cycle": ("CALLS = itertools.cycle([0] * 40 + [1])", "next(CALLS)"),
    "map": ("CALLS = map(abs, itertools.count())", "next(CALLS)"),
    "generator": ("CALLS = torch.Generator()", "CALLS.manual_seed(CALLS.initial_seed() + 1)"),
    "filters": ("import warnings", "warnings.filterwarnings('ignore', message=str(len(warnings.filters)))"),
}
KEPT = {
    "on the model": "y = vars(self).setdefault('kept', y)",
    "in the module": "y = KEPT.setdefault(tuple(x.shape), y)",
}
FIRST = {
    "tensor": "first = vars(self).setdefault('first', [x])[0] is not x",
    "size": "first = vars(self).setdefault('first', x.numel()) != x.numel()",
}


def _instead(line: str, condition: str) -> str:
    """Return the pointwise model, which under a condition fills its result in place of the launch."""
    end = f"{line}\n        if {condition}:\n            return torch.zeros_like(x)\n        return y"
    return "import itertools\nKEPT = {}\n" + POINTWISE.replace("return y", end)


def _is_refused(sandbox: Sandbox, source: str) -> bool:
    requests = [request((700, 11), profile=Profile.DECLARED), request((7, 11))]
    requests = [evolve(each, is_same_in_evaluation=True) for each in requests]
    failures = [recording.failure for recording in sandbox.record(source, requests).recordings]
    assert all(failure is None or failure.outcome is Outcome.NOT_REPRODUCIBLE for failure in failures), failures
    return any(failures)


@pytest.mark.parametrize("name", TOLD)
def test_another_plan_in_other_circumstances_is_refused(sandbox: Sandbox, name: str) -> None:
    """What only a recording's circumstances get is no plan."""
    assert _is_refused(sandbox, _instead("pass", TOLD[name]))


def test_evaluation_is_no_objection_where_the_reference_differs(sandbox: Sandbox) -> None:
    """A dropout or a batch norm does something else when it is not trained."""
    recording = only(sandbox.record(_instead("pass", TOLD["evaluation"]), [request((7, 11))]))
    assert recording.failure is None


@pytest.mark.parametrize("name", COUNTED)
def test_a_count_of_calls_is_refused(sandbox: Sandbox, name: str) -> None:
    """Whatever holds it."""
    made, counted = COUNTED[name]
    source = _instead(counted, "False").replace("KEPT = {}", "")
    assert _is_refused(sandbox, source.replace("class ModelNew", f"{made}\n\n\nclass ModelNew"))


@pytest.mark.parametrize("name", KEPT)
def test_a_result_that_is_returned_again_is_refused(sandbox: Sandbox, name: str) -> None:
    """Its first caller may still hold it."""
    assert _is_refused(sandbox, _instead(KEPT[name], "False"))


@pytest.mark.parametrize("name", FIRST)
def test_a_model_that_is_right_on_its_first_input_alone_is_refused(sandbox: Sandbox, name: str) -> None:
    """New tensors, and larger ones, get the same from a model that has been called."""
    assert _is_refused(sandbox, _instead(FIRST[name], "first"))


def test_a_model_that_caches_what_no_call_changes_is_recorded(sandbox: Sandbox) -> None:
    """A grid by size, a lazily read property, a workspace that grows."""
    line = "work = vars(self).setdefault('work', {}).setdefault(tuple(x.shape), torch.empty_like(x))"
    assert not _is_refused(sandbox, _instead(line, "False"))


SHARED = {
    "weights": ("self.scale = nn.Parameter(torch.ones(()))", "KEPT.setdefault('scale', self.scale)", True),
    "a workspace": ("pass", "KEPT['work'] if KEPT else KEPT.setdefault('work', x.new_empty(()))", False),
    "a choice": ("KEPT[id(self)] = self", "KEPT.setdefault(x.shape, x.stride()) and y", False),
    "its own weights": ("self.scale = nn.Parameter(torch.ones(()))", "KEPT.setdefault(id(self), self.scale)", False),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_second_model_does_the_same(sandbox: Sandbox, name: str) -> None:
    """What its process keeps may be a cache, and no weights of the first one."""
    made, used, is_refused = SHARED[name]
    source = _instead(f"double_kernel[(1,)]({used}, y, 0, 2.0, BLOCK=128)", "False")
    source += f"\n    def __init__(self):\n        super().__init__()\n        {made}\n"
    asked = evolve(request((7, 11)), is_built_twice=True)
    assert only(sandbox.record(source, [evolve(asked, is_built_twice=False)])).failure is None
    failure = only(sandbox.record(source, [asked])).failure
    assert (failure is not None) is is_refused, failure
    if failure is not None:
        assert "in a second model" in failure.message


def test_every_circumstance_is_met() -> None:
    """Whatever is drawn, each is met in some pass, and gradients in the first."""
    table = tuple(
        Circumstance(name=str(n), enter=lambda model, inputs: contextlib.nullcontext(), changes_reference=n == 0)
        for n in range(6)
    )
    for seed in range(20):
        passes = draw_passes(table, str(seed), is_same_in_evaluation=True)
        assert {each.name for some in passes for each in some} >= {each.name for each in table}
        assert (table[0],) in passes
        fewer = draw_passes(table, str(seed), is_same_in_evaluation=False)
        assert len(fewer) == NUM_PASSES
        assert all(table[0] not in some for some in fewer)


MULTIPROCESSORS = {
    "PyTorch": "torch.cuda.get_device_properties(x.device).multi_processor_count",
    "Triton": "triton.runtime.driver.active.utils.get_device_properties(0)['multiprocessor_count']",
    "at import": "MULTIPROCESSORS",
}


@pytest.mark.parametrize("name", MULTIPROCESSORS)
def test_the_same_architecture_has_smaller_cards(sandbox: Sandbox, name: str) -> None:
    """A kernel whose grid is the device's multiprocessors has another grid where it is asked for on a smaller one."""
    source = POINTWISE.replace(
        "class ModelNew", f"MULTIPROCESSORS = {MULTIPROCESSORS['PyTorch'].replace('x.device', '0')}\n\nclass ModelNew"
    )
    source = source.replace("(triton.cdiv(n, 128),)", f"({MULTIPROCESSORS[name]},)")
    grids = []
    for is_smaller in (False, True, False):
        plan = only(sandbox.record(source, [evolve(request((7, 11)), is_on_smaller_card=is_smaller)])).plan
        assert plan is not None
        grids.append(plan.launches[0].grid)
    assert grids == [(132, 1, 1), (115, 1, 1), (132, 1, 1)]
