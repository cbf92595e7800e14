"""Memory is asked for before it is used: in line, within what there is, refused beyond that; and given back."""

from __future__ import annotations

import ctypes
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.config import Config, TimingConfig, VerifierConfig
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.core.task import Profile
from tritonrl.harness.bench.verifier.exam import MemoryWatch
from tritonrl.harness.errors import TaskError, TooLargeError
from tritonrl.harness.lending import Borrower, lend
from tritonrl.harness.reference.oracle import Oracle
from tritonrl.harness.reference.sizes.declared_sizes import MOST_BYTES
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification.context import BYTES_A_BYTE
from tritonrl.harness.verification.memory_budget import FREE_BYTES, BorrowedBudget, BudgetSession, MemoryBudget
from tritonrl.harness.verification.verifier import Verifier, return_memory

from ..kernels import POINTWISE, pointwise

_NUM_BLOCKS, _BLOCK_BYTES = 4000, 50_000
MB = 1 << 20
_BYTES_OF_PROCESSES = 2 << 30
"""A judge, its four workers and their zygotes with all imports made: 1.2 GB."""


@given(sizes=st.lists(st.integers(FREE_BYTES + 1, 400 * MB), min_size=1, max_size=12))
def test_no_more_is_held_than_there_is(sizes: list[int]) -> None:
    """Whatever threads ask for at once, together they hold what there is at most, and each that fits has its turn."""
    budget = MemoryBudget(400 * MB)
    held, most, lock = 0, 0, threading.Lock()

    def use(size: int) -> None:
        nonlocal held, most
        with budget.asked(size, "a task"):
            with lock:
                held += size
                most = max(most, held)
            with lock:
                held -= size

    with ThreadPoolExecutor(len(sizes)) as pool:
        list(pool.map(use, sizes))
    assert most <= 400 * MB
    assert budget.peak_bytes <= 400 * MB


def test_a_gpu_without_room_for_the_judge_is_no_candidates_fault(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the judge itself cannot compute for want of a GPU's memory is said of the task, and ends nothing else."""
    verifier = Verifier(VerifierConfig(timing="none"), TimingConfig(), sandbox)

    def compute(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("Tried to allocate")

    monkeypatch.setattr(verifier, "gather", compute)
    with pytest.raises(TooLargeError, match=f"{POINTWISE.task_id}: the GPU's memory does not suffice"):
        verifier.verify(POINTWISE, "", AUDIT)


def test_what_never_fits_is_refused_with_its_size() -> None:
    """Nobody waits for what there will never be, and little is not asked for at all."""
    budget = MemoryBudget(200 * MB)
    told = r"attention: needs 5\.4 GB of memory, and 0\.2 GB may be used"
    with pytest.raises(TooLargeError, match=told), budget.asked(5.4e9, "attention"):
        pytest.fail("had it")
    with budget.asked(FREE_BYTES, "small"):
        assert budget.peak_bytes == 0


def _wait_for(budget: MemoryBudget, number: int) -> None:
    """Until so many stand in line."""
    while budget.num_waiting < number:
        time.sleep(0.01)


def test_who_comes_first_is_served_first() -> None:
    """Small runs do not overtake a large one for ever."""
    budget = MemoryBudget(200 * MB)
    order: list[str] = []

    def large() -> None:
        with budget.asked(200 * MB, "large"):
            order.append("large")

    def small() -> None:
        with budget.asked(100 * MB, "small"):
            order.append("small")

    with budget.asked(150 * MB, "first"):
        threads = [threading.Thread(target=large, daemon=True)]
        threads[0].start()
        _wait_for(budget, 1)
        threads.append(threading.Thread(target=small, daemon=True))
        threads[1].start()
        _wait_for(budget, 2)
    for thread in threads:
        thread.join(5.0)
    assert order == ["large", "small"]


def test_who_holds_some_does_not_wait_for_more() -> None:
    """A part of what is held is not counted twice, since two that waited so would wait for each other."""
    budget = MemoryBudget(200 * MB)
    with budget.asked(150 * MB, "all"), budget.asked(150 * MB, "a part"):
        assert budget.peak_bytes == 150 * MB


def test_a_tasks_bytes_are_known_without_computing_anything() -> None:
    """Inputs, parameters and results are counted at any profile's sizes."""
    huge = evolve(POINTWISE, source=POINTWISE.source.replace("1024", "1048576"))
    assert Oracle(0).measure_bytes(huge, Profile.DECLARED) == 2 * 4 * 1048576 * 2048
    assert Oracle(0).measure_bytes(huge, Profile.SMALL) == 2 * 4 * 9 * 33


@pytest.mark.slow
def test_large_tasks_cost_neither_memory_nor_their_neighbours_verdict() -> None:
    """With little to use, sizes that can be looked at are looked at in turn, and of those that cannot it is said."""
    tasks = [POINTWISE, evolve(POINTWISE, task_id="wide", source=POINTWISE.source.replace("2048", "8192"))]
    tasks.append(evolve(POINTWISE, task_id="huge", source=POINTWISE.source.replace("1024", "1048576")))
    config = evolve(VerifierConfig(backend="interpret"), memory_mb=300)
    with Sandbox(Config().limits) as sandbox, MemoryWatch() as watch:
        verifier = Verifier(config, TimingConfig(), sandbox)
        pairs = [(task, pointwise()) for task in tasks for _ in range(2)]
        refused: list[TaskError] = []
        verdicts = verifier.verify_many(pairs, AUDIT, 4, on_bad_task=lambda _, error: refused.append(error))
    assert [verdict.correct for verdict in verdicts] == [True] * 6
    assert [verdict.declared for verdict in verdicts][::2] == ["sampled", "sampled", "not run (17.2 GB)"]
    assert not refused
    assert verifier.budget.peak_bytes <= 300 << 20
    # however little may be used, each size that the judge can follow is looked at: one at a time, beside the processes
    assert watch.peak_bytes < BYTES_A_BYTE * MOST_BYTES + _BYTES_OF_PROCESSES


def test_a_worker_waits_in_its_owners_line_and_what_it_held_is_free_when_it_ends() -> None:
    """What a borrower holds counts for all; a connection that closes gives it back."""
    budget = MemoryBudget(4 << 30)
    connections = [lend({"memory": lambda: BudgetSession(budget)}) for _ in range(2)]
    first, second = (BorrowedBudget(budget.num_bytes, Borrower(each), "memory") for each in connections)
    first.take(3 << 30)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.take, 2 << 30)
        assert not waiting.done()
        connections[0].close()
        waiting.result(20)
    second.give_back(2 << 30)
    with budget.asked(4 << 30, "all of it"):
        assert budget.peak_bytes == 4 << 30
    connections[1].close()


def _anonymous_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:"))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not glibc")
def test_what_another_thread_freed_is_given_back() -> None:
    """Blocks that a thread freed below one that is still in use do not count for the process any more."""
    kept: list[bytearray] = []

    def fill() -> None:
        blocks = [bytearray(b"x" * _BLOCK_BYTES) for _ in range(_NUM_BLOCKS)]
        kept.append(blocks[-1])

    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()
    before = _anonymous_mb()
    return_memory()
    assert before - _anonymous_mb() > 0.5 * _NUM_BLOCKS * _BLOCK_BYTES / 2**20
