"""Completions through extraction and the AST stage, in processes of their own.

A text that ends its process is a finding like an exception or an answer that takes seconds. This module imports little,
since every such process imports it.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from attrs import frozen

from ....core.outcome import Outcome
from ....core.task import Example
from ....core.text.extraction import extract
from ....stages.syntax import inspect_source
from .fuzz_texts import fuzzed

SLOW_S = 5.0
"""A text that keeps a core busy for longer is a finding."""
_CHUNK = 50


@frozen(kw_only=True)
class TextResult:
    """The fate of one completion: the AST stage's outcome (null where it has no code), and a finding or ""."""

    number: int
    outcome: str | None
    cpu_s: float
    finding: str = ""


Reader = Callable[[Sequence[int]], list[TextResult]]
"""Reads the completions with the given numbers."""


def read_text(text: str, number: int = 0) -> TextResult:
    """Read one completion through extraction and the AST stage; never raises."""
    began = time.process_time()
    outcome, finding = None, ""
    try:
        source = extract(text)
        if source is not None:
            failure = inspect_source(source)
            outcome = (failure.outcome if failure is not None else Outcome.PASSED).code
    except Exception as error:
        finding = f"completion {number}: {type(error).__name__}: {error}"[:300]
    cpu_s = time.process_time() - began
    if cpu_s > SLOW_S:
        finding = finding or f"completion {number}: {cpu_s:.1f} s"
    return TextResult(number=number, outcome=outcome, cpu_s=cpu_s, finding=finding)


def read_texts(examples: Sequence[Example], seed: int, numbers: Sequence[int]) -> list[TextResult]:
    """Read the completions with these numbers, one after the other."""
    return [read_text(fuzzed(examples, seed, number), number) for number in numbers]


def read_apart(read: Reader, count: int, jobs: int) -> list[TextResult]:
    """Read completions 0 to `count`-1 in processes of their own, in order; one that ends its process is a finding."""
    chunks = [range(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
    results: list[TextResult] = []
    broken: list[range] = []
    with _processes(jobs) as pool:
        for chunk, future in [(chunk, pool.submit(read, chunk)) for chunk in chunks]:
            try:
                results += future.result()
            except BrokenProcessPool:
                broken.append(chunk)
    for number in (number for chunk in broken for number in chunk):
        # one of them is at fault, the others only shared its pool
        with _processes(1) as pool:
            try:
                results += pool.submit(read, [number]).result()
            except BrokenProcessPool:
                text = f"completion {number}: ended its process"
                results.append(TextResult(number=number, outcome=None, cpu_s=0.0, finding=text))
    return sorted(results, key=lambda result: result.number)


def _processes(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(max_workers=count, mp_context=multiprocessing.get_context("spawn"))


def choose_for_funnel(results: Sequence[TextResult], count: int) -> list[int]:
    """Return numbers of completions that have code: half of them past the AST stage, as far as there are as many."""
    valid = [result.number for result in results if result.outcome == Outcome.PASSED.code]
    others = [result.number for result in results if result.outcome not in (None, Outcome.PASSED.code)]
    chosen = valid[: max(count // 2, count - len(others))]
    return sorted(chosen + others[: count - len(chosen)])
