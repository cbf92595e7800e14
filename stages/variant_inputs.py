"""What one variant's inputs are, and its values from freshly drawn ones."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from ..core.candidate import Variant
from ..core.task import Profile
from .arrangements import Arrangement, arrange
from .transforms import (
    CHOICE_SEED,
    change_rows,
    draw_for,
    make_extreme,
    mix,
    raise_places,
    repeat,
    round_values,
    spread_magnitudes,
    spread_rows,
    tie,
)

IntegerChange = Literal["", "negated", "large", "repeated", "mixed", "emptied"]
"""What is done to integers: some become negative, or all reach the upper half of their range and half of them its very
end, or every second one occurs no more.

Or it is done to masks, and to integers that are all the same, as lengths that are all full: both kinds occur in each
row, or some rows have none besides.
"""
_LARGE_INTEGER = 1 << 33


@frozen(kw_only=True)
class VariantInputs:
    """What one variant's inputs are: `scale` multiplies, then `shift` is added.

    `fresh_input` is the position of an input that comes from yet another draw, to see what it matters, or None.
    `chosen_scale` multiplies a pseudo-random `chosen_share` of the values; `rounded_through` names the narrower dtype
    that values are rounded through, or is None. Variants with the same `stream` start from the same random draw, so
    that they differ by the transform alone.
    """

    variant: Variant
    profile: Profile
    dtype: str
    stream: str = "original"
    scale: float = 1.0
    shift: float = 0.0
    row_scale: float = 1.0
    """A further factor of every second row, the first among them."""
    stable_scale: float = 1.0
    """The factor of every other row where the reference begins with an operator that is right whatever the magnitudes.
    The other rows then have peaks."""
    has_peaks: bool = False
    """Whether every second row lies far above zero, one of its elements as far above the others as counts with them."""
    height: float = 0.0
    """How far one element of each row lies above the others, in a place that follows from the row's number."""
    turn: int = 0
    """Which third of these places is meant."""
    axes: tuple[int, ...] = ()
    """What the reference works along, so that rows are its rows; the oracle knows."""
    chosen_scale: float = 1.0
    chosen_share: float = 0.0
    extreme_parity: int | None = None
    """The parity of the places of few values that lie beyond all others; None where there are none such."""
    side: int = 0
    """1 for positive values, -1 for negative ones, 0 for both."""
    step: float = 0.0
    """What values are rounded to multiples of, zeros among them; 0 for none."""
    arrangements: tuple[Arrangement, ...] = ()
    """What is done to rows, in turn."""
    has_tied_arrangements: bool = True
    """Whether these make values equal."""
    rounded_through: str | None = None
    fresh_input: int | None = None
    integers: IntegerChange = ""
    nan_share: float = 0.0
    """The share of the values, pseudo-randomly chosen, that become NaN."""
    infinite_share: float = 0.0
    """The share of those that become infinite, each with its sign."""
    spread: int = 0
    """The largest power of two that magnitudes are multiplied or divided by; each element by one of its own."""
    counterweight: int = 0
    """The power of two that halves of what a product adds over are multiplied or divided by, its operands inversely."""
    cancelled: int = 0
    """The power of two by which terms of a product's sum exceed what is left of them."""
    alike: float = 0.0
    """How far every second row of inputs of one shape, the leading dimension aside, lies from the first one's, as a
    share of its values; the others are the same. 0 where they are drawn apart."""
    has_signed_parameters: bool = False
    """Whether parameters have signs of their own, drawn element by element."""
    has_rounded_parameters: bool = False
    """Whether parameters are rounded through the narrower dtype, too."""

    def change_extremely(self, parity: int) -> VariantInputs:
        """Return the inputs with other values at a few places of this parity, seen in whatever result reads them.

        A kernel that knows its inputs by one in a block, by either half or by every second one knows them again after
        one of the two parities.
        """
        return evolve(self, extreme_parity=parity, integers="repeated")

    def change_few(self) -> VariantInputs:
        """Return the inputs with one value in 64 halved: enough for any result to differ, too few to be noticed.

        A kernel that looks at some of its inputs, to know them again, sees no difference.
        """
        return evolve(self, chosen_share=1 / 64, chosen_scale=0.5)

    @property
    def keeps_values(self) -> bool:
        """Whether `transform` returns all values as they are."""
        drawn = VariantInputs(variant=self.variant, profile=self.profile, dtype=self.dtype, stream=self.stream)
        return evolve(self, axes=(), integers="") == drawn

    def transform(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variant's values, from freshly drawn floating-point ones."""
        if self.scale != 1.0 or self.shift:
            values = values * self.scale + self.shift
        if self.row_scale != 1.0:
            values = change_rows(values, self.row_scale, self.axes, self.has_peaks)
        if self.height:
            values = raise_places(values, self.axes, self.height, self.turn)
        if self.spread:
            values = spread_magnitudes(values, self.spread)
        if self.chosen_share:
            chosen = np.random.default_rng(CHOICE_SEED).random(values.shape) < self.chosen_share
            values = np.where(chosen, values * self.chosen_scale, values)
        if self.extreme_parity is not None:
            values = make_extreme(values, self.extreme_parity)
        if self.side:
            values = self.side * spread_rows(np.abs(values), self.axes)
        if self.step:
            values = tie(values, self.step)
        if self.arrangements:
            values = arrange(values, self.axes, self.arrangements, self.has_tied_arrangements)
        if self.nan_share:
            drawn = draw_for(values).random(values.shape)
            values = np.where(1.0 - drawn < self.infinite_share, np.copysign(np.inf, values), values)
            values = np.where(drawn < self.nan_share, np.nan, values)
        return values if self.rounded_through is None else round_values(values, self.rounded_through)

    def transform_integers(self, values: NDArray[Any]) -> NDArray[Any]:
        """The variant's values, from freshly drawn integers; a negative index is one from the end."""
        if self.integers in ("mixed", "emptied"):
            return mix(values, 0 if self.integers == "emptied" else 1)
        if not self.integers or values.dtype.kind not in "iu":
            return values
        if self.integers == "repeated":
            return repeat(values, self.extreme_parity)
        draw = draw_for(values)
        if self.integers == "negated":
            # others in each input, so that the two sides of an operator do not always have one sign
            return np.where(draw.random(values.shape) < 0.5, -1 - values, values)
        largest = max(1, int(np.max(np.abs(values.astype(np.float64)), initial=0.0)))
        factor = values.dtype.type(max(1, min(np.iinfo(values.dtype).max, _LARGE_INTEGER) // largest))
        # neighbours that few bits do not tell apart
        is_close = (draw.random(values.shape) < 0.5) & (values > 0)
        changed: NDArray[Any] = np.where(
            is_close, factor * np.max(values, initial=0) - np.abs(values) % 4, values * factor
        )
        return changed
