"""Which families an exam's samples fail in, and why: the most frequent outcome, with what it says most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl
from attrs import frozen

from ...core.outcome import Outcome

_MESSAGE_WIDTH = 90
"""Of a message in a line for a person; JSON has its whole first line."""


@frozen(kw_only=True)
class FamilyFailures:
    """A family's samples that the audit judged, and of the wrong ones the most frequent outcome and its message.

    `num_outcome` counts the samples of that outcome. Where none is wrong, `outcome` and `message` are null.
    """

    level: int
    family: str
    num_samples: int
    num_correct: int
    outcome: str | None
    num_outcome: int
    message: str | None


def count_failures(frame: pl.DataFrame) -> tuple[FamilyFailures, ...]:
    """The failures of every family in an exam's table: by level, and in a level the worst family first."""
    judged = frame.drop_nulls("correct")
    found = [_count(*place, rows) for place, rows in judged.group_by("level", "family", maintain_order=True)]  # type: ignore[call-arg]
    return tuple(sorted(found, key=lambda entry: (entry.level, entry.num_correct / entry.num_samples, entry.family)))


def _count(level: int, family: str, rows: pl.DataFrame) -> FamilyFailures:
    wrong = rows.filter(~pl.col("correct"))
    ((outcome, num_outcome),) = Counter(wrong["outcome"].to_list()).most_common(1) or [(None, 0)]
    messages = (told for code, told in wrong.select("outcome", "message").iter_rows() if code == outcome and told)
    lines = Counter(line for line in map(_first_line, messages) if line)
    return FamilyFailures(
        level=level,
        family=family,
        num_samples=rows.height,
        num_correct=rows.height - wrong.height,
        outcome=outcome,
        num_outcome=num_outcome,
        message=lines.most_common(1)[0][0] if lines else None,
    )


def _first_line(message: str) -> str:
    return message.strip().partition("\n")[0].rstrip()


def render_failures(failures: Sequence[FamilyFailures]) -> list[str]:
    """Plain lines for a person; none where nothing is wrong."""
    if all(entry.outcome is None for entry in failures):
        return []
    lines = ["", f"{'':22} {'level':>6} {'correct':>9}  most frequent failure"]
    for entry in failures:
        share = f"{entry.num_correct}/{entry.num_samples}"
        lines.append(f"{entry.family:22} {entry.level:6} {share:>9}  {_say(entry)}")
    return lines


def _say(entry: FamilyFailures) -> str:
    if entry.outcome is None:
        return "-"
    text = f"{entry.num_outcome}x {Outcome.from_code(entry.outcome)}"
    if entry.message is None:
        return text
    is_long = len(entry.message) > _MESSAGE_WIDTH
    return f"{text}: {entry.message[: _MESSAGE_WIDTH - 3]}..." if is_long else f"{text}: {entry.message}"
