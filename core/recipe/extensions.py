"""Extensions under test, the 16 cells that they span, and the controls beside them.

The grid is 16 cells, named by the letters of their extensions. A variation is what the grid does not span, written
after a plus sign: `c+binary`. Two are controls for the reward, and two switch the halves of extension S one by one:
stopping early, and partial credit. Three inject timing noise of a known coefficient of
variation; with the grid's `none` (one measurement, with whatever noise it has) and `t` (calibrated) they are the noise
sweep: five runs that differ in the noise of the speedup alone. Noise is injected on top of calibrated timing (`t`),
because that is the measurement whose own noise is small beside 5%.

The control without reinforcement learning needs no cell of its own: it is the supervised start, `sft`, which every cell
of a seed continues from and which the same audit judges on the same held-out tasks with the same sampling seeds.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import product

from attrs import evolve, field, frozen

from ..config_fields import suggest

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


class Variation(StrEnum):
    """What a cell has beside its extensions; the value is the name in tables and on the command line."""

    UNIFORM = "uniform"
    """Reward: correctness + alpha x speedup for a correct kernel, nothing for any other (reviews of TritonRL)."""
    BINARY = "binary"
    """Reward: one value for a correct kernel, nothing for any other, and no bonus for speed."""
    STOP_EARLY = "stop-early"
    """The verifier's half of extension S: it stops at the first failed stage, and the reward is all or nothing."""
    PARTIAL_CREDIT = "partial-credit"
    """The reward's half of extension S: partial credit, and every stage is attempted on every candidate."""
    CV5 = "cv5"
    CV15 = "cv15"
    CV30 = "cv30"


_NOISE_CVS = {Variation.CV5: 0.05, Variation.CV15: 0.15, Variation.CV30: 0.30}


@frozen(kw_only=True)
class CellSpec:
    """One cell; written as the letters of its extensions, and `+variation` where there is one."""

    extensions: Extensions = field(factory=Extensions)
    variation: Variation | None = None

    @property
    def noise_cv(self) -> float | None:
        """The coefficient of variation of the noise that is injected into each runtime; null for none."""
        return None if self.variation is None else _NOISE_CVS.get(self.variation)

    @property
    def verifier(self) -> VerifierSpec:
        """What the cell verifies with while it trains."""
        spec = VerifierSpec.for_training(self.extensions)
        return evolve(spec, stop_early=True) if self.variation is Variation.STOP_EARLY else spec

    @property
    def reward(self) -> RewardSpec:
        """How the cell rewards what is not correct, where no variation has a reward of its own."""
        spec = RewardSpec.for_training(self.extensions)
        return evolve(spec, partial_credit=True) if self.variation is Variation.PARTIAL_CREDIT else spec

    def __str__(self) -> str:
        return str(self.extensions) if self.variation is None else f"{self.extensions}+{self.variation}"

    @classmethod
    def parse(cls, text: str) -> CellSpec:
        """From "msct" or "c+binary"; raises ValueError that names what is wrong."""
        letters, plus, name = text.partition("+")
        if not plus:
            return cls(extensions=Extensions.parse(text))
        variation = name.strip().lower()
        if variation not in set(Variation):
            hint = suggest(variation, Variation)
            raise ValueError(f"{name!r} is no variation: use one of {', '.join(Variation)}{hint}")
        return cls(extensions=Extensions.parse(letters), variation=Variation(variation))


GRID_CELLS: tuple[CellSpec, ...] = tuple(CellSpec(extensions=extensions) for extensions in ALL_CELLS)
"""The full grid, fewest extensions first."""

CONTROLS: tuple[CellSpec, ...] = (CellSpec.parse("msct+uniform"), CellSpec.parse("c+binary"))
"""The full recipe but for the uniform reward; and a binary reward with a curriculum, the study's alternative."""

STAGING_CONTROLS: tuple[CellSpec, ...] = (CellSpec.parse("none+stop-early"), CellSpec.parse("none+partial-credit"))
"""Each half of extension S alone; with the grid's `none` and `s` they say which half does what S does."""

NOISE_SWEEP: tuple[CellSpec, ...] = tuple(map(CellSpec.parse, ("none", "t", "t+cv5", "t+cv15", "t+cv30")))
"""Measured noise of one trial, calibrated timing, and injected noise; the first two are cells of the grid."""


NAMED_GRIDS: dict[str, tuple[CellSpec, ...]] = {
    "full": GRID_CELLS,
    # the half fraction with defining relation I = MSCT: main effects are clear of two-way interactions
    "half": tuple(cell for cell in GRID_CELLS if sum(cell.extensions.flags) % 2 == 0),
    "one-at-a-time": tuple(cell for cell in GRID_CELLS if sum(cell.extensions.flags) <= 1),
    "leave-one-out": tuple(cell for cell in GRID_CELLS if sum(cell.extensions.flags) >= 3),
    "controls": CONTROLS,
    "staging": STAGING_CONTROLS,
    "noise": NOISE_SWEEP,
}


def parse_cells(text: str) -> tuple[CellSpec, ...]:
    """Return the cells of a list of named grids and cells, such as "full,controls" or "none,ms,c+binary".

    Each cell once, in the order given; raises ValueError.
    """
    cells: dict[CellSpec, None] = {}
    for part in text.split(","):
        if not part.strip():
            raise ValueError("an empty cell name; the baseline is called 'none'")
        try:
            named = NAMED_GRIDS.get(part.strip())
            cells |= dict.fromkeys((CellSpec.parse(part),) if named is None else named)
        except ValueError as error:
            grids = f"{', '.join(NAMED_GRIDS)}{suggest(part.strip(), NAMED_GRIDS)}"
            raise ValueError(f"{error}; or one of {grids}") from None
    return tuple(cells)
