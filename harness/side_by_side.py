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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from .work import WorkStore, user_cache, work_key

Function = Callable[[Any], Any]
"""Plain data in, plain data out."""
_FEW = 8
"""So many items are done before a worker has imported torch."""
_PARTS = ("core/text", "core/graphs", "harness/reference", "harness/tasks")


def map_kept(
    function: Function,
    items: Sequence[Any],
    on_done: Callable[[int], None] | None = None,
    jobs: int | None = None,
    store: WorkStore | None = None,
) -> list[Any]:
    """Return what a module's function makes of each item, in order, `jobs` at once (by default one a processor).

    `on_done` is called in this thread or a worker's with the number that is done.
    """
    store = store or WorkStore(root=user_cache())
    kind, code = function.__name__.lstrip("_"), _code_identity()
    keys = [work_key(kind, item=item, code=code) for item in items]
    waiting: SimpleQueue[int] = SimpleQueue()
    missing = [index for index, key in enumerate(keys) if not store.has(kind, key)]
    for index in missing:
        waiting.put(index)
    done = len(items) - len(missing)

    def keep(index: int, value: Any) -> None:
        nonlocal done
        store.once(kind, keys[index], lambda _: value)
        done += 1
        if on_done is not None:
            on_done(done)

    def work(worker: Function) -> None:
        with contextlib.suppress(Empty):
            while True:
                index = waiting.get_nowait()
                keep(index, worker(items[index]))

    number = min(jobs or len(os.sched_getaffinity(0)), -(-len(missing) // _FEW))
    if number <= 1:
        work(function)
    else:
        with ThreadPoolExecutor(number) as pool:
            list(pool.map(lambda _: _with_worker(function, work), range(number)))
    return [store.once(kind, key, lambda _: None).value for key in keys]


def _with_worker(function: Function, work: Callable[[Function], None]) -> None:
    """Work with a process of one's own; where it ends, with this one."""
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
