"""An executor's child and its successors, as the judge sees them, with children that are made up."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

from tritonrl.harness.cuda.processes import Executor, Parent
from tritonrl.harness.sandbox import wire


class MadeUpParent(Parent):
    """Its children say that they are ready, and nothing else; each is a process that sleeps."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.children: list[subprocess.Popen[bytes]] = []

    def fork(self, device: int) -> tuple[int, socket.socket]:
        """One more child."""
        ours, theirs = socket.socketpair()
        number = len(self.children)
        theirs.sendall(wire.encode({"name": "made up", "uuid": f"GPU-{os.getpid()}", "memory": [number, 1 << 30]}))
        self.sockets.append(theirs)
        self.children.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return self.children[-1].pid, ours

    def close(self) -> None:
        """End what was started."""
        for child, theirs in zip(self.children, self.sockets, strict=True):
            child.kill()
            child.wait()
            theirs.close()


def test_a_successor_is_opened_within_a_turn_and_the_turn_goes_on() -> None:
    """Who holds a GPU alone still does so with the next child, and asks it without waiting for himself."""
    parent = MadeUpParent()
    try:
        executor = Executor(parent, 0)
        turns = executor.turns
        taken = threading.Event()

        def work() -> None:
            with executor.turns.exclusive():
                executor.close()
                assert executor.open() == 1
                with executor.turns.shared():
                    taken.set()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert taken.wait(20.0)
        thread.join()
        assert executor.turns is turns
        assert parent.children[0].wait(20.0) != 0
        assert parent.children[1].poll() is None
        executor.close()
    finally:
        parent.close()
