"""An executor's child and its successors, as the judge sees them, with children that are made up."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

import pytest
from tritonrl.harness.gpu.processes import Executor, Lost, Parent
from tritonrl.harness.sandbox import wire


class MadeUpParent(Parent):
    """Its children say that they are ready, and nothing else; each is a process that sleeps."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.children: list[subprocess.Popen[bytes]] = []

    def fork(self, device: int, window: int) -> tuple[int, socket.socket]:
        """One more child."""
        ours, theirs = socket.socketpair()
        theirs.sendall(wire.encode({"name": "made up", "uuid": f"GPU-{os.getpid()}"}))
        self.sockets.append(theirs)
        self.children.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return self.children[-1].pid, ours

    def close(self) -> None:
        """End what was started."""
        for child, theirs in zip(self.children, self.sockets, strict=True):
            child.kill()
            child.wait()
            theirs.close()


def test_a_successor_comes_within_a_turn_and_the_turn_goes_on() -> None:
    """Who holds a GPU alone still does so with the next child, and asks it without waiting for himself."""
    parent = MadeUpParent()
    try:
        executor = Executor(parent, 0)
        turns = executor.lock
        taken = threading.Event()

        def work() -> None:
            with executor.lock.exclusive():
                executor.end()
                assert parent.children[0].poll() is not None
                with pytest.raises(Lost):
                    executor.ask({"kind": "run"}, [], 0.05)
                with executor.lock.shared():
                    taken.set()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert taken.wait(20.0)
        thread.join()
        assert executor.lock is turns
        assert len(parent.children) == 2
    finally:
        parent.close()


def test_what_has_ended_already_is_not_waited_for() -> None:
    """Neither a child that died on its own nor one that was ended before."""
    parent = MadeUpParent()
    try:
        executor = Executor(parent, 0)
        parent.children[0].kill()
        parent.children[0].wait()
        executor.end()
        executor.end()
        assert executor.restarts_s == []
    finally:
        parent.close()
