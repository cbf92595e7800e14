"""Names the tasks of an exam and who judges them. Imports nothing that takes long, for the command's sake."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen


class Criterion(StrEnum):
    """Who judges a suite that is not ours."""

    SUITE = "suite"
    AUDIT = "audit"
    BOTH = "both"


@frozen(kw_only=True)
class TaskSelection:
    """Which tasks an exam asks, as its options say; without a suite they are the configuration's held-out ones."""

    suite: str | None = None
    levels: tuple[int, ...] | None = None
    limit: int | None = None
    tasks: tuple[int, ...] | None = None
