"""Worker processes: the verdicts of one process, tasks that stay together, and deaths that cost an attempt."""

from __future__ import annotations

import pickle
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import torch
from attrs import evolve
from tritonrl.core.config import TimingConfig, VerifierConfig
from tritonrl.core.recipe.extensions import AUDIT, VerifierSpec
from tritonrl.core.task import Task
from tritonrl.core.verdict import Verdict
from tritonrl.harness.errors import SandboxError, TaskError
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification import worker
from tritonrl.harness.verification.evidence_store import EvidenceStore
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.harness.verification.workers import Item, Question, Schedule

from ..kernels import ADD, NORM, POINTWISE, add, norm, pointwise

STAGED = VerifierSpec(stop_early=True)
CONFIG = VerifierConfig(timing="simulated")


@pytest.fixture(scope="module")
def verifier(sandbox: Sandbox) -> Iterator[Verifier]:
    """A verifier whose workers end with the module."""
    found = Verifier(CONFIG, TimingConfig(), sandbox)
    yield found
    found.close()


def dying(name: str, condition: str) -> Task:
    """A task whose reference ends its process under a condition."""
    start = f"import os, signal, pathlib\nif {condition}:\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    return evolve(ADD, task_id=name, source=start + ADD.source)


def without_seconds(verdict: Verdict) -> Verdict:
    """The verdict but for what depends on the clock."""
    return evolve(verdict, stages=tuple(evolve(result, seconds=0.0) for result in verdict.stages))


def test_workers_give_the_verdicts_of_one_process(sandbox: Sandbox, verifier: Verifier) -> None:
    """With the same seed, each verdict is the same but for seconds, and the evidence is there for whoever asks next."""
    pairs = [(ADD, add()), (NORM, norm()), (ADD, add("x - y")), (ADD, "def f(:"), (POINTWISE, pointwise())]
    shared = verifier.verify_many(pairs, AUDIT, jobs=2)
    alone = Verifier(CONFIG, TimingConfig(), sandbox, EvidenceStore()).verify_many(pairs, AUDIT)
    assert [without_seconds(verdict) for verdict in shared] == [without_seconds(verdict) for verdict in alone]
    again = verifier.verify_many(pairs, AUDIT)
    assert [r.seconds for r in again[0].stages[1:4]] == [r.seconds for r in shared[0].stages[1:4]]


def test_what_is_verified_ahead_is_found_later(sandbox: Sandbox) -> None:
    """Leaving waits for all that was put, equal ones once; the verdicts that are then asked for find all evidence."""
    store = EvidenceStore()
    verifier = Verifier(CONFIG, TimingConfig(), sandbox, store)
    pairs = [(ADD, add()), (NORM, norm()), (ADD, add("x - y")), (ADD, add())]

    def count_records() -> int:
        with closing(sqlite3.connect(store.path)) as connection:
            (number,) = connection.execute("SELECT count(*) FROM evidence").fetchone()
        return int(number)

    with closing(verifier):
        with verifier.verify_ahead(STAGED, jobs=2) as put:
            for pair in pairs:
                put(*pair)
        found = count_records()
        assert [verdict.correct for verdict in verifier.verify_many(pairs, STAGED)] == [True, True, False, True]
    assert found == count_records() > 0


def test_an_error_drops_what_has_not_begun(verifier: Verifier) -> None:
    """What ends the block is raised from it, however much was put."""

    def put_all() -> None:
        with verifier.verify_ahead(STAGED, jobs=1) as put:
            for number in range(50):
                put(ADD, add(f"x + {number}.0"))
            raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        put_all()


def test_a_worker_that_dies_costs_its_candidate_another_attempt(verifier: Verifier, tmp_path: Path) -> None:
    """The next worker gives the verdict."""
    mark = str(tmp_path / "mark")
    once = dying("dies once", f"not os.path.exists({mark!r}) and not pathlib.Path({mark!r}).touch()")
    verdicts = verifier.verify_many([(once, add()), (ADD, add())], STAGED, jobs=2)
    assert [verdict.correct for verdict in verdicts] == [True, True]


def test_a_task_that_ends_every_worker_is_its_own_problem(verifier: Verifier) -> None:
    """Its candidate has an error, and its neighbours their verdicts."""
    bad: list[tuple[int, TaskError]] = []
    pairs = [(ADD, add()), (dying("always dies", "True"), add()), (NORM, norm())]
    verdicts = verifier.verify_many(pairs, STAGED, 2, on_bad_task=lambda *found: bad.append(found))
    assert [verdict.task_id for verdict in verdicts] == [ADD.task_id, NORM.task_id]
    ((index, error),) = bad
    assert index == 1
    assert str(error) == "always dies: 3 workers ended at one of its candidates"


def test_a_worker_that_lost_its_gpu_ends() -> None:
    """Any later question would find the same error, so that another worker must be asked."""

    class Lost:
        def verify(self, *_: object) -> Verdict:
            raise torch.AcceleratorError("device-side assert triggered")

    question = Question(task=pickle.dumps(ADD), source=add(), spec=STAGED)
    with pytest.raises(torch.AcceleratorError):
        worker._answer(Lost(), question)  # type: ignore[arg-type]


def test_zygotes_that_end_are_started_anew(sandbox: Sandbox, verifier: Verifier) -> None:
    """Workers that had borrowed them end too, and their successors borrow the new ones."""
    pairs = [(ADD, f"# {number}\n{add()}") for number in range(3)]
    assert all(verdict.correct for verdict in verifier.verify_many(pairs, STAGED, jobs=2))
    for zygote in sandbox._zygotes.values():
        zygote.kill()  # type: ignore[union-attr]
    pairs = [(ADD, f"# again {number}\n{add()}") for number in range(3)]
    assert all(verdict.correct for verdict in verifier.verify_many(pairs, STAGED, jobs=2))


def test_one_candidate_has_a_worker_and_a_limit(verifier: Verifier) -> None:
    """A task may be made in the worker, and a reference that takes too long is its task's problem."""
    read = partial(evolve, ADD)
    pool = verifier.workers()
    assert pool.verify_one(read, add(), STAGED, "t", 60.0).correct
    slow = evolve(ADD, task_id="slow", source=f"import time\ntime.sleep(60)\n{ADD.source}")
    with pytest.raises(TaskError, match="slow: 3 workers ended"):
        pool.verify_one(slow, add(), STAGED, "slow", 0.5)


def test_what_forks_workers_is_started_anew(verifier: Verifier) -> None:
    """Its end is that of its workers, and costs no candidate an attempt that waits for the next."""
    pool = verifier.workers()
    pool.start(4)
    pool._server.process.kill()  # type: ignore[union-attr]
    pool._server.process.wait()  # type: ignore[union-attr]
    assert pool.verify_one(ADD, f"# later\n{add()}", STAGED, "t", 60.0).correct
    assert pool.num_up == 1


def test_a_closed_verifier_has_no_workers(sandbox: Sandbox) -> None:
    """Whoever asks after the end is told so."""
    closed = Verifier(CONFIG, TimingConfig(), sandbox)
    pool = closed.workers()
    closed.close()
    with pytest.raises(SandboxError, match="closed"):
        list(pool.verify([(ADD, add())], STAGED, 2))


def items(*keys: str) -> list[Item]:
    """Items of the tasks with these keys, numbered."""
    question = Question(task=b"", source="", spec=STAGED)
    return [Item(number=number, task=ADD, key=key, question=question) for number, key in enumerate(keys)]


def test_candidates_of_a_task_meet_one_worker_until_another_has_nothing_to_do() -> None:
    """Each worker begins a task of its own; the one that is done first helps with the longest."""
    schedule = Schedule(items("a", "b", "a", "c", "a", "a"))
    schedule.end()
    first: set[str] = set()
    second: set[str] = set()
    taken = [schedule.take(worker) for worker in (first, second, first, second, second, first, second)]
    assert [item.number if item else None for item in taken] == [0, 1, 2, 3, 4, 5, None]
    assert (first, second) == ({"a"}, {"a", "b", "c"})


def test_whoever_finds_nothing_waits_until_items_end() -> None:
    """An item that is added later is taken by who waits for one; the end lets him go."""
    schedule, taken = Schedule(), list[Item | None]()
    waiting = threading.Thread(target=lambda: taken.extend([schedule.take(set()), schedule.take(set())]))
    waiting.start()
    (item,) = items("a")
    schedule.add(item)
    schedule.end()
    waiting.join(timeout=60)
    assert taken == [item, None]


def test_what_is_dropped_is_not_begun() -> None:
    """After the end of an iteration, workers find nothing."""
    schedule = Schedule(items("a", "b"))
    schedule.drop()
    assert schedule.take(set()) is None
