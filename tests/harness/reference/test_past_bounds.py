"""Sizes past integers of a candidate's text."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.task import Task
from tritonrl.harness.reference.sizes.past_bounds import find_past_bounds
from tritonrl.harness.reference.sizes.quick_sizes import with_quick_sizes

SOURCE = """
import torch
import torch.nn as nn

BATCH = 4
CHANNELS = 64
LENGTH = 300
GROUPS = 8


class Model(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [GROUPS, CHANNELS]
"""
DECLARED = {"BATCH": 4, "CHANNELS": 64, "LENGTH": 300, "GROUPS": 8}
TASK = with_quick_sizes(Task(task_id="norm", level=1, family="norm", description="", source=SOURCE), DECLARED)


@settings(max_examples=10)
@given(st.lists(st.integers(4, 2000), max_size=6), st.integers(0, 3))
def test_one_dimension_moves_at_a_time(bounds: list[int], seed: int) -> None:
    """It comes first, goes little beyond twice its declared size, and others are tiny or small, or two are moved."""
    found = find_past_bounds(TASK, sorted(set(bounds)), seed)
    assert len(set(found)) == len(found) <= 6 + 2
    for (name, size), *others in found:
        moved = {(name, size), *others} - {*TASK.tiny, *TASK.small}
        assert 1 <= len(moved) <= 2
        assert all(dict(TASK.tiny)[each] < size <= 2.2 * DECLARED[each] for each, size in moved)


def test_products_of_dimensions_pass_a_bound() -> None:
    """Both grow as far beside each other as that takes, and no further where their product is larger already."""
    for bound in (8000, 30_000):
        products = [
            sizes for sizes in find_past_bounds(TASK, (bound,), 0) if not {*sizes[1:]} <= {*TASK.tiny, *TASK.small}
        ]
        assert products
        for sizes in products:
            channels, length = (dict(sizes)[name] for name in ("CHANNELS", "LENGTH"))
            assert bound < channels * length <= 1.5 * bound
    assert all({*sizes[1:]} <= {*TASK.tiny, *TASK.small} for sizes in find_past_bounds(TASK, (64, 1 << 20), 0))


def test_both_dimensions_pass_their_bounds() -> None:
    """By one where the reference accepts that, and else by whole parts: nine channels in each of some groups."""
    groups = dict(TASK.tiny)["GROUPS"]
    moved = {sizes[0] for seed in range(3) for sizes in find_past_bounds(TASK, (8, 256), seed)}
    assert {("LENGTH", 257), ("CHANNELS", 9 * groups)} <= moved
    assert any(name == "CHANNELS" and size > 128 for name, size in moved)
    assert any(name == "LENGTH" and size > 600 for name, size in moved)


def test_small_dimensions_stay() -> None:
    """Constants that count heads, taps and groups are no sizes that a block could hold; a batch of eight is one."""
    names = {sizes[0][0] for sizes in find_past_bounds(TASK, (4, 5, 6), 0)}
    assert names <= {"CHANNELS", "LENGTH"}
    few = with_quick_sizes(evolve(TASK, source=SOURCE.replace("BATCH = 4", "BATCH = 8")), {**DECLARED, "BATCH": 8})
    assert "BATCH" in {sizes[0][0] for sizes in find_past_bounds(few, (4, 5, 6), 0)}
    assert not find_past_bounds(evolve(TASK, tiny=()), (64,), 0)
