"""Successors that wait: which one is taken, what is opened when, and what an executor does without a child."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tritonrl.harness.cuda.processes import Executor, Lost, Parent
from tritonrl.harness.cuda.spares import NUM_SPARES, Child, Spares
from tritonrl.harness.cuda.turns import Turns
from tritonrl.harness.errors import SandboxError
from tritonrl.harness.sandbox import wire

PATIENCE_S = 30.0


class Nursery:
    """Opens children that are `sleep`, and holds their ends of the sockets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.ends: dict[int, socket.socket] = {}
        self.failures: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()
        self.open_now, self.most_at_once = 0, 0
        self._lock = threading.Lock()

    def open(self, device: int) -> Child:
        """One more; raises what stands in `failures`."""
        assert self.gate.wait(PATIENCE_S)
        with self._lock:
            if self.failures:
                raise self.failures.pop()
        process = subprocess.Popen(["sleep", "600"])
        ours, theirs = socket.socketpair()
        with self._lock:
            self.processes[process.pid], self.ends[process.pid] = process, theirs
        return Child(pid=process.pid, connection=ours, name=f"GPU {device}", turns=self.turns())

    def turns(self) -> Turns:
        """Those of the only GPU."""
        return Turns("made-up", self.folder)

    def die(self, pid: int) -> None:
        """As a child that is killed."""
        self.processes[pid].kill()
        self.processes[pid].wait(PATIENCE_S)
        self.ends[pid].close()

    def has_ended(self, pid: int) -> bool:
        """Whether it was killed."""
        return self.processes[pid].wait(PATIENCE_S) != 0


class NurseryParent(Parent):
    """Has its children from a nursery."""

    def __init__(self, nursery: Nursery) -> None:
        self.nursery, self.spares = nursery, Spares(nursery.open)

    def open(self, device: int) -> Child:
        """A child of the nursery."""
        return self.nursery.open(device)


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    """A nursery whose children end with the test."""
    found = Nursery(tmp_path)
    yield found
    for process in found.processes.values():
        process.kill()
        process.wait(PATIENCE_S)


@pytest.fixture
def spares(nursery: Nursery) -> Iterator[Spares]:
    """Spares that end with the test."""
    found = Spares(nursery.open)
    yield found
    found.close()


def until(holds: Callable[[], bool]) -> None:
    """Wait for it; fails where it does not come."""
    waiting = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if holds():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not come")


def test_who_takes_one_gets_the_oldest_and_another_is_opened(nursery: Nursery, spares: Spares) -> None:
    """None is opened before the first is asked for; then as many as are missing."""
    assert not nursery.processes
    spares.take(0, nursery.turns())
    until(lambda: len(nursery.processes) == 1 + NUM_SPARES)
    nursery.gate.clear()
    assert spares.take(0, nursery.turns()).pid in nursery.processes
    assert len(nursery.processes) == 1 + NUM_SPARES
    nursery.gate.set()
    until(lambda: len(nursery.processes) == 2 + NUM_SPARES)


def test_each_gpu_has_its_own(nursery: Nursery, spares: Spares) -> None:
    """A child is of the GPU that it is asked for."""
    for device in (0, 1, 1, 0):
        assert spares.take(device, nursery.turns()).name == f"GPU {device}"


def test_those_that_have_died_meanwhile_are_passed_over(nursery: Nursery, spares: Spares) -> None:
    """A candidate would be blamed for their end."""
    spares.take(0, nursery.turns())
    until(lambda: len(nursery.processes) == 1 + NUM_SPARES)
    dead = list(nursery.processes)
    for pid in dead:
        nursery.die(pid)
    child = spares.take(0, nursery.turns())
    assert child.pid not in dead
    assert child.is_waiting()


def test_those_that_could_not_be_opened_are_no_failure_of_who_takes(nursery: Nursery, spares: Spares) -> None:
    """The reason may be gone."""
    nursery.failures = [SandboxError("no memory")] * NUM_SPARES
    assert spares.take(0, nursery.turns()).is_waiting()


def test_where_none_can_be_opened_who_takes_is_told(nursery: Nursery, spares: Spares) -> None:
    """Rather than tried for ever."""
    nursery.failures = [SandboxError("no GPU")] * 50
    with pytest.raises(SandboxError, match="no GPU"):
        spares.take(0, nursery.turns())


def test_what_is_opened_waits_for_who_times(nursery: Nursery, spares: Spares) -> None:
    """A start is work for the GPU, so none begins beside a measurement."""
    taker = threading.Thread(target=spares.take, args=(0, nursery.turns()))
    with nursery.turns().exclusive():
        taker.start()
        assert not threading.Event().wait(0.2)
        assert not nursery.processes
    taker.join(PATIENCE_S)
    until(lambda: len(nursery.processes) == 1 + NUM_SPARES)


def test_those_that_wait_end_with_their_owner(nursery: Nursery) -> None:
    """None is left behind, and one that was being opened is not either."""
    spares = Spares(nursery.open)
    taken = spares.take(0, nursery.turns())
    spares.close()
    assert all(nursery.has_ended(pid) for pid in nursery.processes if pid != taken.pid)
    assert taken.is_waiting()


def test_an_executor_has_a_successor_once_it_is_renewed(nursery: Nursery) -> None:
    """It serves again, in a context where nothing has run, and how long it waited is known."""
    parent = NurseryParent(nursery)
    executor = Executor(parent, 0)
    first = next(iter(nursery.processes))
    executor.renew()
    assert not executor.restarts_s
    executor.has_served = True
    nursery.die(first)
    with pytest.raises(Lost, match="the executor ended"):
        executor.ask({"kind": "run"}, [], PATIENCE_S)
    with pytest.raises(SandboxError, match="without a child"):
        executor.ask({"kind": "run"}, [], PATIENCE_S)
    executor.renew()
    assert not executor.has_served
    assert len(executor.restarts_s) == 1
    assert 0.0 < executor.restarts_s[0] < PATIENCE_S
    for end in nursery.ends.values():
        if end.fileno() >= 0:
            end.sendall(wire.encode({"results": []}))
    assert executor.ask({"kind": "run"}, [], PATIENCE_S) == ({"results": []}, [])
    executor.close()
    parent.spares.close()
