"""The four extensions under test, and the 16 cells that they span."""

from __future__ import annotations

from itertools import product

from attrs import evolve, frozen

LETTERS = "msct"


@frozen(kw_only=True, order=True)
class Extensions:
    """Which extensions are on; written as the letters that are, in the order m, s, c, t, or "none"."""

    multi_input: bool = False
    staged: bool = False
    curriculum: bool = False
    timing: bool = False

    @property
    def flags(self) -> tuple[bool, bool, bool, bool]:
        """In the order of the letters m, s, c, t."""
        return (self.multi_input, self.staged, self.curriculum, self.timing)

    def __str__(self) -> str:
        return "".join(letter for letter, on in zip(LETTERS, self.flags, strict=True) if on) or "none"

    @classmethod
    def parse(cls, text: str) -> Extensions:
        """From letters in any order and case, or "none"; raises ValueError that names a wrong letter."""
        letters = "" if text.strip().lower() == "none" else text.strip().lower()
        for letter in letters:
            if letter not in LETTERS:
                raise ValueError(f"{letter!r} is no extension: use letters of {LETTERS!r}, or 'none'")
        if len(set(letters)) != len(letters):
            raise ValueError(f"{text!r} names an extension twice")
        return cls.from_flags(tuple(letter in letters for letter in LETTERS))

    @classmethod
    def from_flags(cls, flags: tuple[bool, ...]) -> Extensions:
        """From four booleans in the order m, s, c, t."""
        multi_input, staged, curriculum, timing = flags
        return cls(multi_input=multi_input, staged=staged, curriculum=curriculum, timing=timing)


ALL_CELLS: tuple[Extensions, ...] = tuple(
    sorted(map(Extensions.from_flags, product((False, True), repeat=4)), key=lambda cell: (sum(cell.flags), str(cell)))
)
"""The full grid, fewest extensions first."""


@frozen(kw_only=True)
class VerifierSpec:
    """How strictly a candidate is verified: the factor that differs between cells.

    `multi_input`: five input variants instead of one. `stop_early`: stop at the first failed stage. `calibrated`: the
    calibrated timing protocol instead of one cold measurement. `hidden`: the input variants that no cell trains with.
    `timed`: whether what is right is timed at all, where timing is on.
    """

    multi_input: bool = False
    stop_early: bool = False
    calibrated: bool = False
    hidden: bool = False
    timed: bool = True

    @classmethod
    def for_training(cls, extensions: Extensions) -> VerifierSpec:
        """Returns the training verifier that these extensions ask for."""
        return cls(multi_input=extensions.multi_input, stop_early=extensions.staged, calibrated=extensions.timing)


@frozen(kw_only=True)
class RewardSpec:
    """The reward's part of extension S: whether a candidate that is not correct earns something by how far it got."""

    partial_credit: bool = False

    @classmethod
    def for_training(cls, extensions: Extensions) -> RewardSpec:
        """Returns the reward that these extensions ask for."""
        return cls(partial_credit=extensions.staged)


AUDIT = VerifierSpec(multi_input=True, stop_early=True, calibrated=True, hidden=True)
"""The one verifier that evaluates every cell."""
AUDIT_UNTIMED = evolve(AUDIT, timed=False)
"""The audit without its timing, for evaluations of which only the rates are used."""
