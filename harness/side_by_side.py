"""A function of many items in several processes, its results kept for the next time.

Tracing and shrinking a foreign program holds the interpreter's lock, so threads are of no use. Workers are
commands that speak JSON by the line: nobody's `__main__` is imported again, and no thread is lost in a fork. The key
of a result is of the item and of the code that makes it, so that nothing stale is ever found.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from .work import WorkStore, user_cache, work_key

Function = Callable[[Any], Any]
"""Plain data in, plain data out."""
OnDone = Callable[[int], None]
_FEW = 8
"""So many items are done before a worker has imported torch."""
_PARTS = ("core/text", "core/graphs", "harness/reference", "harness/tasks")


@contextlib.contextmanager
def cancelling_pool(num: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """So many threads; after an error or an interrupt, what has not begun is dropped."""
    pool = ThreadPoolExecutor(max(1, num), name)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def map_kept(
    function: Function, items: Sequence[Any], on_done: OnDone | None = None, store: WorkStore | None = None
) -> list[Any]:
    """Return what a module's function makes of each item, in order; each is made once, and kept in the user's cache."""
    store = store or WorkStore(root=user_cache())
    kind, code = function.__name__.lstrip("_"), _code_identity()
    keys = [work_key(kind, item=item, code=code) for item in items]
    missing = [index for index, key in enumerate(keys) if not store.has(kind, key)]
    num_known = len(items) - len(missing)
    found = _make_each(function, [items[index] for index in missing])
    for done, (place, value) in enumerate(found, start=num_known + 1):
        store.once(kind, keys[missing[place]], partial(_give, value))
        if on_done is not None:
            on_done(done)
    return [store.once(kind, key, partial(_give, None)).value for key in keys]


def map_side_by_side(function: Function, items: Sequence[Any], on_done: OnDone | None = None) -> list[Any]:
    """Return what a module's function makes of each item, in order; `on_done` gets each count in this thread."""
    values: list[Any] = [None] * len(items)
    for done, (place, value) in enumerate(_make_each(function, items), start=1):
        values[place] = value
        if on_done is not None:
            on_done(done)
    return values


def _give(value: Any, _: Path) -> Any:
    return value


def _make_each(function: Function, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Yield each item's place and value as they come, made by one process a processor where there are many."""
    number = min(len(os.sched_getaffinity(0)), len(items) // _FEW)
    if number <= 1:
        yield from enumerate(map(function, items))
        return
    waiting: SimpleQueue[int] = SimpleQueue()
    made: SimpleQueue[tuple[int, Any]] = SimpleQueue()
    for index in range(len(items)):
        waiting.put(index)

    def work(ask: Function) -> None:
        with contextlib.suppress(Empty):
            while True:
                index = waiting.get_nowait()
                made.put((index, ask(items[index])))

    with ThreadPoolExecutor(number) as pool:
        running = [pool.submit(_with_worker, function, work) for _ in range(number)]
        try:
            for _ in items:
                yield _next(made, running)
        finally:
            # after an interrupt nobody asks for more
            with contextlib.suppress(Empty):
                while True:
                    waiting.get_nowait()


def _next(made: SimpleQueue[tuple[int, Any]], running: Sequence[Future[None]]) -> tuple[int, Any]:
    while True:
        with contextlib.suppress(Empty):
            return made.get(timeout=1.0)
        for each in running:
            if each.done():
                each.result()


def _with_worker(function: Function, work: Callable[[Function], None]) -> None:
    """Work with a process of one's own; what that does not answer is made here."""
    command = [sys.executable, "-m", __name__, function.__module__, function.__name__]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(item: Any) -> Any:
            try:
                stdin.write(json.dumps(item) + "\n")
                stdin.flush()
                return json.loads(stdout.readline())
            except (OSError, ValueError):
                return function(item)

        try:
            work(ask)
        finally:
            with contextlib.suppress(OSError):
                stdin.close()


def _code_identity() -> str:
    root, found = Path(__file__).parent.parent, hashlib.sha256()
    for part in _PARTS:
        for path in sorted((root / part).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


def main(module: str, name: str) -> None:
    """Answer each line of stdin with one on stdout; whatever else is printed goes nowhere."""
    answers = os.fdopen(os.dup(1), "w")
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    function = getattr(importlib.import_module(module), name)
    for line in sys.stdin:
        print(json.dumps(function(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
