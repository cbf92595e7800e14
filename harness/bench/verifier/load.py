"""Loads a server (`tritonrl serve`) with many clients while its workers are killed: nothing lost, nothing done twice.

Each client has an address of its own and one request under way. The candidates come one after the other into use, so
that from the first request to the last there are new ones to verify and many more that were asked before, as in
training. Workers are killed without warning at random, at even steps of the requests answered. Afterwards every request
must have one verdict, on its own candidate; equal candidates equal verdicts; and the server must have verified each
candidate once.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any

import httpx2
from attrs import Factory, define, frozen

from ....core.corpus import corrupt
from ....core.serialisation import canonical_json
from ...errors import TritonrlError
from ...sandbox.confinement.watch import processes
from ...tasks.suites import corpus_examples
from ..watching import read_proc
from .mix import SPOILS

_TASKS_A_LEVEL = 4
_LATER = (429, 503)
_RETRY_S = 0.5
_START_S = 180.0


@frozen(kw_only=True)
class LoadFigures:
    """What was asked, what came back, and how long a request took, waiting for its turn included."""

    num_requests: int
    num_clients: int
    num_workers: int
    num_candidates: int
    num_killed: int
    num_answered: int
    num_wrong: int
    """Requests whose verdict is on another candidate, or differs from that of an equal one."""
    num_verified: int
    num_put_off: int
    """Answers of 429 or 503, after which the client asked again."""
    seconds: float
    p50_ms: float
    p99_ms: float
    new_p50_ms: float
    """Of the first request for each candidate."""
    new_p99_ms: float

    @property
    def is_sound(self) -> bool:
        """Return whether nothing was lost, mixed up or done twice."""
        return (
            self.num_answered == self.num_requests and not self.num_wrong and self.num_verified == self.num_candidates
        )


@define
class _Tally:
    seconds: list[float] = Factory(list)
    new_seconds: list[float] = Factory(list)
    verdicts: dict[int, str] = Factory(dict)
    num_wrong: int = 0
    num_put_off: int = 0


def measure_load(
    num_requests: int, num_clients: int, num_candidates: int, num_kills: int, num_workers: int, seed: int
) -> LoadFigures:
    """Start a server, load it, and end it; raises TritonrlError where it does not come up."""
    rng = random.Random(f"load:{seed}")
    items = _draw_items(num_candidates, rng)
    order = [_pick(number, num_requests, num_candidates, rng) for number in range(num_requests)]
    with _serving(num_workers) as (server, url):
        return asyncio.run(_load(server, url, items, order, num_clients, num_kills, num_workers, rng))


def _draw_items(num: int, rng: random.Random) -> list[dict[str, Any]]:
    """Return candidates of every fate: of five, two fail the AST stage, two have a mistake, and one is a teacher."""
    teachers = list(corpus_examples("core13:train", rng.getrandbits(32), _TASKS_A_LEVEL))
    spoils = list(SPOILS.values())
    items = []
    for number in range(num):
        example = teachers[number % len(teachers)]
        fate = number % 5
        if fate < 2:
            source = spoils[number % len(spoils)](example, rng)
        else:
            source = corrupt(example.solution, rng) if fate < 4 else example.solution
        items.append({"task": example.task.task_id, "candidate": f"# {number}\n{source}"})
    return items


def _pick(number: int, num_requests: int, num_candidates: int, rng: random.Random) -> int:
    """Return the candidate of a request: a new one at even steps, else any that was asked before."""
    newest = number * num_candidates // num_requests
    is_new = number == 0 or (number - 1) * num_candidates // num_requests < newest
    return newest if is_new else rng.randrange(newest + 1)


@contextmanager
def _serving(num_workers: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "tritonrl.cli", "serve", "--port", "0", "--workers", str(num_workers)]
    # restarting a worker imports torch, whose warnings nobody needs to read ten times
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        told = server.stdout.readline().split()
        if not told:
            raise TritonrlError("the server did not start: `tritonrl serve --port 0` says why")
        _wait_until_up(told[0])
        yield server, told[0]
    finally:
        server.terminate()
        server.wait()


def _wait_until_up(url: str) -> None:
    until = time.monotonic() + _START_S
    while httpx2.get(f"{url}/health").status_code != 200:
        if time.monotonic() > until:
            raise TritonrlError(f"{url}: no worker was up after {_START_S:.0f} s")
        time.sleep(0.2)


async def _load(
    server: subprocess.Popen[str],
    url: str,
    items: Sequence[dict[str, Any]],
    order: Sequence[int],
    num_clients: int,
    num_kills: int,
    num_workers: int,
    rng: random.Random,
) -> LoadFigures:
    tally, left = _Tally(), iter(order)
    due = [(kill + 1) * len(order) // (num_kills + 1) for kill in range(num_kills)]
    num_killed = 0
    began = time.monotonic()

    async def be_client(number: int) -> None:
        nonlocal num_killed
        # every address of 127.0.0.0/8 is this machine's
        transport = httpx2.AsyncHTTPTransport(local_address=f"127.0.{1 + number // 200}.{1 + number % 200}")
        async with httpx2.AsyncClient(transport=transport, timeout=600) as client:
            for candidate in left:
                await _ask(client, url, items[candidate], candidate, tally)
                if num_killed < len(due) and len(tally.seconds) >= due[num_killed]:
                    num_killed += _kill_one(server.pid, rng)

    await asyncio.gather(*[be_client(number) for number in range(num_clients)])
    seconds = time.monotonic() - began
    num_verified = int(httpx2.get(f"{url}/health").json()["verified"])
    return LoadFigures(
        num_requests=len(order),
        num_clients=num_clients,
        num_workers=num_workers,
        num_candidates=len(items),
        num_killed=num_killed,
        num_answered=len(tally.seconds),
        num_wrong=tally.num_wrong,
        num_verified=num_verified,
        num_put_off=tally.num_put_off,
        seconds=seconds,
        p50_ms=_quantile_ms(tally.seconds, 0.5),
        p99_ms=_quantile_ms(tally.seconds, 0.99),
        new_p50_ms=_quantile_ms(tally.new_seconds, 0.5),
        new_p99_ms=_quantile_ms(tally.new_seconds, 0.99),
    )


async def _ask(client: httpx2.AsyncClient, url: str, item: dict[str, Any], candidate: int, tally: _Tally) -> None:
    """Send one request until it is answered, and note its verdict."""
    is_new = candidate not in tally.verdicts
    began = time.monotonic()
    response = await client.post(f"{url}/v1/verify", json={"items": [item]})
    while response.status_code in _LATER:
        tally.num_put_off += 1
        await asyncio.sleep(_RETRY_S)
        response = await client.post(f"{url}/v1/verify", json={"items": [item]})
    seconds = time.monotonic() - began
    if response.status_code != 200:
        raise TritonrlError(f"{url}: {response.status_code} {response.text[:200]}")
    (verdict,) = response.json()["verdicts"]
    text = canonical_json({name: value for name, value in verdict.items() if name != "cached"})
    sha256 = hashlib.sha256(item["candidate"].encode()).hexdigest()
    is_right = verdict.get("candidate") == sha256 and tally.verdicts.setdefault(candidate, text) == text
    tally.num_wrong += not is_right
    tally.seconds.append(seconds)
    if is_new:
        tally.new_seconds.append(seconds)


def _kill_one(server: int, rng: random.Random) -> int:
    """Kill one of the server's workers, which are forked by a child of it; returns how many that were."""
    parents = {pid: parent for pid, parent, _ in processes()}
    children = [pid for pid, parent in parents.items() if parent == server]
    forking = [pid for pid in children if b".verification.worker" in read_proc(pid, "cmdline")]
    workers = [pid for pid, parent in parents.items() if parent in forking]
    if not workers:
        return 0
    os.kill(rng.choice(workers), signal.SIGKILL)
    return 1


def _quantile_ms(seconds: Sequence[float], share: float) -> float:
    """Return the value that this share of the seconds does not exceed."""
    return 1000 * sorted(seconds)[max(0, ceil(share * len(seconds)) - 1)]
