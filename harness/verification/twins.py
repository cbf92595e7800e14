"""Candidates that differ from a right one in names alone: told by their text, and by what they record.

The text says that kernels compute the same (`core.twins`). What host code does is not left to the text: a twin is
recorded and compiled on its own, as every verifier does first, and its plans must be the other's at all sizes that are
run. Plans are what is run, so that only the runs are shared.
"""

from __future__ import annotations

from attrs import evolve, frozen

from ...core.candidate import Candidate, Recording, Variant
from ...core.extensions import VerifierSpec
from ...core.task import Task
from ...core.twins import form_of
from ...stages.alike import are_alike
from ...stages.compile_stage import judge_compile
from ...stages.syntax import judge_syntax
from .probes import probe_syntax
from .recompile import probe_recompile
from .recordings import has_own_values, later_variants, probe_compile, record_later
from .workbench import Workbench


@frozen(kw_only=True)
class _RightText:
    """The first text of its form that was found right."""

    source: str


def find_twin(candidate: Candidate, task: Task, bench: Workbench, spec: VerifierSpec) -> Candidate | None:
    """The right candidate, without evidence yet, that this one is but for its names; null where none is known."""
    key = _key(candidate, task, bench)
    known = None if key is None else bench.store.get(key, _RightText)
    if known is None or known.source == candidate.source or not judge_syntax(candidate).passed:
        return None
    twin = evolve(candidate, source=known.source, asked_as=candidate.sha256)
    ours, theirs = (probe_compile(probe_syntax(each), task, bench, spec.staged) for each in (candidate, twin))
    if not judge_compile(ours).passed or not are_alike(_recordings(ours), _recordings(theirs)):
        return None
    if any(has_own_values(recording, task, bench) for recording in _recordings(ours)):
        return None
    if spec.hidden:
        later = later_variants(task, bench)
        later += [bench.describe(Variant.REMAINDER, task)] if bench.oracle.remainder(task) else []
        first, second = ([record_later(each, task, bench, inputs) for inputs in later] for each in (ours, theirs))
        if later and not are_alike(first, second):
            return None
        recompiled = probe_recompile(ours, task, bench).evidence.recompile
        if recompiled is not None and recompiled.failure is not None:
            return None
    return twin


def keep_as_right(candidate: Candidate, task: Task, bench: Workbench) -> None:
    """Remember a candidate that was found right, unless another of its form is."""
    key = _key(candidate, task, bench)
    if key is not None:
        bench.store.put(key, _RightText(source=candidate.source))


def _key(candidate: Candidate, task: Task, bench: Workbench) -> str | None:
    form = form_of(candidate.source)
    return None if form is None else bench.key(evolve(candidate, source=form), task, "right")


def _recordings(candidate: Candidate) -> tuple[Recording, ...]:
    report = candidate.evidence.compile
    return () if report is None else report.recordings
