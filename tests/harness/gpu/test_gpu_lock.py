"""Turns on a GPU: many run together, whoever times is alone, and nobody overtakes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tritonrl.harness.gpu.gpu_lock import GpuLock

PATIENCE_S = 20.0
HOLDER = """
import sys, time
from pathlib import Path
from tritonrl.harness.gpu.gpu_lock import GpuLock
with getattr(GpuLock("gpu", Path(sys.argv[1])), sys.argv[2])():
    print("held", flush=True)
    time.sleep(60)
"""


def start(turns: GpuLock, kind: str, took: threading.Event) -> threading.Thread:
    """A thread that takes a turn and then says so."""

    def take() -> None:
        with getattr(turns, kind)():
            took.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    return thread


def test_runs_share_and_a_timing_waits_for_them(tmp_path: Path) -> None:
    """Two shared turns are held at once; an exclusive one comes when both are over."""
    turns = GpuLock("gpu", tmp_path)
    second, timing = threading.Event(), threading.Event()
    with turns.shared():
        start(turns, "shared", second)
        assert second.wait(PATIENCE_S)
        thread = start(turns, "exclusive", timing)
        assert not timing.wait(0.2)
    assert timing.wait(PATIENCE_S)
    thread.join()


def test_nobody_overtakes_who_waits_to_time(tmp_path: Path) -> None:
    """While an exclusive turn is waited for no new shared one begins, so that the wait is a bounded one."""
    turns = GpuLock("gpu", tmp_path)
    timing, late = threading.Event(), threading.Event()
    with turns.shared():
        first = start(turns, "exclusive", timing)
        assert not timing.wait(0.2)
        second = start(turns, "shared", late)
        assert not late.wait(0.2)
    assert timing.wait(PATIENCE_S)
    assert late.wait(PATIENCE_S)
    first.join()
    second.join()


def test_who_waits_to_time_comes_before_who_waits_to_run(tmp_path: Path) -> None:
    """Timings that were asked for while runs were under way follow one another; new runs begin after the last."""
    turns = GpuLock("gpu", tmp_path)
    order: list[str] = []

    def take(kind: str, name: str, asked: threading.Event) -> None:
        asked.set()
        with getattr(turns, kind)():
            order.append(name)
            time.sleep(0.05)

    threads = []
    with turns.shared():
        for kind, name in (("exclusive", "t1"), ("shared", "r1"), ("exclusive", "t2"), ("shared", "r2")):
            asked = threading.Event()
            threads.append(threading.Thread(target=take, args=(kind, name, asked), daemon=True))
            threads[-1].start()
            assert asked.wait(PATIENCE_S)
            time.sleep(0.2)
        assert order == []
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(order[:2]) == ["t1", "t2"]
    assert sorted(order[2:]) == ["r1", "r2"]


def test_a_thread_with_a_turn_may_take_it_again(tmp_path: Path) -> None:
    """Nested turns do not wait for themselves, also where somebody waits; a shared one never becomes exclusive."""
    turns = GpuLock("gpu", tmp_path)
    timing = threading.Event()
    with turns.shared():
        thread = start(turns, "exclusive", timing)
        assert not timing.wait(0.2)
        with turns.shared():
            assert not timing.is_set()
        with pytest.raises(RuntimeError, match="exclusive"), turns.exclusive():
            pass
    assert timing.wait(PATIENCE_S)
    thread.join()
    with turns.exclusive(), turns.shared(), turns.exclusive():
        pass


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_other_processes_wait_and_the_dead_hold_nothing(tmp_path: Path, kind: str) -> None:
    """A turn that another process holds is waited for; when that process is killed, its turn is over."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        timing = threading.Event()
        thread = start(GpuLock("gpu", tmp_path), "exclusive", timing)
        assert not timing.wait(0.2)
        other = threading.Event()
        start(GpuLock("another gpu", tmp_path), "exclusive", other).join()
        assert other.is_set()
        os.kill(holder.pid, signal.SIGKILL)
        assert timing.wait(PATIENCE_S)
        thread.join()
