"""The executor: the process on whose GPU plans run. It has no expected values and no candidate's Python.

A parent imports PyTorch and stays off the GPU; it forks a child that opens the device and serves requests one by one.
A kernel that ends the context (an illegal address) or never ends takes the child along, and the next request gets a
fresh one after a fork and a context's start, not after imports. So does one whose plan wrote beyond a buffer: within a
context nothing protects the code of other plans' kernels, and one that writes over it fails them in its place. The
parent ends when the judge's socket closes.

A request is a frame (`harness.sandbox.wire`) with plans, initial values and compiled kernels as raw bytes, and asks for
runs, for a part of a timing, or how long each of several plans takes. Kernels stay loaded while they are used again and
again. A timing has the task's reference beside the candidate, on values that the candidate never sees
(`harness.cuda.references`).
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from attrs import evolve

from ...core.candidate import Failure, Variant
from ...core.plan import BufferKind, Copy, Fill, Kernel, Launch, LaunchPlan, Operator
from ...core.run import RunResult
from ...core.serialisation import from_plain, to_plain
from ..sandbox import wire
from ..sandbox.confinement import syscalls
from ..sandbox.recording.aten_steps import run_operator
from .failures import Fatal, attempt, failure_of
from .launcher import CannotLaunch, LoadedKernel, LoadedKernels, is_of_memory, make_launch
from .memory import DeviceBuffers, bytes_of
from .pages import the_pages
from .protocol import Protocol, ReferenceRequest, ReferenceSource, Timed
from .references import References, load_compiler
from .replicas import Prepare
from .timer import Timer

_PIECE_S = 0.015
"""Preparing goes on for so long, or for one piece, before others may have their turn."""
_LAST_KINDS = ("run", "finish timing", "rank", "compare")
"""Requests after which nothing of a plan is needed any more; nor is it after a failure."""
_MOST_UNUSED_BYTES = 4 << 30
"""More than this goes back to the device when a plan is done with, since others may need it."""
_OVER = object()
_MAX_FRAME = 1 << 36


class Executor:
    """Runs and times plans on the current device."""

    def __init__(self) -> None:
        self._kernels = LoadedKernels()
        self._references = References()
        self._used_timer: Timer | None = None
        self._begin: Callable[[], Iterator[None]] = lambda: iter(())
        self._preparation: Iterator[None] | None = None
        self._may_clear = True
        self._stuck_bytes = 0
        self.is_spoilt = False
        """Whether a plan wrote where it must not, and who knows where else."""

    def answer(self, header: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """The reply to one request."""
        binaries = {sha256: blobs[index] for sha256, index in header.get("binaries", {}).items()}
        if binaries and header["kind"] != "receive timing":  # which has no turn
            self._make_room_for_code()
        match header["kind"]:
            case "warm up":
                self._timer.warm_up(int(header["lanes"]))
                return {"failure": None}, []
            case "load compiler":
                # a compiler that does not work is a note on each reference, and no failure
                return {"failure": attempt(load_compiler)}, []
            case "receive timing":
                return {"failure": attempt(lambda: self._receive_timing(header, binaries, blobs))}, []
            case "prepare timing":
                return self._prepare_timing(), []
            case "measure timing":
                return {"failure": attempt(lambda: self._timer.measure_plan(float(header["busy_until"])))}, []
            case "finish timing":
                return self._finish_timing(header, blobs)
            case "rank":
                return self._rank(header, binaries, blobs), []
            case "compare":
                return self._compare(header, binaries, blobs), []
            case "prepare reference" | "measure reference":
                return self._time_reference(header), []
        results: list[dict[str, Any]] = []
        outputs: list[bytes] = []
        for plain in header["requests"]:
            plan = from_plain(plain["plan"], LaunchPlan)
            result = self._run(Variant(plain["variant"]), plan, _place(_read(plan, plain["storages"], blobs)), binaries)
            results.append(_to_plain(result, outputs))
        return {"results": results}, outputs

    def give_back(self) -> None:
        """Have much memory that lies unused here be free for others; what graphs keep for themselves stays."""
        if _unused_bytes() - self._stuck_bytes > _MOST_UNUSED_BYTES:
            torch.cuda.empty_cache()
            self._stuck_bytes = _unused_bytes()

    def unload(self) -> None:
        """Free all code; nothing that was prepared may be launched any more."""
        self._let_go()
        self._kernels.clear()

    def _make_room_for_code(self) -> None:
        """Unload some if there is much; something begins, and nothing else is under way."""
        if self._kernels.are_too_many:
            self._let_go()
            self._kernels.make_room()

    def _let_go(self) -> None:
        """Of what graphs launch with, code may be unloaded after this."""
        self._preparation = None
        if self._used_timer is not None:
            self._used_timer.drop_plan()
        the_pages().empty()

    def _run(
        self, variant: Variant, plan: LaunchPlan, given: dict[int, torch.Tensor], binaries: dict[str, bytes]
    ) -> RunResult:
        try:
            buffers = DeviceBuffers(plan, given)
            self.prepare(plan, buffers, binaries)()
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

    def prepare(
        self, plan: LaunchPlan, buffers: DeviceBuffers, binaries: dict[str, bytes], copy: int = 0
    ) -> Callable[[], None]:
        """All steps as one function that only puts work on the stream; it launches this copy of the code."""
        steps: list[Callable[[], None]] = []
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
                    kernel = self._load(plan.kernels[step.kernel], binaries, copy)
                    put, scratch = make_launch(kernel, plan.kernels[step.kernel], step, buffers.address)
                    steps.append(lambda put=put, scratch=scratch: put())  # type: ignore[misc]

        def perform() -> None:
            for step in steps:
                step()

        return perform

    def _load(self, record: Kernel, binaries: dict[str, bytes], copy: int) -> LoadedKernel:
        if record.binary is None or record.binary not in binaries:
            raise CannotLaunch(f"kernel {record.qualname} was not compiled")
        return self._kernels.load(record, binaries[record.binary], copy)

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

        self._begin, self._preparation, self._may_clear = begin, None, True

    def _prepare_timing(self) -> dict[str, Any]:
        """The next pieces of what was received last; whether there are `more`. At the end nothing is under way."""
        is_over = False

        def go_on() -> None:
            nonlocal is_over
            if self._preparation is None:
                self._make_room_for_code()
                self._preparation = self._begin()
            until = time.monotonic() + _PIECE_S
            while not is_over:
                is_over = next(self._preparation, _OVER) is _OVER
                if time.monotonic() >= until:
                    break
            torch.cuda.synchronize()

        def go_on_with_room() -> None:
            try:
                go_on()
            except Exception as error:
                if not (is_of_memory(error) and self._may_clear):
                    raise
            else:
                return
            # after the handler, whose traceback holds what did not fit
            self._preparation, self._may_clear = None, False
            self._timer.clear()
            go_on()

        failure = attempt(go_on_with_room)
        if failure is not None or is_over:
            self._preparation = None
        return {"failure": failure, "more": self._preparation is not None}

    def _finish_timing(self, header: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        try:
            timed = self._timer.finish_plan(lambda plan: _place(_read(plan, header["others"], blobs)))
        except Exception as error:
            timed = Timed(failure=failure_of(error))
        outputs: list[bytes] = []
        found = [result for result in (timed.first, timed.fresh) if result is not None]
        self.is_spoilt |= any(result.out_of_bounds for result in found)
        results = [_to_plain(result, outputs) for result in found]
        return {"timed": to_plain(evolve(timed, first=None, fresh=None)), "results": results}, outputs

    def _rank(self, header: dict[str, Any], binaries: dict[str, bytes], blobs: list[bytes]) -> dict[str, Any]:
        protocol = from_plain(header["protocol"], Protocol)
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

        try:
            us = self._timer.rank(prepare, len(plans), protocol)
        except Exception as error:
            failures.append(failure_of(error))
            us = []
        if any(one is not None for one in us):
            return {"us": us, "failure": None}
        return {"us": us, "failure": to_plain(failures[0]) if failures else None}

    def _preparing(self, binaries: dict[str, bytes]) -> Prepare:
        return lambda plan, buffers, copy: self.prepare(plan, buffers, binaries, copy)

    def _compare(self, header: dict[str, Any], binaries: dict[str, bytes], blobs: list[bytes]) -> dict[str, Any]:
        plan, protocol = from_plain(header["plan"], LaunchPlan), from_plain(header["protocol"], Protocol)
        try:
            given, prepare = _place(_read(plan, header["storages"], blobs)), self._preparing(binaries)
            repeats = range(header["num_repeats"])
            us = [self._timer.compare_protocols(plan, given, protocol, prepare) for _ in repeats]
            return {"us": us, "failure": None}
        except Exception as error:
            return {"failure": to_plain(failure_of(error))}

    def _time_reference(self, header: dict[str, Any]) -> dict[str, Any]:
        request = from_plain(header["request"], ReferenceRequest)
        try:
            if header["kind"] == "prepare reference":
                return {"notes": self._timer.prepare_reference(request), "failure": None}
            timing = self._timer.measure_reference(request, header["notes"])
            return {"timing": to_plain(timing), "failure": None}
        except Exception as error:
            return {"failure": failure_of(error).message}


def _unused_bytes() -> int:
    return torch.cuda.memory_reserved() - torch.cuda.memory_allocated()


def _to_plain(result: RunResult, outputs: list[bytes]) -> dict[str, Any]:
    """A result with its outputs among the frame's blobs."""
    first = len(outputs)
    outputs += result.outputs
    return {**to_plain(evolve(result, outputs=())), "outputs": list(range(first, len(outputs))), "written": []}


def _read(plan: LaunchPlan, storages: dict[str, int], blobs: list[bytes]) -> dict[int, torch.Tensor]:
    """The initial values as bytes, on the processor."""
    wanted = {index for index, buffer in enumerate(plan.buffers) if buffer.kind is not BufferKind.TEMPORARY}
    if missing := sorted(wanted - set(map(int, storages))):
        raise ValueError(f"no values for buffers {missing}")
    return {
        int(text): torch.frombuffer(bytearray(blobs[at]) or bytearray(1), dtype=torch.uint8)[: len(blobs[at])]
        for text, at in storages.items()
    }


def _place(values: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    return {index: data.cuda() for index, data in values.items()}


def _serve(connection: socket.socket, device: int) -> None:
    torch.cuda.set_device(device)
    torch.zeros(1, device="cuda")
    executor = Executor()
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
    """Import, then fork a child for each byte that the judge sends.

    The byte is the number of the child's GPU; the child serves on the socket that came with it.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int, required=True)
    arguments = parser.parse_args()
    control = socket.socket(fileno=arguments.control)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    import cuda.bindings.driver  # noqa: F401 (before the fork: it takes a while)

    control.sendall(b"r")
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        connection = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                syscalls.control_process(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
                control.close()
                _serve(connection, data[0])
                status = 0
            except BaseException as error:
                print(f"{type(error).__name__}: {error}"[:500], file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        connection.close()
        control.sendall(f"{pid:>10}".encode())


if __name__ == "__main__":
    main()
