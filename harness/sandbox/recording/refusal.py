"""Refusals: what host code does that cannot be recorded."""

from __future__ import annotations

from typing import Any, ClassVar

from ....core.candidate import Failure
from ....core.outcome import Outcome

_UNKNOWN_HERE = (Outcome.UNSUPPORTED, Outcome.DATA_DEPENDENT)


class Refusal(Exception):
    """A launch that cannot be recorded; ends the recording with its failure.

    On a GPU there is nothing to catch where something is only here unknown, so host code that caught such a refusal
    would have been recorded on a way of its own: it stays in `raised`, and ends the recording all the same.
    """

    raised: ClassVar[list[Refusal]] = []

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(outcome, message)
        if outcome in _UNKNOWN_HERE:
            self.raised.append(self)

    @classmethod
    def raise_caught(cls) -> None:
        """Raise the first one again that host code has caught since the last time that this was asked."""
        caught, cls.raised[:] = cls.raised[:1], []
        if caught:
            raise caught[0]


def refuse(path: str) -> Any:
    """Return a function that refuses whoever asks what only a GPU can answer; `path` names it."""

    def ask(*args: Any, **kwargs: Any) -> Any:
        raise Refusal(Outcome.UNSUPPORTED, f"host code asks for {path}, which cannot be recorded")

    return ask
