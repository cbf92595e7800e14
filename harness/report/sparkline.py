"""A series as one line of text."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """A series as a line of bars between its smallest and largest value; null is a gap; longer ones are averaged."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if len(values) > width:
        groups = [values[len(values) * i // width : len(values) * (i + 1) // width] for i in range(width)]
        kept = [[value for value in group if value is not None] for group in groups]
        values = [sum(group) / len(group) if group else None for group in kept]
        known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    span = (high - low) or 1.0
    return "".join(
        " " if value is None else _BARS[min(int((value - low) / span * len(_BARS)), len(_BARS) - 1)] for value in values
    )
