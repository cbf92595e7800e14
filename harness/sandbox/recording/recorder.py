"""In the compiling child: build the candidate's model, run its forward without values, and hand back plans.

Tensors have the class of real ones, at every size, and claim to be on a GPU (`fake_tensors`). `__init__` runs for real
on the CPU, since its parameters' values may matter; at large sizes it runs without values first, because a declared
weight can take gigabytes, and for real only where that fails or the plan needs them. Forward runs twice; both
passes must give the same plan and leave the same state behind (`host_state`). Further passes, in which nothing is
taken but the plan, have other circumstances (`circumstances`), another model of the same process or the sizes of an
earlier recording; each must do the same. Whatever a call returns must be memory that no call has returned before: its
caller may have kept it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

from ....core.candidate import Failure, Recording
from ....core.outcome import Outcome
from ....core.plan import BufferKind, LaunchPlan, Operator
from ....core.run import TensorSpec
from ....core.serialisation import from_plain, read_arguments, to_plain
from ....core.task import Profile
from ..candidate_module import describe, find_cause, import_candidate
from ..warm_up import CANDIDATE
from ..wire import Answer, Depth, Perform, RecompileRequest, RecordRequest, read_request
from .autotuning import LaunchValues, Tuners
from .circumstances import (
    Circumstance,
    EarlierCalls,
    draw_passes,
    let_choose_settings,
    list_circumstances,
    met,
    take_asked,
    without_origins,
)
from .device_stub import StubDriver, know_the_compiler_by_its_version, pretend_device, run_tools_as_one_user
from .fake_tensors import CUDA, FakeDevices, OnCpu, StandIn, replace_tensors
from .forward_pass import ForwardTrace, recorded
from .host_state import find_changes, take_snapshot
from .launches import LaunchRecorder
from .plan_difference import find_difference
from .recompile import recompile
from .refusal import Refusal
from .target import Target, find_smaller_card, parse_target

_ADDRESSES = "Host code asks for data_ptr(): addresses differ between calls; pass kernels the tensors themselves"


def prepare(target_name: str, scratch: str) -> Perform:
    """Set this process up for recording, warm what is slow the first time, and return what a child performs."""
    torch.set_num_threads(1)
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # code has no file names and line numbers
    target = parse_target(target_name)
    _have_device(target)
    run_tools_as_one_user()
    know_the_compiler_by_its_version()
    recorder = LaunchRecorder(target)
    recorder.install()
    values = LaunchValues(recorder)
    values.install()
    tuners = Tuners(recorder)
    tuners.install()
    table = list_circumstances()
    let_choose_settings(tuners.choose_setting)

    def perform(request: dict[str, Any], blobs: list[bytes], folder: str) -> Answer:
        recorder.assembler.begin(Depth(request["depth"]))
        if "plans" in request:
            asked = [from_plain(plain, RecompileRequest) for plain in request["plans"]]
            recorder.assembler.known_code.begin(blobs)
            made, codes = recompile(request["source"], asked, folder, recorder.compile_kernel, target.binary)
            new = recorder.assembler.known_code.new()
            return {"made": to_plain(made), "num_codes": len(codes)}, [*codes, *new]
        requests = [read_request(plain) for plain in request["requests"]]
        if any(each.is_on_smaller_card for each in requests):
            _have_device(find_smaller_card(target))
        recordings = record_all(recorder, tuners, request["source"], requests, folder, table)
        return {"recordings": [to_plain(recording) for recording in recordings]}, [*recorder.blobs.values()]

    spec = {"shape": [8, 32], "dtype": "float32"}
    warm = {"profile": "small", "dtype": "float32", "init_json": '{"args": [32, 32], "kwargs": {}}', "seed": 0}
    for compile, profile in ((True, "declared"), (False, "small")):
        request = {**warm, "profile": profile, "inputs": [spec], "compile": compile}
        answer, _ = perform({"source": CANDIDATE, "requests": [request], "depth": Depth.CODE}, [], scratch)
        from_plain(answer["recordings"][0]["plan"], LaunchPlan)
    recorder.forget()
    values.forget()
    tuners.forget()
    return perform


def _have_device(target: Target) -> None:
    StubDriver(target).install()
    pretend_device(target)


def record_all(
    recorder: LaunchRecorder,
    tuners: Tuners,
    source: str,
    requests: list[RecordRequest],
    scratch: str,
    table: tuple[Circumstance, ...] = (),
) -> list[Recording]:
    """Record each request, up to a decisive failure; a source that does not import fails them all alike."""
    try:
        Refusal.raised.clear()
        module = import_candidate(source, scratch)
        Refusal.raise_caught()
        if not hasattr(module, "ModelNew"):
            raise AttributeError("the source defines no ModelNew")
    except BaseException as error:
        failure = _failure(error, Outcome.IMPORT_FAILED)
        return [Recording(profile=request.profile, dtype=request.dtype, failure=failure) for request in requests]
    recordings = []
    calls = EarlierCalls(table=table)
    for request in requests:
        recordings.append(_record(recorder, tuners, module, request, calls))
        if request.decisive and recordings[-1].failure is not None:
            break
    return recordings


def _record(
    recorder: LaunchRecorder, tuners: Tuners, module: ModuleType, request: RecordRequest, calls: EarlierCalls
) -> Recording:
    attempts = (True, False) if request.profile.is_large and not request.with_values else (False,)
    failure: Failure | None = None
    for hollow in attempts:
        session = _Session(recorder, tuners, request, calls)
        try:
            first, plan = session.plans(module, hollow)
            if not tuners.has_tuned:
                calls.recorded.append((request, plan))
            return Recording(
                profile=request.profile,
                dtype=request.dtype,
                plan=plan,
                choices=tuple(tuners.choices),
                first_plan=first if tuners.has_measured else None,
            )
        except _NeedsValues:
            continue
        except BaseException as error:
            failure = _failure(error, session.stage)
            if not (hollow and session.stage is Outcome.INIT_FAILED):
                break
    return Recording(profile=request.profile, dtype=request.dtype, failure=failure)


class _NeedsValues(Exception):
    """A model built without values uses a tensor whose values the plan must carry."""


class _Session:
    """One request's model and passes; `stage` is what an escaping exception would mean now."""

    def __init__(self, recorder: LaunchRecorder, tuners: Tuners, request: RecordRequest, calls: EarlierCalls) -> None:
        self.calls = calls
        self.recorder = recorder
        self.tuners = tuners
        self.request = request
        self.stage = Outcome.INIT_FAILED
        self.devices = FakeDevices(request.seed)
        self.stand_ins: list[StandIn] = []

    def plans(self, module: ModuleType, hollow: bool) -> tuple[LaunchPlan, LaunchPlan]:
        """Build, convert, run forward twice; `hollow`: build without values.

        The two plans are the same, but where tuners measured in the first pass.
        """
        self.tuners.begin(self.request.choice, self.request.measured, lambda: take_snapshot(module, model))
        model = self._build(module, hollow)
        with torch.no_grad():
            inputs = self._make_inputs(self.request)
            self._convert(model)
            self.stage = Outcome.FORWARD_FAILED
            self._begin(self.request)
            first = self._forward(model, inputs, hollow)
            if self.request.is_called_once:
                Refusal.raise_caught()
                return first, first
            state = take_snapshot(module, model)
            second = self._forward(model, inputs, hollow)
        Refusal.raise_caught()
        difference = find_difference(first, second)
        if difference is not None and not self.tuners.has_measured:
            told = f". {_ADDRESSES}" if self.devices.has_told_addresses else ""
            raise Refusal(Outcome.NOT_REPRODUCIBLE, f"two passes over the same sizes: {difference}"[:300] + told)
        changes = find_changes(state, take_snapshot(module, model))
        if changes:
            raise Refusal(
                Outcome.NOT_REPRODUCIBLE, f"forward keeps count between calls: {', '.join(changes[:3])}"[:300]
            )
        if not self.tuners.has_measured:
            self._call_otherwise(model, second, hollow)
            self._call_with_one_tensor(model, second, hollow)
            if self.request.is_built_twice:
                self._call_another(module, second, hollow)
            if not self.tuners.has_tuned:
                self._call_at_other_sizes(model, hollow)
        return first, second

    def _build(self, module: ModuleType, hollow: bool) -> torch.nn.Module:
        args, kwargs = read_arguments(self.request.init_json)
        torch.default_generator.manual_seed(self.request.seed)  # `torch.manual_seed` also asks for GPUs, for 1 ms
        Refusal.raised.clear()
        with self._building(hollow), OnCpu():
            model = module.ModelNew(*args, **kwargs)
        if not isinstance(model, torch.nn.Module):
            raise TypeError("ModelNew is no torch.nn.Module")
        if self.request.dtype != "float32":
            with self._building(hollow):
                model.to(getattr(torch, self.request.dtype))
        Refusal.raise_caught()
        return model

    def _call_another(self, module: ModuleType, plan: LaunchPlan, hollow: bool) -> None:
        """Raise where a second model of the process does something else than the first, as with the first's weights.

        It has been called before at sizes of which one is another, as what is kept by the others would fit no more.
        """
        session = _Session(self.recorder, self.tuners, self.request, self.calls)
        model = session._build(module, hollow)
        with torch.no_grad():
            inputs = session._make_inputs(self.request)
            session._convert(model)
            for neighbour in () if self.tuners.has_tuned else self.request.neighbours:
                session._attempt(model, [session._make_input(spec) for spec in neighbour], hollow)
            found = session._attempt(model, inputs, hollow)
        found = None if found is None else without_origins(found)
        _require_same(without_origins(plan), found, "in a second model of one process, called at other sizes before")

    def _call_otherwise(self, model: torch.nn.Module, plan: LaunchPlan, hollow: bool) -> None:
        """Raise where forward does something else in other circumstances, or for other tensors of the same sizes.

        That it fails in some is no objection: nobody is given a wrong result.
        """
        seed = f"{self.request.seed}:{self.request.profile}:{self.request.dtype}"
        for circumstances in draw_passes(self.calls.table, seed, self.request.is_same_in_evaluation):
            with torch.no_grad():
                inputs = self._make_inputs(self.request)
                with met(circumstances, model, inputs):
                    take_asked()
                    found = self._attempt(model, inputs, hollow)
                    asked = take_asked()
            names = ", ".join([*(each.name for each in circumstances if each.name), *asked])
            _require_same(plan, found, names or "on new tensors")

    def _call_with_one_tensor(self, model: torch.nn.Module, plan: LaunchPlan, hollow: bool) -> None:
        """Raise where forward launches something else when one tensor is given for all inputs that are alike."""
        given: dict[TensorSpec, Any] = {}
        with torch.no_grad():
            drawn = zip(self.request.inputs, self._make_inputs(self.request), strict=True)
            inputs = [given.setdefault(spec, each) if isinstance(spec, TensorSpec) else each for spec, each in drawn]
            if len(given) == sum(isinstance(spec, TensorSpec) for spec in self.request.inputs):
                return
            found = self._attempt(model, inputs, hollow)
        _require_same(plan, found, "with one tensor for several inputs", of_buffers=False)

    def _call_at_other_sizes(self, model: torch.nn.Module, hollow: bool) -> None:
        """Raise where a model whose first call had this recording's sizes does something else at larger ones."""
        larger = self.calls.find_larger(self.request)
        if larger is None:
            return
        request, plan = larger
        self._begin(request)
        with torch.no_grad():
            found = self._attempt(model, self._make_inputs(request), hollow)
        found = None if found is None else without_origins(found)
        _require_same(without_origins(plan), found, f"after calls at smaller sizes, at the {request.profile} ones")

    def _attempt(self, model: torch.nn.Module, inputs: list[Any], hollow: bool) -> LaunchPlan | None:
        """Return the plan of one more pass; None where forward fails."""
        try:
            return self._forward(model, inputs, hollow)
        except Refusal:
            raise
        except Exception:
            Refusal.raise_caught()
            return None

    def _building(self, hollow: bool) -> contextlib.AbstractContextManager[None]:
        return recorded(self.devices, None) if hollow else contextlib.nullcontext()

    def _begin(self, request: RecordRequest) -> None:
        self.recorder.begin(request.compile, is_specialised=request.profile is Profile.DECLARED)

    def _make_inputs(self, request: RecordRequest) -> list[Any]:
        """Return new inputs of a request's sizes."""
        return [self._make_input(spec) for spec in request.inputs]

    def _make_input(self, spec: Any) -> Any:
        if not isinstance(spec, TensorSpec):
            return spec
        dtype = getattr(torch, spec.dtype)
        if spec.stride is None:
            tensor = torch.empty(spec.shape, dtype=dtype, device="meta")
        else:
            storage = torch.empty(spec.storage_size, dtype=dtype, device="meta")
            tensor = storage.as_strided(spec.shape, spec.stride, spec.offset)
        self.devices.place(tensor, CUDA)
        return tensor

    def _convert(self, model: torch.nn.Module) -> None:
        """Put the model's parameters and buffers on the device, and take the values of all its tensors."""
        with_parameters = self.request.with_values or not self.request.profile.is_large
        self.stand_ins = replace_tensors(model, self.devices, self.recorder.blobs, with_parameters)

    def _forward(self, model: torch.nn.Module, inputs: list[Any], hollow: bool) -> LaunchPlan:
        current = ForwardTrace(self.recorder)
        for index, value in enumerate(inputs):
            if isinstance(value, torch.Tensor):
                current.add_buffer(value, BufferKind.INPUT, str(index))
        for own in self.stand_ins:
            current.add_buffer(own.tensor, own.kind, own.name, own.blob)
        with self.recorder.recording(current.view, current.steps), recorded(self.devices, current):
            result = model(*inputs)
            plan = current.finish(result, self.recorder.target.name if self.recorder.compile else None)
        self.calls.note_results(result, plan)
        constants = {
            index
            for index, buffer in enumerate(plan.buffers)
            if buffer.kind is BufferKind.CONSTANT and buffer.blob is None
        }
        if constants & set(_used(plan)):
            raise _NeedsValues if hollow else Refusal(Outcome.UNSUPPORTED, "a constant without values")
        return plan


def _require_same(plan: LaunchPlan, found: LaunchPlan | None, when: str, of_buffers: bool = True) -> None:
    """Raise where a pass that came to its end does something else than the plan."""
    difference = None if found is None else find_difference(plan, found, of_buffers=of_buffers)
    if difference is not None:
        raise Refusal(Outcome.NOT_REPRODUCIBLE, f"{when}: {difference}"[:300])


def _used(plan: LaunchPlan) -> Iterator[int]:
    for step in plan.steps:
        if hasattr(step, "arguments"):
            yield from (argument.view.buffer for argument in step.arguments if argument.view is not None)
        elif isinstance(step, Operator):
            yield from (view.buffer for view in step.inputs)
        elif hasattr(step, "source"):
            yield step.source.buffer
    yield from (view.buffer for view in plan.outputs)


def _failure(error: BaseException, default: Outcome) -> Failure:
    refusal = find_cause(error, Refusal)
    return describe(error, default) if refusal is None else refusal.failure
