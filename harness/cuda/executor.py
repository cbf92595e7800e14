"""The executor: the process on whose GPU plans run. It has no reference, no expected values and no candidate's Python.

A parent imports PyTorch and stays off the GPU; it forks a child that opens the device and serves requests one by one.
A kernel that ends the context (an illegal address) or never ends takes the child along, and the next request gets a
fresh one after a fork and a context's start, not after imports. The parent ends when the judge's socket closes.

A request is a frame (`harness.sandbox.wire`) with plans, initial values and compiled kernels as raw bytes, and asks for
runs or for a timing. Kernels stay loaded while they are used again and again.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from attrs import evolve

from ...core.candidate import Failure, Variant
from ...core.outcome import Outcome
from ...core.plan import BufferKind, Copy, Fill, Launch, LaunchPlan, Operator
from ...core.serialisation import from_plain, to_plain
from ..sandbox import syscalls, wire
from ..sandbox.operators import run_operator
from ..sandbox.protocol import RunResult
from .launcher import CannotLaunch, DriverError, LoadedKernel, load_kernel, make_launch, unload_kernel
from .memory import DeviceBuffers, ViewOutside
from .stopwatch import Stopwatch

_MAX_LOADED = 256
_MAX_FRAME = 1 << 36
_FATAL = ("ILLEGAL_ADDRESS", "LAUNCH_FAILED", "illegal memory access", "unspecified launch failure", "misaligned")


class Fatal(Exception):
    """The context is lost; the process must end after this answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Executor:
    """Runs and times plans on the current device."""

    def __init__(self) -> None:
        self._kernels: OrderedDict[tuple[str, str], LoadedKernel] = OrderedDict()
        self._stopwatch: Stopwatch | None = None

    def answer(self, header: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """The reply to one request."""
        binaries = {sha256: blobs[index] for sha256, index in header["binaries"].items()}
        if header["kind"] == "time":
            return self._time(header, binaries, blobs), []
        results: list[dict[str, Any]] = []
        outputs: list[bytes] = []
        for plain in header["requests"]:
            plan = from_plain(plain["plan"], LaunchPlan)
            result = self._run(Variant(plain["variant"]), plan, _given(plan, plain["storages"], blobs), binaries)
            first = len(outputs)
            outputs += result.outputs
            numbers = list(range(first, len(outputs)))
            results.append({**to_plain(evolve(result, outputs=())), "outputs": numbers, "written": []})
        return {"results": results}, outputs

    def _run(
        self, variant: Variant, plan: LaunchPlan, given: dict[int, torch.Tensor], binaries: dict[str, bytes]
    ) -> RunResult:
        try:
            buffers = DeviceBuffers(plan, given)
            self._prepare(plan, buffers, binaries)()
            torch.cuda.synchronize()
            return RunResult(
                variant=variant,
                outputs=tuple(_bytes_of(buffers.view(view)) for view in plan.outputs),
                mutated=buffers.mutated(),
                out_of_bounds=buffers.out_of_bounds(),
            )
        except Exception as error:
            return RunResult(variant=variant, failure=_failure_of(error))

    def _prepare(self, plan: LaunchPlan, buffers: DeviceBuffers, binaries: dict[str, bytes]) -> Callable[[], None]:
        """All steps as one function that only puts work on the stream."""
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
                    kernel = self._load(plan, step.kernel, binaries)
                    put, scratch = make_launch(kernel, plan.kernels[step.kernel], step, buffers.address)
                    steps.append(lambda put=put, scratch=scratch: put())  # type: ignore[misc]

        def perform() -> None:
            for step in steps:
                step()

        return perform

    def _load(self, plan: LaunchPlan, index: int, binaries: dict[str, bytes]) -> LoadedKernel:
        record = plan.kernels[index]
        if record.binary is None or record.binary not in binaries:
            raise CannotLaunch(f"kernel {record.qualname} was not compiled")
        key = (record.binary, record.entry_point or "")
        if key not in self._kernels:
            self._kernels[key] = load_kernel(record, binaries[record.binary])
            if len(self._kernels) > _MAX_LOADED:
                unload_kernel(self._kernels.popitem(last=False)[1])
        self._kernels.move_to_end(key)
        return self._kernels[key]

    def _time(self, header: dict[str, Any], binaries: dict[str, bytes], blobs: list[bytes]) -> dict[str, Any]:
        plan = from_plain(header["plan"], LaunchPlan)
        try:
            if self._stopwatch is None:
                self._stopwatch = Stopwatch()
            buffers = DeviceBuffers(plan, _given(plan, header["storages"], blobs))
            graph = self._stopwatch.capture(self._prepare(plan, buffers, binaries))
            trials = self._stopwatch.trials_us(graph.replay, header["num_trials"], header["num_warmups"])
            return {"trials_us": trials, "failure": None}
        except Exception as error:
            return {"trials_us": [], "failure": to_plain(_failure_of(error))}


def _given(plan: LaunchPlan, storages: dict[str, int], blobs: list[bytes]) -> dict[int, torch.Tensor]:
    """The initial values on the device, as bytes."""
    given = {}
    for text, number in storages.items():
        data = torch.frombuffer(bytearray(blobs[number]) or bytearray(1), dtype=torch.uint8)[: len(blobs[number])]
        given[int(text)] = data.cuda()
    wanted = {index for index, buffer in enumerate(plan.buffers) if buffer.kind is not BufferKind.TEMPORARY}
    if missing := sorted(wanted - given.keys()):
        raise ValueError(f"no values for buffers {missing}")
    return given


def _bytes_of(tensor: torch.Tensor) -> bytes:
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).cpu().numpy().tobytes() if flat.numel() else b""


def _failure_of(error: Exception) -> Failure:
    text = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
    if any(name in text for name in _FATAL):
        raise Fatal(Failure(outcome=Outcome.OUT_OF_BOUNDS, message=text)) from error
    if isinstance(error, torch.cuda.OutOfMemoryError) or "OUT_OF_MEMORY" in text:
        return Failure(outcome=Outcome.MEMORY_LIMIT, message=text)
    if isinstance(error, (CannotLaunch, ViewOutside)):
        return Failure(outcome=Outcome.UNSUPPORTED, message=text or "a view lies outside its buffer")
    if isinstance(error, DriverError) and "OUT_OF_RESOURCES" in text:
        return Failure(outcome=Outcome.OUT_OF_RESOURCES, message=text)
    return Failure(outcome=Outcome.RUN_FAILED, message=text)


def _serve(connection: socket.socket, device: int) -> None:
    torch.cuda.set_device(device)
    torch.zeros(1, device="cuda")
    executor = Executor()
    connection.sendall(wire.encode({"ready": os.getpid()}))
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
        connection.sendall(wire.encode(reply, outputs))


def main() -> None:
    """Import, then fork a child for each byte that the judge sends; a child serves on the socket that came with it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--device", type=int, required=True)
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
                _serve(connection, arguments.device)
                status = 0
            except BaseException as error:
                print(f"{type(error).__name__}: {error}"[:500], file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        connection.close()
        control.sendall(f"{pid:>10}".encode())


if __name__ == "__main__":
    main()
