"""What a zygote does for its own sake, without a child."""

from __future__ import annotations

import os
import signal
import socket
import time
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import triton
from triton.runtime import cache
from tritonrl.core.config import LimitsConfig
from tritonrl.core.outcome import Outcome
from tritonrl.harness.sandbox.confinement.confinement import Protections, syscalls, watch
from tritonrl.harness.sandbox.confinement.watch import waited_s
from tritonrl.harness.sandbox.recording.device_stub import know_the_compiler_by_its_version
from tritonrl.harness.sandbox.zygote import CONFINED, JOBS_WORTH_GATHERING, QUIET_S, WATCH_INTERVAL_S, Zygote
from tritonrl.harness.sandbox.zygote_process import Died, read_end

FEW, ENOUGH = JOBS_WORTH_GATHERING - 1, JOBS_WORTH_GATHERING
QUIET = None


class Key:
    """A selector's: what is to be done, which holds a job."""

    def __init__(self, data: Callable[[], None]) -> None:
        self.data = data


class Script:
    """In place of a selector: each wait ends with so many jobs served and running, or, QUIET, with nothing at all."""

    def __init__(self, zygote: Zygote, moments: list[tuple[int, int] | None]) -> None:
        self.zygote = zygote
        self.moments = moments
        self.timeouts: list[float | None] = []
        self.last: weakref.ref[Key] | None = None
        self.num_held = 0
        """How often what was done last was still there at the next wait."""

    def select(self, timeout: float | None) -> list[tuple[Any, int]]:
        """What happened meanwhile; at last the judge goes away."""
        self.timeouts.append(timeout)
        self.num_held += self.last is not None and self.last() is not None
        if not self.moments:
            return [(Key(self.end), 1)]
        moment = self.moments.pop(0)
        if moment is QUIET:
            return []
        key = Key(lambda: self.work(*moment))
        self.last = weakref.ref(key)
        return [(key, 1)]

    def work(self, num_jobs: int, num_running: int) -> None:
        """So it is now."""
        running: Any = {object() for _ in range(num_running)}
        self.zygote.num_jobs, self.zygote.jobs = num_jobs, running

    def end(self) -> None:
        """As where the control socket closes."""
        self.zygote.jobs.clear()
        raise EOFError


def serve(monkeypatch: pytest.MonkeyPatch, *moments: tuple[int, int] | None) -> tuple[list[tuple[int, int]], Script]:
    """Where memory was gathered, as jobs served and running, by a zygote of 100 bytes at first; and what it met."""
    resident = [100]
    gathered: list[tuple[int, int]] = []
    monkeypatch.setattr(watch, "resident_bytes", lambda process: resident[-1])
    monkeypatch.setattr(watch, "end_descendants", lambda spared: None)  # they are this process's
    mine, theirs = socket.socketpair()
    with mine, theirs:
        zygote = Zygote(mine, Protections(pid_namespace=False), lambda *_: ({}, []))
        zygote.selector.close()
        script: Any = Script(zygote, [*moments])
        resident.append(300)  # an answer of 200 bytes that is still held, say

        def gather() -> int:
            gathered.append((zygote.num_jobs, len(zygote.jobs)))
            resident.append(resident[-1] + 7)
            return 1

        monkeypatch.setattr(syscalls, "gather_into_huge_pages", gather)
        monkeypatch.setattr(zygote, "_watch", lambda: None)
        zygote.selector = script
        zygote.serve()
    return gathered, script


def test_memory_is_gathered_once_when_so_many_jobs_were_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the few jobs of one candidate, not while a child has to be watched, and not again."""
    gathered, script = serve(monkeypatch, (1, 0), (FEW, 0), (ENOUGH, 1), (ENOUGH + 1, 0), (ENOUGH + 2, 0))
    assert gathered == [(ENOUGH + 1, 0)]
    assert script.timeouts == [QUIET_S, QUIET_S, QUIET_S, WATCH_INTERVAL_S, None, None]
    assert script.zygote.own_bytes == 107, "what a job left is not what later jobs may have beside their own"


def test_memory_is_gathered_in_a_quiet_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after few jobs, or none; not while one only takes long."""
    assert serve(monkeypatch, QUIET, (1, 0))[0] == [(0, 0)]
    assert serve(monkeypatch, (1, 1), QUIET, QUIET, (2, 0), (3, 0), QUIET, QUIET)[0] == [(3, 0)]


def test_what_is_done_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job with its answer, before the next is forked: what it holds would count as that one's memory."""
    _, script = serve(monkeypatch, (1, 0), (2, 0), QUIET, (3, 1))
    assert script.num_held == 0


def test_the_compiler_is_known_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's key of what it compiled has that in the place of all of its files' hashes."""
    monkeypatch.setattr(cache, "triton_key", cache.triton_key)
    know_the_compiler_by_its_version()
    part = SimpleNamespace(hash=lambda: "part")
    assert cache.get_cache_key(part, part, part, {}) == f"{triton.__version__}-part-part-part-[]"


def test_time_that_a_job_waits_for_a_processor_is_known() -> None:
    """Of a process that lives, some of its life; of one that does not, nothing."""
    began = time.monotonic()
    before = waited_s(os.getpid())
    assert 0.0 <= waited_s(os.getpid()) - before <= time.monotonic() - began
    assert waited_s(2**22 + 1) == 0.0


@pytest.mark.parametrize(
    ("by", "told_s", "outcome"),
    [
        (signal.SIGXCPU, 2.1, Outcome.TIMEOUT),
        (signal.SIGKILL, 3.2, Outcome.TIMEOUT),
        (signal.SIGKILL, 2.1, Outcome.CRASHED),
    ],
)
def test_a_limit_of_time_is_known_by_its_signal(by: signal.Signals, told_s: float, outcome: Outcome) -> None:
    """SIGXCPU is the limit's, whatever seconds are told; SIGKILL is where they are most of it, else want of memory."""
    status = {"exit": -by, "killed_for": "", "cpu_s": told_s}
    died = read_end(status, CONFINED, b"token", LimitsConfig(cpu_s=4))
    assert isinstance(died, Died)
    assert died.failure.outcome is outcome
    assert died.is_killed is (outcome is Outcome.CRASHED)
