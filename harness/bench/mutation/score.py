"""Scores mutants: the fate of each, and the share of wrong ones that each verifier kills.

Only mutants that an oracle proved wrong count. A mutant that does not compile or crashes tells verifiers apart by
nothing, and one that may be right must not be held against a verifier that accepts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from attrs import frozen

from ....core.statistics.intervals import Interval, wilson_interval
from .program import MutationClass


class Fate(StrEnum):
    """The oracle's word on a mutant."""

    WRONG = "proven wrong"
    UNPROVEN = "equivalent, or not proven wrong"
    DEAD = "does not compile, crashes or runs out of time"


class Judge(StrEnum):
    """The verifiers under test, each at least as strict as the one before it."""

    ONE_RUN = "one run"
    """The plan's audit and one run on the original inputs: what evaluators with a single test do."""
    ONE_INPUT = "one input"
    """A cell without extension M: the run at tiny sizes too."""
    FIVE = "five variants"
    """A cell with extension M."""
    AUDIT = "audit"


@frozen(kw_only=True)
class MutantRow:
    """One mutant: where it comes from, what was done to it, its fate, and who killed it.

    `evidence` names the oracle's point and what was seen there. `killed_by` is empty for a mutant that is dead, as no
    verdict about it means anything; `stage` and `outcome` are the audit's.
    """

    task: str
    family: str
    kind: MutationClass
    change: str
    line: int
    before: str
    after: str
    fate: Fate
    evidence: str
    killed_by: tuple[Judge, ...]
    stage: str
    outcome: str
    source: str


@frozen(kw_only=True)
class KillRates:
    """A group of proven mutants and the share that each judge killed, with Wilson's interval."""

    group: str
    num_mutants: int
    rates: dict[Judge, Interval]


@frozen(kw_only=True)
class MutationScore:
    """The figures of a run; `num_rejected_unproven` counts what the audit rejects though no point proves it wrong."""

    num_candidates: int
    num_dead: int
    num_unproven: int
    num_rejected_unproven: int
    overall: KillRates
    by_class: tuple[KillRates, ...]
    by_family: tuple[KillRates, ...]
    survivors: tuple[MutantRow, ...]


def score_mutants(rows: Sequence[MutantRow]) -> MutationScore:
    """Score all rows; raises ValueError where none was proven wrong."""
    wrong = [row for row in rows if row.fate is Fate.WRONG]
    if not wrong:
        raise ValueError("no mutant was proven wrong")
    unproven = [row for row in rows if row.fate is Fate.UNPROVEN]
    return MutationScore(
        num_candidates=len(rows),
        num_dead=sum(row.fate is Fate.DEAD for row in rows),
        num_unproven=len(unproven),
        num_rejected_unproven=sum(Judge.AUDIT in row.killed_by for row in unproven),
        overall=_rate("all", wrong),
        by_class=_rate_groups(wrong, lambda row: row.kind.value),
        by_family=_rate_groups(wrong, lambda row: row.family),
        survivors=tuple(row for row in wrong if Judge.AUDIT not in row.killed_by),
    )


def _rate_groups(rows: Sequence[MutantRow], name: Callable[[MutantRow], str]) -> tuple[KillRates, ...]:
    groups = sorted({name(row) for row in rows})
    return tuple(_rate(group, [row for row in rows if name(row) == group]) for group in groups)


def _rate(group: str, rows: Sequence[MutantRow]) -> KillRates:
    rates = {}
    for judge in Judge:
        interval = wilson_interval(sum(judge in row.killed_by for row in rows), len(rows))
        assert interval is not None
        rates[judge] = interval
    return KillRates(group=group, num_mutants=len(rows), rates=rates)
