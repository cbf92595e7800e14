"""Which variants say something about a right kernel: products at declared sizes leave float32's range."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from numpy.typing import NDArray
from tritonrl.core.candidate import Candidate, Variant
from tritonrl.core.task import Profile, Task
from tritonrl.harness.tasks.suites import find_example
from tritonrl.harness.verification.applicability import find_inapplicable
from tritonrl.harness.verification.workbench import Workbench
from tritonrl.stages.tolerance import accepts, compare
from tritonrl.stages.variants import HIDDEN_VARIANTS, SAMPLED_VARIANTS, TRAINING_VARIANTS

from ..kernels import POINTWISE
from .test_further_runs import with_gpu

PRODUCT = find_example("l1-cumulative_product-408c7f2ab4cb266c").task
"""256 rows of 512 values about one, from the last to the first."""
RUN_WHOLE = tuple(variant for variant in (*TRAINING_VARIANTS, *HIDDEN_VARIANTS) if variant not in SAMPLED_VARIANTS)


def applicable(bench: Workbench, task: Task) -> set[Variant]:
    """What is run of variants that need no sizes of their own."""
    candidate = Candidate(task_id=task.task_id, source="")
    return set(RUN_WHOLE) - find_inapplicable(candidate, task, bench, RUN_WHOLE)


def multiply(values: NDArray[np.float32], num_parts: int) -> NDArray[np.float32]:
    """Cumulative products along rows, each part's first and then those of the parts before it, all in float32."""
    parts = np.cumprod(values.reshape(len(values), num_parts, -1), axis=2, dtype=np.float32)
    before = np.cumprod(parts[:, :-1, -1], axis=1, dtype=np.float32)
    parts[:, 1:] *= before[:, :, None]
    return parts.reshape(values.shape)


@pytest.mark.parametrize("num_parts", [1, 32, 128, 256])
def test_a_product_is_right_in_any_order_on_what_it_is_run_on(bench: Workbench, num_parts: int) -> None:
    """Where a formula leaves float32's range in one order and not in another, a right kernel is not run."""
    gpu = with_gpu(bench)
    wanted = applicable(gpu, PRODUCT)
    assert {Variant.ORIGINAL, Variant.NEGATED, Variant.FLIPPED, Variant.FAINT, Variant.ABOVE, Variant.TIES} <= wanted
    assert not {Variant.SCALED, Variant.TRIPLED, Variant.SHIFTED, Variant.OUTLIERS} & wanted
    for inputs in (gpu.describe(variant, PRODUCT) for variant in wanted):
        if inputs.profile is not Profile.DECLARED:
            continue
        run = gpu.oracle.expected(PRODUCT, inputs)
        (values,) = run.inputs
        assert values is not None
        with np.errstate(all="ignore"):
            found = multiply(values.numpy()[:, ::-1], num_parts)[:, ::-1]
        assert accepts(compare(found, run.expected[0], "float32"), 0.1), inputs.variant


def test_values_that_stay_within_range_are_run(bench: Workbench) -> None:
    """Few factors, and formulas that do not grow, have all the variants."""
    short = evolve(PRODUCT, small=(("ROWS", 9), ("COLS", 20)))
    large = {Variant.SCALED, Variant.TRIPLED, Variant.SHIFTED, Variant.OUTLIERS, Variant.ABOVE, Variant.BELOW}
    assert large <= applicable(bench, short)
    assert large <= applicable(bench, POINTWISE)
