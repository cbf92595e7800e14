"""The server's workers, and the queue in front of them.

Each worker has one item at a time, so that what a killed worker was at is known: another worker takes it up, first of
all that wait. A verdict depends on its item and the configuration alone, so equal items share one verification, whoever
asks, and the last verdicts are kept. What ends `MAX_ATTEMPTS` workers is answered as an error and not tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter, OrderedDict, deque
from pathlib import Path
from typing import Any

from attrs import Factory, define, field, frozen

from ...core.config import Config
from ...core.recipe.extensions import VerifierSpec
from ...core.serialisation import canonical_json, fingerprint, to_plain

MAX_ATTEMPTS = 3
MAX_FAILED_STARTS = 3
"""Of each worker in a row; then what waits is answered as an error, while starting goes on."""
ITEM_TIMEOUT_S = 900.0
"""Longer than any candidate's limits: a worker that takes longer is ended."""
MAX_KEPT = 20_000
"""Verdicts that are remembered, of about a kilobyte each."""
RESTART_WAIT_S = 1.0
BROKEN_WAIT_S = 30.0
"""Where no worker starts, so that the log is not filled with one reason."""
WORKER = f"{__package__}.worker"
"""The module that a worker process runs."""
_LINE_BYTES = 64 << 20
_END_S = 1.0


class Refused(Exception):
    """A request that is not taken on now; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@frozen(kw_only=True)
class PoolLimits:
    """How many items may wait for a verdict at once: of all clients, and of one."""

    num_waiting: int
    num_of_client: int


@define
class _Job:
    key: str
    line: bytes
    done: asyncio.Future[dict[str, Any]]
    num_attempts: int = 0


@define
class WorkerPool:
    """Worker processes with one queue; to be used from one event loop."""

    config: Config
    num_workers: int
    limits: PoolLimits
    evidence: Path
    num_up: int = 0
    num_restarts: int = 0
    num_verified: int = 0
    num_failed_starts: int = 0
    backend: str | None = None
    _jobs: deque[_Job] = Factory(deque)
    _is_job: asyncio.Event = Factory(asyncio.Event)
    _verdicts: OrderedDict[str, asyncio.Future[dict[str, Any]]] = Factory(OrderedDict)
    _num_waiting: Counter[str] = Factory(Counter)
    _tasks: list[asyncio.Task[None]] = field(factory=list)

    async def __aenter__(self) -> WorkerPool:
        self._tasks = [asyncio.create_task(self._keep_worker(number)) for number in range(self.num_workers)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_broken(self) -> bool:
        """Whether no worker starts any more."""
        return self.num_failed_starts >= MAX_FAILED_STARTS * self.num_workers

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
            plain = to_plain(spec)
            # shielded, as others may wait for the same verdict when this client leaves
            return await asyncio.gather(*[asyncio.shield(self._verdict(item, plain)) for item in items])
        finally:
            self._num_waiting[client] -= len(items)
            self._num_waiting += Counter()  # forgets clients of whom nothing waits

    def _verdict(self, item: dict[str, Any], spec: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        asked = {"item": item, "spec": spec}
        key = fingerprint(asked)
        if key not in self._verdicts:
            done: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            self._verdicts[key] = done
            self._put(_Job(key=key, line=canonical_json(asked).encode() + b"\n", done=done))
        self._verdicts.move_to_end(key)
        while len(self._verdicts) > MAX_KEPT and next(iter(self._verdicts.values())).done():
            self._verdicts.popitem(last=False)
        return self._verdicts[key]

    def _put(self, job: _Job, first: bool = False) -> None:
        if first:
            self._jobs.appendleft(job)
        else:
            self._jobs.append(job)
        self._is_job.set()

    async def _take(self) -> _Job:
        while not self._jobs:
            self._is_job.clear()
            await self._is_job.wait()
        return self._jobs.popleft()

    async def _keep_worker(self, number: int) -> None:
        """Run a worker and its successors until cancelled."""
        while True:
            process = await self._spawn()
            try:
                await self._write(process, self._order(number))
                reply = await self._read(process)
                if reply is not None:
                    self.backend, self.num_failed_starts = reply["backend"], 0
                    await self._feed(process)
                else:
                    self._note_failed_start()
            finally:
                await _end(process)
            self.num_restarts += 1
            await asyncio.sleep(BROKEN_WAIT_S if self.is_broken else RESTART_WAIT_S)

    async def _spawn(self) -> Process:
        # one thread a worker, and none that spins while it waits: there is a worker for each processor
        environment = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", **os.environ}
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", WORKER),
            stdin=PIPE,
            stdout=PIPE,
            env=environment,
            limit=_LINE_BYTES,
            start_new_session=True,
        )

    def _order(self, number: int) -> bytes:
        """Return the line by which a worker learns how to verify."""
        order = {
            "config": to_plain(self.config),
            "evidence": str(self.evidence),
            "number": number,
            "num_workers": self.num_workers,
        }
        return json.dumps(order).encode() + b"\n"

    async def _feed(self, process: Process) -> None:
        """Give the worker one job after the other; returns when it has ended."""
        self.num_up += 1
        try:
            while True:
                job = await self._take()
                job.num_attempts += 1
                try:
                    await self._write(process, job.line)
                    reply = await self._read(process)
                except BaseException:
                    self._put(job, first=True)
                    raise
                if reply is None:
                    self._give_back(job)
                    return
                self.num_verified += 1
                job.done.set_result(reply)
        finally:
            self.num_up -= 1

    def _note_failed_start(self) -> None:
        self.num_failed_starts += 1
        while self.is_broken and self._jobs:
            self._fail(self._jobs.popleft(), "no worker starts: the server's log says why")

    def _give_back(self, job: _Job) -> None:
        if job.num_attempts < MAX_ATTEMPTS:
            self._put(job, first=True)
        else:
            self._fail(job, f"{MAX_ATTEMPTS} workers ended while they verified it")

    def _fail(self, job: _Job, message: str) -> None:
        # forgotten, so that it is tried anew where it is asked again
        del self._verdicts[job.key]
        job.done.set_result({"failure": message})

    async def _write(self, process: Process, line: bytes) -> None:
        assert process.stdin is not None
        with contextlib.suppress(ConnectionError):  # that it ended shows when its answer is read
            process.stdin.write(line)
            await process.stdin.drain()

    async def _read(self, process: Process) -> dict[str, Any] | None:
        """Return the worker's next reply, or None where it has ended or takes too long."""
        assert process.stdout is not None
        try:
            # not wait_for, which loses a cancellation that comes as the line does
            async with asyncio.timeout(ITEM_TIMEOUT_S):
                line = await process.stdout.readline()
        except TimeoutError:
            return None
        if not line.endswith(b"\n"):
            return None
        reply: dict[str, Any] = json.loads(line)
        return reply


async def _end(process: Process) -> None:
    """Wait for a worker that ends by itself, or kill it."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        # to signal one that has ended would take its exit status from asyncio, which warns of that
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
