"""Measures verification on the fixed mix, staged and exhaustive, in the same run and from cold stores.

Four figures matter: candidates a second end to end, candidates a second through extraction and the AST stage on one
core, milliseconds from the fork of a child to its first result, and what the staged funnel saves. "Exhaustive" is
`VerifierSpec(stop_early=False)`: every probe is attempted on every candidate whatever failed before, with the same
kind of sandbox, the same batching of runs and the same evidence within one candidate; only the stopping differs.

Wall-clock figures need a machine with nothing else to do. CPU seconds of this process and all of its children
stand beside them, since they are nearly the same on a busy one.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from attrs import evolve, frozen

from ....core.candidate import Candidate
from ....core.config import Config
from ....core.outcome import Stage
from ....core.recipe.extensions import AUDIT, VerifierSpec
from ....core.run import RunReply
from ....core.task import Example
from ....core.text.extraction import extract
from ....core.text.prompts import assistant_message
from ....core.verdict import Verdict
from ....stages.syntax import judge_syntax
from ...sandbox.confinement.watch import descendants
from ...sandbox.sandbox import Sandbox
from ...sandbox.wire import RecordReply
from ...tasks.suites import corpus_examples
from ...verification.timing import find_reference_timing
from ...verification.verifier import Verifier, open_verifier, probe_syntax
from ..watching import read_proc
from .mix import COMPILER_SPOIL, Kind, Labelled, draw_candidates, kind_of

STAGED = VerifierSpec(multi_input=True, stop_early=True, calibrated=True)
EXHAUSTIVE = VerifierSpec(multi_input=True, stop_early=False, calibrated=True)
VERIFIERS = {"staged": STAGED, "exhaustive": EXHAUSTIVE, "audit": AUDIT}
_NUM_FORKS = 20
_SYNTAX_SECONDS = 1.0


@frozen(kw_only=True)
class PassFigures:
    """One verifier over the whole mix; seconds by stage and by spoil are sums of the verdicts' own."""

    verifier: str
    num_candidates: int
    wall_s: float
    cpu_s: float
    candidates_per_s: float
    candidates_per_s_core: float
    seconds_by_stage: dict[str, float]
    seconds_by_spoil: dict[str, float]
    references_s: float
    """Seconds before the run for timing the references of its tasks; no part of the other figures."""
    gpu_seconds: dict[str, float]
    """What the GPUs' executors were busy with, and what threads waited for them; empty without a GPU."""
    unexpected: tuple[str, ...]
    """Candidates of which something else became than the mix says, and right ones that should have been timed."""


@frozen(kw_only=True)
class VerifyFigures:
    """The figures of `tritonrl bench verify`; ratios are exhaustive over staged, null where one was not measured."""

    seed: int
    jobs: int
    backend: str
    timing: str
    composition: dict[str, int]
    passes: tuple[PassFigures, ...]
    ratio_wall: float | None
    ratio_cpu: float | None
    ratio_without_compilers: float | None
    ast_per_s_core: float
    first_result_ms: dict[str, float]


def measure_verifiers(
    config: Config, num_tasks: int, seed: int, jobs: int, verifiers: Sequence[str] = ()
) -> VerifyFigures:
    """Make the mix of `num_tasks` tasks of each level and run it by each verifier (or by some), cold each time."""
    # what becomes of a candidate does not depend on how quick it is
    untimed = evolve(config, verifier=evolve(config.verifier, timing="none"))
    with open_verifier(untimed) as verifier:
        verifier.get_ready()
        mix = make_mix(verifier, num_tasks, seed, jobs)
        backend = verifier.backend
        first_result_ms = measure_first_results(verifier.context.sandbox)
    named = {name: _measure(name, VERIFIERS[name], config, mix, jobs) for name in verifiers or VERIFIERS}
    staged, exhaustive = named.get("staged"), named.get("exhaustive")
    both = (exhaustive, staged) if staged is not None and exhaustive is not None else None
    return VerifyFigures(
        seed=seed,
        jobs=jobs,
        backend=backend,
        timing=config.verifier.timing,
        composition={kind.value: sum(candidate.kind is kind for candidate in mix) for kind in Kind},
        passes=tuple(named.values()),
        ratio_wall=both and both[0].wall_s / both[1].wall_s,
        ratio_cpu=both and both[0].cpu_s / max(both[1].cpu_s, 0.01),
        ratio_without_compilers=both and _without_compilers(both[0]) / _without_compilers(both[1]),
        ast_per_s_core=measure_syntax([candidate.source for candidate in mix]),
        first_result_ms=first_result_ms,
    )


def make_mix(verifier: Verifier, num_tasks: int, seed: int, jobs: int) -> list[Labelled]:
    """Return the candidates of `num_tasks` tasks of each level, in an order that mixes tasks and kinds."""

    def draw(numbered: tuple[int, Example]) -> list[Labelled]:
        position, example = numbered
        return list(
            draw_candidates(example, position, seed, lambda source: verifier.verify(example.task, source, STAGED))
        )

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        groups = list(pool.map(draw, enumerate(corpus_examples("core13:train", seed, num_tasks))))
    mix = [candidate for group in groups for candidate in group]
    random.Random(seed).shuffle(mix)
    return mix


def _measure(name: str, spec: VerifierSpec, config: Config, mix: Sequence[Labelled], jobs: int) -> PassFigures:
    pairs = [(candidate.task, candidate.source) for candidate in mix]
    with open_verifier(config) as verifier:
        verifier.get_ready(jobs)
        references_s = _measure_references(verifier, mix)
        cuda = verifier.gpu_context.cuda if verifier.gpu_context is not None else None
        gpu_before = dict(cuda.seconds) if cuda is not None else {}
        cpu_before, began = tree_cpu_s(), time.perf_counter()
        verdicts = verifier.verify_many(pairs, spec, jobs)
        wall_s, cpu_s = time.perf_counter() - began, tree_cpu_s() - cpu_before
        gpu_after = dict(cuda.seconds) if cuda is not None else {}
    by_stage: dict[str, float] = {stage.value: 0.0 for stage in Stage}
    by_spoil: defaultdict[str, float] = defaultdict(float)
    for candidate, verdict in zip(mix, verdicts, strict=True):
        by_spoil[_label(candidate)] += verdict.seconds
        for result in verdict.stages:
            by_stage[result.stage.value] += result.seconds
    return PassFigures(
        verifier=name,
        num_candidates=len(mix),
        wall_s=wall_s,
        cpu_s=cpu_s,
        candidates_per_s=len(mix) / wall_s,
        candidates_per_s_core=len(mix) / wall_s / min(jobs, len(os.sched_getaffinity(0))),
        seconds_by_stage=by_stage,
        seconds_by_spoil=dict(by_spoil),
        references_s=references_s,
        gpu_seconds={kind: seconds - gpu_before.get(kind, 0.0) for kind, seconds in gpu_after.items()},
        unexpected=tuple(_find_unexpected(mix, verdicts, config.verifier.timing == "measured")),
    )


def _measure_references(verifier: Verifier, mix: Iterable[Labelled]) -> float:
    """Time the references' own figures take, which measured timing needs once for a task and keeps."""
    context = verifier.gpu_context
    if context is None or context.cuda is None or verifier.config.timing != "measured":
        return 0.0
    began = time.perf_counter()
    for task in {candidate.task.task_id: candidate.task for candidate in mix}.values():
        find_reference_timing(task, context, context.cuda, verifier.timing)
    return time.perf_counter() - began


def _label(candidate: Labelled) -> str:
    return candidate.spoil if candidate.kind is Kind.AST_FAILURE else candidate.kind.value


def _find_unexpected(mix: Iterable[Labelled], verdicts: Iterable[Verdict], is_timed: bool) -> Iterable[str]:
    for candidate, verdict in zip(mix, verdicts, strict=True):
        found = kind_of(verdict)
        name = f"{candidate.task.task_id} {verdict.candidate[:12]}"
        if found is not candidate.kind:
            yield f"{name}: {found} ({verdict.outcome}), not: {candidate.kind}"
        elif found is Kind.CORRECT and is_timed and verdict.speedup is None:
            yield f"{name}: has no speedup: {verdict.stages[-1].outcome}: {verdict.stages[-1].message}"


def _without_compilers(figures: PassFigures) -> float:
    return sum(seconds for spoil, seconds in figures.seconds_by_spoil.items() if spoil != COMPILER_SPOIL)


def measure_syntax(sources: Sequence[str]) -> float:
    """Measure completions a CPU second through extraction and the AST stage, in this thread, no text twice."""
    num_done = 0
    began = time.thread_time()
    while time.thread_time() - began < _SYNTAX_SECONDS:
        for source in sources:
            # the stage remembers the last texts it saw
            extracted = extract(assistant_message(f"# {num_done}\n{source}"))
            judge_syntax(probe_syntax(Candidate(task_id="bench", source=extracted or "")))
            num_done += 1
    return num_done / (time.thread_time() - began)


def measure_first_results(sandbox: Sandbox) -> dict[str, float]:
    """Measure median milliseconds from a job's order to the answer of its child; raises RuntimeError if it fails."""
    jobs: dict[str, Callable[[], RecordReply | RunReply]] = {
        "compile": lambda: sandbox.record("", []),
        "interpret": lambda: sandbox.run("", []),
    }
    medians = {}
    for mode, job in jobs.items():
        took = []
        for _ in range(_NUM_FORKS):
            began = time.perf_counter()
            failure = job().failure
            took.append((time.perf_counter() - began) * 1e3)
            if failure is not None:
                raise RuntimeError(f"an empty candidate failed: {failure.message}")
        medians[mode] = statistics.median(took)
    return medians


def tree_cpu_s() -> float:
    """Return CPU seconds of this process and its descendants, with those that have ended and were waited for."""
    stats = (read_proc(pid, "stat").rpartition(b")")[2].split() for pid in (os.getpid(), *descendants()))
    ticks = sum(sum(map(int, words[11:15])) for words in stats)
    return ticks / os.sysconf("SC_CLK_TCK")


def render(figures: VerifyFigures) -> list[str]:
    total = sum(figures.composition.values())
    lines = [f"{total} candidates: " + ", ".join(f"{count} {kind}" for kind, count in figures.composition.items())]
    lines.append(f"seed {figures.seed}, {figures.jobs} at once, backend {figures.backend}, timing {figures.timing}")
    names = [figures_of.verifier for figures_of in figures.passes]
    lines.append(f"{'':36}" + "".join(f"{name:>12}" for name in names))

    def row(title: str, values: Iterable[float], digits: int = 2) -> None:
        lines.append(f"{title:36}" + "".join(f"{value:12.{digits}f}" for value in values))

    row("candidates/s", (one.candidates_per_s for one in figures.passes), 1)
    row("candidates/s a core", (one.candidates_per_s_core for one in figures.passes), 1)
    row("seconds", (one.wall_s for one in figures.passes))
    row("CPU seconds", (one.cpu_s for one in figures.passes))
    if figures.timing == "measured":
        row("references, before", (one.references_s for one in figures.passes))
    for kind in figures.passes[0].gpu_seconds:
        row(f"  GPU: {kind}", (one.gpu_seconds.get(kind, 0.0) for one in figures.passes))
    for stage in Stage:
        row(f"  stage {stage.value}", (one.seconds_by_stage[stage.value] for one in figures.passes))
    for spoil in figures.passes[0].seconds_by_spoil:
        row(f"  {spoil}", (one.seconds_by_spoil[spoil] for one in figures.passes))
    if figures.ratio_wall and figures.ratio_cpu and figures.ratio_without_compilers:
        lines.append(
            f"exhaustive over staged: {figures.ratio_wall:.2f}x in seconds, {figures.ratio_cpu:.2f}x in CPU "
            f"seconds; {figures.ratio_without_compilers:.2f}x without what {COMPILER_SPOIL}"
        )
    lines.append(f"extraction and AST stage: {figures.ast_per_s_core:.0f} candidates/s on one core")
    forks = ", ".join(f"{mode} {ms:.1f} ms" for mode, ms in figures.first_result_ms.items())
    lines.append(f"fork to first result of an empty candidate (median of {_NUM_FORKS}): {forks}")
    lines += [f"unexpected ({one.verifier}): {text}" for one in figures.passes for text in one.unexpected]
    return lines
