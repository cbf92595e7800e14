"""Which candidates a page shows, and what it says of them."""

from __future__ import annotations

from collections import Counter

import polars as pl
from tritonrl.harness.report.candidates import choose, gather
from tritonrl.harness.study.store import Results


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
