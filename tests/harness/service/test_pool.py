"""The pool of workers: what a worker was at when it ended is done by another, once, and too much is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tritonrl.core.config import Config
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.harness.service import pool as module
from tritonrl.harness.service.pool import MAX_ATTEMPTS, PoolLimits, Refused, WorkerPool

STUB = f"{__package__}.stub_worker"


@pytest.fixture(autouse=True)
def _stub_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORKER", STUB)
    monkeypatch.setattr(module, "RESTART_WAIT_S", 0.01)


def run(
    steps: Callable[[WorkerPool], Awaitable[Any]], workers: int = 2, waiting: int = 100, of_client: int = 100
) -> Any:
    """Runs steps with a pool."""

    async def with_pool() -> Any:
        limits = PoolLimits(num_waiting=waiting, num_of_client=of_client)
        async with WorkerPool(config=Config(), num_workers=workers, limits=limits, evidence=Path("evidence")) as pool:
            return await steps(pool)

    return asyncio.run(asyncio.wait_for(with_pool(), 60))


def items(*candidates: str) -> list[dict[str, Any]]:
    """Items of one task."""
    return [{"task": "t", "candidate": candidate} for candidate in candidates]


def test_replies_are_in_the_order_of_the_items() -> None:
    """However many workers there are, each item has its own reply in its place."""
    asked = [f"c{number}" for number in range(20)]
    replies = run(lambda pool: pool.verify(items(*asked), AUDIT, "me"))
    assert [reply["candidate"] for reply in replies] == asked


def test_equal_items_are_verified_once() -> None:
    """Whoever asks, and however often, equal items with equal specifications share one verification."""

    async def steps(pool: WorkerPool) -> tuple[list[dict[str, Any]], int]:
        both = await asyncio.gather(pool.verify(items("a", "b", "a"), AUDIT, "x"), pool.verify(items("a"), AUDIT, "y"))
        again = await pool.verify(items("a"), AUDIT, "z")
        return [*both[0], *both[1], *again], pool.num_verified

    replies, num_verified = run(steps)
    assert num_verified == 2
    assert replies[0] == replies[2] == replies[3] == replies[4]


def test_another_worker_does_what_a_dead_one_was_at(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The item of a worker that ends is verified by its successor, and all others are too; asyncio has no complaint."""

    async def steps(pool: WorkerPool) -> tuple[list[dict[str, Any]], int, int]:
        replies = await pool.verify(items(f"once {tmp_path / 'died'}", "a", "b", "c"), AUDIT, "me")
        return replies, pool.num_restarts, pool.num_verified

    replies, num_restarts, num_verified = run(steps, workers=1)
    assert [reply["candidate"].split()[0] for reply in replies] == ["once", "a", "b", "c"]
    assert (num_restarts, num_verified) == (1, 4)
    assert [reply["number"] for reply in replies] == [0, 1, 2, 3]
    assert not caplog.messages


def test_what_ends_every_worker_is_given_up() -> None:
    """After some workers have ended at one item it is a failure, is not remembered, and the others are answered."""

    async def steps(pool: WorkerPool) -> tuple[list[dict[str, Any]], int]:
        replies = await pool.verify(items("die", "a"), AUDIT, "me")
        again = await pool.verify(items("die"), AUDIT, "me")
        return [*replies, *again], pool.num_restarts

    replies, num_restarts = run(steps, workers=1)
    assert ["failure" in reply for reply in replies] == [True, False, True]
    assert num_restarts in (2 * MAX_ATTEMPTS - 1, 2 * MAX_ATTEMPTS)


def test_too_much_is_refused_by_its_status(tmp_path: Path) -> None:
    """A full queue is 503, a client with too many items 429, a batch that never fits 413; others still get in."""
    hold = f"sleep {tmp_path / 'go'}"

    async def steps(pool: WorkerPool) -> list[int]:
        statuses = []

        async def refused(candidates: list[str], client: str) -> None:
            with pytest.raises(Refused) as caught:
                await pool.verify(items(*candidates), AUDIT, client)
            statuses.append(caught.value.status)

        first = asyncio.create_task(pool.verify(items(hold, f"sleep {tmp_path}/./go"), AUDIT, "one"))
        await asyncio.sleep(0)
        await refused(["a", "b"], "one")
        await refused(["a"] * 4, "one")
        second = asyncio.create_task(pool.verify(items("a", "b"), AUDIT, "two"))
        await asyncio.sleep(0)
        await refused(["c", "d"], "three")
        (tmp_path / "go").touch()
        await asyncio.gather(first, second)
        assert pool.num_waiting == 0
        assert len(await pool.verify(items("c", "d"), AUDIT, "one")) == 2
        return statuses

    assert run(steps, waiting=5, of_client=3) == [429, 413, 503]


def test_a_client_that_leaves_does_not_take_the_verdict_with_it(tmp_path: Path) -> None:
    """Who waits for the same item still gets its verdict when another waiting client has left."""

    async def steps(pool: WorkerPool) -> list[dict[str, Any]]:
        asked = items(f"sleep {tmp_path / 'go'}")
        leaving = asyncio.create_task(pool.verify(asked, AUDIT, "one"))
        staying = asyncio.create_task(pool.verify(asked, AUDIT, "two"))
        await asyncio.sleep(0.05)
        leaving.cancel()
        (tmp_path / "go").touch()
        replies = await staying
        assert pool.num_waiting == 0
        return replies

    assert len(run(steps)) == 1


def test_workers_that_never_start_fail_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no worker comes up, what is asked is a failure and the pool says that it is broken."""
    monkeypatch.setattr(module, "WORKER", "no.such.module")

    async def steps(pool: WorkerPool) -> tuple[list[dict[str, Any]], bool]:
        return await pool.verify(items("a"), AUDIT, "me"), pool.is_broken

    replies, is_broken = run(steps, workers=1)
    assert "failure" in replies[0]
    assert is_broken
