"""Each element's own scale: its value and its answer to noise, where the reference itself is exact."""

from __future__ import annotations

import numpy as np
import pytest
from tritonrl.core.candidate import Variant
from tritonrl.core.task import Task
from tritonrl.harness.reference.conditioning import find_element_scales, find_range
from tritonrl.harness.reference.oracle import Oracle
from tritonrl.stages.tolerance import SHARE_WITHOUT_PRODUCTS, compare
from tritonrl.stages.variants import describe

PROGRAM = """
import torch
import torch.nn as nn
import torch.nn.functional as F

N = 512


class Model(nn.Module):
    def forward(self, {arguments}):
        return {result}


def get_inputs():
    return [{inputs}]
"""


def task(arguments: str, result: str, inputs: str) -> Task:
    """A task of one expression."""
    source = PROGRAM.format(arguments=arguments, result=result, inputs=inputs)
    return Task(task_id="one", level=1, family="one", description="One expression.", source=source)


def test_a_small_element_beside_large_ones_has_a_scale_of_its_own() -> None:
    """Columns of zeros are seen whatever the other columns are, and ordinary rounding is not."""
    scaled = task("x, s", "x * s", "torch.randn(N), torch.logspace(-6, 6, N)")
    oracle, inputs = Oracle(0), describe(Variant.ORIGINAL, ("float32",))
    found, wanted = oracle.conditioning(scaled, inputs, frozenset()), oracle.expected(scaled, inputs).expected[0]
    assert found is not None
    rounded = wanted.astype(np.float32)
    assert compare(rounded, wanted, "float32", element_scales=found.element_scales[0]).worst_element < 1e-6
    rounded[:10] = 0.0
    lacking = compare(rounded, wanted, "float32", element_scales=found.element_scales[0])
    assert lacking.worst_excess < 1e-4 < 0.1 < lacking.worst_element


def test_what_cancels_is_measured_by_what_it_cancels_from() -> None:
    """A difference of nearly equal numbers need not be exact, where the inputs' last digits decide it."""
    difference = task("x, y", "x - y", "torch.randn(N), torch.randn(N)")
    oracle, inputs = Oracle(0), describe(Variant.ORIGINAL, ("float32",))
    found, run = oracle.conditioning(difference, inputs, frozenset()), oracle.expected(difference, inputs)
    assert found is not None
    assert found.element_scales[0] is not None
    assert run.inputs[0] is not None
    assert (found.element_scales[0] > 0.2 * np.abs(run.inputs[0].double().numpy())).all()


def test_what_cancels_behind_a_function_without_slope_is_measured_by_what_it_cancels_from() -> None:
    """No last digit of an input moves an error function of 100, and less 1 it has lost all below a ten-millionth."""
    total = task("x", "torch.erf(x + 100.0) - 1.0 + 1e-9 * x", "torch.randn(N)")
    found = Oracle(0).conditioning(total, describe(Variant.ORIGINAL, ("float64",)), frozenset())
    assert found is not None
    assert found.element_scales[0] is not None
    assert (found.element_scales[0] > 0.1).all()


@pytest.mark.parametrize(
    ("result", "is_sound"),
    [
        ("torch.tanh(x)", True),
        ("torch.tanh(x / 100)", False),
        ("F.celu(x / 100)", False),
        ("torch.expm1(x / 100)", True),
    ],
)
def test_what_subtracts_from_one_has_no_digits_near_zero(result: str, is_sound: bool) -> None:
    """A right kernel's tanh of 1e-4 is off by a thousandth, of 0.01 it is not; who asks for expm1 wants digits."""
    inputs = describe(Variant.SCALE_1E_2, ("float32",))
    assert Oracle(0).is_sound(task("x", result, "torch.randn(N)"), inputs, SHARE_WITHOUT_PRODUCTS) is is_sound


def test_positions_that_are_computed_as_floats_stay_whole() -> None:
    """No element is another one's for the noise: what is read there keeps its own scale."""
    gathered = task("x", "x[torch.round((x * 0.0 + torch.arange(N, dtype=x.dtype)).clone()).long()]", "torch.randn(N)")
    oracle, inputs = Oracle(0), describe(Variant.ORIGINAL, ("float32",))
    found, wanted = oracle.conditioning(gathered, inputs, frozenset()), oracle.expected(gathered, inputs).expected[0]
    assert found is not None
    assert found.element_scales[0] is not None
    assert (found.element_scales[0] < 4.0 * np.abs(wanted)).all()


def test_what_the_reference_misses_by_the_scale_of_all_is_not_judged() -> None:
    """The cosine of 1e12 is another one for each rounding of that, and its own scale is huge."""
    for factor, is_judged in (("3.1e12", False), ("1.0", True)):
        cosine = task("x", f"torch.cos(x * {factor})", "torch.randn(N)")
        found = Oracle(0).conditioning(cosine, describe(Variant.ORIGINAL, ("float32",)), frozenset())
        assert found is not None
        assert found.element_scales[0] is not None
        assert (np.isfinite(found.element_scales[0]) == is_judged).all()


def test_a_zero_that_stays_zero_has_the_scale_of_all() -> None:
    """It has no value that could be lost: an error there is measured as anywhere else."""
    expected = np.array([0.0, 3.0, 4.0])
    scales = find_element_scales(expected, [expected * (1.0 + 2.0**-20)], expected)
    assert scales is not None
    assert scales[0] == np.sqrt(25.0 / 3.0)


def test_an_integer_at_a_tie_may_be_either() -> None:
    """What moved inputs make of it is right, and nothing beyond."""
    wanted = np.array([2, 7])
    within = find_range(wanted, [np.array([3, 7]), np.array([2, 7])], wanted)
    assert compare(np.array([3, 7]), wanted, "int32", integer_range=within).num_different == 0
    assert compare(np.array([4, 8]), wanted, "int32", integer_range=within).num_different == 2


def test_integers_keep_what_the_task_says_of_them() -> None:
    """Numbers get either sign, divisors keep theirs, and neither indices nor ignored ids change at all."""
    ints = "torch.randint(0, 9, (N,)), torch.randint(1, 9, (N,))"
    oracle = Oracle(0)
    quotient = task("x, y", "torch.div(x, y, rounding_mode='floor')", ints)
    assert oracle.changeable_integers(quotient, "negated") == (0,)
    assert oracle.changeable_integers(quotient, "large") == (0, 1)
    gather = task("x, y", "x[y]", ints)
    assert oracle.changeable_integers(gather, "negated") == ()
    counts = task("x", "(x[:, None] == torch.arange(9)).sum(0)", "torch.randint(0, 9, (N,))")
    assert oracle.changeable_integers(counts, "negated") == oracle.changeable_integers(counts, "large") == ()


def test_masks_and_full_lengths_may_be_others() -> None:
    """Flags, and one number again and again, say nothing of others; drawn numbers and single-valued indices do."""
    oracle = Oracle(0)
    mask = task("x, m", "x * m", "torch.randn(N), torch.ones(N, dtype=torch.bool)")
    assert oracle.changeable_integers(mask, "mixed") == oracle.changeable_integers(mask, "emptied") == (1,)
    lengths = task("x, n", "x * (torch.arange(N) < n)", "torch.randn(4, N), torch.full((4, 1), N)")
    assert oracle.changeable_integers(lengths, "emptied") == (1,)
    drawn = task("x, n", "x * n", "torch.randn(N), torch.randint(0, 9, (N,))")
    assert oracle.changeable_integers(drawn, "mixed") == ()


def test_inputs_that_a_reference_refuses_judge_nobody() -> None:
    """A loss of probabilities takes none above one, and has no degree."""
    loss = task("p", "nn.functional.binary_cross_entropy(p, p.round())", "torch.rand(N) * 0.5 + 0.5")
    oracle = Oracle(0)
    assert oracle.is_accepted(loss, describe(Variant.ORIGINAL, ("float32",)))
    assert not oracle.is_accepted(loss, describe(Variant.SCALED, ("float32",)))
    assert oracle.degree(loss, describe(Variant.ORIGINAL, ("float32",))) is None
