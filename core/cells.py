"""What a cell trains with: extensions, and at most one variation beside them.

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

from attrs import evolve, field, frozen

from .extensions import ALL_CELLS, Extensions, RewardSpec, VerifierSpec


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
            raise ValueError(f"{name!r} is no variation: use one of {', '.join(Variation)}")
        return cls(extensions=Extensions.parse(letters), variation=Variation(variation))


GRID_CELLS: tuple[CellSpec, ...] = tuple(CellSpec(extensions=extensions) for extensions in ALL_CELLS)
"""The full grid, fewest extensions first."""

CONTROLS: tuple[CellSpec, ...] = (CellSpec.parse("msct+uniform"), CellSpec.parse("c+binary"))
"""The full recipe but for the uniform reward; and a binary reward with a curriculum, the study's alternative."""

STAGING_CONTROLS: tuple[CellSpec, ...] = (CellSpec.parse("none+stop-early"), CellSpec.parse("none+partial-credit"))
"""Each half of extension S alone; with the grid's `none` and `s` they say which half does what S does."""

NOISE_SWEEP: tuple[CellSpec, ...] = tuple(map(CellSpec.parse, ("none", "t", "t+cv5", "t+cv15", "t+cv30")))
"""Measured noise of one trial, calibrated timing, and injected noise; the first two are cells of the grid."""
