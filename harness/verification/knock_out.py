"""Probes that run plans with launches removed; what that means is decided in `stages.knock_out`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import evolve, frozen

from ...core.candidate import Candidate, Failure, KnockOut
from ...core.task import Task
from ...stages.knock_out import KNOCK_OUT_VARIANTS, fills_to_try, without_launches
from ...stages.variants import VariantInputs
from ..sandbox.protocol import RunRequest
from .oracle import ExpectedRun
from .probes import prepare_run, report_runs
from .workbench import Workbench


@frozen(kw_only=True)
class _Kept:
    """What the store keeps."""

    knock_outs: tuple[KnockOut, ...]


def probe_knock_out(candidate: Candidate, task: Task, bench: Workbench) -> Candidate:
    """Run the plan without its launches, where anything could be left of its result."""
    key = bench.key(candidate, task, "knock_out")
    kept = bench.store.get(key, _Kept)
    if kept is None:
        inputs = [bench.describe(variant, task) for variant in KNOCK_OUT_VARIANTS]
        pairs = _prepare(candidate, task, bench, inputs, lambda plan: bool(fills_to_try(plan)))
        kept = _Kept(knock_outs=tuple(_run(candidate, bench, pairs)))
        bench.store.put(key, kept)
    return candidate.with_evidence(knock_outs=kept.knock_outs)


def _run(candidate: Candidate, bench: Workbench, pairs: list[tuple[RunRequest, ExpectedRun]]) -> Iterator[KnockOut]:
    for fill in fills_to_try(pairs[0][0].plan) if pairs else ():
        changed = [(evolve(request, plan=without_launches(request.plan, fill)), wanted) for request, wanted in pairs]
        reply = bench.runner.run(candidate.source, [request for request, _ in changed])
        yield KnockOut(reports=tuple(report_runs(changed, reply.results, reply.failure, reply.seconds)), fill=fill)


def _prepare(
    candidate: Candidate,
    task: Task,
    bench: Workbench,
    wanted: list[VariantInputs],
    is_needed: Callable[..., bool],
) -> list[tuple[RunRequest, ExpectedRun]]:
    """Requests for the wanted inputs, or none where the first one's plan needs no such run."""
    pairs: list[tuple[RunRequest, ExpectedRun]] = []
    for inputs in wanted:
        prepared = prepare_run(candidate, task, bench, inputs)
        if isinstance(prepared, Failure) or not is_needed(prepared[0].plan):
            return []
        pairs.append(prepared)
    return pairs
