"""Nothing that a model writes may break the verifier: random and spoilt completions through extraction and the funnel.

All of them are read by extraction and the AST stage (`fuzz_reading`). What then goes through the whole funnel goes
through all of it, whatever stage it fails (`VerifierSpec(stop_early=False)`), so that recorder, interpreter and judge
meet it too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from attrs import frozen

from ....core.config import Config
from ....core.recipe.extensions import VerifierSpec
from ....core.task import Task
from ....core.text.extraction import extract
from ...tasks.suites import corpus_examples
from ...verification.verifier import Verifier, open_verifier
from .fuzz_reading import choose_for_funnel, read_apart, read_lines_apart, read_texts
from .fuzz_texts import fuzzed

EVERYTHING = VerifierSpec(multi_input=True, stop_early=False)
_CHUNK = 50
_TASKS_A_LEVEL = 13


@frozen(kw_only=True)
class FuzzFigures:
    seed: int
    num_completions: int
    num_funnel: int
    num_lines: int
    outcomes: dict[str, int]
    """Completions by the AST stage's outcome; "none" counts those without code."""
    funnel_outcomes: dict[str, int]
    slowest_cpu_s: float
    findings: tuple[str, ...]


def verify_texts(verifier: Verifier, pairs: Sequence[tuple[Task, str]], jobs: int) -> list[str]:
    """Return the outcome of each source through every stage; raises what breaks the verifier."""
    return [verdict.outcome.code for verdict in verifier.verify_many(pairs, EVERYTHING, jobs)]


def fuzz_verifier(
    config: Config, num_completions: int, num_funnel: int, seed: int, jobs: int, num_lines: int = 0
) -> FuzzFigures:
    """Fuzz extraction and the AST stage with `num_completions`, and the whole funnel with some of them.

    `num_lines` lines of batches are read, and as many messages of children and clients.
    """
    examples = tuple(corpus_examples("core13:train", seed, _TASKS_A_LEVEL))
    results = read_apart(partial(read_texts, examples, seed), num_completions, jobs)
    findings = [result.finding for result in results if result.finding]
    if num_lines:
        findings += read_lines_apart(examples[0].task.task_id, examples[0].solution, seed, num_lines)
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
        num_lines=num_lines,
        outcomes=dict(Counter(result.outcome or "none" for result in results).most_common()),
        funnel_outcomes=dict(funnel.most_common()),
        slowest_cpu_s=max((result.cpu_s for result in results), default=0.0),
        findings=tuple(findings),
    )
