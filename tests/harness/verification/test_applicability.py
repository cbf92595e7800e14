"""Products at declared sizes leave float32's range, by their variants' making: a right kernel is right all the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from tritonrl.core.candidate import Candidate, Variant
from tritonrl.core.task import Profile
from tritonrl.harness.tasks.suites import find_example
from tritonrl.harness.verification.checks.applicability import find_inapplicable
from tritonrl.harness.verification.context import VerifierContext
from tritonrl.stages.tolerance import accepts, compare
from tritonrl.stages.variants import HIDDEN_VARIANTS, SAMPLED_VARIANTS, TRAINING_VARIANTS

from ..kernels import POINTWISE
from .test_further_runs import with_gpu

PRODUCT = find_example("l1-cumulative_product-408c7f2ab4cb266c").task
"""256 rows of 512 values about one, from the last to the first."""
RUN_WHOLE = tuple(variant for variant in (*TRAINING_VARIANTS, *HIDDEN_VARIANTS) if variant not in SAMPLED_VARIANTS)
LARGE = {Variant.SCALED, Variant.SCALE_3, Variant.SHIFT_2, Variant.OUTLIERS}


def multiply(values: NDArray[np.float32], num_parts: int) -> NDArray[np.float32]:
    """Cumulative products along rows, each part's first and then those of the parts before it, all in float32."""
    parts = np.cumprod(values.reshape(len(values), num_parts, -1), axis=2, dtype=np.float32)
    before = np.cumprod(parts[:, :-1, -1], axis=1, dtype=np.float32)
    parts[:, 1:] *= before[:, :, None]
    return parts.reshape(values.shape)


@pytest.mark.parametrize("num_parts", [1, 128])
def test_a_product_is_right_in_any_order(context: VerifierContext, num_parts: int) -> None:
    """A formula leaves float32's range in one order and not in another; one that is cut off there is wrong."""
    gpu = with_gpu(context)
    wanted = set(RUN_WHOLE) - find_inapplicable(Candidate(task_id="", source=""), PRODUCT, gpu, RUN_WHOLE)
    assert wanted >= LARGE
    safe, unequal = gpu.oracle.traits(PRODUCT).largest_safe, set()
    for inputs in (gpu.describe(variant, PRODUCT) for variant in wanted):
        if inputs.profile is not Profile.DECLARED:
            continue
        run = gpu.oracle.expected(PRODUCT, inputs)
        (values,), (expected,) = run.inputs, run.expected
        assert values is not None
        with np.errstate(all="ignore"):
            found = multiply(values.numpy()[:, ::-1], num_parts)[:, ::-1]
        assert accepts(compare(found, expected, "float32", largest_safe=safe), 0.1), inputs.variant
        if not accepts(compare(found, expected, "float32"), 0.1):
            unequal.add(inputs.variant)
        if inputs.variant in LARGE:
            for ceiling in (1e4, 1e30):
                cut = np.minimum(found, np.float32(ceiling))
                assert not accepts(compare(cut, expected, "float32", largest_safe=safe), 0.1)
    assert unequal == {Variant.OUTLIERS}


@pytest.mark.parametrize(
    ("task_id", "is_fair"),
    [
        ("l2-norm_chain-6af01db17797ff71", False),
        ("l2-norm_chain-cd74bc4b942fd8a9", False),
        ("l1-matmul-b138261a0ee1768d", True),
    ],
)
def test_faint_values_are_fair_where_the_result_is_still_that_multiple(
    context: VerifierContext, task_id: str, is_fair: bool
) -> None:
    """A norm times another input is proportional to its inputs until the norm's epsilon counts."""
    unfair = find_inapplicable(
        Candidate(task_id="", source=""), find_example(task_id).task, context, [Variant.SCALE_1E_8]
    )
    assert unfair == (set() if is_fair else {Variant.SCALE_1E_8})


def test_other_formulas_have_no_such_range(context: VerifierContext) -> None:
    """What multiplies few values has no result that may be infinite."""
    assert context.oracle.traits(POINTWISE).largest_safe == math.inf
