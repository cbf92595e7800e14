"""The oracle of mutants, and a small run of the whole benchmark in real sandboxes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from tritonrl.cli import app
from tritonrl.core.candidate import Variant
from tritonrl.core.config import Config
from tritonrl.core.corpus import render
from tritonrl.core.task import SINGLE_SIZES, Profile
from tritonrl.harness.bench.mutation import mutants
from tritonrl.harness.bench.mutation.enumerate import enumerate_mutants
from tritonrl.harness.bench.mutation.mutants import (
    MutantBench,
    MutantsReport,
    measure_kill_rates,
    plan_tasks,
    render_report,
    to_summary,
    write_mutants,
)
from tritonrl.harness.bench.mutation.mutation_oracle import (
    TRANSFORMS,
    Battery,
    MutationOracle,
    PointInputs,
    choose_sizes,
)
from tritonrl.harness.bench.mutation.score import Fate, Judge
from typer.testing import CliRunner

EXAMPLE = render("l1-softmax-00c0ffee12345678")


@pytest.fixture(scope="module")
def bench() -> Iterator[MutantBench]:
    bench = MutantBench(Config(), 1)
    with bench.sandbox:
        yield bench


@pytest.fixture(scope="module")
def oracle(bench: MutantBench) -> MutationOracle:
    return bench.oracle


@pytest.fixture(scope="module")
def battery(oracle: MutationOracle) -> Battery:
    return oracle.prepare(EXAMPLE)


@pytest.fixture(scope="module")
def report() -> MutantsReport:
    return measure_kill_rates(Config(), 6, 1, 2, lambda done, total: None, ["unary", "softmax"])


def replaced(old: str, new: str) -> str:
    """The teacher with one piece of text replaced."""
    assert old in EXAMPLE.solution
    return EXAMPLE.solution.replace(old, new)


def test_rows_that_cannot_be_written_are_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another suffix, a folder, a file in the place of a folder: exit 2 at once, and no mutant is judged."""

    def refuse(**_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(mutants, "measure_kill_rates", refuse)
    (tmp_path / "file").touch()
    (tmp_path / "folder.parquet").mkdir()
    for rows, reason in (
        (tmp_path / "x.csv", "must end with .parquet or .jsonl"),
        (tmp_path / "folder.parquet", "is a folder"),
        (tmp_path / "file" / "x.parquet", "File exists"),
        (Path("/proc/x.parquet"), ""),
    ):
        result = CliRunner().invoke(app, ["bench", "mutants", "--rows", str(rows)], prog_name="tritonrl")
        assert result.exit_code == 2, result.stderr
        assert result.stderr.startswith(f"tritonrl: --rows {rows}: ")
        assert reason in result.stderr
    mutants.check_rows(tmp_path / "new" / "x.jsonl")
    assert list((tmp_path / "new").iterdir()) == []


def test_points_cover_sizes_that_no_verifier_runs(battery: Battery) -> None:
    """The battery has one element, exact powers of two and thousands of columns, and every kind of values."""
    points = [point for points in battery.rounds for point in points]
    sizes = {point.label.split(",")[0] for point in points}
    assert {"one", "powers", "long", "wide"} <= sizes == set(choose_sizes(EXAMPLE.task, 0))
    assert {point.inputs.values for point in points} == set(TRANSFORMS)
    found = (Profile.BETWEEN, Profile.BEYOND, Profile.TWICE, Profile.WHOLE_BLOCKS, *SINGLE_SIZES)
    own = {EXAMPLE.task.constants(profile) for profile in Profile if profile not in found}
    assert not own & {point.task.small for point in points}
    assert all(type(point.inputs) is PointInputs and point.inputs.variant is Variant.ORIGINAL for point in points)


def test_a_teacher_is_proven_wrong_nowhere(oracle: MutationOracle, battery: Battery) -> None:
    """The kernel that the points were chosen by is not wrong at any of them."""
    assert oracle.judge(EXAMPLE.solution, battery).fate is Fate.UNPROVEN


def test_a_mistake_that_only_large_values_show_is_proven(oracle: MutationOracle, battery: Battery) -> None:
    """A softmax that does not subtract the maximum overflows on values that the reference is right on."""
    (source,) = {
        mutant.source for mutant in enumerate_mutants(EXAMPLE.solution) if mutant.change == "right of - dropped"
    }
    finding = oracle.judge(source, battery)
    assert finding.fate is Fate.WRONG
    assert "times 30" in finding.point


def test_a_change_of_no_consequence_is_not_proven(oracle: MutationOracle, battery: Battery) -> None:
    """Another order of a product is the same kernel, and no point says otherwise."""
    assert oracle.judge(replaced("row * n", "n * row"), battery).fate is Fate.UNPROVEN


def test_a_kernel_that_raises_is_dead_and_not_wrong(oracle: MutationOracle, battery: Battery) -> None:
    """A crash proves nothing about values."""
    finding = oracle.judge(replaced("tl.exp(", "tl.no_such_function("), battery)
    assert finding.fate is Fate.DEAD


def test_families_have_equal_shares() -> None:
    """The plan asks for exactly as many mutants as wanted, and families differ by one at the most."""
    shares = plan_tasks(2600, 3)
    assert sum(share.count for share in shares) == 2600
    assert len({share.task_id for share in shares}) == len(shares)
    by_family = dict.fromkeys((share.task_id.split("-")[1] for share in shares), 0)
    for share in shares:
        by_family[share.task_id.split("-")[1]] += share.count
    assert len(by_family) == 13
    assert max(by_family.values()) - min(by_family.values()) <= 1


def test_a_run_judges_what_it_was_asked_to(report: MutantsReport, tmp_path: Path) -> None:
    """Six mutants have six rows, the score is about them, and the files hold them with who killed each."""
    assert len(report.rows) == report.score.num_candidates == 6
    assert report.rejected_teachers == ()
    assert {row.family for row in report.rows} == {"unary", "softmax"}
    wrong = [row for row in report.rows if row.fate is Fate.WRONG]
    assert report.score.overall.num_mutants == len(wrong) > 0
    assert all(Judge.AUDIT in row.killed_by for row in wrong if Judge.ONE_INPUT in row.killed_by)
    assert all(row.outcome != "passed" for row in wrong if Judge.AUDIT in row.killed_by)
    write_mutants(report, tmp_path / "rows.jsonl")
    write_mutants(report, tmp_path / "rows.parquet")
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert pl.read_parquet(tmp_path / "rows.parquet").to_dicts() == lines
    assert [line["killed_by_audit"] for line in lines] == [
        None if row.fate is Fate.DEAD else Judge.AUDIT in row.killed_by for row in report.rows
    ]


def test_the_table_and_the_summary_give_the_same_rates(report: MutantsReport) -> None:
    """The line of all mutants shows the four estimates of the summary."""
    plain = json.loads(json.dumps(to_summary(report), allow_nan=False))
    (line,) = [line for line in render_report(report) if line.startswith("all ")]
    for judge in Judge:
        assert f"{plain['overall']['rates'][judge]['estimate']:.1%}" in line


def test_rows_depend_on_neither_workers_nor_other_tasks(bench: MutantBench, report: MutantsReport) -> None:
    """A task judged alone in this process has the rows that it had in a run of two workers."""
    first = plan_tasks(6, 1, ["unary", "softmax"])[0]
    assert bench.judge_task(first) == report.rows[: first.count]
