"""A results folder made small enough to publish: its tables, the page, a figure, how it was made, and a README.

What is published says exactly what the run says: before anything is written, the analysis of the small tables is
compared with that of the run, and a difference is an error. Small means `MAX_BYTES`. Two tables are cut, in ways that
the analysis does not notice: of the timings, each distinct measurement of a training candidate is kept once (as cells
share candidates and verdicts); of the sources, those that the page shows, and others up to a limit. Adapters,
completions and evidence stay behind.

The folder is a results folder: `tritonrl report` and `tritonrl show` read it, and publishing it again into itself
writes the page, the figure and the README anew.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from ...core.serialisation import to_plain
from ..analysis.analysis import analyse
from ..analysis.findings import Analysis
from ..analysis.rates import distinct_measurements
from ..errors import DriftError, UsageError
from ..settings import to_toml
from ..study.provenance import provenance_text
from ..study.store import Results
from ..tables import TABLES, encode_table
from ..work import write_atomically
from .account import TABLE_FILES, published_readme
from .candidates import gather
from .effect_plots import effects_plot
from .page import as_html, asset
from .theme import standalone

MAX_BYTES = 25 * 2**20
"""Of all files together: what a repository can carry without regret."""

MAX_SOURCE = 40_000_000
"""Characters of all sources that are kept; they compress to about a tenth."""

_EFFORT = 19


def publish(results: Results, folder: Path, cells: Collection[str] | None = None) -> tuple[Path, ...]:
    """Write what a run found into `folder`, and return the files; raises UsageError where they would be too large.

    What is said of it is of `cells` alone, where they are named; the tables have all.
    """
    analysis = analyse(results, cells)
    if not analysis.num_complete:
        raise UsageError(f"{results.root}: no cell is complete, so there is nothing to publish")
    tables = {name: encode_table(TABLES[name], frame, _EFFORT) for name, frame in _small_tables(results).items()}
    files = {f"{name}.parquet": data for name, data in tables.items()}
    files["run.json"] = (results.root / "run.json").read_bytes()
    files["config.toml"] = to_toml(results.config()).encode()
    files["provenance.json"] = provenance_text(results).encode()
    files["report.html"] = as_html(analysis, results).encode()
    figure = effects_plot(analysis)
    if figure is not None:
        files["effects.svg"] = standalone(figure, asset("style.css")).encode()
    _require_small(files)
    files["README.md"] = _account(analysis, files, cells)
    for name, data in files.items():
        write_atomically(folder / name, data)
    return tuple(folder / name for name in files)


def _account(analysis: Analysis, files: dict[str, bytes], cells: Collection[str] | None) -> bytes:
    """The README, from the files as a reader will find them; raises DriftError where they say something else."""
    with TemporaryDirectory() as beside:
        published = Results(root=Path(beside))
        for name, data in files.items():
            (published.root / name).write_bytes(data)
        _require_equal(analysis, analyse(published, cells))
        return published_readme(published, analysis, cells).encode()


def _small_tables(results: Results) -> dict[str, pl.DataFrame]:
    tables = {name: results.read(name) for name in TABLE_FILES}
    timings = tables["timings"]
    tables["timings"] = distinct_measurements(timings, tables["candidates"]).select(timings.columns)
    tables["sources"] = _sources(results, tables["sources"])
    return tables


def _sources(results: Results, sources: pl.DataFrame) -> pl.DataFrame:
    """The sources that the page shows, and of the others as many as there is room for."""
    shown = {entry["hash"] for entry in gather(results).entries}
    ordered = sources.with_columns(first=pl.col("candidate").is_in(list(shown))).sort(
        "first", "candidate", descending=[True, False]
    )
    room = pl.col("source").str.len_chars().cum_sum() <= MAX_SOURCE
    return ordered.filter(pl.col("first") | room).select(sources.columns).sort("candidate")


def _require_small(files: dict[str, bytes]) -> None:
    total = sum(map(len, files.values()))
    if total > MAX_BYTES:
        largest = sorted(files, key=lambda name: -len(files[name]))[:3]
        listed = ", ".join(f"{name} {len(files[name]) / 2**20:.1f} MiB" for name in largest)
        raise UsageError(f"{total / 2**20:.1f} MiB to publish, {MAX_BYTES / 2**20:.0f} at most: {listed}")


def _require_equal(ours: Analysis, theirs: Analysis) -> None:
    # as JSON: a record read back from a file has lists where one that was computed has tuples
    first, second = (json.dumps(to_plain(analysis), sort_keys=True) for analysis in (ours, theirs))
    if first != second:
        raise DriftError("the published tables say something else than the run: this is a mistake of tritonrl's")
