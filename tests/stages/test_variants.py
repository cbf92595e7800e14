"""Input variants: each differs from the original in one thing, and values stay in the contract."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.candidate import Variant
from tritonrl.core.extensions import AUDIT, VerifierSpec
from tritonrl.core.task import Profile
from tritonrl.stages.variants import TRAINING_VARIANTS, describe, round_values, variants_of

VALUES = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=30).map(lambda v: np.array(v, dtype=np.float64))


def test_each_specification_has_its_variants() -> None:
    """One input without extension M, five with it, and the audit alone has the hidden ones."""
    assert variants_of(VerifierSpec()) == (Variant.ORIGINAL,)
    assert variants_of(VerifierSpec(multi_input=True)) == TRAINING_VARIANTS
    assert set(variants_of(AUDIT)) == set(Variant)


@pytest.mark.parametrize("dtypes", [("float32",), ("float32", "float16"), ("bfloat16",)])
def test_every_variant_differs_from_the_original(dtypes: tuple[str, ...]) -> None:
    """No two variants give a candidate the same inputs."""
    values = np.random.default_rng(0).standard_normal(8)
    seen = set()
    for variant in Variant:
        inputs = describe(variant, dtypes)
        seen.add((inputs.profile, inputs.dtype, inputs.stream, inputs.transform(values).tobytes()))
        assert inputs.dtype in dtypes
    assert len(seen) == len(Variant)


def test_only_the_larger_variant_changes_sizes() -> None:
    """Larger dimensions are the larger variant's alone; the others use the sizes that they are given."""
    for variant in Variant:
        profile = describe(variant, ("float32",), Profile.DECLARED).profile
        assert profile is (Profile.LARGER if variant is Variant.LARGER else Profile.DECLARED)


def test_precision_takes_another_dtype_where_the_contract_has_one() -> None:
    """With one dtype the values are rounded instead, and the dtype stays."""
    assert describe(Variant.PRECISION, ("float32", "float16")).dtype == "float16"
    single = describe(Variant.PRECISION, ("float32",))
    assert (single.dtype, single.rounded_through) == ("float32", "bfloat16")


@given(VALUES, st.sampled_from(["float32", "float16", "bfloat16", "float8"]))
@settings(max_examples=100, deadline=None)
def test_rounding_is_idempotent_and_close(values: np.ndarray, dtype: str) -> None:
    """Rounding twice is rounding once, and moves no value by more than half a unit in the last place."""
    rounded = round_values(values, dtype)
    assert np.array_equal(round_values(rounded, dtype), rounded)
    assert np.all(np.abs(rounded - values) <= np.abs(values) * 2.0**-4)


@given(VALUES)
@settings(max_examples=50, deadline=None)
def test_rounding_to_half_is_numpys(values: np.ndarray) -> None:
    """Within the range of normal halves, rounding through float16 is numpy's own conversion."""
    kept = values[(np.abs(values) < 6e4) & (np.abs(values) > 1e-4)]
    assert np.array_equal(round_values(kept, "float16"), kept.astype(np.float16).astype(np.float64))
