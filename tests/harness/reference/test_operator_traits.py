"""Traits of references by their operators' names."""

from __future__ import annotations

import pytest
from tritonrl.harness.reference.operator_traits import OperatorTraits
from tritonrl.stages.roofline import EagerOperator


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["aten.abs.default"], 1),
        (["aten.mul.Tensor", "aten.amax.default"], 2),
        (["aten.cumprod.default"], 0),
        (["aten.abs.default", "aten.prod.dim_int"], 0),
        (["aten.mm.default", "aten.abs.default"], 0),
        (["aten.tanh.default"], 0),
    ],
)
def test_magnitudes_may_differ_where_no_operator_multiplies_many(names: list[str], expected: int) -> None:
    """The order of a product of many decides what overflows; single elements, sums and extremes have no such order."""
    assert OperatorTraits(tuple(EagerOperator(name=name, num_bytes=0) for name in names)).num_operators == expected
