"""Nothing that a model writes may break the verifier: random and spoilt completions through extraction and the funnel.

Extraction and the AST stage run in processes of their own, so that a text that ends one is a finding like an exception
or an answer that takes seconds. What then goes through the whole funnel goes through all of it, whatever stage it
fails (`VerifierSpec(staged=False)`), so that recorder, interpreter and judge meet it too.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial

from attrs import frozen

from ..core.config import Config
from ..core.extensions import VerifierSpec
from ..core.extraction import extract
from ..core.outcome import Outcome
from ..core.task import Example, Task
from ..stages.syntax import inspect_source
from .bench_fuzz_texts import fuzzed
from .phases import open_verifier
from .suites import corpus_examples
from .verifier import Verifier

EVERYTHING = VerifierSpec(multi_input=True, staged=False)
SLOW_S = 5.0
"""A text that keeps a processor busy for longer is a finding."""
_CHUNK = 50
_TASKS_A_LEVEL = 13


@frozen(kw_only=True)
class TextResult:
    """What became of one completion: the AST stage's outcome (null where it has no code), and a finding or ""."""

    number: int
    outcome: str | None
    cpu_s: float
    finding: str = ""


Reader = Callable[[Sequence[int]], list[TextResult]]
"""Reads the completions with the given numbers."""


@frozen(kw_only=True)
class FuzzFigures:
    """What `tritonrl bench fuzz` prints."""

    seed: int
    num_completions: int
    num_funnel: int
    outcomes: dict[str, int]
    """Completions by the AST stage's outcome; "none" counts those without code."""
    funnel_outcomes: dict[str, int]
    slowest_cpu_s: float
    findings: tuple[str, ...]


def read_text(text: str, number: int = 0) -> TextResult:
    """One completion through extraction and the AST stage; never raises."""
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
    """The completions with these numbers, one after the other."""
    return [read_text(fuzzed(examples, seed, number), number) for number in numbers]


def read_apart(read: Reader, count: int, jobs: int) -> list[TextResult]:
    """Completions 0 to `count`-1 in processes of their own, in order; one that ends its process is a finding."""
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
    """Numbers of completions that have code: half of them past the AST stage, as far as there are as many."""
    valid = [result.number for result in results if result.outcome == Outcome.PASSED.code]
    others = [result.number for result in results if result.outcome not in (None, Outcome.PASSED.code)]
    chosen = valid[: max(count // 2, count - len(others))]
    return sorted(chosen + others[: count - len(chosen)])


def verify_texts(verifier: Verifier, pairs: Sequence[tuple[Task, str]], jobs: int) -> list[str]:
    """The outcome of each source through every stage; raises what breaks the verifier."""
    return [verdict.outcome.code for verdict in verifier.verify_many(pairs, EVERYTHING, jobs)]


def run(config: Config, num_completions: int, num_funnel: int, seed: int, jobs: int) -> FuzzFigures:
    """Fuzz extraction and the AST stage with `num_completions`, and the whole funnel with some of them."""
    examples = tuple(corpus_examples("corpus:train", seed, _TASKS_A_LEVEL))
    results = read_apart(partial(read_texts, examples, seed), num_completions, jobs)
    findings = [result.finding for result in results if result.finding]
    funnel: Counter[str] = Counter()
    with open_verifier(config) as verifier:
        numbers = choose_for_funnel(results, num_funnel)
        for start in range(0, len(numbers), _CHUNK):
            part = numbers[start : start + _CHUNK]
            pairs = [
                (examples[number % len(examples)].task, extract(fuzzed(examples, seed, number)) or "")
                for number in part
            ]
            try:
                funnel.update(verify_texts(verifier, pairs, jobs))
            except Exception as error:
                findings.append(f"completions {part[0]} to {part[-1]}: {type(error).__name__}: {error}"[:300])
    return FuzzFigures(
        seed=seed,
        num_completions=len(results),
        num_funnel=len(numbers),
        outcomes=dict(Counter(result.outcome or "none" for result in results).most_common()),
        funnel_outcomes=dict(funnel.most_common()),
        slowest_cpu_s=max((result.cpu_s for result in results), default=0.0),
        findings=tuple(findings),
    )


def render(figures: FuzzFigures) -> list[str]:
    """The figures as lines for a person."""

    def counts(outcomes: dict[str, int]) -> str:
        return ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())

    return [
        f"{figures.num_completions} completions, seed {figures.seed}; the slowest took {figures.slowest_cpu_s:.2f} s",
        f"  extraction and AST stage: {counts(figures.outcomes)}",
        f"  whole funnel ({figures.num_funnel}): {counts(figures.funnel_outcomes)}",
        f"{len(figures.findings)} findings",
        *(f"  {finding}" for finding in figures.findings),
    ]
