"""A run's curves: figures by round, in the terminal while it goes on and on one page at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from attrs import Factory, define, frozen
from markupsafe import Markup

from ...core.statistics.intervals import clustered_rate_interval
from ..display import Rich
from ..report.curve_plots import Style, curves_plot, thinned
from ..report.page import asset, fill_template
from ..report.sheet import sparkline
from ..study.store import Results
from .exams import Change

if TYPE_CHECKING:
    from rich.console import RenderableType


@frozen(kw_only=True)
class Figure:
    """A column of the rounds' table or of the live figures: its title and how it is written."""

    name: str
    title: str
    form: str
    unit: float = 1.0


FIGURES: tuple[Figure, ...] = (
    Figure(name="reward", title="mean reward", form=".2f"),
    Figure(name="correct", title="correct, %", form=".0f", unit=100.0),
    Figure(name="mixed_groups", title="mixed groups, %", form=".0f", unit=100.0),
    Figure(name="distinct_answers", title="distinct answers a task", form=".1f"),
    Figure(name="mean_tokens", title="tokens of an answer", form=".0f"),
    Figure(name="finished_share", title="finished, %", form=".0f", unit=100.0),
    Figure(name="kl", title="divergence from the start, nats a token", form=".3f"),
    Figure(name="entropy", title="entropy, nats a token", form=".3f"),
    Figure(name="clip_share", title="clipped tokens, %", form=".2f", unit=100.0),
    Figure(name="gradient_norm", title="gradient norm", form=".3f"),
)


@define
class LiveCurves(Rich):
    """The live picture of a run: a line a figure over the rounds so far, and the bar of what goes on now."""

    _rounds: dict[int, Mapping[str, float]] = Factory(dict)

    def metrics(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        if phase == "round":
            self._rounds[step] = dict(values)
        Rich.metrics(self, phase, step, values)

    def render(self) -> RenderableType:
        """Draw the picture: figures by round above the bar."""
        from rich.console import Group
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 1), show_header=False)
        rounds = [self._rounds[step] for step in sorted(self._rounds)]
        for figure in FIGURES:
            values = [known.get(figure.name) for known in rounds]
            if any(value is not None for value in values):
                last = next(value for value in reversed(values) if value is not None)
                table.add_row(figure.title, sparkline(values), format(last * figure.unit, figure.form))
        return Group(table, self._open()) if rounds else Group(self._open())


def read_curves(results: Results, own: pl.Expr) -> pl.DataFrame:
    """Read the figures by round of a run from its folder's tables, of which `own` chooses the run's rows."""
    correct = results.read("candidates").filter(own).group_by("round").agg(pl.col("correct").mean())
    rounds = results.read("rounds").filter(own).with_columns(reward=pl.col("mean_reward"))
    figures = rounds.join(correct, on="round", how="left").sort("round")
    return figures.select("round", *(figure.name for figure in FIGURES))


def read_correct_bands(results: Results, own: pl.Expr) -> list[tuple[float, float, float]]:
    """Read the ends of the intervals, over tasks, of each round's share of right samples: round, low, high."""
    candidates = results.read("candidates").filter(own)
    bands = []
    for number in sorted(candidates["round"].unique()):
        rows = candidates.filter(pl.col("round") == number)
        found = clustered_rate_interval(list(map(float, rows["correct"])), list(map(str, rows["slot"])), 0)
        if found is not None:
            bands.append((float(number), found.low, found.high))
    return bands


def write_page(results: Results, cell: str, seed: int, changes: Sequence[Change], facts: Mapping[str, Any]) -> Path:
    """Write the run's page: what it was, what it changed, and its curves; one file that needs no network."""
    own = (pl.col("cell") == cell) & (pl.col("seed") == seed)
    curves, bands = read_curves(results, own), {"correct": read_correct_bands(results, own)}
    plots = []
    for figure in FIGURES:
        line = thinned(curves[figure.name].to_list())
        style = Style(label=f"{figure.title} by round", form=figure.form, unit=figure.unit)
        band = {figure.title: bands.get(figure.name, [])}
        plots.append(curves_plot({figure.title: line}, [], style, band))
    page = fill_template("rl.html.jinja", facts=facts, changes=changes, plots=plots, style=Markup(asset("style.css")))
    path = results.root / "rl.html"
    path.write_text(page, encoding="utf-8")
    return path
