"""One worker of the server: a verifier in a process of its own, one candidate at a time.

The first line of stdin is how to verify, every further one an item; each is answered by one line on stdout, in order.
A worker that meets broken infrastructure ends, and the server starts another.
"""

from __future__ import annotations

import json
import os
import sys
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

from ...core.config import Config
from ...core.corpus import render_task
from ...core.recipe.extensions import VerifierSpec
from ...core.serialisation import from_plain
from ...core.task import Task
from ...core.text.extraction import extract
from ..errors import TaskError, TritonrlError
from ..study.runner.local_workers import take_stdout, visible_devices
from ..tasks.batch import verdict_plain
from ..tasks.suites import task_from_source
from ..verification.verifier import Verifier, open_verifier

_MAX_TASKS = 1024


@lru_cache(maxsize=_MAX_TASKS)
def _read_task(text: str) -> Task:
    task = json.loads(text)
    try:
        if isinstance(task, str):
            return render_task(task)
        if set(task) == {"name", "source"}:
            return task_from_source(task["name"], task["source"])
        return from_plain(task, Task)
    except (ValueError, KeyError) as error:
        raise TaskError(f"not a task: {error}") from error


def answer(verifier: Verifier, config: Config, item: dict[str, Any], spec: VerifierSpec) -> dict[str, Any]:
    """Return the verdict on an item as plain data, or why its task cannot be used."""
    try:
        task = _read_task(json.dumps(item["task"]))
        source = item["candidate"] if "candidate" in item else extract(item["completion"]) or ""
        return verdict_plain(verifier.verify(task, source, spec), spec, config)
    except TaskError as error:
        return {"error": str(error)}


def _take_share(number: int, num_workers: int) -> int:
    """Choose this worker's GPU; returns how many workers share it."""
    devices = visible_devices()
    if not devices:
        return 1
    os.environ["CUDA_VISIBLE_DEVICES"] = devices[number % len(devices)]
    return ceil(num_workers / len(devices))


def main() -> int:
    """Answer until stdin ends."""
    replies = take_stdout()
    order = json.loads(sys.stdin.readline())
    config = from_plain(order["config"], Config)
    num_sharing = _take_share(order["number"], order["num_workers"])
    try:
        with open_verifier(config, Path(order["evidence"]), num_sharing) as verifier:
            print(json.dumps({"backend": verifier.backend}), file=replies, flush=True)
            for line in sys.stdin:
                asked = json.loads(line)
                reply = answer(verifier, config, asked["item"], from_plain(asked["spec"], VerifierSpec))
                print(json.dumps(reply, allow_nan=False), file=replies, flush=True)
    except TritonrlError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
