"""Fair values: a task gets those arrangements alone on which its reference is right."""

from __future__ import annotations

import pytest
from tritonrl.core.candidate import Variant
from tritonrl.core.task import Profile, Task
from tritonrl.harness.reference.oracle import Oracle
from tritonrl.stages.arrangements import ARRANGEMENTS
from tritonrl.stages.variant_inputs import VariantInputs
from tritonrl.stages.variants import describe

SOURCE = """
import torch

ROWS, COLUMNS = 32, 3000

class Model(torch.nn.Module):
    def forward(self, x{further}):
        return {result}

def get_inputs():
    return [torch.randn(ROWS, COLUMNS){drawn}]
"""


def choose(result: str, drawn: str = "") -> tuple[VariantInputs, bool]:
    """What is fair to a task with this result, and whether it is run."""
    source = SOURCE.format(result=result, further=", other" if drawn else "", drawn=f", {drawn}" if drawn else "")
    sizes = {"tiny": (("ROWS", 2), ("COLUMNS", 7)), "small": (("ROWS", 8), ("COLUMNS", 50))}
    task = Task(task_id="one", level=1, family="", description="", source=source, dtypes=("float32",), **sizes)
    oracle, inputs = Oracle(1), describe(Variant.ARRANGED, task.dtypes)
    assert inputs.profile is Profile.DECLARED
    return oracle.choose_fair(task, inputs), oracle.are_arranged(task, inputs)


@pytest.mark.parametrize("result", ["x.argmax(1)", "x.amax(1)", "torch.softmax(x, 1)", "x.cummax(1).values"])
def test_what_is_carried_along_rows_is_tried_on_all(result: str) -> None:
    """Extremes and sums of exponentials are right whatever lies where."""
    fair, is_run = choose(result)
    assert {*fair.arrangements} == {*ARRANGEMENTS}
    assert fair.has_tied_arrangements
    assert is_run


def test_positions_that_pytorch_leaves_open_have_no_ties() -> None:
    """A sort may put either of two equal values first."""
    fair, is_run = choose("x.argsort(1)")
    assert not fair.has_tied_arrangements
    assert is_run


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("x @ x.T", set()),  # rounding of large values
        ("torch.log(x)", {"positive"}),  # NaN
        ("torch.exp(x * 3.0).cumsum(1)", {"negative", "positive"}),  # beyond float32 otherwise
    ],
)
def test_what_the_reference_itself_loses_is_not_asked_for(result: str, expected: set[str]) -> None:
    """Small sizes show it."""
    fair, is_run = choose(result)
    assert {*fair.arrangements} == expected
    assert is_run is bool(expected)


def test_masks_are_mixed_where_the_reference_has_numbers_then() -> None:
    """Whole blocks of a row are off."""
    masked, is_run = choose("torch.where(other, x, 0.0).sum(1)", "torch.rand(ROWS, COLUMNS) < 0.9")
    assert masked.integers == "mixed"
    assert is_run
