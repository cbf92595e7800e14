"""The score: only proven mutants count, by class and by family."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.bench.mutation import Fate, Judge, MutantRow, MutationClass, score_mutants

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
