"""The simulated timing: ordered as hardware is, and as noisy as asked."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.plan import Copy
from tritonrl.stages.roofline import GPUS, EagerOperator, add_noise, estimate_plan_us, estimate_reference_us

from .evidence import KERNEL, launch, plan, view

H200 = GPUS["h200"]


def big(size: int, programs: int, **kernel: object) -> float:
    """Runtime of one launch over vectors of `size` elements."""
    made = plan(launch(0, 1, grid=programs))
    step = made.steps[0]
    arguments = tuple(evolve(a, view=evolve(a.view, shape=(size,))) for a in step.arguments)  # type: ignore[union-attr]
    made = evolve(made, steps=(evolve(step, arguments=arguments),), kernels=(evolve(KERNEL, **kernel),))
    return estimate_plan_us(made, int(kernel.get("has_dot", False)) * 10**12, H200)


@given(st.integers(1, 10**8), st.integers(1, 10**6))
@settings(max_examples=100)
def test_more_bytes_never_take_less_time(size: int, programs: int) -> None:
    """Runtime is positive and monotone in the bytes moved."""
    assert 0 < big(size, programs) <= big(2 * size, programs)


def test_one_program_is_slower_than_many_and_a_million_tiny_ones_too() -> None:
    """A grid that leaves multiprocessors idle, or starts a program for each few elements, costs time."""
    balanced = big(10**8, 10**4)
    assert big(10**8, 1) > 10 * balanced
    assert big(10**8, 10**7) > 2 * balanced


def test_views_of_one_element_save_no_time() -> None:
    """A launch that is given the first element of each tensor is not faster than one that is given the tensors."""
    honest = plan(launch(0, 1))
    buffers = tuple(evolve(buffer, num_elements=10**8) for buffer in honest.buffers)
    honest = evolve(honest, buffers=buffers, outputs=tuple(evolve(v, shape=(10**8,)) for v in honest.outputs))
    (step,) = honest.steps
    for size in (1, 10**8):
        arguments = tuple(evolve(a, view=evolve(a.view, shape=(size,))) for a in step.arguments)  # type: ignore[union-attr]
        made = evolve(honest, steps=(evolve(step, arguments=arguments),))
        assert estimate_plan_us(made, 0, H200) >= 2 * 4 * 10**8 / (H200.bandwidth_tb_s * 1e6)


def test_fewer_launches_are_faster() -> None:
    """A fused plan beats one with an intermediate buffer, and a copy costs time as well."""
    fused = estimate_plan_us(plan(launch(0, 1)), 0, H200)
    assert fused < estimate_plan_us(plan(launch(0, 2), launch(2, 1)), 0, H200)
    assert fused < estimate_plan_us(plan(launch(0, 2), Copy(source=view(2), target=view(1))), 0, H200)


def test_matrix_units_are_faster_than_vector_units() -> None:
    """TF32 beats full precision on the same operations."""
    fast = big(1000, 10**4, has_dot=True, dot_precision="tf32")
    assert fast < big(1000, 10**4, has_dot=True, dot_precision="tf32x3")
    assert fast < big(1000, 10**4, has_dot=True, dot_precision="ieee")


def test_the_reference_pays_for_every_operator() -> None:
    """Two operators cost more than one, and a faster GPU never more."""
    operator = EagerOperator(name="aten.add", num_bytes=10**9, matmul_flops=10**12)
    times = [estimate_reference_us([operator], GPUS[name]) for name in ("h200", "h100", "a100")]
    assert times == sorted(times)
    assert estimate_reference_us([operator] * 2, H200) == pytest.approx(2 * times[0])


def test_noise_has_the_coefficient_of_variation_that_was_asked_for() -> None:
    """Over seeds, single measurements vary by 15% and means of calibrated ones by 1%."""
    single = np.array([add_noise(10.0, 0.15, 1, seed)[0] for seed in range(2000)])
    assert single.std() / single.mean() == pytest.approx(0.15, rel=0.1)
    calibrated = np.array([np.mean(add_noise(10.0, 0.01, 50, seed)) for seed in range(2000)])
    assert calibrated.std() / calibrated.mean() == pytest.approx(0.01, rel=0.1)


def test_noise_is_a_function_of_its_seed() -> None:
    """The same seed gives the same trials, another seed others, and no noise none."""
    assert add_noise(10.0, 0.15, 5, 1) == add_noise(10.0, 0.15, 5, 1)
    assert add_noise(10.0, 0.15, 5, 1) != add_noise(10.0, 0.15, 5, 2)
    assert add_noise(10.0, 0.0, 3, 1) == (10.0, 10.0, 10.0)
