"""A published folder says what the run says, is small, and can be computed again from its own tables."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import polars as pl
import pytest
from attrs import evolve
from tritonrl.cli import app
from tritonrl.core.config import merge
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.analysis.analysis import analyse
from tritonrl.harness.analysis.findings import Analysis
from tritonrl.harness.errors import UsageError
from tritonrl.harness.report import publish as publishing
from tritonrl.harness.report.candidates import gather
from tritonrl.harness.report.publish import BEGIN, END, publish, published_readme, with_excerpt
from tritonrl.harness.study.grid import parse_grid
from tritonrl.harness.study.runner.ablation import run_ablation
from tritonrl.harness.study.store import Results
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def published(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The folder, published."""
    folder = tmp_path_factory.mktemp("published")
    publish(results, folder)
    return Results(root=folder)


def test_it_says_what_the_run_says(published: Results, analysis: Analysis) -> None:
    """The analysis of the published tables is that of the run, to the last digit."""
    assert json.dumps(to_plain(analyse(published))) == json.dumps(to_plain(analysis))


def test_it_holds_what_another_lab_needs(published: Results, results: Results) -> None:
    """Tables, page, figure, provenance and a configuration that is the run's; adapters and evidence stay behind."""
    names = {path.name for path in published.root.iterdir()}
    assert names > {"README.md", "report.html", "effects.svg", "config.toml", "provenance.json", "run.json"}
    assert "work" not in names
    assert merge(tomllib.loads((published.root / "config.toml").read_text())) == results.config()
    (record,) = json.loads((published.root / "provenance.json").read_text())["invocations"]
    assert record["command"] in (published.root / "README.md").read_text()


def test_measurements_are_kept_once(published: Results, results: Results) -> None:
    """Cells share candidates: every distinct measurement is left, and none twice."""
    ours, theirs = results.read("timings"), published.read("timings")
    assert 0 < theirs.height < ours.height
    assert theirs.join(ours, on=ours.columns, how="anti", nulls_equal=True).is_empty()
    assert set(theirs["task"]) == set(
        ours.filter(pl.col("round").is_not_null() & (pl.col("phase") == "rl"))["task"]
    ) & set(results.read("candidates")["task"])


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spares the drawing of a page where a test is about the other files."""
    monkeypatch.setattr(publishing, "as_html", lambda *_: "<!doctype html>")


@pytest.mark.usefixtures("no_page")
def test_its_readme_can_be_computed_again(published: Results, analysis: Analysis, tmp_path: Path) -> None:
    """The README is what its tables say; publishing a published folder changes nothing in it."""
    text = (published.root / "README.md").read_text()
    assert published_readme(published, analysis) == text
    publish(published, tmp_path)
    assert (tmp_path / "README.md").read_text() == text
    assert (tmp_path / "provenance.json").read_text() == (published.root / "provenance.json").read_text()


def test_it_can_be_done_again_elsewhere(published: Results, analysis: Analysis) -> None:
    """What finished nothing is not repeated, and no folder is asked for that only the first machine had."""
    (first,) = analysis.invocations
    away = evolve(first, command="tritonrl ablate --grid full --out /media/disk/run --jobs 8")
    futile = evolve(away, command="tritonrl ablate --grid full --out /media/disk/run --jobs 9", num_finished=0)
    text = published_readme(published, evolve(analysis, invocations=(futile, away, away)))
    made, again = text.split("## How it was made")[1].split("## Do it again")
    assert "/media/" not in text
    assert made.count("--jobs 8`") == 2
    assert made.count("--jobs 9`") == 1
    lines = again.split("```")[1].splitlines()
    assert lines[-2:] == [
        "tritonrl ablate --grid full --out run --jobs 8",
        "tritonrl report run --publish FOLDER",
    ]
    assert not any("--jobs 9" in line for line in lines)


@pytest.mark.parametrize("command", [None, "tritonrl ablate --grid full"])
def test_a_folder_that_is_not_known_has_a_placeholder(
    published: Results, analysis: Analysis, command: str | None
) -> None:
    """Without a record, and where the command names no folder."""
    known = () if command is None else (evolve(analysis.invocations[0], command=command),)
    text = published_readme(published, evolve(analysis, invocations=known))
    assert "tritonrl report RESULTS --publish FOLDER" in text


def test_a_changed_table_shows(published: Results, tmp_path: Path) -> None:
    """A README whose tables were changed after it was written is not what they say."""
    for path in published.root.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    changed = Results(root=tmp_path)
    flipped = changed.read("evaluation").with_columns(correct=~pl.col("correct"))
    flipped.write_parquet(tmp_path / "evaluation.parquet", metadata={"tritonrl.schema": "2"})
    assert published_readme(changed, analyse(changed)) != (tmp_path / "README.md").read_text()


@pytest.mark.usefixtures("no_page")
def test_what_is_too_large_is_refused(results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written where the files together pass the limit, and the largest are named."""
    monkeypatch.setattr(publishing, "MAX_BYTES", 10_000)
    with pytest.raises(UsageError, match=r"0 at most: \w+\.\w+ 0\.\d MiB"):
        publish(results, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_page")
def test_sources_beyond_the_limit_are_left_out(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sources that the page shows stay, the README counts those that do not, and the figures are the same."""
    monkeypatch.setattr(publishing, "MAX_SOURCE", 0)
    monkeypatch.setattr(publishing, "gather", lambda found: gather(found, max_entries=2))
    publish(results, tmp_path)
    left = Results(root=tmp_path).read("sources").height
    assert 0 < left <= 2
    missing = results.read("sources").height - left
    assert f"{missing:,} sources are left out" in (tmp_path / "README.md").read_text()


def test_a_published_folder_is_not_run_into(published: Results) -> None:
    """A run into a published folder would replace its tables by those of the cells that it has finished."""
    before = (published.root / "cells.parquet").read_bytes()
    with pytest.raises(UsageError, match="published tables, not a run"):
        run_ablation(published.config(), published.root, parse_grid("none"), 1)
    assert (published.root / "cells.parquet").read_bytes() == before


def test_a_document_gets_its_part(published: Results, analysis: Analysis) -> None:
    """What stands between the marks is computed, what is around them stays, and doing it again changes nothing."""
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    written = with_excerpt(text, published, analysis, "results")
    assert written.startswith(f"before\n{BEGIN}\n")
    assert written.endswith(f"{END}\nafter\n")
    assert "(results/effects.svg)" in written
    assert "old" not in written
    assert with_excerpt(written, published, analysis, "results") == written
    with pytest.raises(UsageError, match="no place for the results"):
        with_excerpt("nothing", published, analysis, "results")


@pytest.mark.usefixtures("no_page")
def test_the_command_publishes(results: Results, tmp_path: Path) -> None:
    """One command writes the folder and the document's part; where that has no place for it, nothing is written."""
    document = tmp_path / "README.md"
    document.write_text(f"{BEGIN}\n{END}\n")
    call = ["report", str(results.root), "--publish", str(tmp_path / "out"), "--excerpt", str(document)]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    assert "(out/effects.svg)" in document.read_text()
    assert "| M |" in document.read_text()
    document.write_text("no place")
    done = CliRunner().invoke(app, [*call[:3], str(tmp_path / "other"), *call[4:]])
    assert done.exit_code == 2
    assert not (tmp_path / "other").exists()
    assert "no place for the results" in done.output
    assert document.read_text() == "no place"
