"""Mutants: one change each, valid Python, labelled by class, the same for the same seed."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.corpus import FAMILIES, render
from tritonrl.harness.bench.mutation.enumerate import Mutant, enumerate_mutants, sample_mutants
from tritonrl.harness.bench.mutation.program import MutationClass
from tritonrl.harness.bench.mutation.score import Fate, Judge, MutantRow, score_mutants

ROW = MutantRow(
    task="l1-unary-0000000000000000",
    family="unary",
    kind=MutationClass.MASK,
    change="mask dropped",
    line=1,
    before="a",
    after="b",
    fate=Fate.WRONG,
    evidence="small: wrong_values",
    killed_by=tuple(Judge),
    stage="tiny",
    outcome="wrong_values",
    source="b",
)
rows = st.builds(
    lambda kind, family, fate, killed: evolve(
        ROW, kind=kind, family=family, fate=fate, killed_by=() if fate is Fate.DEAD else tuple(Judge)[killed:]
    ),
    st.sampled_from(MutationClass),
    st.sampled_from(["unary", "matmul"]),
    st.sampled_from(Fate),
    st.integers(0, len(Judge)),
)
ALL_FAMILIES = [(level, name) for level, names in FAMILIES.items() for name in names]
task_ids = st.builds(
    lambda family, seed: f"l{family[0]}-{family[1]}-{seed:016x}",
    st.sampled_from(ALL_FAMILIES),
    st.integers(0, 2**64 - 1),
)
KERNEL = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, y_ptr, n, alpha, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = x * alpha
    y = tl.exp(y - 1.0)
    tl.store(y_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        scale_kernel[(triton.cdiv(n, 256),)](x, y, n, 0.5, BLOCK=256)
        return y
"""


def changes(kind: MutationClass) -> dict[str, str]:
    """The mutants of `KERNEL` of one class: what was done, and the line that it gave."""
    return {
        mutant.change: mutant.source.splitlines()[mutant.line - 1].strip()
        for mutant in enumerate_mutants(KERNEL)
        if mutant.kind is kind
    }


@settings(max_examples=12)
@given(task_id=task_ids)
def test_every_mutant_is_valid_python_that_says_something_else(task_id: str) -> None:
    """Each mutant of a teacher parses, to another tree than the teacher's, and no two mutants are alike."""
    solution = render(task_id).solution
    original = ast.dump(ast.parse(solution))
    mutants = enumerate_mutants(solution)
    assert len(mutants) >= 25
    assert all(ast.dump(ast.parse(mutant.source)) != original for mutant in mutants)
    assert len({mutant.source for mutant in mutants}) == len(mutants)


@settings(max_examples=12)
@given(task_id=task_ids)
def test_every_mutant_differs_in_one_place(task_id: str) -> None:
    """Putting `before` in the place of `after`, at the line that the mutant names, gives the teacher back."""
    solution = render(task_id).solution
    for mutant in enumerate_mutants(solution):
        assert undo(mutant, solution) == solution


def undo(mutant: Mutant, solution: str) -> str:
    """The teacher's text, from the mutant's record alone; the mutant's own text where that fails."""
    prefix = "".join(line + "\n" for line in solution.split("\n")[: mutant.line - 1])
    rest = mutant.source[len(prefix) :]
    line = solution[len(prefix) :].split("\n")[0]
    for column in range(len(line) + 1):
        if rest[column:].startswith(mutant.after):
            restored = prefix + rest[:column] + mutant.before + rest[column + len(mutant.after) :]
            if restored == solution:
                return restored
    return mutant.source


@settings(max_examples=12)
@given(task_id=task_ids, count=st.integers(1, 40), seed=st.integers(0, 2**63 - 1))
def test_a_sample_is_decided_by_its_seed_and_spreads_over_the_classes(task_id: str, count: int, seed: int) -> None:
    """The same seed draws the same mutants, all distinct, and no class waits while another is drawn from twice."""
    mutants = enumerate_mutants(render(task_id).solution)
    sample = sample_mutants(mutants, count, seed)
    assert sample == sample_mutants(mutants, count, seed)
    assert len(sample) == len({mutant.source for mutant in sample}) == min(count, len(mutants))
    drawn = Counter(mutant.kind for mutant in sample)
    available = Counter(mutant.kind for mutant in mutants)
    for kind, number in available.items():
        assert drawn[kind] >= min(number, max(drawn.values()) - 1)


def test_every_class_occurs_in_the_corpus() -> None:
    """Between them, one teacher of each family has a place for every class of mistake."""
    sources = [render(f"l{level}-{name}-{0:016x}").solution for level, name in ALL_FAMILIES]
    found = {mutant.kind for source in sources for mutant in enumerate_mutants(source)}
    assert found == set(MutationClass)


@pytest.mark.parametrize(
    ("kind", "change", "line"),
    [
        (MutationClass.MASK, "< to <= in a mask", "mask = offsets <= n"),
        (MutationClass.MASK, "other= dropped", "x = tl.load(x_ptr + offsets, mask=mask)"),
        (MutationClass.OFFSET, "stride dropped", "offsets = tl.program_id(0) + tl.arange(0, BLOCK)"),
        (MutationClass.OFFSET, "address of a store + 1", "tl.store(y_ptr + offsets + 1, y, mask=mask)"),
        (MutationClass.ARITHMETIC, "operands of - swapped", "y = tl.exp(1.0 - y)"),
        (MutationClass.STEP, "exp dropped", "y = y - 1.0"),
        (MutationClass.FUNCTION, "exp to exp2", "y = tl.exp2(y - 1.0)"),
        (MutationClass.CONSTANT, "1.0 to 2.0", "y = tl.exp(y - 2.0)"),
        (MutationClass.BLOCK, "cdiv to //", "scale_kernel[(n // 256,)](x, y, n, 0.5, BLOCK=256)"),
        (
            MutationClass.BLOCK,
            "BLOCK 256 to 128, grid unchanged",
            "scale_kernel[(triton.cdiv(n, 256),)](x, y, n, 0.5, BLOCK=128)",
        ),
        (MutationClass.GRID, "a program too few", "scale_kernel[(triton.cdiv(n, 256) - 1,)](x, y, n, 0.5, BLOCK=256)"),
        (
            MutationClass.ARGUMENT,
            "arguments 0 and 1 swapped",
            "scale_kernel[(triton.cdiv(n, 256),)](y, x, n, 0.5, BLOCK=256)",
        ),
    ],
)
def test_mistakes_are_what_their_names_say(kind: MutationClass, change: str, line: str) -> None:
    """Each named mistake gives the line that a person would write for it."""
    assert changes(kind)[change] == line


def test_an_offset_is_not_taken_for_arithmetic() -> None:
    """No arithmetic mutant of a kernel touches how addresses are computed."""
    lines = {mutant.line for mutant in enumerate_mutants(KERNEL) if mutant.kind is MutationClass.ARITHMETIC}
    assert lines == {12, 13}


def test_a_step_whose_result_nothing_else_binds_is_kept() -> None:
    """Dropping the first assignment to a name would only give a name that nothing defines."""
    dropped = [change for change in changes(MutationClass.STEP) if change.startswith("dropped")]
    assert dropped == ["dropped: y = tl.exp(y - 1.0)", "dropped: tl.store(y_ptr + offsets, y, mask=mask)"]


def test_a_source_that_is_no_python_is_refused() -> None:
    """There is nothing to mutate in a text that does not parse."""
    with pytest.raises(SyntaxError):
        enumerate_mutants("def broken(:")


@given(found=st.lists(rows, min_size=1).map(lambda found: [ROW, *found]))
def test_groups_add_up_and_stricter_judges_kill_no_less(found: list[MutantRow]) -> None:
    """Fates add up to all candidates, classes and families to all proven ones, and rates rise with strictness."""
    score = score_mutants(found)
    wrong = [row for row in found if row.fate is Fate.WRONG]
    assert score.overall.num_mutants == len(wrong)
    assert score.num_candidates == len(wrong) + score.num_unproven + score.num_dead
    for groups in (score.by_class, score.by_family):
        assert sum(group.num_mutants for group in groups) == len(wrong)
    for group in (score.overall, *score.by_class, *score.by_family):
        estimates = [group.rates[judge].estimate for judge in Judge]
        assert estimates == sorted(estimates)
    assert len(score.survivors) == len(wrong) - round(score.overall.rates[Judge.AUDIT].estimate * len(wrong))


@given(found=st.lists(rows))
def test_what_is_not_proven_wrong_changes_no_rate(found: list[MutantRow]) -> None:
    """Dead and unproven mutants leave every rate as it is."""
    wrong = [row for row in found if row.fate is Fate.WRONG]
    assert score_mutants([ROW, *found]).overall == score_mutants([ROW, *wrong]).overall


def test_a_run_that_proved_nothing_has_no_score() -> None:
    """A rate of no mutants is refused, not given as 0 or 1."""
    with pytest.raises(ValueError, match="no mutant"):
        score_mutants([evolve(ROW, fate=Fate.UNPROVEN)])
