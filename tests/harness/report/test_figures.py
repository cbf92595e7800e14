"""Numbers as reports write them, sources as runs of one colour, and which candidates a page shows."""

from __future__ import annotations

import math
from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.analysis.number_format import NOTHING, Form, written
from tritonrl.harness.report.candidates import KINDS, choose, gather, runs
from tritonrl.harness.report.sheet import Sheet
from tritonrl.harness.report.theme import typeset
from tritonrl.harness.study.store import Results


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.864, Form.PERCENT, "86"),
        (-0.0004, Form.POINTS, "+0.0"),
        (-0.0614, Form.POINTS, "-6.1"),
        (0.0614, Form.SIZE, "6.1"),
        (0.0004, Form.P_VALUE, "<0.001"),
        (0.0341, Form.P_VALUE, "0.034"),
        (0.0999, Form.P_VALUE, "0.10"),
        (math.log(2), Form.FACTOR, "2.00"),
        (80.0, Form.FACTOR, "5e+21"),
        (1234.4, Form.SECONDS, "1,234"),
        (12.34, Form.SECONDS, "12.3"),
        (None, Form.RATIO, NOTHING),
    ],
)
def test_numbers_are_written_as_their_form_says(value: float | None, form: Form, text: str) -> None:
    """Each form rounds as a reader expects, and what was not measured is a dash."""
    assert written(value, form) == text


@given(st.floats(-1, 1))
def test_a_share_is_read_back_within_its_rounding(share: float) -> None:
    """What is written in percent or points is the share, to the last place that is shown."""
    assert float(written(share, Form.PERCENT)) / 100 == pytest.approx(share, abs=0.0051)
    assert float(written(share, Form.POINTS)) / 100 == pytest.approx(share, abs=0.00051)


def test_a_table_takes_numbers_by_path_alone() -> None:
    """An interval that is not known is left out, a path that leads nowhere is an error."""
    sheet = Sheet(plain={"a": [{"value": 0.5, "low": None, "high": None}, {"value": 0.5, "low": 0.25, "high": 0.75}]})
    assert sheet.estimate("a.0").text == "50"
    assert sheet.estimate("a.1").text == "50 [25, 75]"
    assert [part.at for part in sheet.estimate("a.1").parts if not isinstance(part, str)] == [
        "a.1.value",
        "a.1.low",
        "a.1.high",
    ]
    with pytest.raises(KeyError):
        sheet.number("b")


def test_signs_are_typeset_and_words_are_not() -> None:
    """Minus and times signs are real ones on the page; hyphens of names stay."""
    assert (
        typeset("M x S: -1.2 [-3.4, +0.5], l1-softmax-97f, top-10")
        == "M × S: −1.2 [−3.4, +0.5], l1-softmax-97f, top-10"
    )


@given(st.text() | st.text(alphabet="ab'\"# \n\r\t\f\\{}()=1é𝛼\ufeff"))
def test_runs_cover_a_source(source: str) -> None:
    """Whatever a candidate wrote, the runs are as long as it together, and each has a kind that the page knows."""
    found = runs(source)
    assert sum(found[::2]) == len(source)
    assert all(length > 0 for length in found[::2])
    assert set(found[1::2]) <= set(range(len(KINDS)))


def test_runs_tell_keywords_from_names() -> None:
    """A definition is a keyword, a blank, a name, and the rest."""
    found = runs("def f(): return 'x'  # y")
    kinds = [KINDS[kind] for kind in found[1::2]]
    assert kinds == ["keyword", "name", "plain", "keyword", "string", "comment"]


def test_every_source_is_one_entry(results: Results) -> None:
    """Samples that wrote the same for a task are one entry, which counts them and says what each verifier said."""
    shelf = gather(results)
    candidates, evaluation = results.read("candidates"), results.read("evaluation")
    assert shelf.complete
    keys = pl.concat([frame.select("candidate", "task") for frame in (candidates, evaluation)]).unique()
    assert {(entry["hash"], entry["task"]) for entry in shelf.entries} == set(keys.iter_rows())
    assert sum(entry["trained"] for entry in shelf.entries) == candidates.height
    assert sum(entry["heldOut"] for entry in shelf.entries) == evaluation.height
    assert sum(entry["selected"] for entry in shelf.entries) == candidates["selected"].sum()
    for entry in shelf.entries:
        assert sum(verdict["samples"] for verdict in entry["training"]) == entry["trained"]


def test_reasons_count_every_sample(results: Results) -> None:
    """The outcomes' counts are the tables' own, shown or not."""
    few = gather(results, max_entries=1)
    assert len(few.entries) == 1
    assert {reason.outcome: reason.held_out for reason in few.reasons if reason.held_out} == Counter(
        results.read("evaluation")["outcome"]
    )


def test_disagreements_come_first_and_outcomes_in_turn(results: Results) -> None:
    """What training verifier and audit disagree on is shown before all else, then each outcome is represented."""
    entries = list(gather(results).entries)
    sources = {entry["hash"]: entry["source"] for entry in entries}
    differing = [entry for entry in entries if entry["differs"]]
    assert 0 < len(differing) < len(entries)
    order = choose(entries, sources, len(entries), 10**9)
    assert all(entry["differs"] for entry in order[: len(differing)])
    rest = order[len(differing) :]
    kinds = [((entry["audit"] or {}).get("outcome"), entry["level"]) for entry in rest]
    assert None in {outcome for outcome, _ in kinds}
    assert set(kinds[: len(set(kinds))]) == set(kinds)
    assert choose(entries, sources, 2, 10**9) == order[:2]
    assert choose(entries, sources, 10, 0) == []
