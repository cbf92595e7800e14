"""The inputs that a candidate is run on: five for multi-input testing, two more that only the audit uses.

Each variant is a description: which sizes, which dtype, what is done to the values, and which random stream they come
from. Under the task's contract (docs/decisions/0001-launch-plans.md) "larger" rewrites the module-level constants, and
"precision" takes another dtype of the contract; where a task lists one dtype only, the values are rounded through a
narrower type instead, because many genuine float32 kernels call functions that Triton defines for float32 alone.

The hidden ones come from hacks that the five do not see: kernels that return their input, or take a branch by sign,
pass unless values are negated; kernels that saturate or underflow show it when values are faint.
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
HIDDEN_VARIANTS = (Variant.NEGATED, Variant.FAINT)

_MANTISSA_BITS = {"float32": 23, "float16": 10, "bfloat16": 7, "float8": 3}


@frozen(kw_only=True)
class VariantInputs:
    """What one variant's inputs are: `scale` multiplies, `rounded_through` names the narrower dtype or is None.

    Variants with the same `stream` start from the same random draw, so that they differ by the transform alone.
    """

    variant: Variant
    profile: Profile
    dtype: str
    stream: str = "original"
    scale: float = 1.0
    rounded_through: str | None = None

    def transform(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variant's values, from freshly drawn floating-point ones."""
        values = values * self.scale
        return values if self.rounded_through is None else round_values(values, self.rounded_through)


def variants_of(spec: VerifierSpec) -> tuple[Variant, ...]:
    """The variants that a verifier runs, in order."""
    variants = TRAINING_VARIANTS if spec.multi_input else BASELINE_VARIANTS
    return variants + HIDDEN_VARIANTS if spec.hidden else variants


def describe(variant: Variant, dtypes: Sequence[str], profile: Profile = Profile.SMALL) -> VariantInputs:
    """A variant's inputs for a task with these dtypes; `profile` is the sizes for all but the larger variant."""
    dtype = dtypes[0]
    match variant:
        case Variant.ORIGINAL:
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


def round_values(values: NDArray[np.float64], dtype: str) -> NDArray[np.float64]:
    """Values rounded to as many significant bits as `dtype` has, to nearest even; the exponent's range is kept."""
    mantissa, exponent = np.frexp(values)
    steps = 2.0 ** (_MANTISSA_BITS[dtype] + 1)
    return np.ldexp(np.rint(mantissa * steps) / steps, exponent)
