"""One results folder for the tests of the report: grid, controls and noise sweep, with outcomes that differ by cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from tritonrl.core.config import Config
from tritonrl.core.recipe.extensions import CellSpec
from tritonrl.harness.analysis.analysis import analyse
from tritonrl.harness.analysis.findings import Analysis
from tritonrl.harness.report.page import as_html
from tritonrl.harness.study.cell import run_cell, run_start
from tritonrl.harness.study.grid import parse_grid
from tritonrl.harness.study.provenance import recorded_invocation
from tritonrl.harness.study.rows import SFT
from tritonrl.harness.study.store import Results, RunIdentity
from tritonrl.harness.tables import TABLES, write_table

from ..context_stub import stub_context, tiny_config

HOSTILE = "</script><script>document.title = 'owned'</script><img src=https://example.invalid/x onerror=alert(1)>"
"""What a candidate may hold, and a page must show as text."""


def _chance(*parts: str) -> pl.Expr:
    """A number in [0, 1) that depends on these columns alone."""
    return (pl.struct(parts).hash(seed=7) % 1000) / 1000


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Stand-ins of two seeds; M raises the held-out rate, and a tenth of what training accepted the audit rejects."""
    config = tiny_config(
        rl={"rounds": 3, "tasks_per_round": 2, "samples_per_task": 3, "keep": 1, "audited_samples": 2},
        evaluation={"level1_tasks": 3, "level2_tasks": 3, "samples_per_task": 2, "round_samples": 1},
    )
    results = Results(root=tmp_path_factory.mktemp("report"))
    cells = parse_grid("full,controls,noise")
    with recorded_invocation(results, "tritonrl ablate --grid full,controls,noise --out results/test", 1, ()):
        _run(results, config, cells)
    right = _chance("cell", "seed", "round", "task", "sample") < pl.when(pl.col("cell").str.contains("m")).then(
        0.9
    ).otherwise(0.4)
    evaluation = results.read("evaluation").with_columns(
        correct=right,
        outcome=pl.when(right).then(pl.lit("passed")).otherwise(pl.lit("wrong_values")),
        message=pl.when(~right).then(pl.lit(HOSTILE)),
        estimated_speedup=pl.when(right).then(0.5 + 2 * _chance("cell", "task")),
    )
    _write(results, "evaluation", evaluation)
    is_audited = pl.col("audit_correct").is_not_null()
    rejected = is_audited & pl.col("correct") & (_chance("cell", "round", "task", "sample", "seed") < 0.1)
    candidates = results.read("candidates").with_columns(
        audit_correct=pl.when(is_audited).then(pl.col("correct") & ~rejected),
        audit_outcome=pl.when(rejected).then(pl.lit("wrong_values")).otherwise(pl.col("audit_outcome")),
    )
    _write(results, "candidates", candidates)
    sources = results.read("sources").with_columns(source=pl.col("source") + pl.lit(f"\n# {HOSTILE} é\n"))
    _write(results, "sources", sources)
    return results


def _run(results: Results, config: Config, cells: Sequence[CellSpec]) -> None:
    """As `run_grid` does, but for merging the tables after each of many small cells."""
    line = stub_context(results, config)
    run = RunIdentity(config=config, policy=line.learner.fingerprint, backend=line.judge.backend)
    results.claim(run)
    for seed in range(2):
        results.write_cell(run, SFT, seed, run_start(line, seed))
        for cell in cells:
            results.write_cell(run, str(cell), seed, run_cell(line, cell, seed))
    results.merge_cells()


def _write(results: Results, name: str, frame: pl.DataFrame) -> None:
    write_table(TABLES[name], frame.select(list(TABLES[name].columns)), results.root / f"{name}.parquet")


@pytest.fixture(scope="session")
def analysis(results: Results) -> Analysis:
    """The analysis of that folder."""
    return analyse(results)


@pytest.fixture(scope="session")
def page_path(results: Results, analysis: Analysis, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its page."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(as_html(analysis, results), encoding="utf-8")
    return path
