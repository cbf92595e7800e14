"""The facts about a verifier on which checks depend."""

from __future__ import annotations

from attrs import frozen

from ...core.candidate import Candidate
from ...core.task import Task


@frozen(kw_only=True)
class Setting:
    """Where plans run ("interpret" or "cuda"), and whether the interpreter cross-checks what a GPU accepts."""

    backend: str = "interpret"
    cross_checks: bool = True


def always(candidate: Candidate, task: Task, setting: Setting) -> bool:
    """Returns true: nothing about candidate, task or verifier rules the check out."""
    return True
