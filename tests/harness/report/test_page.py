"""The page in a real browser: it needs nothing else, shows what the tables hold, and can be read anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.analysis.findings import Analysis
from tritonrl.harness.analysis.number_format import Form, written
from tritonrl.harness.report.sections import sections
from tritonrl.harness.report.sheet import Sheet, Table
from tritonrl.harness.report.theme import typeset
from tritonrl.harness.study.store import Results

from .browsing import CONTRAST, open_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for the tests of this file."""
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def page(browser: Any, page_path: Path) -> Any:
    """The page, opened, for tests that only read it."""
    return opened(browser, page_path)[0]


def opened(browser: Any, path: Path, width: int = 1100, scheme: str = "light") -> tuple[Any, list[str]]:
    """The page at that width and scheme, with all that is folded opened, and a list that fills with what went wrong."""
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on("request", lambda request: troubles.append(request.url) if request.url != path.as_uri() else None)
    page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    page.wait_for_function("[...document.querySelectorAll('#entries details')].every((one) => one.children.length > 1)")
    return page, troubles


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (375, "dark"), (1100, "light"), (1100, "dark")])
def test_a_page_is_complete_quiet_and_legible(browser: Any, page_path: Path, width: int, scheme: str) -> None:
    """At every width, light and dark: no console message, no request, no sideways scroll, and contrast enough."""
    page, troubles = opened(browser, page_path, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = page.evaluate(CONTRAST)
    assert sum(one["kind"] == "text" for one in found) > 500
    assert any(one["kind"] == "line" for one in found)
    weak = [one for one in found if one["ratio"] < (4.5 if one["kind"] == "text" else 3.0)]
    assert not weak
    plots = "[...document.querySelectorAll('.plot')].filter((one) => one.checkVisibility()).map((one) => one.className)"
    assert set(page.evaluate(plots)) == {"plot narrow" if width < 500 else "plot wide"}
    assert not troubles
    assert page.title() == "tritonrl: which parts of the recipe help"


def test_its_figures_are_the_analysis(page: Any, analysis: Analysis) -> None:
    """The page carries the whole analysis, and every number in a table is the one of its place there, as written."""
    carried = json.loads(page.evaluate("document.getElementById('figures').textContent"))
    shelf = carried.pop("shelf")
    assert carried == json.loads(json.dumps(to_plain(analysis)))
    sheet = Sheet(plain={**carried, "shelf": shelf})
    shown = page.evaluate(
        "[...document.querySelectorAll('data')].map((one) =>"
        " [one.value, one.dataset.at, one.dataset.form, one.textContent])"
    )
    assert len(shown) > 1000
    for value, at, form, text in shown:
        assert float(value) == sheet.look_up(at)
        assert text == typeset(written(sheet.look_up(at), Form(form)))


def test_its_figures_equal_the_parquet(page: Any, results: Results) -> None:
    """Rates of every cell and counts of every outcome on the page are those of the tables."""
    rows = page.evaluate(
        "[...document.querySelectorAll('#table-grid tbody tr')].map((row) => [...row.cells].map((cell) =>"
        " cell.querySelector('data')?.value ?? cell.textContent))"
    )
    evaluation = results.read("evaluation").filter(pl.col("round").is_null())
    assert len(rows) == 17
    columns = page.evaluate("[...document.querySelectorAll('#table-grid thead th')].map((cell) => cell.textContent)")
    for row in rows:
        shown = dict(zip(columns, row, strict=True))
        own = evaluation.filter(pl.col("cell") == shown["cell"])
        by_level = [own.filter(pl.col("level") == level)["correct"].mean() for level in (1, 2)]
        rates = [own["valid"].mean(), own["compiled"].mean(), own["correct"].mean(), *by_level]
        named = [shown[name] for name in ("valid", "compiled", "correct", "correct L1", "correct L2")]
        assert [float(number) for number in named] == pytest.approx(rates)
        # the first of the seeds
        assert float(shown["by seed"]) == pytest.approx(own.filter(pl.col("seed") == 0)["correct"].mean())
    outcomes = page.evaluate(
        "[...document.querySelectorAll('#table-reasons tbody tr')].map((row) =>"
        " [...row.querySelectorAll('td')].map((cell) => Number(cell.querySelector('data').value)))"
    )
    candidates = results.read("candidates")
    wanted = [candidates.height, candidates["audit_correct"].count(), results.read("evaluation").height]
    assert [sum(column) for column in zip(*outcomes, strict=True)] == wanted


def test_its_tables_are_those_of_the_other_forms(page: Any, analysis: Analysis) -> None:
    """Each table of the text forms is on the page, row by row, but for lines that are drawn in characters."""
    tables = [section for section in sections(analysis) if isinstance(section, Table)]
    assert {table.name for table in tables} > {
        "effects",
        "effects-seconds",
        "noise-sweep",
        "comparisons",
        "cost-effects",
    }
    for table in tables:
        shown = page.evaluate(
            "(id) => [...document.querySelectorAll(`#${id} tbody tr`)].map((row) =>"
            " [...row.cells].map((one) => one.textContent))",
            f"table-{table.name}",
        )
        wanted = [[typeset(cell.text) for cell in row if not cell.drawn] for row in table.rows]
        assert [[text.replace("–", "-") for text in row] for row in shown] == wanted


def test_candidates_can_be_searched(browser: Any, page_path: Path, results: Results) -> None:
    """A hash finds its source, words are all looked for, and a filter that fits nothing says so."""
    page, troubles = opened(browser, page_path)
    entries = page.locator("#entries > li")
    candidate = results.read("evaluation")["candidate"][0]
    page.fill("#filters input", candidate)
    assert entries.count() == results.read("evaluation").filter(pl.col("candidate") == candidate)["task"].n_unique()
    entries.first.locator("summary").click()
    shown = entries.first.locator("details")
    assert shown.locator("h4").all_inner_texts() == ["Candidate", "Task", "Teacher"]
    code, reference, teacher = shown.locator("> pre code").all()
    assert (
        code.inner_text().strip()
        == results.read("sources").filter(pl.col("candidate") == candidate)["source"][0].strip()
    )
    assert code.locator("span.keyword").count() > 0
    assert "class Model(" in reference.inner_text()
    assert "class ModelNew(" in teacher.inner_text()
    page.fill("#filters input", "")
    page.select_option("#filters select[name=verdict]", "differs")
    pairs = results.read("candidates").filter(pl.col("correct") != pl.col("audit_correct"))
    wanted = pairs["candidate", "task"].unique().height
    assert page.inner_text("#count").startswith(f"{wanted} source")
    page.fill("#filters input", "no such word anywhere")
    assert entries.count() == 0
    assert "No source matches" in page.inner_text("#count")
    assert not troubles


def test_it_is_built_for_everyone(browser: Any, page: Any, page_path: Path) -> None:
    """Headings leave no level out; tables have captions, drawings and fields have names; it reads without script."""
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map((one) => Number(one.tagName[1]))")
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.evaluate("[...document.querySelectorAll('table')].every((one) => one.caption?.textContent.trim())")
    assert page.evaluate("[...document.querySelectorAll('svg')].every((one) => one.getAttribute('aria-label'))")
    assert page.evaluate("[...document.querySelectorAll('input, select')].every((one) => one.labels.length === 1)")
    assert page.evaluate("new Set([...document.querySelectorAll('[id]')].map((one) => one.id)).size") == page.evaluate(
        "document.querySelectorAll('[id]').length"
    )
    still = browser.new_context(java_script_enabled=False).new_page()
    still.goto(page_path.as_uri())
    assert still.locator("#table-effects").is_visible()
    assert not still.locator("#browser").is_visible()


def test_it_prints(browser: Any, page_path: Path) -> None:
    """On paper all tables are open and fit the sheet, and what needs a screen is left out."""
    page = browser.new_context(viewport={"width": 673, "height": 900}).new_page()  # A4 without its margins
    page.goto(page_path.as_uri())
    page.emulate_media(media="print")
    tables = page.evaluate(
        "[...document.querySelectorAll('table')].map((one) => [one.id, one.offsetWidth, one.checkVisibility()])"
    )
    assert len(tables) > 10
    assert all(width <= 673 and visible for _, width, visible in tables), tables
    assert not page.locator("nav").is_visible()
    assert not page.locator("#filters").is_visible()
    assert len(page.pdf(format="A4")) > 100_000


def test_a_link_shows_one_candidate(browser: Any, page_path: Path) -> None:
    """The address that a candidate gives of itself opens the page at it, alone and unfolded."""
    page, _ = opened(browser, page_path)
    href = page.locator("#entries a[href^='#candidate-']").nth(3).get_attribute("href")
    linked = browser.new_context().new_page()
    linked.goto(f"{page_path.as_uri()}{href}")
    assert linked.locator("#entries > li").count() == 1
    assert linked.locator(f"[id='{href.removeprefix('#')}'] > details").get_attribute("open") is not None
    shown, verified = linked.locator("#entries dd code").inner_text().splitlines()
    assert shown.startswith("tritonrl show RESULTS ")
    assert verified.startswith("tritonrl verify candidate.py --task ")
