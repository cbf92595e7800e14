"""Executors that workers borrow: as few as their owner has, whoever asks, and none lost with a borrower."""

from __future__ import annotations

import secrets
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from attrs import evolve
from tritonrl.core.candidate import ReferenceTiming, Variant
from tritonrl.core.config import TimingConfig
from tritonrl.core.plan import LaunchPlan
from tritonrl.core.run import RunRequest, RunResult
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.errors import SandboxError
from tritonrl.harness.gpu.backend import CudaBackend
from tritonrl.harness.gpu.lent_executors import (
    EXECUTORS,
    BorrowedBackend,
    ExecutorSession,
    Take,
    describe_loan,
)
from tritonrl.harness.gpu.processes import Parent
from tritonrl.harness.gpu.timing.protocol import Protocol, ReferenceRequest, ReferenceSource
from tritonrl.harness.lending import Borrower, lend
from tritonrl.harness.sandbox import wire

from ..kernels import POINTWISE

PLAN = LaunchPlan(buffers=(), kernels=(), steps=(), outputs=())
REQUEST = RunRequest(variant=Variant.ORIGINAL, plan=PLAN, storages={}, seed=0)
PROTOCOL = Protocol.of(TimingConfig(), True)
REFERENCE = ReferenceSource(task=evolve(POINTWISE, task_id="t"), dtype="float32", seed=0)


class AnsweringParent(Parent):
    """Forks children that answer with made-up replies; `asked` has what each was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.uuid = f"GPU-{secrets.token_hex(8)}"
        self.fails_at = ""

    def expect(self, fine: bool) -> None:
        """A child that is not fine is a failed test."""
        assert fine

    def fork(self, device: int, window: int) -> tuple[int, socket.socket]:
        """A process that may be killed, and a thread that answers for it."""
        self.processes.append(subprocess.Popen(["sleep", "300"]))
        self.asked.append([])
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._answer, args=(theirs, self.asked[-1]), daemon=True).start()
        return self.processes[-1].pid, ours

    def close(self) -> None:
        """End what is left of the children."""
        for process in self.processes:
            process.kill()
            process.wait()

    def _answer(self, connection: socket.socket, asked: list[str]) -> None:
        with connection:
            connection.sendall(wire.encode({"name": "made up", "uuid": self.uuid}, []))
            while True:
                try:
                    header, _ = wire.read(connection.recv, 1 << 24)
                except (OSError, wire.FrameError):
                    return
                asked.append(header["kind"])
                if header["kind"] == self.fails_at:
                    self.fails_at = ""
                    return
                connection.sendall(wire.encode(_reply(header), []))


def _reply(header: dict[str, Any]) -> dict[str, Any]:
    match header["kind"]:
        case "run":
            return {"results": [to_plain(RunResult(variant=Variant.ORIGINAL))]}
        case "prepare reference":
            return {"notes": [], "failure": None}
        case "measure reference":
            return {"timing": to_plain(ReferenceTiming(device="made up", eager_us=(3.0,))), "failure": None}
    return {"failure": None}


@pytest.fixture
def parent() -> Iterator[AnsweringParent]:
    """Forks the owner's executors."""
    found = AnsweringParent()
    yield found
    found.close()


@pytest.fixture
def owner(parent: AnsweringParent) -> Iterator[CudaBackend]:
    """A backend with one executor."""
    with CudaBackend(lambda _: None, (0,), per_gpu=1, parent=parent) as backend:
        yield backend


def borrow(owner: CudaBackend) -> tuple[BorrowedBackend, socket.socket]:
    """A borrower's backend, and its connection to the owner."""
    connection = lend({EXECUTORS: lambda: ExecutorSession(owner)})
    return BorrowedBackend(lambda _: None, describe_loan(owner), Borrower(connection)), connection


def test_borrowers_share_the_owners_executors(owner: CudaBackend, parent: AnsweringParent) -> None:
    """Three at a time have one context between them, and what it was busy with is counted once."""
    borrowers = [borrow(owner)[0] for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        replies = list(pool.map(lambda each: each.run("", [REQUEST]), borrowers))
    assert [reply.failure for reply in replies] == [None] * 3
    assert parent.asked == [["warm up", "run", "run", "run"]]
    assert owner.seconds["run"] > 0.0
    assert all(not borrower.seconds for borrower in borrowers)
    assert borrowers[0].device_name == owner.device_name == "made up"


def test_a_context_that_is_lost_in_a_borrowers_turn_has_a_successor(
    owner: CudaBackend, parent: AnsweringParent
) -> None:
    """The borrower asks again in the owner's next child, and the owner goes on with that one."""
    borrower, _ = borrow(owner)
    borrower.run("", [REQUEST])
    parent.fails_at = "run"
    assert borrower.run("", [REQUEST]).failure is None
    assert owner.run("", [REQUEST]).failure is None
    assert parent.asked == [["warm up", "run", "run"], ["run", "run"]]
    assert len(owner.executors[0].restarts_s) == 1


def test_an_executor_is_free_again_when_its_borrower_dies(owner: CudaBackend, parent: AnsweringParent) -> None:
    """What its child was at is unknown, so the next turn has another one."""
    _, connection = borrow(owner)
    Borrower(connection).ask(EXECUTORS, Take())
    connection.close()
    assert owner.run("", [REQUEST]).failure is None
    assert parent.asked == [["warm up"], ["run"]]
    assert parent.processes[0].wait(10) != 0


def test_references_have_one_executor_for_all_borrowers(owner: CudaBackend, parent: AnsweringParent) -> None:
    """It is opened by whoever is first, and nobody else measures meanwhile."""
    request = ReferenceRequest(source=REFERENCE, protocol=PROTOCOL, compiling="default")
    for borrower, _ in (borrow(owner), borrow(owner)):
        with borrower.measuring_references:
            found = borrower.measure_reference(request)
        assert isinstance(found, ReferenceTiming)
    assert isinstance(owner.measure_reference(request), ReferenceTiming)
    measured = ["prepare reference", "measure reference"]
    assert parent.asked == [["warm up"], ["load compiler", *measured, *measured, *measured]]


def test_an_owner_that_is_gone_is_broken_infrastructure(owner: CudaBackend) -> None:
    """A borrower says so, and draws no verdict."""
    borrower = BorrowedBackend(lambda _: None, describe_loan(owner), Borrower(socket.socketpair()[0]))
    with pytest.raises(SandboxError, match="the owner of executors is gone"):
        borrower.run("", [REQUEST])
