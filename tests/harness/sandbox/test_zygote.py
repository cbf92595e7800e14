"""What a zygote does for its own sake, without a child."""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Callable
from typing import Any

import pytest
from tritonrl.harness.sandbox import syscalls, watch
from tritonrl.harness.sandbox.confinement import Protections
from tritonrl.harness.sandbox.zygote import JOBS_WORTH_GATHERING, Zygote


def refuse(*_: Any) -> Any:
    """Perform nothing."""
    raise AssertionError


def test_memory_is_gathered_once_when_so_many_jobs_were_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the few jobs of one candidate, not while a child has to be watched, and not again."""
    mine, theirs = socket.socketpair()
    zygote = Zygote(mine, Protections(pid_namespace=False), refuse)
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(syscalls, "gather_into_huge_pages", lambda: found.append((zygote.num_jobs, len(zygote.jobs))))
    monkeypatch.setattr(watch, "resident_bytes", lambda process: 12345)
    monkeypatch.setattr(zygote, "_watch", lambda: None)
    child: Any = object()

    def serve(num_jobs: int, *jobs: Any) -> Callable[[], None]:
        def step() -> None:
            zygote.num_jobs, zygote.jobs = num_jobs, set(jobs)

        return step

    few, enough = JOBS_WORTH_GATHERING - 1, JOBS_WORTH_GATHERING
    steps = [serve(1), serve(few), serve(enough, child), serve(enough + 1), serve(enough + 2), theirs.close]
    wake, woken = os.pipe()
    os.write(woken, b"." * len(steps))
    zygote.selector.register(wake, selectors.EVENT_READ, lambda: (os.read(wake, 1), steps.pop(0)()))
    zygote.serve()
    for end in (wake, woken):
        os.close(end)
    mine.close()
    assert found == [(JOBS_WORTH_GATHERING + 1, 0)]
    assert zygote.own_bytes == 12345, "what a child shares with it is not the child's"
