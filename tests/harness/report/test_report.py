"""Analysis and report: what they show is what the Parquet holds, in every form."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tritonrl.core.recipe.extensions import ALL_CELLS, Extensions
from tritonrl.harness.analysis.analysis import analyse
from tritonrl.harness.analysis.findings import Analysis
from tritonrl.harness.analysis.rates import grid_cells
from tritonrl.harness.display import Progress
from tritonrl.harness.report.page import as_html
from tritonrl.harness.report.sections import as_json, as_markdown, headline, sections
from tritonrl.harness.report.sheet import Prose, sparkline
from tritonrl.harness.study.grid import parse_grid, run_grid
from tritonrl.harness.study.store import Results
from tritonrl.harness.tables import TABLES, write_table

from ..context_stub import stub_context, tiny_config


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A full grid of stand-ins whose `m` cells are then made perfect and whose others are made to fail."""
    config = tiny_config(evaluation={"level1_tasks": 2, "level2_tasks": 2, "samples_per_task": 2})
    results = Results(root=tmp_path_factory.mktemp("grid"))
    run_grid(results, config, ALL_CELLS, range(2), lambda: stub_context(results, config), Progress())
    on_m = pl.col("cell").str.contains("m")
    evaluation = results.read("evaluation").with_columns(
        correct=pl.when(on_m).then(True).otherwise(False), estimated_speedup=pl.when(on_m).then(2.0)
    )
    write_table(TABLES["evaluation"], evaluation, results.root / "evaluation.parquet")
    accepted_but_wrong = pl.col("correct") & (pl.col("cell") == "none")
    candidates = results.read("candidates").with_columns(audit_correct=pl.col("correct") & ~accepted_but_wrong)
    write_table(TABLES["candidates"], candidates, results.root / "candidates.parquet")
    late = (pl.col("cell") == "none") & (pl.col("stage") == "tiny")
    stages = results.read("stages").with_columns(
        passed=pl.col("passed") & ~late,
        stage_s=pl.when(pl.col("cell") == "none").then(1.0).otherwise(0.0),
    )
    write_table(TABLES["stages"], stages, results.root / "stages.parquet")
    return results


@pytest.fixture(scope="module")
def analysis(results: Results) -> Analysis:
    """The analysis of that grid."""
    return analyse(results)


def test_rates_equal_the_parquet(results: Results, analysis: Analysis) -> None:
    """Every cell's rates are the shares in `evaluation`, with the number of samples and an interval around them."""
    assert {fact.cell for fact in analysis.cells} == set(map(str, ALL_CELLS))
    for fact in analysis.cells:
        own = results.read("evaluation").filter(pl.col("cell") == fact.cell)
        assert fact.correct.count == own.height == 16
        assert fact.correct.value == own["correct"].mean()
        assert fact.valid.value == own["valid"].mean()
        assert fact.correct.low is not None
        assert fact.correct.high is not None
        assert fact.correct.low <= fact.correct.value <= fact.correct.high


def test_planted_effect_is_found_and_no_other(analysis: Analysis) -> None:
    """Where M decides everything its main effect is 100 points and conclusive, and the others are zero."""
    correct = analysis.effects["correct"]
    assert correct is not None
    assert correct.effect("m").estimate == pytest.approx(1.0)
    assert correct.effect("m").conclusive
    assert all(correct.effect(term).estimate == pytest.approx(0.0) for term in ("s", "c", "t", "ms", "ct"))
    assert "helps: +100.0 points" in analysis.answers[0].answer


def test_false_positives_equal_the_parquet(results: Results, analysis: Analysis) -> None:
    """The share of accepted candidates that the audit rejects is 1 in the cell where it was planted, else 0."""
    shares = {fact.cell: fact.false_positives for fact in analysis.cells}
    accepted = results.read("candidates").filter((pl.col("cell") == "none") & pl.col("correct")).height
    assert shares["none"].count == accepted > 0
    assert shares["none"].value == 1.0
    assert shares["msct"].value == 0.0


def test_funnel_counts_and_savings_equal_the_parquet(results: Results, analysis: Analysis) -> None:
    """Stages are counted as attempted and failed, and what follows a failure is what staging saves."""
    exhaustive = {stage.stage.value: stage for stage in analysis.funnel if not stage.staged}
    stages = results.read("stages").filter((pl.col("verifier") == "training") & ~pl.col("cell").str.contains("s"))
    for name, stage in exhaustive.items():
        own = stages.filter(pl.col("stage") == name)
        assert (stage.num_attempted, stage.num_failed) == (own.height, own.filter(~pl.col("passed")).height)
    planted = stages.filter((pl.col("cell") == "none") & (pl.col("stage") == "tiny")).height
    assert exhaustive["full"].saved_seconds == exhaustive["timing"].saved_seconds == planted
    assert exhaustive["tiny"].saved_seconds == 0.0
    assert all(stage.saved_seconds == 0.0 for stage in analysis.funnel if stage.staged)


def test_curriculum_path_differs_by_extension(analysis: Analysis) -> None:
    """Cells without C stay at the fixed share; cells with it start at the start share."""
    for curve in analysis.curriculum:
        first = curve.values[0]
        assert first == (0.1 if Extensions.parse(curve.cell).curriculum else 0.3)


def test_every_form_shows_the_same_sections(results: Results, analysis: Analysis) -> None:
    """Markdown, HTML and JSON carry the numbers of the analysis, and each says that the timing was simulated."""
    markdown, html, plain = as_markdown(analysis), as_html(analysis, results), json.loads(as_json(analysis))
    for section in sections(analysis):
        assert section.title in markdown
        assert isinstance(section, Prose) or section.title in html
    assert "+100.0 [+100.0, +100.0] p <0.001 **" in markdown
    assert "+100.0</data>" in html
    assert len(plain["cells"]) == 16
    assert plain["timing"] == "simulated timing"
    assert "simulated timing" in markdown
    assert "simulated timing" in html


def test_the_headline_says_no_more_than_was_found(results: Results, analysis: Analysis, tmp_path: Path) -> None:
    """It names what Holm's p allows, with its interval; of one seed it says that it cannot tell."""
    told = headline(analysis)
    assert told.startswith(
        "Multi-input testing raised the rate of correct kernels by 100.0 points (95% interval +100.0"
    )
    assert "For staged evaluation, the curriculum and calibrated timing no effect is shown" in told
    assert "One seed" not in told
    one = analyse(filtered(results, tmp_path / "one", 0, "simulated timing"))
    assert headline(one).startswith("One seed cannot tell what an extension does from the chance of a training run")
    even = Results(root=tmp_path / "even")
    for name, table in TABLES.items():
        frame = results.read(name)
        if name == "evaluation":
            frame = frame.with_columns(correct=(pl.col("sample") + pl.col("slot")) % 2 == 0)
        write_table(table, frame, even.root / f"{name}.parquet")
    alike = analyse(even)
    assert headline(alike).startswith("None of the four extensions changed the rate of correct kernels")
    assert "The mean of the 16 cells minus their supervised start is +0.0 points" in headline(alike)
    assert any(remark.startswith("Reinforcement learning itself is not seen to raise") for remark in alike.remarks)


def test_a_gain_of_training_is_no_reservation(results: Results, tmp_path: Path) -> None:
    """Where every cell is better than its start the headline says by how much, and no remark doubts it."""
    better = Results(root=tmp_path / "better")
    for name, table in TABLES.items():
        frame = results.read(name)
        if name == "evaluation":
            frame = frame.with_columns(correct=pl.col("cell") != "sft")
        write_table(table, frame, better.root / f"{name}.parquet")
    found = analyse(better)
    assert "The mean of the 16 cells minus their supervised start is +100.0 points" in headline(found)
    assert not any("Reinforcement learning itself" in remark for remark in found.remarks)


def test_what_training_learned_from_is_told_by_staging(results: Results, tmp_path: Path) -> None:
    """Of the selected samples, and no others, those that were refused, with S and without it, with Level 2 beside."""
    planted = Results(root=tmp_path / "planted")
    staged = pl.col("cell").str.contains("s")
    for name, table in TABLES.items():
        frame = results.read(name)
        if name == "candidates":
            frame = frame.with_columns(selected=pl.col("sample") == 0, level=1 + pl.col("slot") % 2)
            frame = frame.with_columns(correct=pl.col("selected") & ~(staged & (pl.col("level") == 2)))
        write_table(table, frame, planted.root / f"{name}.parquet")
    found = analyse(planted)
    without, with_it = found.learned_from
    selected = (
        planted.read("candidates").filter("selected").join(grid_cells(planted.read("cells")), on=["cell", "seed"])
    )
    assert (without.staged, without.wrong.value, without.wrong_level2.value) == (False, 0.0, 0.0)
    assert without.wrong.count == selected.filter(~pl.col("staged")).height
    share = selected.filter("staged").select((pl.col("level") == 2).mean()).item()
    assert 0 < share < 1
    assert (with_it.staged, with_it.wrong_level2.value) == (True, 1.0)
    assert with_it.wrong.value == pytest.approx(share)
    told = f"without it 0% (0% of those of Level 2) of {without.wrong.count:,}, and with it {share:.0%} (100%"
    assert told in found.answers[1].answer


def test_small_data_is_said(analysis: Analysis) -> None:
    """Two seeds and a handful of samples are called too little, in sentences."""
    text = " ".join(analysis.remarks)
    assert "2 seeds" in text
    assert "16 held-out samples a cell" in text


def test_pass_at_k_and_fast_1_equal_the_parquet(results: Results, analysis: Analysis) -> None:
    """pass@1 is the rate of correct samples, pass@2 of tasks with one, fast_1 of correct and fast ones."""
    assert analysis.samples_per_task == 2
    facts = [*analysis.cells, *([analysis.start] if analysis.start else [])]
    for fact in facts:
        own = results.read("evaluation").filter(pl.col("cell") == fact.cell)
        solved = own.group_by("seed", "task").agg(pl.col("correct").any())["correct"]
        assert (fact.pass_at_1.value, fact.pass_at_1.low) == (pytest.approx(own["correct"].mean()), fact.correct.low)
        assert fact.pass_at_k.value == pytest.approx(solved.mean())
        assert (
            fact.estimated_fast_1.value
            == own.select(pl.col("correct") & (pl.col("estimated_speedup") > 1)).mean().item()
        )
        assert fact.fast_1.value is None
    for form in (as_markdown(analysis), as_html(analysis, results)):
        assert all(column in form for column in ("pass@1", "pass@2", "estimated fast_1"))


def filtered(results: Results, root: Path, seed: int, timing: str) -> Results:
    """The folder again with the cells of one seed, under another name of the timing."""
    for name, table in TABLES.items():
        frame = results.read(name)
        write_table(table, frame.filter(pl.col("seed") == seed) if "seed" in frame else frame, root / f"{name}.parquet")
    (root / "run.json").write_text(json.dumps({**(results.recorded() or {}), "timing_mode": timing}))
    return Results(root=root)


def test_one_seed_tests_nothing(results: Results, tmp_path: Path) -> None:
    """With one seed an effect is that of its runs: no sentence says that an extension helps, and nothing has a p."""
    found = analyse(filtered(results, tmp_path, 0, "simulated timing"))
    text = " ".join(answer.answer for answer in found.answers)
    first = found.answers[0].answer
    assert "One seed cannot tell an effect from the chance of a training run; in these runs: +100.0 points" in first
    assert "over tasks only" in first
    assert "It helps" not in text
    assert "It hurts" not in text
    every = [*found.effects.values(), *found.budget.effects.values(), found.cost_effects]
    effects = [effect for one in every if one is not None for effect in one.effects]
    assert effects
    assert {(effect.p_value, effect.p_adjusted, effect.detectable) for effect in effects} == {(None, None, None)}
    assert not any("*" in line for line in as_markdown(found).splitlines() if line.startswith("| "))


def test_few_seeds_are_said_in_the_answer(analysis: Analysis) -> None:
    """Where an answer rests on two seeds it says so."""
    assert "over seeds and tasks, with only 2 seeds" in analysis.answers[0].answer


def test_without_a_clock_nothing_is_said_of_noise(results: Results, tmp_path: Path) -> None:
    """Where no timing ran, T has no answer, no noise was injected, and nothing is fast."""
    found = analyse(filtered(results, tmp_path, 0, "no timing"))
    assert found.answers[3].answer == "Timing was off: candidates were not timed, so this run cannot tell."
    assert {fact.estimated_fast_1.value for fact in found.cells} == {None}
    assert "fast_1" not in as_markdown(found)


def test_chance_findings_are_announced(analysis: Analysis) -> None:
    """The report says how many effects were looked at, how many stand out, and how many would by chance."""
    by_run = (analysis.cost_effects, analysis.speed_effects, analysis.false_accept_effects)
    every = [*analysis.effects.values(), *analysis.budget.effects.values(), *by_run]
    known = [effect for found in every if found for effect in found.effects if effect.low is not None]
    ends = [(effect.low, effect.high) for effect in known]
    ends += [(one.difference.low, one.difference.high) for one in analysis.comparisons]
    number, marked = len(ends), sum((low or 0.0) > 0 or (high or 0.0) < 0 for low, high in ends)
    assert number >= 75 + 6
    wanted = (
        f"{number} effects and differences were looked at, and the intervals of {marked} exclude 0; about one in "
        f"twenty ({number / 20:.1f} of {number})"
    )
    assert any(remark.startswith(wanted) for remark in analysis.remarks)


def test_partial_grid_names_what_it_cannot_tell(tmp_path: Path) -> None:
    """With two cells no effect is invented: the answers say that these cells cannot tell."""
    config, results = tiny_config(), Results(root=tmp_path)
    cells = (Extensions(), Extensions.parse("msct"))
    run_grid(results, config, cells, range(1), lambda: stub_context(results, config), Progress())
    found = analyse(results)
    assert "cannot tell" in found.answers[2].answer
    assert any("14 of 16 cells were not run" in remark for remark in found.remarks)
    markdown = as_markdown(found)
    assert markdown.count("the grid is too small") == 1
    assert "cannot tell one extension from another" in as_html(found, results)
    assert "confounded with" not in markdown.split("## Research questions")[0]


def test_an_effect_that_is_on_everywhere_is_lost_in_the_mean(tmp_path: Path) -> None:
    """With one extension on in all cells its effect is named as what it cannot be told from."""
    config, results = tiny_config(), Results(root=tmp_path)
    cells = (Extensions.parse("s"), Extensions.parse("ms"))
    run_grid(results, config, cells, range(1), lambda: stub_context(results, config), Progress())
    assert "| S | with the mean, C, T |" in as_markdown(analyse(results))


def test_a_control_alone_has_a_page(tmp_path: Path) -> None:
    """With nothing of the grid, and no timing, every form can still be made, and says what is missing."""
    config, results = tiny_config(verifier={"timing": "none"}), Results(root=tmp_path)
    run_grid(results, config, parse_grid("c+binary"), range(1), lambda: stub_context(results, config), Progress())
    found = analyse(results)
    html = as_html(found, results)
    assert "No cell of the grid has been run." in html
    assert "c+binary" in html
    assert "Cells beside the grid" in as_markdown(found)
    assert headline(found) == "No cell is complete, so nothing can be said of the extensions yet."


def test_sparkline_spans_the_series() -> None:
    """The smallest value is the lowest bar, the largest the highest, null a gap, and long series are shortened."""
    assert sparkline([0.0, None, 1.0]) == "▁ █"
    assert sparkline([]) == ""
    assert sparkline([3.0, 3.0]) == "▁▁"
    assert len(sparkline([float(number) for number in range(1000)], width=20)) == 20


def test_cells_that_are_named_are_all_that_is_said_of(results: Results) -> None:
    """With the cells of one side of an extension left out, its effect is null, and the start stays."""
    found = analyse(results, ("none", "m"))
    assert [fact.cell for fact in found.cells] == ["none", "m"]
    assert found.start is not None
    effects = found.effects["correct"]
    assert effects is not None
    assert effects.effect("m").estimate is not None
    assert effects.effect("s").estimate is None
