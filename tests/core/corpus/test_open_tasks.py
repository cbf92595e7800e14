"""Tasks without teachers: what is drawn, how it is split, and what it shares with tasks that have teachers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, permutations
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tritonrl.core.corpus import (
    SUITES,
    TAUGHT,
    TAUGHT_SUITES,
    Split,
    examples,
    families,
    has_teacher,
    is_corpus_id,
    is_novel,
    render,
    render_task,
    split_of,
    tasks,
)
from tritonrl.core.corpus.catalogue import _draw_spec
from tritonrl.core.corpus.composition.program import ProgramSpec
from tritonrl.core.corpus.open_tasks.chain import MARKS
from tritonrl.core.corpus.open_tasks.grammar import LENGTHS_OF_LONG, LESSONS, NUM_OPERATIONS
from tritonrl.core.corpus.open_tasks.membership import (
    count_elements,
    count_operations,
    find_operations,
    is_marked,
    is_open,
)
from tritonrl.core.task import Example, Profile, Task
from tritonrl.core.text.named_sizes import with_constants
from tritonrl.core.text.prompts import user_message

WITHOUT_TEACHERS = ("open", "long")
FAMILIES = [(level, name) for suite in WITHOUT_TEACHERS for level, names in SUITES[suite].items() for name in names]
task_ids = st.builds(
    lambda pair, seed: f"l{pair[0]}-{pair[1]}-{seed:016x}", st.sampled_from(FAMILIES), st.integers(0, 2**64 - 1)
)


def drawn(split: Split, count: int, seed: int = 1) -> list[Task]:
    """Return `count` tasks a level of both suites."""
    streams = [tasks(split, level, seed, names) for suite in WITHOUT_TEACHERS for level, names in SUITES[suite].items()]
    return [task for stream in streams for task in islice(stream, count)]


def pairs(level: int, family: str) -> Iterator[Example]:
    """Return the pairs of a family for training."""
    return examples(Split.TRAIN, level, 1, (family,))


def run_reference(source: str) -> torch.Tensor:
    """Return a reference's result; constructors are given a list, or a list and a dictionary."""
    module: dict[str, Any] = {}
    exec(compile(source, "reference", "exec"), module)
    torch.manual_seed(0)
    given = module["get_init_inputs"]()
    positional, named = given if len(given) == 2 and isinstance(given[1], dict) else (given, {})
    with torch.no_grad():
        result: torch.Tensor = module["Model"](*positional, **named)(*module["get_inputs"]())
    return result


def spec_of(task_id: str) -> ProgramSpec:
    spec = _draw_spec(task_id.split("-")[1], int(task_id.split("-")[2], 16))
    assert isinstance(spec, ProgramSpec)
    return spec


@settings(max_examples=80, deadline=None)
@given(task_ids)
@example("l2-long2_softmax_chain-0000000000000517")  # a parameter's shape is a constant, and inputs have plain numbers
@example("l1-long1_norm_chain-0000000edfcd83bb")  # a ReLU before a norm that nothing guards against zero
def test_an_open_task_runs_in_its_sizes(task_id: str) -> None:
    """At tiny and at larger sizes the result is finite, and has the dimensions that the program says."""
    spec, task = spec_of(task_id), render_task(task_id)
    for profile in (Profile.TINY, Profile.LARGER):
        result = run_reference(with_constants(task.source, task.constants(profile)))
        assert result.isfinite().all()
        assert result.ndim == len(spec.nodes[-1].shape)


@settings(max_examples=200, deadline=None)
@given(task_ids)
def test_an_open_task_is_marked_small_and_without_a_solution(task_id: str) -> None:
    """It has what no family with a teacher writes, at most 8 million elements a tensor, and cannot be rendered as a
    pair."""
    spec = spec_of(task_id)
    assert is_open(spec)
    lengths = LENGTHS_OF_LONG if spec.family.startswith("long") else NUM_OPERATIONS
    assert count_operations(spec.nodes) in lengths[spec.level]
    assert count_elements(spec) <= 1 << 23
    assert is_corpus_id(task_id)
    assert not has_teacher(task_id)
    with pytest.raises(ValueError, match="no teacher"):
        render(task_id)


def test_no_training_task_has_the_operations_of_a_heldout_one() -> None:
    """Splits share no multiset of operations, in whatever order and at whatever level."""
    found = {split: {find_operations(spec_of(task.task_id)) for task in drawn(split, 100)} for split in Split}
    for one, other in permutations(Split, 2):
        assert not found[one] & found[other]
    assert all(split_of(task) is Split.HELDOUT and is_novel(task) for task in drawn(Split.HELDOUT, 20))


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([(level, name) for level, names in families(4).items() for name in names]),
    st.integers(0, 2**64 - 1),
)
def test_no_composed_task_with_a_teacher_is_open(family: tuple[int, str], seed: int) -> None:
    """Only the lessons have marks, in compositions that their hash leaves to pairs."""
    spec = spec_of(f"l{family[0]}-{family[1]}-{seed:016x}")
    assert not is_open(spec)
    assert not is_marked(spec) or family[1] in LESSONS


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([(level, name) for level, names in families(1, 2, 3).items() for name in names if level == 2]),
    st.integers(0, 2**64 - 1),
)
def test_no_older_chain_has_a_function_that_marks(family: tuple[int, str], seed: int) -> None:
    """Chains of the families before the fourth part, which are no graphs, have none of the marks' functions."""
    chain = _draw_spec(family[1], seed).chain
    assert not {applied.operation.name for applied in chain} & MARKS


def test_lessons_are_a_small_part_of_the_pairs_and_have_every_function() -> None:
    """Each function of open tasks is in a pair, and so are those before a head, after one, and of an earlier value."""
    assert len(LESSONS) <= 0.12 * sum(len(names) for level, names in SUITES["field"].items() if level < 3)
    names = [(level, name) for name, (level, _) in LESSONS.items()]
    found = [spec_of(each.task.task_id) for level, name in names for each in islice(pairs(level, name), 150)]
    operations = {operation for spec in found for operation in find_operations(spec)}
    assert operations >= MARKS
    for role in ("before ", "back to ", "first softmax", "first scan"):
        assert any(operation.startswith(role) for operation in operations)


def test_no_pair_has_the_operations_of_an_open_task() -> None:
    """What was drawn of lessons, of any split, and of open tasks shares no multiset."""
    taught = {
        find_operations(spec_of(f"l{level}-{name}-{seed:016x}"))
        for name, (level, _) in LESSONS.items()
        for seed in range(0, 2**60, 2**52)
    }
    asked = {find_operations(spec_of(task.task_id)) for split in Split for task in drawn(split, 200)}
    assert not taught & asked


def test_a_scaled_variance_has_the_operations_of_a_plain_one() -> None:
    """Both are a mean times a number, so that one graph is no task of two splits."""
    plain, scaled = "l1-open_reduction-488f56d587c8819b", "l2-open_reduction_chain-5dd51207d3746d05"
    found = find_operations(spec_of(plain))
    assert any(operation.endswith(" var") for operation in found)
    assert find_operations(spec_of(scaled)) == found


def test_open_tasks_are_written_in_the_dialects_of_training() -> None:
    """An id renders the same text again, prompts differ, and some of them say the task in English."""
    found = drawn(Split.TRAIN, 200)
    assert all(render_task(task.task_id) == task for task in found[::20])
    assert len({user_message(task) for task in found}) == len(found)
    assert 0.1 < sum(bool(task.description) for task in found) / len(found) < 0.6
    text = "".join(task.source for task in found)
    assert "super(Model, self)" in text
    assert "nn.Module.__init__" in text


def test_streams_of_tasks_and_of_examples_are_the_same() -> None:
    """`tasks` has the tasks of `examples` where there are teachers; without, `examples` says that there are none."""
    names = SUITES["field"][2]
    assert list(islice(tasks(Split.TRAIN, 2, 3, names), 10)) == [
        example.task for example in islice(examples(Split.TRAIN, 2, 3, names), 10)
    ]
    with pytest.raises(ValueError, match="no teacher"):
        next(examples(Split.TRAIN, 1, 0, SUITES["open"][1]))
    assert has_teacher("l1-softmax-00c0ffee12345678")
    assert "open" not in TAUGHT_SUITES
    assert TAUGHT["open"] in TAUGHT_SUITES
    assert not {name for names in families().values() for name in names} & {name for _, name in FAMILIES}
