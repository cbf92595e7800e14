"""Shrinking: small sizes for a task that states none, kept only where its reference runs."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.task import Constants, Task
from tritonrl.core.text.named_sizes import name_sizes, read_constants
from tritonrl.harness.reference.sizes.quick_sizes import LARGER, SMALL, TINY, runs_with, shrink, with_small_sizes

from ..datasets.made_up import PROBLEMS, SMALL_PROBLEM

TASK = Task(task_id="made-up", level=1, family="made-up", description="made up", source=SMALL_PROBLEM)


def made_up(name: str) -> Task:
    """A made-up problem as a task whose sizes have names."""
    return Task(task_id=name, level=2, family="made-up", description=name, source=name_sizes(PROBLEMS[name]))


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 1 << 17), min_size=1),
    st.sampled_from([TINY, SMALL, LARGER]),
    st.integers(1, 16),
)
def test_what_is_kept_runs(constants: dict[str, int], ceiling: int, step: int) -> None:
    """Any sizes that come back are ones at which the reference was seen to run, small ones, and none that was small."""

    def runs(_: Task, sizes: Constants) -> bool:
        merged = {**constants, **dict(sizes)}
        return merged.get("a", 0) % step == 0 and prod(merged.values()) % 2 == prod(constants.values()) % 2

    found = dict(shrink(TASK, constants, ceiling, runs))
    if found:
        assert runs(TASK, tuple(found.items()))
    assert all(1 <= value <= ceiling < constants[name] for name, value in found.items())


def test_nothing_is_kept_where_nothing_runs() -> None:
    """A reference that runs at no other size keeps its own."""
    assert shrink(TASK, {"batch_size": 4096, "dim": 512}, SMALL, lambda *_: False) == ()


def test_one_size_at_a_time_is_tried_at_last() -> None:
    """Where nearly all sizes are fixed, those that are not shrink nevertheless."""
    fixed = {"b": 1000, "c": 1001, "d": 1002, "e": 1003}

    def runs(_: Task, sizes: Constants) -> bool:
        return all({**fixed, **dict(sizes)}[name] == value for name, value in fixed.items())

    assert shrink(TASK, {"a": 999, **fixed}, SMALL, runs) == (("a", SMALL),)


def test_groups_still_divide_their_channels() -> None:
    """A convolution's channels shrink to a multiple of the groups, and its reference runs at each of the sizes."""
    task = made_up("level2/2_Grouped_convolution.py")
    declared = read_constants(task.source)
    sized = with_small_sizes(task, declared)
    for sizes, ceiling in ((sized.tiny, TINY), (sized.small, SMALL), (sized.larger, LARGER)):
        merged = {**declared, **dict(sizes)}
        assert merged["channels"] % merged["groups"] == 0
        assert merged["length"] <= ceiling
        assert runs_with(task, sizes)
    assert dict(sized.small).get("width", 9) == 9


def test_declared_gigabytes_are_never_tried() -> None:
    """A reference that could run, given the time, counts as one that does not; one that cannot, too."""
    task = made_up("level1/1_Shifted_tanh.py")
    assert not runs_with(task, ())
    assert runs_with(task, (("batch_size", 3), ("dim", 5)))
    assert not runs_with(made_up("level2/2_Grouped_convolution.py"), (("batch_size", 2), ("length", 32), ("groups", 7)))


def test_model_with_sizes_of_its_own_gets_none_that_do_not_run() -> None:
    """Where the model insists on gigabytes nothing is invented."""
    task = made_up("level3/1_Fixed_width.py")
    constants = read_constants(task.source)
    assert constants
    assert shrink(task, constants, SMALL) == ()


@pytest.mark.parametrize("ceiling", [TINY, SMALL, LARGER])
def test_sizes_exercise_masks(ceiling: int) -> None:
    """Where the reference takes anything, sizes are the ceiling itself, which is no multiple of a block."""
    assert dict(shrink(TASK, {"batch_size": 1600, "dim": 200}, ceiling)) == {"batch_size": ceiling, "dim": ceiling}


def test_sizes_without_a_result_are_not_tried() -> None:
    """A reference that returns nothing at a batch of one has nothing that a kernel would be launched for."""
    source = (
        SMALL_PROBLEM.partition("class Model")[0]
        + """class Model(nn.Module):
    def forward(self, x):
        return x[1:] + x[:-1]

rows = 257

def get_inputs():
    return [torch.rand(rows, 33)]

def get_init_inputs():
    return []
"""
    )
    task = Task(task_id="pairs", level=1, family="made-up", description="pairs", source=source)
    assert runs_with(task, (("rows", 2),))
    assert not runs_with(task, (("rows", 1),))
