"""Traits of references by their operators' names."""

from __future__ import annotations

import pytest
from torch.utils.flop_counter import flop_registry
from tritonrl.core.task import Task
from tritonrl.harness.reference.operators import trace_operators
from tritonrl.stages.operator_traits import PRODUCT_WORDS, OperatorTraits
from tritonrl.stages.roofline import EagerOperator

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return {result}

def get_inputs():
    return [torch.rand(4, 8)]
"""


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


@pytest.mark.parametrize(("result", "expected"), [("x.abs()", True), ("x.std(dim=1)", False)])
def test_operators_on_single_elements_are_known_by_their_tags(result: str, expected: bool) -> None:
    """A deviation squares on the way what it gives the root of, so that it may not be asked for what an element is."""
    task = Task(task_id="one", level=1, family="", description="", source=SOURCE.format(result=result))
    assert OperatorTraits(trace_operators(task)).is_pointwise is expected


def test_torch_counts_operations_of_products_alone() -> None:
    """Whatever torch has a formula for is among the operators that it is asked about."""
    assert flop_registry
    assert all(any(word in str(operator) for word in PRODUCT_WORDS) for operator in flop_registry)


@pytest.mark.parametrize(("name", "expected"), [("aten.cumprod.default", True), ("aten.cumsum.default", False)])
def test_products_of_many_are_told(name: str, expected: bool) -> None:
    """Larger values would take them out of range on the way, in an order that is nobody's."""
    assert OperatorTraits((EagerOperator(name=name, num_bytes=0),)).multiplies_many is expected


@pytest.mark.parametrize(("name", "expected"), [("aten.mm.default", 1), ("aten.cummax.default", 0)])
def test_a_running_maximum_is_no_product(name: str, expected: int) -> None:
    """Its name has a product's in it."""
    assert OperatorTraits((EagerOperator(name=name, num_bytes=0),)).num_products == expected
