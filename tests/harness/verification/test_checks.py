"""A check is one line in each of two tables: it is run, judged, counted and stored like any other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import frozen
from tritonrl.core.candidate import Candidate, Failure
from tritonrl.core.outcome import Outcome
from tritonrl.core.recipe.extensions import AUDIT, VerifierSpec
from tritonrl.core.task import Task
from tritonrl.harness.verification.checks.probes import GATHER, Gather, probe_checks
from tritonrl.harness.verification.context import VerifierContext
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.stages.checks.table import CHECKS, Check, checks_of
from tritonrl.stages.funnel import judge_full

from ..kernels import ADD, add


@frozen(kw_only=True)
class LengthReport:
    """How long the text is, and what it took to find out."""

    length: int
    seconds: float


def judge_length(report: LengthReport) -> Failure | None:
    """Returns an objection to long texts."""
    return Failure(outcome=Outcome.WRONG_VALUES, message="too long") if report.length > 10_000 else None


LENGTH = Check(name="length", report=LengthReport, judge=judge_length)


def count_calls(calls: list[str]) -> Gather:
    """A probe that notes whom it was asked about."""

    def gather(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> LengthReport:
        calls.append(candidate.sha256)
        return LengthReport(length=len(candidate.source), seconds=1000.0)

    return gather


def test_every_check_has_a_probe_or_is_added_by_timing() -> None:
    """Names are unique, and the two tables agree."""
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert {*names} == {*GATHER, "timed"}


@pytest.fixture
def extended(verifier: Verifier) -> Callable[[str, VerifierSpec, list[str]], Candidate]:
    """Makes the checks of a specification and one more, of which `calls` has the probe's calls."""

    def make(source: str, spec: VerifierSpec, calls: list[str]) -> Candidate:
        recorded = verifier.gather(ADD, source, spec).with_evidence(reports=())
        probes = {**GATHER, "length": count_calls(calls)}
        return probe_checks(recorded, ADD, verifier.context, spec, (*CHECKS, LENGTH), probes)

    return make


def test_an_added_check_is_run_counted_and_stored(
    extended: Callable[[str, VerifierSpec, list[str]], Candidate],
) -> None:
    """Its report is among the others, its seconds in the stage's, and the second asking finds it in the store."""
    calls: list[str] = []
    for _ in range(2):
        found = extended(add(), AUDIT, calls)
        assert found.evidence.reports[-1] == ("length", LengthReport(length=len(add()), seconds=1000.0))
        result = judge_full(found, (*CHECKS, LENGTH))
        assert result.passed
        assert result.seconds > 1000.0
    assert calls == [found.sha256]


def test_an_added_check_objects(extended: Callable[[str, VerifierSpec, list[str]], Candidate]) -> None:
    """Its objection is the stage's outcome."""
    long = f"{add()}# {'x' * 10_000}\n"
    result = judge_full(extended(long, AUDIT, []), (*CHECKS, LENGTH))
    assert (result.outcome, result.message) == (Outcome.WRONG_VALUES, "too long")


def test_a_hidden_check_is_the_audits_alone(extended: Callable[[str, VerifierSpec, list[str]], Candidate]) -> None:
    """A training verifier does not make it, nor after a check that objects."""
    calls: list[str] = []
    assert extended(add(), VerifierSpec(), calls).evidence.report("length") is None
    assert extended(add("x - y"), AUDIT, calls).evidence.report("length") is None
    assert calls == []
    assert LENGTH not in checks_of(VerifierSpec(), (*CHECKS, LENGTH))
