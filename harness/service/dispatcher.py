"""Items on their way to the workers: how much may wait, what is verified once for all who ask, what is remembered.

A verdict depends on its item and the configuration alone, so equal items share one verification, whoever asks, and the
last verdicts are kept. Errors are not: what is asked again is tried anew.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter, OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from attrs import Factory, define, frozen

from ...core.config import Config
from ...core.corpus import render_task
from ...core.recipe.extensions import VerifierSpec
from ...core.serialisation import fingerprint, from_plain
from ...core.task import Task
from ...core.text.extraction import extract
from ...core.verdict import Verdict
from ..errors import TaskError
from ..tasks.batch import verdict_plain
from ..tasks.suites import task_from_source
from ..verification.workers import WorkerPool

ITEM_TIMEOUT_S = 900.0
"""Longer than any candidate's limits: a worker that takes longer is ended."""
MAX_KEPT = 20_000
"""Verdicts that are remembered, of about a kilobyte each."""


class Refused(Exception):
    """A request that is not taken on now; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read_task(text: str) -> Task:
    """Return the task that an item names, holds or has the program of; raises TaskError."""
    task = json.loads(text)
    try:
        if isinstance(task, str):
            return render_task(task)
        if set(task) == {"name", "source"}:
            return task_from_source(task["name"], task["source"])
        return from_plain(task, Task)
    except (ValueError, KeyError) as error:
        raise TaskError(f"not a task: {error}") from error


@frozen(kw_only=True)
class Limits:
    """How many items may wait for a verdict at once: of all clients, and of one."""

    num_waiting: int
    num_of_client: int


@define
class Dispatcher:
    """Threads that have workers verify items, and the queue in front of them; to be used from one event loop."""

    pool: WorkerPool
    config: Config
    backend: str
    num_workers: int
    limits: Limits
    num_verified: int = 0
    is_broken: bool = False
    """Whether no worker could be had for what was tried last."""
    _verdicts: OrderedDict[str, asyncio.Future[dict[str, Any]]] = Factory(OrderedDict)
    _num_waiting: Counter[str] = Factory(Counter)
    _threads: ThreadPoolExecutor = Factory(lambda self: ThreadPoolExecutor(self.num_workers, "item"), takes_self=True)

    async def __aenter__(self) -> Dispatcher:
        self._threads.submit(self._start)
        return self

    async def __aexit__(self, *_: object) -> None:
        # the pool's end, which follows, is that of what threads are at
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> None:
        try:
            self.pool.start(self.num_workers)
        except Exception as error:
            self._note_broken(error)

    def _note_broken(self, error: Exception) -> None:
        self.is_broken = True
        print(f"tritonrl: no verdict: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    @property
    def num_waiting(self) -> int:
        """Items that have been taken on and not answered."""
        return self._num_waiting.total()

    async def verify(self, items: list[dict[str, Any]], spec: VerifierSpec, client: str) -> list[dict[str, Any]]:
        """Return a reply for each item, in order; raises Refused where too many are waiting."""
        most = min(self.limits.num_waiting, self.limits.num_of_client)
        if len(items) > most:
            raise Refused(413, f"{len(items)} items in one request: at most {most}")
        if self.num_waiting + len(items) > self.limits.num_waiting:
            raise Refused(503, f"{self.num_waiting} items are waiting already")
        if self._num_waiting[client] + len(items) > self.limits.num_of_client:
            raise Refused(429, f"{self._num_waiting[client]} items of this client are waiting already")
        self._num_waiting[client] += len(items)
        try:
            return await asyncio.gather(*[self._answer(item, spec) for item in items])
        finally:
            self._num_waiting[client] -= len(items)
            self._num_waiting += Counter()  # forgets clients of whom nothing waits

    async def _answer(self, item: dict[str, Any], spec: VerifierSpec) -> dict[str, Any]:
        """Return an item's reply; a verdict says whether it was known before it was asked for."""
        verdict = self._verdict(item, spec)
        is_known = verdict.done()
        # shielded, as others may wait for the same verdict when this client leaves
        reply = await asyncio.shield(verdict)
        return reply | {"cached": is_known} if "stages" in reply else reply

    def _verdict(self, item: dict[str, Any], spec: VerifierSpec) -> asyncio.Future[dict[str, Any]]:
        key = fingerprint({"item": item, "spec": spec})
        if key not in self._verdicts:
            self._verdicts[key] = asyncio.ensure_future(self._reply(key, item, spec))
        self._verdicts.move_to_end(key)
        while len(self._verdicts) > MAX_KEPT and next(iter(self._verdicts.values())).done():
            self._verdicts.popitem(last=False)
        return self._verdicts[key]

    async def _reply(self, key: str, item: dict[str, Any], spec: VerifierSpec) -> dict[str, Any]:
        """Return an item's verdict, its task's error, or as a failure why there can be none."""
        try:
            verdict = await asyncio.get_running_loop().run_in_executor(self._threads, self._verify, item, spec)
        except Exception as error:
            self._verdicts.pop(key, None)
            if isinstance(error, TaskError):
                self.num_verified += 1
                return {"error": str(error)}
            self._note_broken(error)
            return {"failure": str(error)}
        self.num_verified += 1
        self.is_broken = False
        return verdict_plain(verdict, spec, self.config)

    def _verify(self, item: dict[str, Any], spec: VerifierSpec) -> Verdict:
        """Return an item's verdict; its task is read by the worker, as that may run a program."""
        task = item["task"]
        name = task if isinstance(task, str) else str(task.get("task_id", task.get("name")))
        source = item["candidate"] if "candidate" in item else extract(item["completion"]) or ""
        return self.pool.verify_one(partial(read_task, json.dumps(task)), source, spec, name, ITEM_TIMEOUT_S)
