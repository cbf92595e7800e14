"""The report outside of browsers: on a terminal of eighty columns, and as drawings in other programs."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tritonrl.harness.analysis.findings import Analysis
from tritonrl.harness.report.candidates import gather, tasks_of
from tritonrl.harness.report.curve_plots import held_out_plot, learning_plot
from tritonrl.harness.report.effect_plots import Mark, effects_plot, forest_plot
from tritonrl.harness.report.page import asset
from tritonrl.harness.report.sections import fitting_columns, print_report, sections
from tritonrl.harness.report.sheet import Table
from tritonrl.harness.report.theme import standalone
from tritonrl.harness.study.store import Results


def num_values(png: bytes) -> int:
    """Returns how many different bytes the compressed rows of a picture hold; a blank one has few."""
    at, rows = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            rows += png[at + 8 : at + 8 + length]
        at += 12 + length
    return len(set(zlib.decompress(rows)))


@pytest.fixture(scope="module")
def drawing(analysis: Analysis) -> str:
    """The published figure."""
    figure = effects_plot(analysis)
    assert figure is not None
    return standalone(figure, asset("style.css"))


def test_a_figure_stands_alone(drawing: str) -> None:
    """A file has its colours as they are, and a renderer that knows no style sheet draws lines in them."""
    assert "var(" not in drawing
    assert "#0072b2" in drawing
    blank = drawing[: drawing.index("<rect")] + "</svg>"
    assert num_values(vl_convert.svg_to_png(drawing)) > 20 * num_values(vl_convert.svg_to_png(blank))


@pytest.mark.skipif(shutil.which("rsvg-convert") is None, reason="needs rsvg-convert (Debian: librsvg2-bin)")
def test_a_second_renderer_draws_it(drawing: str, tmp_path: Path) -> None:
    """librsvg, as GNOME and Wikipedia have it, draws the figure too."""
    (tmp_path / "figure.svg").write_text(drawing)
    command = ["rsvg-convert", "--output", str(tmp_path / "figure.png"), str(tmp_path / "figure.svg")]
    subprocess.run(command, check=True)
    assert num_values((tmp_path / "figure.png").read_bytes()) > 50


@pytest.mark.parametrize("width", [80, 160])
def test_the_report_is_readable_at_any_width(analysis: Analysis, width: int) -> None:
    """No line is wider than the console, and no figure or heading is cut."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_report(analysis, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for section in sections(analysis):
        if isinstance(section, Table):
            assert all(cell.text in text for row in section.rows for cell in row if len(cell.text) < width // 2)


@given(width=st.integers(20, 200))
def test_every_column_is_drawn_once(analysis: Analysis, width: int) -> None:
    """However narrow, each part begins with the names and the other columns follow in order, none twice."""
    for section in sections(analysis):
        if isinstance(section, Table):
            parts = fitting_columns(section, width)
            assert all(part[0] == 0 and len(part) > 1 for part in parts)
            assert [index for part in parts for index in part[1:]] == list(range(1, len(section.columns)))


def test_each_panel_has_a_scale_of_its_own() -> None:
    """A panel with narrow intervals is drawn as wide as one whose intervals are thirty times as wide."""
    wide = Mark(label="M", value=0.1, low=-0.6, high=0.6, text="wide")
    narrow = Mark(label="M", value=0.01, low=-0.02, high=0.02, text="narrow")
    drawn = forest_plot("both", {"one": [wide], "other": [narrow]})
    assert drawn is not None
    assert "+50" in drawn
    assert "+2" in drawn


def test_learning_curves_have_bands(analysis: Analysis) -> None:
    """The intervals of what is estimated are drawn behind the lines."""
    for plot in (held_out_plot(analysis), learning_plot(analysis)):
        assert plot is not None
        assert 'opacity="0.18"' in plot


def test_candidates_stand_beside_task_and_teacher(results: Results) -> None:
    """Each shown candidate of the corpus has its task's program and the teacher's, as far as there is room."""
    shelf = gather(results)
    named = {entry["task"] for entry in shelf.entries}
    assert set(shelf.tasks) == named
    for task in shelf.tasks.values():
        assert "class Model(" in task["source"]
        assert "class ModelNew(" in task["teacher"]
        assert sum(task["runs"][::2]) == len(task["source"])
    assert len(tasks_of(shelf.entries, 3000)) < len(named)
    assert tasks_of([{"task": "file-add-0123"}]) == {}
