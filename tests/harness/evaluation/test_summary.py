"""What is said of an exam's rows: rates, and what each family fails of."""

from __future__ import annotations

from tritonrl.harness.evaluation.finished import EVALUATION
from tritonrl.harness.evaluation.summary import render_evaluation, summarise


def test_what_was_not_audited_is_not_slow() -> None:
    """fast_1 is a share of the samples that the audit judged, as the correct rate is."""
    judged = [(True, 2.0), (True, 0.5), (False, None), (None, None)]
    place = {**dict.fromkeys(EVALUATION.columns), "cell": "exam", "phase": "exam", "seed": 0}
    place |= {"task": "a", "family": "unary", "level": 1}
    rows = [{**place, "slot": n, "sample": 0, "correct": c, "speedup": s} for n, (c, s) in enumerate(judged)]
    rates = summarise(EVALUATION.frame(rows)).rates[0]
    assert (rates.num_samples, rates.correct, rates.fast_1) == (4, 2 / 3, 1 / 3)


def test_each_family_says_what_fails_most() -> None:
    """By level, the worst family first: its most frequent outcome, with the first line of what that says most often."""
    place = {**dict.fromkeys(EVALUATION.columns), "cell": "exam", "phase": "exam", "seed": 0, "task": "a"}
    wrong = "relative error 2\nin a second line"
    told = [
        (2, "matmul_chain", "passed", None),
        (1, "unary", "no_kernel", None),
        (1, "unary", "wrong_values", wrong),
        (1, "unary", "wrong_values", "relative error 1"),
        (1, "unary", "wrong_values", wrong),
        (1, "scan", "no_launch", None),
        (1, "unary", "passed", None),
        (1, "unary", None, "this task cannot be audited"),
    ]
    rows = [
        {**place, "slot": n, "sample": 0, "level": level, "family": family, "outcome": outcome, "message": message}
        | {"correct": None if outcome is None else outcome == "passed"}
        for n, (level, family, outcome, message) in enumerate(told)
    ]
    summary = summarise(EVALUATION.frame(rows))
    found = [(f.level, f.family, f.num_correct, f.num_samples, f.outcome, f.num_outcome) for f in summary.failures]
    assert found == [
        (1, "scan", 0, 1, "no_launch", 1),
        (1, "unary", 1, 5, "wrong_values", 3),
        (2, "matmul_chain", 1, 1, None, 0),
    ]
    assert [entry.message for entry in summary.failures] == [None, "relative error 2", None]
    lines = render_evaluation(summary, [])
    assert [line.split()[0] for line in lines[-3:]] == ["scan", "unary", "matmul_chain"]
    assert lines[-3].endswith("0/1  1x no Triton kernel is launched")
    assert lines[-2].endswith("1/5  3x the result differs from the reference: relative error 2")
    assert lines[-1].endswith("1/1  -")
    assert len(render_evaluation(summarise(EVALUATION.frame(rows[:1])), [])) == 3
