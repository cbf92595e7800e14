"""What is committed about the published run is what its committed tables say."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import polars
import pytest
from tritonrl.core.config import merge
from tritonrl.core.recipe.extensions import NAMED_GRIDS
from tritonrl.core.serialisation import to_plain
from tritonrl.core.statistics.intervals import adjust
from tritonrl.harness.analysis.analysis import analyse, predict_detectable
from tritonrl.harness.analysis.conclusions import training_gain
from tritonrl.harness.analysis.findings import Analysis, Estimate
from tritonrl.harness.legacy import translate_config
from tritonrl.harness.reinforcement import comparison
from tritonrl.harness.report.publish import BEGIN, END, MAX_BYTES, published_readme, with_excerpt
from tritonrl.harness.study.store import Results

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = Results(root=ROOT / "results")
SECOND = Results(root=ROOT / "results" / "second-ablation")
CONTROLS = Results(root=ROOT / "results" / "controls")
HALF = tuple(map(str, NAMED_GRIDS["half"]))
AGAIN = "run `tritonrl report FOLDER --publish FOLDER`, of the second with --grid half and --excerpt README.md"

committed = pytest.mark.skipif(not (ROOT / "results" / "run.json").exists(), reason="no run is published in results/")


def test_nothing_is_claimed_without_tables() -> None:
    """The project's README has a part for results, and numbers in it only where a run is published."""
    _, begin, rest = (ROOT / "README.md").read_text().partition(BEGIN)
    part, end, _ = rest.partition(END)
    assert begin
    assert end
    assert PUBLISHED.recorded() is not None or not re.search(r"\d", part)


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    """What the published tables say, computed once."""
    return analyse(PUBLISHED)


@pytest.fixture(scope="module")
def second() -> Analysis:
    """What the second run's tables say of the registered cells."""
    return analyse(SECOND, HALF)


@pytest.fixture(scope="module")
def controls() -> Analysis:
    """What the tables of the second run's controls say."""
    return analyse(CONTROLS)


@committed
def test_readmes_are_what_the_tables_say(analysis: Analysis, second: Analysis, controls: Analysis) -> None:
    """Every figure of the READMEs' results is computed from the tables: computing them again changes nothing."""
    assert (PUBLISHED.root / "README.md").read_text() == published_readme(PUBLISHED, analysis), AGAIN
    assert (SECOND.root / "README.md").read_text() == published_readme(SECOND, second, HALF), AGAIN
    assert (CONTROLS.root / "README.md").read_text() == published_readme(CONTROLS, controls), AGAIN
    readme = (ROOT / "README.md").read_text()
    assert with_excerpt(readme, SECOND, second, "results/second-ablation") == readme, AGAIN


@committed
def test_the_second_run_answers_as_the_finding_says(second: Analysis) -> None:
    """Its training gains, and the four registered effects are those of docs/findings/ablation.md."""
    text = (ROOT / "docs" / "findings" / "ablation.md").read_text()
    gain = training_gain(second.comparisons)
    assert gain is not None
    assert f"**Training gains: {_points(gain.difference)}" in text
    found = {
        "m": second.false_accept_effects,
        "s": second.cost_effects,
        "c": second.effects["correct_level2"],
        "t": second.speed_effects,
    }
    effects = {name: analysis and analysis.effect(name) for name, analysis in found.items()}
    holm = adjust([effect.p_value or 0.0 for effect in effects.values() if effect])
    for (name, effect), p in zip(effects.items(), holm, strict=True):
        assert effect is not None
        row = next(line for line in text.splitlines() if line.startswith(f"| {name.upper()} |"))
        shown = [effect.estimate, effect.low, effect.high]
        figures = re.findall(r"[+-]?\d+\.\d+", row.split("|")[3])
        expected = [math.exp(value or 0.0) if name in "st" else 100 * (value or 0.0) for value in shown]
        assert figures == [f"{value:{form}}" for value, form in zip(expected, _forms(figures), strict=True)]
        assert float(row.split("|")[4].strip(" *")) == pytest.approx(p, rel=0.05)


@committed
def test_the_controls_say_what_the_finding_says(controls: Analysis) -> None:
    """Their differences from the baseline are those of docs/findings/ablation.md."""
    text = (ROOT / "docs" / "findings" / "ablation.md").read_text()
    found = {one.cell: one.difference for one in controls.comparisons if one.metric == "correct"}
    assert _points(found["none+partial-credit"]) in text
    stopped = found["none+stop-early"]
    assert (stopped.value, stopped.low, stopped.high) == (0.0, 0.0, 0.0)
    start = found["sft"]
    assert None not in (start.value, start.low, start.high)
    assert _points(Estimate(count=start.count, value=-start.value, low=-start.high, high=-start.low)) in text


@committed
def test_the_readme_shows_what_the_field_exams_say() -> None:
    """Each figure of the README's table of problems written by others is that of the tables."""
    folder = ROOT / "results" / "field"
    levels = [1, 2, 3]
    expected: dict[str, list[str]] = {}
    held_out = polars.read_parquet(folder / "held-out.parquet")
    for row, suite in (("`field:heldout`", "field:heldout"), ("`dialects:heldout`", "dialects:heldout")):
        found = [held_out.filter(suite=suite, level=level)["correct"] for level in levels]
        assert all(len(one) == 200 for one in found)
        expected[row] = [f"{100 * (one.sum() / 200):.1f}%" for one in found]
    problems = polars.read_parquet(folder / "problems" / "evaluation.parquet")
    by_task = problems.group_by("level", "task").agg(polars.len(), polars.col("correct").sum())
    assert set(by_task["len"]) == {10}
    one = [by_task.filter(level=level)["correct"] for level in levels]
    expected["pass@1"] = [f"{100 * each.sum() / (10 * len(each)):.0f}%" for each in one]
    expected["pass@10"] = [f"{100 * (each > 0).sum() / len(each):.0f}%" for each in one]
    table = (ROOT / "README.md").read_text().partition("| right, by level |")[2].partition("\n\n")[0].splitlines()
    for row, figures in expected.items():
        line = next(line for line in table if row in line and "itself" not in line)
        assert [cell.strip() for cell in line.split("|")[3:6]] == figures


def _points(difference: Estimate) -> str:
    values = (difference.value, difference.low, difference.high)
    value, low, high = (f"{100 * (value or 0.0):+.1f}" for value in values)
    return f"{value} points [{low}, {high}]"


def _forms(figures: list[str]) -> list[str]:
    """How each figure is written: its sign, where it has one, and its places."""
    return [f"{'+' if text[0] in '+-' else ''}.{len(text.partition('.')[2])}f" for text in figures]


@committed
def test_the_page_is_what_the_tables_say(analysis: Analysis) -> None:
    """The published page carries the analysis of the published tables, and shows the numbers that it carries."""
    page = (ROOT / "results" / "report.html").read_text()
    block = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, flags=re.DOTALL)
    assert block is not None
    carried = json.loads(block.group(1))
    shown = re.findall(r'<data value="([^"]+)" data-at="([^"]+)"', page)
    assert len(shown) > 1000
    for value, at in shown:
        found: Any = carried
        for step in at.split("."):
            found = found[int(step)] if isinstance(found, list) else found[step]
        assert float(value) == found, at
    del carried["shelf"]
    carried["config"] = to_plain(merge(translate_config(carried["config"])))
    assert not differing(carried, json.loads(json.dumps(to_plain(analysis)))), AGAIN


@committed
def test_the_power_of_these_sizes_is_what_was_detectable(analysis: Analysis) -> None:
    """What is predicted for as many seeds and tasks as there were is what their intervals would have shown."""
    effects = analysis.effects["correct"]
    assert effects is not None
    predicted = predict_detectable(PUBLISHED, [(effects.num_seeds, effects.num_tasks), (1, 100)])
    assert predicted.keys() == {"m", "s", "c", "t"}
    for name, (value, alone) in predicted.items():
        assert value == pytest.approx(effects.effect(name).detectable)
        assert alone is None


@pytest.mark.parametrize(
    ("tables", "document"),
    [
        ("rl", "README.md"),
        ("rl-study", "docs/findings/reinforcement.md"),
        ("rl-long", "docs/findings/longer-chains.md"),
        ("rl-forgetting", "docs/findings/forgetting.md"),
        ("rl-speed", "docs/findings/speed.md"),
    ],
)
def test_what_reinforcement_gained_is_what_its_tables_say(tables: str, document: str) -> None:
    """A document's part about `tritonrl rl` and its figure are computed from the tables that it names."""
    folder, path = ROOT / "results" / tables, ROOT / document
    found, text = comparison.read_runs([folder]), path.read_text()
    again = f"run `tritonrl compare results/{tables} --publish results/{tables} --excerpt {document}`"
    assert comparison.with_excerpt(text, found, os.path.relpath(folder, path.parent)) == text, again
    assert comparison.draw_curves(found) == (folder / "curves.svg").read_text(), again


@committed
def test_what_rehearsal_keeps_is_what_its_tables_say() -> None:
    """The findings' table of runs that rehearse has the gains that the tables give."""
    found = comparison.read_runs([ROOT / "results" / "rl-rehearsal"])
    text = (ROOT / "docs" / "findings" / "reinforcement.md").read_text()
    for gain in comparison.find_gains(found):
        if gain.group == "all" or gain.group.startswith("level "):
            place = f"{gain.figure} at {gain.temperature:g}, {gain.group}"
            assert f"| {place} | {gain.sides[0]} | {gain.sides[1]} | {gain.points} |" in text


def differing(first: Any, second: Any, path: str = "") -> list[str]:
    """The places where two trees differ by more than rounding."""
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return [place for key in first for place in differing(first[key], second[key], f"{path}.{key}")]
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [place for i in range(len(first)) for place in differing(first[i], second[i], f"{path}.{i}")]
    if (
        isinstance(first, float)
        and isinstance(second, float)
        and math.isclose(first, second, rel_tol=1e-6, abs_tol=1e-9)
    ):
        return []
    return [] if first == second else [path]


@committed
def test_it_is_small() -> None:
    """The published files together stay within the limit."""
    files = [path for path in (ROOT / "results").iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MAX_BYTES
