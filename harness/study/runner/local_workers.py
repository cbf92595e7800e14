"""Several processes of one machine on one grid: one for each GPU, or as many as the user asks for.

Each runs the same loop over the same cells (`harness.study.grid`), claims what nobody runs, and has a model and a
verifier of its own; with GPUs, each sees one of them. They tell the parent what happens in lines of JSON, which it
shows. A worker that dies costs its cell's unfinished unit of work: another takes the cell up. Where the parent dies,
the workers end at their next line.

Without a GPU the processors are shared out as threads, and fine-tuning sums in an order that depends on how many there
are: two workers give losses that differ from one worker's by about 1e-8. `policy.threads` fixes the number, and with it
the losses to the last bit, however many workers there are.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from attrs import define

from ...display import CellState, Progress
from ...errors import TritonrlError
from ..grid import GridOutcome, count_outcome, find_left
from ..store import Results
from .executors import Place, read_tail


@define
class Reporter(Progress):
    """A worker's display: it writes what happens to the parent."""

    stream: TextIO

    def _tell(self, **event: object) -> None:
        try:
            print(json.dumps(event), file=self.stream, flush=True)
        except BrokenPipeError:
            # no failure of the cell: whoever asked for it is gone
            raise KeyboardInterrupt from None

    def cell(self, cell: str, seed: int, state: CellState, message: str = "") -> None:
        self._tell(cell=cell, seed=seed, state=state.value, message=message)

    def phase(self, text: str, total: int) -> None:
        self._tell(phase=text, total=total)

    def metrics(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        self._tell(metrics=phase, step=step, values=dict(values))


def take_stdout() -> TextIO:
    """What was this process's stdout, for events alone; all else that is printed from now on goes to stderr.

    That includes what libraries and child processes print. Nor do children inherit the stream: one that outlives a
    killed worker would keep the parent waiting for its end.
    """
    sys.stdout.flush()
    events = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return events


def visible_devices() -> tuple[str, ...]:
    """The GPUs that this process may use, each as CUDA_VISIBLE_DEVICES names it; no context is made on any."""
    import torch

    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    count = torch.cuda.device_count()
    return tuple(named[:count]) if named else tuple(map(str, range(count)))


def worker_environment(number: int, num_workers: int, devices: Sequence[str]) -> dict[str, str]:
    """The environment of worker `number`: one GPU where there are any, and its share of the processors."""
    environment = dict(os.environ)
    if devices:
        environment["CUDA_VISIBLE_DEVICES"] = devices[number % len(devices)]
    # without it, each process computes with a thread for every processor, and they wait for one another
    environment.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // num_workers)))
    # nor do they spin while they wait: each of a verifier's threads has a team of its own, and others want to compute
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return environment


def run_locally(
    results: Results,
    order: Sequence[Place],
    command: Sequence[str],
    num_workers: int,
    devices: Sequence[str],
    progress: Progress,
) -> GridOutcome:
    """Run the cells in processes that share them, and merge; raises TritonrlError where cells are left."""
    num_cached = len(order) - len(find_left(results, order, progress))
    environments = [worker_environment(number, num_workers, devices) for number in range(num_workers)]
    workers = [_start(results, command, number, env) for number, env in enumerate(environments)]
    codes = _watch(workers, progress)
    results.merge_cells()
    left = [place for place in order if results.cell_status(*place) is None]
    if left:
        said = "no reason"
        for number, code in enumerate(codes):
            if code:
                last_words = (read_tail(workers[number][1]) or ["it said nothing"])[-1].strip()
                said = f"worker {number} ended with exit code {code}: {last_words}"
                break
        raise TritonrlError(f"{len(left)} cells were not finished: {said}")
    return count_outcome(results, order, num_cached)


def _start(
    results: Results, command: Sequence[str], number: int, environment: dict[str, str]
) -> tuple[subprocess.Popen[str], Path]:
    log = results.root / "work" / "logs" / f"worker-{number}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as errors:
        process = subprocess.Popen(
            list(command),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    return process, log


def _watch(workers: list[tuple[subprocess.Popen[str], Path]], progress: Progress) -> list[int]:
    """Show what the workers say until all have ended; returns their exit codes. An interrupt here ends them."""
    lines: queue.SimpleQueue[tuple[int, str | None]] = queue.SimpleQueue()

    def read(number: int, stream: TextIO) -> None:
        for line in stream:
            lines.put((number, line))
        lines.put((number, None))

    for number, (process, _) in enumerate(workers):
        assert process.stdout is not None
        threading.Thread(target=read, args=(number, process.stdout), daemon=True).start()
    current: dict[int, tuple[str, int]] = {}
    num_open = len(workers)
    try:
        while num_open:
            number, line = lines.get()
            if line is None:
                num_open -= 1
            else:
                _show(line, number, current, progress)
        return [process.wait() for process, _ in workers]
    finally:
        for process, _ in workers:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            process.wait()


def _show(line: str, number: int, current: dict[int, tuple[str, int]], progress: Progress) -> None:
    event = json.loads(line)
    if "cell" in event:
        current[number] = event["cell"], event["seed"]
        progress.cell(*current[number], CellState(event["state"]), event["message"])
    elif number in current:
        progress.focus(*current[number])
        if "metrics" in event:
            progress.metrics(event["metrics"], event["step"], event["values"])
        else:
            progress.phase(event["phase"], event["total"])
