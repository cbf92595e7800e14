"""The probes of the AST stage and of the tiny run."""

from __future__ import annotations

import time
from functools import lru_cache

from ...core.candidate import Candidate, Variant
from ...core.task import Profile, Task
from ...stages.syntax import judge_syntax
from ...stages.variants import describe
from .context import VerifierContext
from .runs import run_each


def probe_syntax(candidate: Candidate) -> Candidate:
    """Time the reading of the text; the decision itself is a pure function of the source."""
    return candidate.with_evidence(ast_seconds=_seconds_to_inspect(candidate.source))


@lru_cache(maxsize=256)
def _seconds_to_inspect(source: str) -> float:
    # the stage remembers its decision, so that the text is read once for time and decision together
    began = time.perf_counter()
    judge_syntax(Candidate(task_id="", source=source))
    return time.perf_counter() - began


def probe_tiny(candidate: Candidate, task: Task, context: VerifierContext) -> Candidate:
    """Run the original inputs at tiny sizes."""
    inputs = describe(Variant.ORIGINAL, task.dtypes, Profile.TINY)
    (report,) = run_each(candidate, task, context, "tiny", [inputs])
    return candidate.with_evidence(tiny=report)
