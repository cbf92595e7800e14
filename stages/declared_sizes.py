"""What was seen at a task's declared sizes, in words: whatever was not run or not compared there is said."""

from __future__ import annotations

from ..core.candidate import Candidate, Variant
from .checks.runs import RunsReport

WHOLE, SAMPLED = "run whole", "sampled"
NOT_RUN = "not run"


def describe_declared(candidate: Candidate, backend: str) -> str:
    """Return what became of the declared sizes of a candidate that is right, such as `not run (5.4 GB)`.

    A GPU runs all programs and compares all results; without one some programs are run where the reference can be
    computed.
    """
    report = candidate.evidence.report("declared")
    if backend == "cuda":
        return WHOLE
    if isinstance(report, RunsReport) and any(run.variant is Variant.DECLARED for run in report.runs):
        return SAMPLED
    compiled = candidate.evidence.compile
    num_bytes = 0 if compiled is None or compiled.reference is None else compiled.reference.num_bytes
    return f"{NOT_RUN} ({tell_bytes(num_bytes)})" if num_bytes else NOT_RUN


def tell_bytes(num_bytes: float) -> str:
    """Return a size as people read it, such as `5.4 GB`."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.1f} MB"
