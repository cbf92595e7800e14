"""The executor: the process on whose GPU plans run. It has no expected values and no candidate's Python.

A parent imports PyTorch and stays off the GPU; it forks a child that opens the device and serves requests one by one.
A kernel that ends the context (an illegal address) or never ends takes the child along, and the next request gets a
fresh one after a fork and a context's start, not after imports. So does one whose plan wrote beyond a buffer: within a
context nothing protects the code of other plans' kernels, and one that writes over it fails them in its place. The
parent ends when the judge's socket closes.

A request is a frame (`harness.sandbox.wire`) with plans, initial values and compiled kernels as raw bytes, and asks for
runs, for a part of a timing, or how long each of several plans takes. Code is loaded for each run, which takes 30 us a
kernel. A timing has the task's reference beside the candidate, on values that the candidate never sees
(`harness.gpu.timing.references`).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from attrs import evolve

from ...core.candidate import Failure, Variant
from ...core.plan import BufferKind, Copy, Fill, Kernel, Launch, LaunchPlan, Operator
from ...core.run import RunResult
from ...core.serialisation import from_plain, to_plain
from ..reference.reference import count_stored
from ..reference.values import DrawnInputs, draw_on_device
from ..sandbox import wire
from ..sandbox.fork_server import serve_forks
from ..sandbox.recording.aten_steps import run_operator
from .device.launcher import Fatal, LoadedKernel, Unsupported, failure_of, is_of_memory, make_launch
from .device.memory import DeviceBuffers, bytes_of, open_window
from .timing.copies import Prepare
from .timing.protocol import Protocol, ReferenceRequest, ReferenceSource
from .timing.references import References, load_compiler
from .timing.timer import Timer

_PIECE_S = 0.015
"""Preparing goes on for so long, or for one piece, before others may have their turn."""
_LAST_KINDS = ("run", "let go", "finish timing", "rank", "compare")
"""Requests after which nothing of a plan is needed any more; nor is it after a failure."""
_MOST_UNUSED_BYTES = 1 << 30
"""More than this goes back to the device when a plan is done with, since others may need it."""
_OVER = object()
_MAX_FRAME = 1 << 36


class Executor:
    """Runs and times plans on the current device."""

    def __init__(self, window: torch.Tensor | None = None) -> None:
        self._window = torch.empty(0, dtype=torch.uint8) if window is None else window
        self._given: dict[int, torch.Tensor] = {}
        """Initial values of the next large run's buffers, as bytes."""
        self._outputs: list[torch.Tensor] = []
        """Of the last large run, as bytes, until they are let go."""
        self._references = References()
        self._used_timer: Timer | None = None
        self._begin: Callable[[], Iterator[None]] = lambda: iter(())
        self._preparation: Iterator[None] | None = None
        self._is_new = False
        """Whether nothing was prepared yet of what was received last; what was prepared before goes in a turn."""
        self._may_clear = True
        self._stuck_bytes = 0
        self.is_spoilt = False
        """Whether a plan wrote where it must not, and who knows where else."""

    def answer(self, header: dict[str, Any], blobs: list[bytes]) -> wire.Answer:
        """The reply to one request, with the failure that it ended in, if any."""
        binaries = {sha256: blobs[index] for sha256, index in header.get("binaries", {}).items()}
        try:
            reply, outputs = self._reply(header, binaries, blobs)
        except Exception as error:
            return {"failure": to_plain(failure_of(error))}, []
        return {"failure": None, **reply}, outputs

    def _reply(self, header: dict[str, Any], binaries: dict[str, bytes], blobs: list[bytes]) -> wire.Answer:
        match header["kind"]:
            case "warm up":
                self._timer.warm_up()
            case "load compiler":
                load_compiler()
            case "receive timing":
                self._receive_timing(header, binaries, blobs)
            case "prepare timing":
                return {"more": self._prepare_timing()}, []
            case "measure timing":
                self._timer.measure_plan(float(header["busy_until"]))
            case "finish timing":
                return self._finish_timing(header, blobs)
            case "rank":
                return self._rank(header, binaries, blobs), []
            case "compare":
                return self._compare(header, binaries, blobs), []
            case "prepare reference":
                return {"notes": self._timer.prepare_reference(from_plain(header["request"], ReferenceRequest))}, []
            case "measure reference":
                request = from_plain(header["request"], ReferenceRequest)
                return {"timing": to_plain(self._timer.measure_reference(request, header["notes"]))}, []
            case "give":
                self._take(header["buffer"], header["size"], header["start"], header["stop"])
            case "run large":
                return self._run_large(header, binaries), []
            case "fetch":
                start, stop = header["start"], header["stop"]
                self._window[: stop - start].copy_(self._outputs[header["output"]][start:stop])
            case "let go":
                self._given, self._outputs = {}, []
            case "run":
                return self._run_all(header, binaries, blobs)
        return {}, []

    def _run_all(self, header: dict[str, Any], binaries: dict[str, bytes], blobs: list[bytes]) -> wire.Answer:
        results: list[dict[str, Any]] = []
        outputs: list[bytes] = []
        for plain in header["requests"]:
            plan = from_plain(plain["plan"], LaunchPlan)
            result = self._run(Variant(plain["variant"]), plan, _place(_read(plan, plain["storages"], blobs)), binaries)
            results.append(wire.write_run_result(result, outputs))
        return {"results": results}, outputs

    def _take(self, buffer: int, size: int, start: int, stop: int) -> None:
        """Take a piece of a buffer's initial values out of the window."""
        if start == 0:
            self._given[buffer] = torch.empty(size, dtype=torch.uint8, device="cuda")
        self._given[buffer][start:stop].copy_(self._window[: stop - start])

    def _run_large(self, header: dict[str, Any], binaries: dict[str, bytes]) -> dict[str, Any]:
        """Run a plan on inputs that are drawn here; its results stay here until they are fetched or let go."""
        values, self._given, self._outputs = self._given, {}, []
        plan = from_plain(header["plan"], LaunchPlan)
        drawn = draw_on_device(from_plain(header["drawn"], DrawnInputs), "cuda")
        for index, buffer in enumerate(plan.buffers):
            if buffer.kind is BufferKind.INPUT:
                values[index] = _stored_bytes(drawn[int(buffer.name)])
        drawn.clear()
        try:
            buffers = DeviceBuffers(plan, values)
            self.prepare(plan, buffers, binaries)()
            torch.cuda.synchronize()
            out_of_bounds = buffers.out_of_bounds()
            self.is_spoilt |= bool(out_of_bounds)
            result = RunResult(variant=Variant.DECLARED, mutated=buffers.mutated(), out_of_bounds=out_of_bounds)
            self._outputs = [_flat_bytes(buffers.view(view)) for view in plan.outputs]
        except Exception as error:
            result = RunResult(variant=Variant.DECLARED, failure=failure_of(error))
        return {"result": wire.write_run_result(result, []), "sizes": [len(output) for output in self._outputs]}

    def give_back(self) -> None:
        """Have much memory that lies unused here be free for others; what graphs keep for themselves stays."""
        if _unused_bytes() - self._stuck_bytes > _MOST_UNUSED_BYTES:
            torch.cuda.empty_cache()
            self._stuck_bytes = _unused_bytes()

    def _run(
        self, variant: Variant, plan: LaunchPlan, given: dict[int, torch.Tensor], binaries: dict[str, bytes]
    ) -> RunResult:
        try:
            buffers = DeviceBuffers(plan, given)
            perform = self.prepare(plan, buffers, binaries)
            perform()
            torch.cuda.synchronize()
            out_of_bounds = buffers.out_of_bounds()
            self.is_spoilt |= bool(out_of_bounds)
            return RunResult(
                variant=variant,
                outputs=tuple(bytes_of(buffers.view(view)) for view in plan.outputs),
                mutated=buffers.mutated(),
                out_of_bounds=out_of_bounds,
            )
        except Exception as error:
            return RunResult(variant=variant, failure=failure_of(error))

    def prepare(self, plan: LaunchPlan, buffers: DeviceBuffers, binaries: dict[str, bytes]) -> Callable[[], None]:
        """All steps as one function that only puts work on the stream, and the code for it loaded anew."""
        steps: list[Callable[[], None]] = []
        kernels: dict[int, LoadedKernel] = {}
        for step in plan.steps:
            match step:
                case Fill(target=target):
                    view, value = buffers.view(target), float(step.nonfinite or step.value)
                    steps.append(lambda view=view, value=value: view.fill_(value))  # type: ignore[misc]
                case Copy():
                    source, destination = buffers.view(step.source), buffers.view(step.target)
                    steps.append(lambda a=destination, b=source: a.copy_(b.clone()))  # type: ignore[misc]
                case Operator():
                    steps.append(lambda step=step: run_operator(step, buffers.view))  # type: ignore[misc]
                case Launch():
                    record = plan.kernels[step.kernel]
                    if step.kernel not in kernels:
                        kernels[step.kernel] = _load(record, binaries)
                    put, scratch = make_launch(kernels[step.kernel], record, step, buffers.address)
                    steps.append(lambda put=put, scratch=scratch: put())  # type: ignore[misc]

        def perform() -> None:
            for step in steps:
                step()

        return perform

    @property
    def _timer(self) -> Timer:
        if self._used_timer is None:
            self._used_timer = Timer(self._references)
        return self._used_timer

    def _receive_timing(self, header: dict[str, Any], binaries: dict[str, bytes], blobs: list[bytes]) -> None:
        """All of a timing's preparation that takes no GPU."""
        plan, protocol = from_plain(header["plan"], LaunchPlan), from_plain(header["protocol"], Protocol)
        source = from_plain(header["source"], ReferenceSource) if header["source"] is not None else None
        if source is not None:
            self._references.draw(source)
        values = _read(plan, header["storages"], blobs)

        def begin() -> Iterator[None]:
            return self._timer.prepare_plan(plan, _place(values), source, protocol, self._preparing(binaries))

        self._begin, self._is_new, self._may_clear = begin, True, True

    def _prepare_timing(self) -> bool:
        """Prepare the next pieces of what was received last; returns whether there are more.

        Nothing is under way then. What finds too little memory is begun anew, once, with all given back that can be.
        """
        is_over: bool | None = None
        try:
            is_over = self._go_on()
        except Exception as error:
            self._preparation = None
            if not (is_of_memory(error) and self._may_clear):
                raise
        if is_over is None:
            # after the handler, whose traceback holds what did not fit
            self._is_new, self._may_clear = True, False
            self._timer.clear()
            is_over = self._go_on()
        if is_over:
            self._preparation = None
        return not is_over

    def _go_on(self) -> bool:
        """Prepare for one piece, or for a while; returns whether that was all."""
        if self._is_new:
            self._preparation, self._is_new = self._begin(), False
        until = time.monotonic() + _PIECE_S
        is_over = False
        while not is_over:
            is_over = next(self._preparation or iter(()), _OVER) is _OVER
            if time.monotonic() >= until:
                break
        torch.cuda.synchronize()
        return is_over

    def _finish_timing(self, header: dict[str, Any], blobs: list[bytes]) -> wire.Answer:
        timed = self._timer.finish_plan(lambda plan: _place(_read(plan, header["others"], blobs)))
        outputs: list[bytes] = []
        found = [result for result in (timed.first, timed.fresh) if result is not None]
        self.is_spoilt |= any(result.out_of_bounds for result in found)
        results = [wire.write_run_result(result, outputs) for result in found]
        return {"timed": to_plain(evolve(timed, first=None, fresh=None)), "results": results}, outputs

    def _rank(self, header: dict[str, Any], binaries: dict[str, bytes], blobs: list[bytes]) -> dict[str, Any]:
        plans = [from_plain(plain, LaunchPlan) for plain in header["plans"]]
        failures: list[Failure] = []

        def prepare(number: int) -> tuple[DeviceBuffers, Callable[[], None]] | None:
            plan = plans[number]
            try:
                buffers = DeviceBuffers(plan, _place(_read(plan, header["storages"][number], blobs)))
                return buffers, self.prepare(plan, buffers, binaries)
            except Exception as error:
                failures.append(failure_of(error))
                return None

        us = self._timer.rank(prepare, len(plans), from_plain(header["protocol"], Protocol))
        is_failure = bool(failures) and all(one is None for one in us)
        return {"us": us, "failure": to_plain(failures[0]) if is_failure else None}

    def _preparing(self, binaries: dict[str, bytes]) -> Prepare:
        return lambda plan, buffers: self.prepare(plan, buffers, binaries)

    def _compare(self, header: dict[str, Any], binaries: dict[str, bytes], blobs: list[bytes]) -> dict[str, Any]:
        plan, protocol = from_plain(header["plan"], LaunchPlan), from_plain(header["protocol"], Protocol)
        given, prepare = _place(_read(plan, header["storages"], blobs)), self._preparing(binaries)
        repeats = range(header["num_repeats"])
        return {"us": [self._timer.compare_protocols(plan, given, protocol, prepare) for _ in repeats]}


def _load(record: Kernel, binaries: dict[str, bytes]) -> LoadedKernel:
    if record.binary is None or record.binary not in binaries:
        raise Unsupported(f"kernel {record.qualname} was not compiled")
    return LoadedKernel(record, binaries[record.binary])


def _unused_bytes() -> int:
    return torch.cuda.memory_reserved() - torch.cuda.memory_allocated()


def _read(plan: LaunchPlan, storages: dict[str, int], blobs: list[bytes]) -> dict[int, torch.Tensor]:
    """The initial values as bytes, on the processor."""
    wanted = {index for index, buffer in enumerate(plan.buffers) if buffer.kind is not BufferKind.TEMPORARY}
    if missing := sorted(wanted - set(map(int, storages))):
        raise ValueError(f"no values for buffers {missing}")
    return {
        int(text): torch.frombuffer(bytearray(blobs[at]) or bytearray(1), dtype=torch.uint8)[: len(blobs[at])]
        for text, at in storages.items()
    }


def _stored_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.as_strided((count_stored(tensor),), (1,), 0).view(torch.uint8)


def _flat_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _place(values: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    return {index: data.cuda() for index, data in values.items()}


def _serve(connection: socket.socket, device: int, window: int) -> None:
    torch.cuda.set_device(device)
    torch.zeros(1, device="cuda")
    executor = Executor(open_window(window))
    properties = torch.cuda.get_device_properties(device)
    connection.sendall(wire.encode({"name": properties.name, "uuid": f"GPU-{properties.uuid}"}))
    while True:
        try:
            header, blobs = wire.read(connection.recv, _MAX_FRAME)
        except wire.FrameError:
            return  # the judge has gone
        try:
            reply, outputs = executor.answer(header, blobs)
        except Fatal as error:
            connection.sendall(wire.encode({"fatal": to_plain(error.failure)}))
            return
        if header["kind"] in _LAST_KINDS or reply.get("failure"):
            executor.give_back()  # while it has its turn
        connection.sendall(wire.encode({**reply, "ends": executor.is_spoilt}, outputs))
        if executor.is_spoilt:
            return


def main() -> None:
    """Import, then fork a child for each request: its GPU's number, with memory that it shares with the judge."""
    import cuda.bindings.driver  # noqa: F401 (before the fork: it takes a while)

    serve_forks(lambda connection, device, descriptors: _serve(connection, device[0], descriptors[0]))


if __name__ == "__main__":
    main()
