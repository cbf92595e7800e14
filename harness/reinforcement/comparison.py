"""Runs of `tritonrl rl` compared: what their ends gained over their starts, and one algorithm over another.

Runs of one algorithm that differ in their seed are its repetitions. A gain is a contrast of crossed random effects
(`core.statistics.factorial.compare`): other seeds would have trained otherwise, and other tasks have been asked. So
its interval is over both; with one seed it is over tasks alone, and says so by `num_seeds`.

What is compared is written as two small tables, of which everything else is computed again: `exams` (by task how many
samples there are, how many are right, and how fast those are) and `rounds` (figures of training by round).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
from attrs import frozen

from ...core.statistics.factorial import Response, compare
from ...core.statistics.intervals import pass_at_k, quantile
from ..errors import UsageError
from ..evaluation.finished import read_finished
from ..report.curve_plots import Points, Style, curves_plot
from ..report.page import asset
from ..report.publish import around
from ..report.theme import standalone
from ..study.store import Results
from ..tables import Table, read_table, write_table
from ..work import write_atomically
from .curves import FIGURES, read_curves
from .exams import EXAM_NAME, LARGEST_K, START

_REAL, _INT, _TEXT = pl.Float64(), pl.Int64(), pl.String()
EXAMS = Table(
    name="rl exams",
    columns={
        "algorithm": _TEXT,  # of the run, also where its start is examined
        "seed": _INT,
        "is_start": pl.Boolean(),
        "temperature": _REAL,
        "slot": _INT,
        "task": _TEXT,
        "level": _INT,
        "family": _TEXT,
        "num_samples": _INT,
        "num_compiled": _INT,
        "num_correct": _INT,  # by the audit
        "num_timed": _INT,  # right ones that have a speedup; null where the exam timed nothing
        "num_fast": _INT,  # those that are faster than the reference
        "sum_log_speedup": _REAL,
    },
    key=("algorithm", "seed", "is_start", "temperature", "slot"),
)
ROUNDS = Table(
    name="rl rounds",
    columns={"algorithm": _TEXT, "seed": _INT, "round": _INT, **{figure.name: _REAL for figure in FIGURES}},
    key=("algorithm", "seed", "round"),
)
_HEAD = ("| contrast | temperature | figure | from | to | points |", "| --- | ---: | --- | ---: | ---: | ---: |")
FAST_1, SPEEDUP = "fast_1", "speedup"
BEGIN, END = "<!-- rl: written by `tritonrl compare` -->", "<!-- rl: end -->"


@frozen(kw_only=True)
class Comparison:
    """The tables of several runs."""

    exams: pl.DataFrame
    rounds: pl.DataFrame

    @property
    def algorithms(self) -> tuple[str, ...]:
        return tuple(sorted(self.exams["algorithm"].unique()))


@frozen(kw_only=True)
class Gain:
    """A figure of two groups of runs on the same tasks, with the ends of the difference's 95% interval.

    Figures are shares, and their difference is one of shares; but `speedup`, a geometric mean over what both sides
    solved, whose difference is a ratio. `over` is "start", or another algorithm.
    """

    algorithm: str
    over: str
    temperature: float
    group: str
    figure: str
    num_seeds: int
    num_tasks: int
    before: float
    after: float
    low: float
    high: float

    @property
    def is_ratio(self) -> bool:
        """Whether the difference is a ratio, and nothing changed where it is 1."""
        return self.figure == SPEEDUP

    @property
    def sides(self) -> tuple[str, str]:
        """Both groups' figures, as a person reads them."""
        form = "{:.2f}" if self.is_ratio else "{:.1%}"
        return form.format(self.before), form.format(self.after)

    @property
    def points(self) -> str:
        """The difference with its 95% interval, in percentage points or as a ratio."""
        if self.is_ratio:
            return f"x{self.after / self.before:.2f} [{self.low:.2f}, {self.high:.2f}]"
        return f"{100 * (self.after - self.before):+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"

    @property
    def fell(self) -> bool:
        """Whether the figure fell by more than chance explains."""
        return self.high < (1.0 if self.is_ratio else 0.0)


def read_runs(folders: Sequence[Path]) -> Comparison:
    """Read the runs' folders, or one that `write_comparison` wrote; raises UsageError for what cannot be compared."""
    if len(folders) == 1 and (folders[0] / "exams.parquet").exists():
        return Comparison(
            exams=read_table(EXAMS, folders[0] / "exams.parquet"),
            rounds=read_table(ROUNDS, folders[0] / "rounds.parquet"),
        )
    exams, rounds, known = [], [], dict[tuple[str, int], Path]()
    for folder in folders:
        results = Results(root=folder)
        algorithm = results.config().rl.algorithm
        found = _read_exams(folder, algorithm)
        seeds = found["seed"].unique()
        if len(seeds) != 1 or found["is_start"].n_unique() != 2:
            raise UsageError(f"{folder}: no exams of its start and its end (run `tritonrl rl` with --eval-suite)")
        seed = int(seeds[0])
        if (algorithm, seed) in known:
            raise UsageError(f"{folder}: {algorithm} with seed {seed}, as {known[algorithm, seed]} is")
        known[algorithm, seed] = folder
        exams.append(found)
        rounds.append(_read_rounds(results, algorithm, seed))
    return Comparison(exams=pl.concat(exams), rounds=pl.concat(rounds))


def _read_exams(folder: Path, algorithm: str) -> pl.DataFrame:
    found = [EXAMS.frame([])]
    for path in sorted((folder / "exams").glob("seed*")):
        named, finished = EXAM_NAME.fullmatch(path.name), read_finished(path)
        if named is None or finished is None:
            continue
        frame = (
            finished.frame.group_by("slot", "task", "level", "family")
            .agg(
                num_samples=pl.len().cast(_INT),
                num_compiled=pl.col("compiled").fill_null(False).sum().cast(_INT),
                num_correct=pl.col("correct").fill_null(False).sum().cast(_INT),
                **_speed_columns(finished.frame),
            )
            .with_columns(
                algorithm=pl.lit(algorithm),
                seed=pl.lit(int(named[1]), _INT),
                is_start=pl.lit(named[2] == START),
                temperature=pl.lit(float(named[3])),
            )
        )
        found.append(frame.select(list(EXAMS.columns)).sort("slot"))
    return pl.concat(found)


def _speed_columns(frame: pl.DataFrame) -> dict[str, pl.Expr]:
    """The columns that tell how fast right samples are; null where none was timed."""
    speedups = pl.col("speedup").filter(pl.col("correct"))
    columns = {
        "num_timed": speedups.count().cast(_INT),
        "num_fast": (speedups > 1.0).sum().cast(_INT),
        "sum_log_speedup": speedups.log().sum(),
    }
    if frame.filter(pl.col("correct"))["speedup"].is_not_null().any():
        return columns
    return {name: pl.lit(None, dtype=EXAMS.columns[name]) for name in columns}


def _read_rounds(results: Results, algorithm: str, seed: int) -> pl.DataFrame:
    """A run's figures by round: of its tables, or, where it was cut off, of the metrics that it logged."""
    log = results.root / "metrics.jsonl"
    rows: list[dict[str, Any]] = []
    if results.places():
        rows = read_curves(results, pl.col("seed") == seed).to_dicts()
    if not rows and log.exists():
        lines = map(json.loads, log.read_text().splitlines())
        logged = {line["step"]: line for line in lines if line.get("phase") == "round"}
        rows = [line | {"round": number} for number, line in logged.items()]
    names = ["round", *(figure.name for figure in FIGURES)]
    run = {"algorithm": algorithm, "seed": seed}
    return ROUNDS.frame({**run, **{name: row.get(name) for name in names}} for row in rows)


def find_gains(comparison: Comparison) -> tuple[Gain, ...]:
    """Compute the gain of each algorithm over its start, and of each over each other one, by temperature and group.

    Groups are all tasks, levels and families; figures are pass@1 and, for all tasks and levels, pass@k for the
    largest k up to 10 that there are samples for, and where right samples were timed `fast_1` and the geometric mean
    of their speedups. Raises UsageError where runs were asked other tasks.
    """
    gains: list[Gain] = []
    for (temperature,), exams in comparison.exams.sort("temperature").group_by("temperature", maintain_order=True):
        _require_same_tasks(exams)
        largest = min(LARGEST_K, int(exams["num_samples"].to_numpy().min()))
        speed = [] if exams["num_timed"].null_count() else [FAST_1, SPEEDUP]
        figures = list(dict.fromkeys(("pass@1", f"pass@{largest}"))) + speed
        groups: list[tuple[str, pl.DataFrame, list[str]]] = [("all", exams, figures)]
        groups += [(f"level {level}", own, figures) for level, own in _split(exams, "level")]
        groups += [(str(family), own, ["pass@1"]) for family, own in _split(exams, "family")]
        for name, own, asked in groups:
            for figure in asked:
                gains += _find_gains(own, comparison.algorithms, figure, float(str(temperature)), name)
    return tuple(gains)


def _split(exams: pl.DataFrame, column: str) -> Iterator[tuple[object, pl.DataFrame]]:
    for (value,), own in exams.sort(column).group_by(column, maintain_order=True):
        yield value, own


def _require_same_tasks(exams: pl.DataFrame) -> None:
    asked = exams.select("slot", "task").unique().sort("slot")
    for (algorithm, seed, _), own in exams.group_by("algorithm", "seed", "is_start"):
        if not own.select("slot", "task").sort("slot").equals(asked):
            raise UsageError(f"{algorithm} with seed {seed} was asked other tasks than the others")


def _figure_of(row: dict[str, Any], figure: str) -> float | None:
    """One task's figure, of a speedup its logarithm; null where it has none."""
    if figure == SPEEDUP:
        return row["sum_log_speedup"] / row["num_timed"] if row["num_timed"] else None
    if figure == FAST_1:
        return float(row["num_fast"] / row["num_samples"])
    return pass_at_k(row["num_samples"], row["num_correct"], int(figure.removeprefix("pass@"))) or 0.0


def _find_gains(
    exams: pl.DataFrame, algorithms: Sequence[str], figure: str, temperature: float, group: str
) -> Iterator[Gain]:
    """The gains in a figure; none where two algorithms have no seed, or no task that has the figure, in common."""
    values = [(row, _figure_of(row, figure)) for row in exams.iter_rows(named=True)]
    responses = [
        Response(
            cell=f"{row['algorithm']}'s start" if row["is_start"] else str(row["algorithm"]),
            seed=row["seed"],
            task=str(row["slot"]),
            value=value,
        )
        for row, value in values
        if value is not None
    ]
    pairs = [(name, START) for name in algorithms]
    pairs += [(second, first) for place, first in enumerate(algorithms) for second in algorithms[place + 1 :]]
    cells = [(name, f"{name}'s start" if over == START else over) for name, over in pairs]
    for (name, over), (_, other), found in zip(pairs, cells, compare(responses, cells), strict=True):
        if found is None:
            continue
        sides = [[each for each in responses if each.cell == cell] for cell in (other, name)]
        seeds = {each.seed for each in sides[0]} & {each.seed for each in sides[1]}
        held = [[each for each in side if each.seed in seeds] for side in sides]
        places = [[{each.task for each in side if each.seed == seed} for seed in seeds] for side in held]
        tasks = set.intersection(*places[0], *places[1])
        before, after = (fmean(each.value for each in side if each.task in tasks) for side in held)
        ends: tuple[float, ...] = (before, after, found.interval.low, found.interval.high)
        if figure == SPEEDUP:
            ends = tuple(map(math.exp, ends))
        yield Gain(
            algorithm=name,
            over=over,
            temperature=temperature,
            group=group,
            figure=figure,
            num_seeds=found.num_seeds,
            num_tasks=found.num_pairs // found.num_seeds,
            before=ends[0],
            after=ends[1],
            low=ends[2],
            high=ends[3],
        )


def render_gains(gains: Sequence[Gain]) -> list[str]:
    """Return plain lines for a person: all tasks and levels; families are in the JSON."""
    head = f"{'T':>4} {'tasks':8} {'num':>4} {'figure':>8}"
    lines = [f"{head} {'algorithm':>12} {'over':>12} {'from':>6} {'to':>6}  points"]
    for gain in gains:
        if gain.group == "all" or gain.group.startswith("level "):
            place = f"{gain.temperature:4g} {gain.group:8} {gain.num_tasks:4} {gain.figure:>8} {gain.algorithm:>12}"
            before, after = gain.sides
            lines.append(f"{place} {gain.over:>12} {before:>6} {after:>6}  {gain.points}")
    return [*lines, f"{_tell_differences(gains)} with 95% intervals over {_tell_repeated(gains)}"]


def _tell_differences(gains: Sequence[Gain]) -> str:
    return "points, and of speedups ratios," if any(gain.is_ratio for gain in gains) else "points"


def _tell_repeated(gains: Sequence[Gain]) -> str:
    seeds = sorted({gain.num_seeds for gain in gains})
    return "tasks alone" if seeds == [1] else f"tasks and {' or '.join(map(str, seeds))} seeds"


def find_falls(gains: Sequence[Gain]) -> tuple[Gain, ...]:
    """Return the levels and families that fell below their start by more than chance explains."""
    return tuple(gain for gain in gains if gain.over == START and gain.group != "all" and gain.fell)


def draw_curves(comparison: Comparison) -> str | None:
    """Draw the share of right samples by round, means over seeds with 95% intervals; null without two rounds."""
    lines: dict[str, Points] = {}
    bands: dict[str, list[tuple[float, float, float]]] = {}
    for algorithm in comparison.algorithms:
        own = comparison.rounds.filter(pl.col("algorithm") == algorithm)
        num_seeds = own["seed"].n_unique()
        for number in sorted(own["round"].unique()):
            shares = own.filter(pl.col("round") == number)["correct"].drop_nulls().to_numpy()
            if len(shares) < num_seeds:
                break  # runs that were cut off have rounds that others lack
            mean = float(shares.mean())
            lines.setdefault(algorithm, []).append((float(number), mean))
            if num_seeds > 1:
                half = quantile(0.975, num_seeds - 1) * float(shares.std(ddof=1)) / math.sqrt(num_seeds)
                bands.setdefault(algorithm, []).append((float(number), max(0.0, mean - half), min(1.0, mean + half)))
    label = "Percent of a round's samples that are right, by round; bands are 95% intervals over seeds"
    plot = curves_plot(lines, [], Style(label=label, form=".0f", unit=100.0), bands)
    return None if plot is None else standalone(plot, asset("style.css"))


def write_comparison(comparison: Comparison, folder: Path) -> None:
    write_table(EXAMS, comparison.exams, folder / "exams.parquet")
    write_table(ROUNDS, comparison.rounds, folder / "rounds.parquet")
    figure = draw_curves(comparison)
    if figure is not None:
        write_atomically(folder / "curves.svg", figure.encode())


def excerpt(comparison: Comparison, link: str) -> str:
    """Describe the gains as a part of a document; `link` leads to the folder from where the part stands."""
    gains = [gain for gain in find_gains(comparison) if gain.group == "all"]
    rows = [
        f"| {gain.algorithm} over {gain.over} | {gain.temperature:g} | {gain.figure} "
        f"| {gain.sides[0]} | {gain.sides[1]} | {gain.points} |"
        for gain in gains
    ]
    rounds = comparison.rounds.group_by("algorithm", "seed").agg(pl.col("round").max())
    counts = "; ".join(
        f"{name}: {', '.join(str(count) for count in own['round'])}"
        for (name,), own in rounds.sort("algorithm", "seed").group_by("algorithm", maintain_order=True)
    )
    parts = [
        f"{gains[0].num_tasks} held-out tasks without teachers, judged by the audit, before and after reinforcement "
        f"learning (rounds by seed: {counts}). {_tell_differences(gains).capitalize()} with 95% intervals over "
        f"{_tell_repeated(gains)}.",
        "\n".join([*_HEAD, *rows]),
        f"![Share of right samples by round]({link}/curves.svg)",
    ]
    return "\n\n".join(parts)


def with_excerpt(text: str, comparison: Comparison, link: str) -> str:
    """Return a document with the part between its marks computed anew; raises UsageError where it has no such marks."""
    before, after = around(text, BEGIN, END)
    return f"{before}{BEGIN}\n\n{excerpt(comparison, link)}\n\n{END}{after}"
