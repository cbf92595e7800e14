"""A job that the kernel ends for want of memory, which is no fault of its candidate's."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tritonrl.core.candidate import Failure
from tritonrl.core.config import LimitsConfig
from tritonrl.core.outcome import Outcome
from tritonrl.harness.sandbox import sandbox as sandbox_module
from tritonrl.harness.sandbox.confinement import watch
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.sandbox.wire import RecordReply

from ..conftest import IDENTITY, find_zygote, request

SLOW = "import time\ntime.sleep(1.5)\nraise KeyError('alive')" + IDENTITY


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """A sandbox of its own, that waits for memory no longer than it must."""
    with pytest.MonkeyPatch.context() as patched, Sandbox(LimitsConfig(wall_s=20)) as opened:
        patched.setattr(sandbox_module, "_WAITS_FOR_MEMORY_S", (0.1, 0.1))
        opened.start("compile")
        yield opened


def leaves(pid: int) -> Iterator[int]:
    """The descendants of a process that have no children."""
    try:
        children = [
            int(word) for path in Path(f"/proc/{pid}/task").glob("*/children") for word in path.read_text().split()
        ]
    except OSError:
        return
    for child in children:
        yield from list(leaves(child)) or [child]


def record_and_kill(box: Sandbox, times: int) -> Failure:
    """What is wrong with a candidate whose first `times` jobs are killed from outside."""
    zygote = find_zygote(box)
    idle = set(leaves(zygote.pid))
    found: list[RecordReply] = []
    thread = threading.Thread(target=lambda: found.append(box.record(SLOW, [request((4,))])))
    thread.start()
    killed: set[int] = set()
    while len(killed) < times and thread.is_alive():
        for pid in set(leaves(zygote.pid)) - idle - killed:
            time.sleep(0.5)  # until it has read its request
            assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "1000"
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
    thread.join()
    failure = found[0].failure or found[0].recordings[0].failure
    assert failure is not None
    return failure


def test_job_ended_for_want_of_memory_runs_again(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(watch, "count_kills", lambda: next(numbers))
    failure = record_and_kill(box, times=1)
    assert "alive" in failure.message


def test_machine_without_memory_is_said_to_be_that(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(watch, "count_kills", lambda: next(numbers))
    failure = record_and_kill(box, times=3)
    assert failure.outcome is Outcome.MEMORY_LIMIT
    assert "the machine" in failure.message


def test_job_ended_otherwise_has_crashed(box: Sandbox) -> None:
    failure = record_and_kill(box, times=1)
    assert failure.outcome is Outcome.CRASHED


def test_kills_are_counted_where_the_kernel_tells() -> None:
    lines = Path("/proc/vmstat").read_text().splitlines()
    assert watch.count_kills() == next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
