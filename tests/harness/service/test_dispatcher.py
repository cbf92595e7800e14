"""The queue in front of the workers: equal items are verified once, too much is refused, and errors are not kept."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tritonrl.core.config import Config
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.harness.service.dispatcher import Dispatcher, Limits, Refused

from .stub_pool import StubPool


def run(steps: Callable[[Dispatcher, StubPool], Awaitable[Any]], waiting: int = 100, of_client: int = 100) -> Any:
    """Runs steps with a dispatcher of two threads and its pool."""

    async def with_dispatcher() -> Any:
        pool, limits = StubPool(), Limits(num_waiting=waiting, num_of_client=of_client)
        async with Dispatcher(pool, Config(), "stub", 2, limits) as dispatcher:
            return await steps(dispatcher, pool)

    return asyncio.run(asyncio.wait_for(with_dispatcher(), 60))


def items(*candidates: str) -> list[dict[str, Any]]:
    """Items of one task."""
    return [{"task": "t", "candidate": candidate} for candidate in candidates]


def test_replies_are_in_the_order_of_the_items() -> None:
    """However many workers there are, each item has its own reply in its place."""
    asked = [f"c{number}" for number in range(20)]
    replies = run(lambda dispatcher, _: dispatcher.verify(items(*asked), AUDIT, "me"))
    assert [reply["candidate"] for reply in replies] == [hashlib.sha256(one.encode()).hexdigest() for one in asked]


def test_equal_items_are_verified_once() -> None:
    """Whoever asks, and however often, equal items with equal specifications share one verification."""

    async def steps(dispatcher: Dispatcher, pool: StubPool) -> list[dict[str, Any]]:
        asked = dispatcher.verify(items("a", "b", "a"), AUDIT, "x"), dispatcher.verify(items("a"), AUDIT, "y")
        both = await asyncio.gather(*asked)
        again = await dispatcher.verify(items("a"), AUDIT, "z")
        assert sorted(pool.asked) == ["a", "b"]
        assert dispatcher.num_verified == 2
        return [*both[0], *both[1], *again]

    replies = run(steps)
    assert [reply.pop("cached") for reply in replies] == [False, False, False, False, True]
    assert replies[0] == replies[2] == replies[3] == replies[4]


def test_errors_are_not_kept() -> None:
    """A bad task is its item's error, a broken sandbox a failure until a verdict comes; both are tried anew."""

    async def steps(dispatcher: Dispatcher, pool: StubPool) -> None:
        for _ in range(2):
            assert await dispatcher.verify(items("bad"), AUDIT, "me") == [{"error": "t: no task"}]
            assert await dispatcher.verify(items("broken"), AUDIT, "me") == [{"failure": "no worker starts"}]
            assert dispatcher.is_broken
        assert "failure" not in (await dispatcher.verify(items("a"), AUDIT, "me"))[0]
        assert not dispatcher.is_broken
        assert pool.asked == ["bad", "broken", "bad", "broken", "a"]

    run(steps)


def test_too_much_is_refused_by_its_status() -> None:
    """A full queue is 503, a client with too many items 429, a batch that never fits 413; others still get in."""

    async def steps(dispatcher: Dispatcher, pool: StubPool) -> list[int]:
        statuses = []

        async def refused(candidates: list[str], client: str) -> None:
            with pytest.raises(Refused) as caught:
                await dispatcher.verify(items(*candidates), AUDIT, client)
            statuses.append(caught.value.status)

        first = asyncio.create_task(dispatcher.verify(items("wait 1", "wait 2"), AUDIT, "one"))
        await asyncio.sleep(0)
        await refused(["a", "b"], "one")
        await refused(["a"] * 4, "one")
        second = asyncio.create_task(dispatcher.verify(items("a", "b"), AUDIT, "two"))
        await asyncio.sleep(0)
        await refused(["c", "d"], "three")
        pool.go.set()
        await asyncio.gather(first, second)
        assert dispatcher.num_waiting == 0
        assert len(await dispatcher.verify(items("c", "d"), AUDIT, "one")) == 2
        return statuses

    assert run(steps, waiting=5, of_client=3) == [429, 413, 503]


def test_a_client_that_leaves_does_not_take_the_verdict_with_it() -> None:
    """Who waits for the same item still gets its verdict when another waiting client has left."""

    async def steps(dispatcher: Dispatcher, pool: StubPool) -> list[dict[str, Any]]:
        leaving = asyncio.create_task(dispatcher.verify(items("wait"), AUDIT, "one"))
        staying = asyncio.create_task(dispatcher.verify(items("wait"), AUDIT, "two"))
        await asyncio.sleep(0.05)
        leaving.cancel()
        pool.go.set()
        replies = await staying
        assert dispatcher.num_waiting == 0
        return replies

    assert len(run(steps)) == 1
