"""The inputs that a candidate is run on: five for multi-input testing, more that only the audit uses.

Each variant is a description: which sizes, which dtype, what is done to the values, and which random stream they come
from. Under the task's contract (docs/decisions/0001-launch-plans.md) "larger" rewrites the module-level constants, and
"precision" takes another dtype of the contract; where a task lists one dtype only, the values are rounded through a
narrower type instead, because many genuine float32 kernels call functions that Triton defines for float32 alone.

The hidden ones come from hacks that the five do not see. A kernel that returns its input, or branches by the sign of
what it meets first, passes where inputs are all positive, unless values are negated or signs are mixed; kernels that
saturate or underflow show it when values are faint, tripled or unequal in magnitude; a mean that is taken for zero
shows when values are shifted; and a size that no profile has, one more than whole blocks, finds branches by shape and
masks that are off by one (docs/decisions/0002-purity-knock-out-hidden-inputs.md). A product in float16 for a float32
task shows when values are massive: it is as exact as one in TF32, and has not its range. A maximum that starts from 0
shows when no value is positive, a row whose first or last element is never read when the extremes are there, and a
softmax without its maximum when every exponential underflows. A quotient of exponentials is NaN beyond 44 (a tanh) or
88, where PyTorch's function has long been constant: values are saturated where the reference vouches for them, and
stay below 40 for inputs of unit variance elsewhere. In float16 the same holds for squares of values beyond 256.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ..core.candidate import Variant
from ..core.extensions import VerifierSpec
from ..core.task import Profile

BASELINE_VARIANTS = (Variant.ORIGINAL,)
TRAINING_VARIANTS = (Variant.ORIGINAL, Variant.SCALED, Variant.RESEEDED, Variant.LARGER, Variant.PRECISION)
SAMPLED_VARIANTS = (Variant.DECLARED, Variant.DECLARED_PRECISION, Variant.BETWEEN, Variant.BEYOND)
"""Too large to be run whole without a GPU."""
HIDDEN_VARIANTS = (
    Variant.REVERSED,
    Variant.NEGATED,
    Variant.FAINT,
    Variant.MASSIVE,
    Variant.TRIPLED,
    Variant.FLIPPED,
    Variant.SHIFTED,
    Variant.OUTLIERS,
    Variant.ABOVE,
    Variant.BELOW,
    Variant.DEEP,
    Variant.SPREAD,
    Variant.TIES,
    Variant.OFFSET,
    Variant.MINUTE,
    Variant.SLIGHT,
    Variant.SATURATED,
    Variant.HEAVY,
    Variant.REMAINDER,
    *SAMPLED_VARIANTS,
)

_CHOICE_SEED = 1
_MANTISSA_BITS = {"float32": 23, "float16": 10, "bfloat16": 7, "float8": 3}


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
    chosen_scale: float = 1.0
    chosen_share: float = 0.0
    side: int = 0
    """1 for positive values, -1 for negative ones, 0 for both."""
    step: float = 0.0
    """What values are rounded to multiples of, zeros among them; 0 for none."""
    rounded_through: str | None = None
    fresh_input: int | None = None

    def transform(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variant's values, from freshly drawn floating-point ones."""
        values = values * self.scale + self.shift
        if self.chosen_share:
            chosen = np.random.default_rng(_CHOICE_SEED).random(values.shape) < self.chosen_share
            values = np.where(chosen, values * self.chosen_scale, values)
        if self.side:
            values = self.side * _spread_rows(np.abs(values))
        if self.step:
            values = _tie(values, self.step)
        return values if self.rounded_through is None else round_values(values, self.rounded_through)


def variants_of(spec: VerifierSpec) -> tuple[Variant, ...]:
    """The variants that a verifier runs, in order."""
    variants = TRAINING_VARIANTS if spec.multi_input else BASELINE_VARIANTS
    return variants + HIDDEN_VARIANTS if spec.hidden else variants


def describe(variant: Variant, dtypes: Sequence[str], profile: Profile = Profile.SMALL) -> VariantInputs:
    """A variant's inputs for a task with these dtypes; `profile` is the sizes for those that have none of their own."""
    dtype = dtypes[0]
    match variant:
        case Variant.ORIGINAL | Variant.REVERSED | Variant.AGAIN:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype)
        case Variant.SCALED:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, scale=2.0)
        case Variant.RESEEDED:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, stream="reseeded")
        case Variant.LARGER:
            return VariantInputs(variant=variant, profile=Profile.LARGER, dtype=dtype, stream="larger")
        case Variant.PRECISION:
            if len(dtypes) > 1:
                return VariantInputs(variant=variant, profile=profile, dtype=dtypes[1])
            narrower = "float8" if dtype == "bfloat16" else "bfloat16"
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, rounded_through=narrower)
        case Variant.NEGATED:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, scale=-1.0)
        case Variant.FAINT:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, scale=0.01)
        case Variant.MASSIVE:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, scale=1e5)
        case Variant.TRIPLED:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, scale=3.0)
        case Variant.FLIPPED:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, chosen_scale=-1.0, chosen_share=0.5)
        case Variant.SHIFTED:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, shift=2.0)
        case Variant.OUTLIERS:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, chosen_scale=8.0, chosen_share=1 / 16)
        case Variant.ABOVE:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, side=1)
        case Variant.BELOW:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, side=-1)
        case Variant.DEEP:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, shift=-200.0)
        case Variant.SPREAD:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, scale=30.0, shift=100.0)
        case Variant.TIES:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, step=0.5)
        case Variant.OFFSET:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, scale=0.01, shift=1000.0)
        case Variant.MINUTE:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, scale=1e-8)
        case Variant.SLIGHT:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, scale=1e-4)
        case Variant.SATURATED:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, scale=100.0)
        case Variant.HEAVY:
            return VariantInputs(variant=variant, profile=profile, dtype=dtypes[:2][-1], scale=300.0)
        case Variant.REMAINDER:
            return VariantInputs(variant=variant, profile=Profile.REMAINDER, dtype=dtype, stream="remainder")
        case Variant.DECLARED:
            return VariantInputs(variant=variant, profile=Profile.DECLARED, dtype=dtype, stream="declared")
        case Variant.DECLARED_PRECISION:
            return VariantInputs(variant=variant, profile=Profile.DECLARED, dtype=dtypes[:2][-1], stream=variant.value)
        case Variant.BETWEEN:
            return VariantInputs(variant=variant, profile=Profile.BETWEEN, dtype=dtype, stream="between")
        case Variant.BEYOND:
            return VariantInputs(variant=variant, profile=Profile.BEYOND, dtype=dtype, stream="beyond")
        case Variant.TIMED:
            return VariantInputs(variant=variant, profile=profile, dtype=dtype, stream="timed")


def _spread_rows(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positive values with each row's largest at its start and its smallest at its end, in odd rows the other way."""
    if not values.size or not values.ndim:
        return values
    rows = values.reshape(-1, values.shape[-1]).copy()
    smallest, largest = 0.1 * rows.min(axis=1), 2.0 * rows.max() - rows[:, 0] / 4
    is_odd = np.arange(len(rows)) % 2 == 1
    rows[:, -1] = np.where(is_odd, largest, smallest)
    rows[:, 0] = np.where(is_odd, smallest, largest) if rows.shape[1] > 1 else largest
    return rows.reshape(values.shape)


def _tie(values: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Values on a few levels, the first slice of the first dimension and the last of the second all zeros."""
    tied = np.rint(values / step) * step + 0.0  # no negative zeros
    if tied.ndim > 1:
        if tied.shape[0] > 1:
            tied[0] = 0.0
        if tied.shape[1] > 1:
            tied[:, -1] = 0.0
    return tied


def round_values(values: NDArray[np.float64], dtype: str) -> NDArray[np.float64]:
    """Values rounded to as many significant bits as `dtype` has, to nearest even; the exponent's range is kept."""
    mantissa, exponent = np.frexp(values)
    steps = 2.0 ** (_MANTISSA_BITS[dtype] + 1)
    return np.ldexp(np.rint(mantissa * steps) / steps, exponent)
