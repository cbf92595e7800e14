"""The policy's turn on a GPU: it keeps measurements waiting, but never for long, and passes on what is reported."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from tritonrl.harness.gpu.gpu_lock import GpuLock
from tritonrl.harness.policy import learner as learner_module
from tritonrl.harness.policy.learner import holding_gpu_lock, open_gpu_lock


def time_once(lock: GpuLock, timed: threading.Event) -> threading.Thread:
    """A thread that waits for the GPU to itself."""

    def run() -> None:
        with lock.exclusive():
            timed.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_nobody_times_while_the_policy_has_its_turn(tmp_path: Path) -> None:
    """Whoever wants the GPU to itself waits until the policy is done."""
    lock, timed, told = GpuLock("gpu", tmp_path), threading.Event(), list[int]()
    with holding_gpu_lock(lock, told.append) as report:
        thread = time_once(GpuLock("gpu", tmp_path), timed)
        report(3)
        assert not timed.wait(0.2)
    thread.join(10)
    assert timed.is_set()
    assert told == [3]


def test_a_long_turn_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the turn has been held for long, a report lets those who wait to time go first."""
    monkeypatch.setattr(learner_module, "HOLD_S", 0.0)
    lock, timed = GpuLock("gpu", tmp_path), threading.Event()
    with holding_gpu_lock(lock, lambda _: None) as report:
        thread = time_once(GpuLock("gpu", tmp_path), timed)
        for done in range(100):
            report(done)
            if timed.wait(0.05):
                break
        assert timed.is_set()
        again = threading.Event()
        other = time_once(GpuLock("gpu", tmp_path), again)
        assert not again.wait(0.2)  # the policy has its turn back
    thread.join(10)
    other.join(10)


def test_memory_in_reserve_is_given_back_at_the_end_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letting go keeps it, since it is wanted again at once; after the turn others may have it."""
    lock, done = GpuLock("gpu", tmp_path), list[str]()
    monkeypatch.setattr(learner_module, "HOLD_S", 0.0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: done.append("settled"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("given back"))
    with holding_gpu_lock(lock, lambda _: None) as report:
        report(1)
        assert done == ["settled"]
    assert done == ["settled", "settled", "given back"]


def test_a_processor_has_no_turns() -> None:
    """Without a GPU nothing is timed, and what is reported is passed on as it is."""
    assert open_gpu_lock(torch.device("cpu")) is None
    told: list[int] = []
    with holding_gpu_lock(None, told.append) as report:
        report(1)
    assert told == [1]
