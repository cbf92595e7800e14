"""A results folder made small enough to publish: its tables, the page, a figure, how it was made, and a README.

What is published says exactly what the run says: before anything is written, the analysis of the small tables is
compared with that of the run, and a difference is an error. Small means `MAX_BYTES`. Two tables are cut, in ways that
the analysis does not notice: of the timings, each distinct measurement of a training candidate is kept once (as cells
share candidates and verdicts); of the sources, those that the page shows, and others up to a limit. Adapters,
completions and evidence stay behind.

The folder is a results folder: `tritonrl report` and `tritonrl show` read it, and publishing it again into itself
writes the page, the figure and the README anew.

README and the part of the project's README about the run are computed from the published tables alone, so that a test
can compute them again and compare (`tests/test_published.py`). The project's README holds its part between two marks;
nothing between them is written by hand.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from ...core.recipe.extensions import LETTERS
from ...core.serialisation import to_plain
from ..analysis.analysis import analyse
from ..analysis.findings import Analysis
from ..analysis.number_format import Form
from ..analysis.rates import distinct_measurements
from ..errors import DriftError, UsageError
from ..settings import to_toml
from ..study.provenance import provenance_text
from ..study.store import Results
from ..tables import TABLES, encode_table
from ..work import write_atomically
from .candidates import gather
from .cell_tables import grid
from .effect_plots import effects_plot
from .effect_tables import effects
from .page import as_html, asset
from .sections import describe_runs, describe_training, describe_versions, describe_work, headline, markdown_table
from .sheet import Sheet, Table, term_name, words
from .theme import standalone

BEGIN, END = "<!-- results: written by `tritonrl report` -->", "<!-- results: end -->"

_WHAT = {
    "cells": "one row a cell and seed: extensions, status, seconds, versions",
    "rounds": "one row a round: curriculum, accuracies, rewards, seconds",
    "candidates": "every training candidate, with its cell's verifier's verdict, and the audit's where it was asked",
    "stages": "every stage that was attempted on a training candidate",
    "training": "loss by step",
    "evaluation": "every held-out sample, judged by the audit",
    "timings": "trials of each distinct measurement of a training candidate",
    "sources": "the candidates' sources by hash",
}

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
    tables = {name: results.read(name) for name in TABLES}
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


def published_readme(published: Results, analysis: Analysis, cells: Collection[str] | None = None) -> str:
    """The README of a published folder, whose analysis, of `cells` alone where they are named, this is."""
    named = f" --grid {','.join(cells)}" if cells else ""
    sheet = Sheet(plain=to_plain(analysis))
    tables = [grid(analysis, sheet), *effects(analysis, sheet)]
    parts = [
        "# Results",
        f"Written by `tritonrl report RESULTS{named} --publish FOLDER` from the tables here; no number in it is "
        "hand-made.",
        _what(analysis),
        headline(analysis),
        "## The four questions",
        "\n".join(f"- **{answer.question}** {answer.answer}" for answer in analysis.answers),
        *(part for section in tables if isinstance(section, Table) for part in _shown(section)),
        *(["![Effects of the extensions](effects.svg)"] if (published.root / "effects.svg").exists() else []),
        "All tables, learning curves, controls, costs and a browser of candidates are in [report.html](report.html).",
        "## Read with care",
        "\n".join(f"- {remark}" for remark in analysis.remarks),
        "## How it was made",
        _made(analysis),
        "## Do it again",
        _again(analysis, named),
        "## Files",
        _files(published),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _what(analysis: Analysis) -> str:
    return (
        f"{describe_runs(analysis)}. Policy `{analysis.policy}`, results by backend `{analysis.backend}`, timing: "
        f"{analysis.timing}. {describe_training(analysis)} {describe_work(analysis)}"
    ).strip()


def _shown(table: Table) -> list[str]:
    return [f"## {table.title}", _sentence_of(table), markdown_table(table)]


def _sentence_of(table: Table) -> str:
    return f"{table.caption[:1].upper()}{table.caption[1:]}."


def _made(analysis: Analysis) -> str:
    lines = []
    for found in analysis.invocations:
        machine = found.machine
        gpus = f"{len(machine.gpus)} x {machine.gpus[0]}, driver {machine.driver}" if machine.gpus else "no GPU"
        commit = "no commit known" if found.commit is None else f"commit `{found.commit[:12]}`"
        changed = " with changes" if found.modified else ""
        lines.append(
            f"- `{found.command}`: {found.started_at[:16].replace('T', ' ')} UTC, {found.seconds:.0f} s"
            f"{'' if found.ended else ', cut short'}, {found.num_finished} cells and starts finished, "
            f"{found.num_workers} worker(s); {gpus}; {machine.num_processors} x {machine.processor}, "
            f"{machine.memory_gb} GB; {commit}{changed}"
        )
    return "\n".join([*lines, f"- {describe_versions(analysis)}"])


def _again(analysis: Analysis, named: str) -> str:
    commits = [found.commit for found in analysis.invocations if found.commit]
    useful = [found for found in analysis.invocations if found.num_finished] or analysis.invocations
    commands = [found.command for found in useful]
    lines = [
        *([f"git checkout {commits[-1]}"] if commits else []),
        "make setup",
        *dict.fromkeys(commands),
        f"tritonrl report {_folder_of(commands[-1]) if commands else 'RESULTS'}{named} --publish FOLDER",
    ]
    return (
        "```\n" + "\n".join(lines) + "\n```\n\n"
        "A command that was cut short continues when it is run again, on this machine or another, and one that has "
        "nothing to do ends at once. `config.toml` holds every key of the configuration (`--config config.toml`); "
        "`provenance.json` holds the records that this section is made from. Sampling on other hardware or other "
        "versions gives other kernels: expect figures within the intervals, not these."
    )


def _folder_of(command: str) -> str:
    parts = shlex.split(command)
    return parts[parts.index("--out") + 1] if "--out" in parts else "RESULTS"


def _files(published: Results) -> str:
    rows = []
    for name in TABLES:
        path = published.root / f"{name}.parquet"
        rows.append(f"| `{path.name}` | {published.read(name).height:,} | {_size(path)} | {_WHAT[name]} |")
    left = _left_out(published)
    notes = [f"{left:,} sources are left out, none that the page shows."] if left else []
    table = "\n".join(["| file | rows | kB | what |", "| --- | ---: | ---: | --- |", *rows])
    return "\n\n".join([table, *notes, "Columns: `harness/tables.py`. A value that was not measured is null."])


def _left_out(published: Results) -> int:
    used = pl.concat([published.read(name).select("candidate") for name in ("candidates", "evaluation")]).unique()
    return used.join(published.read("sources"), on="candidate", how="anti").height


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1000:,.0f}"


def excerpt(published: Results, analysis: Analysis, link: str) -> str:
    """The project's part about the published run; `link` leads to the folder from where the part stands."""
    main = _main_effects(analysis, Sheet(plain=to_plain(analysis)))
    figure = f"![Effects of the extensions]({link}/effects.svg)"
    parts = [
        f"{_what(analysis)} {headline(analysis)}",
        f"{_sentence_of(main)}\n\n{markdown_table(main)}",
        *([figure] if (published.root / "effects.svg").exists() else []),
        f"The four answers, all cells and what to read with care: [{link}/README.md]({link}/README.md).",
    ]
    return "\n\n".join(parts)


def _main_effects(analysis: Analysis, sheet: Sheet) -> Table:
    """The main effects on the correct rate at equal samples and equal seconds, and what could have been seen."""
    found = {section.name: section for section in effects(analysis, sheet) if isinstance(section, Table)}
    rows = []
    for index, letter in enumerate(LETTERS):
        row = [words(term_name(letter))]
        row += [section.rows[index][1] for section in found.values()]
        if analysis.effects["correct"] is not None:
            row.append(sheet.number(f"effects.correct.effects.{index}.detectable", Form.SIZE))
        rows.append(tuple(row))
    titles = {"effects": "correct, at equal samples", "effects-seconds": "correct, at equal verification seconds"}
    return Table(
        name="main-effects",
        title="Main effects",
        caption=next((section.caption for section in found.values()), "nothing to estimate"),
        columns=("effect", *(titles[name] for name in found), "smallest detectable"),
        rows=tuple(rows),
    )


def around(text: str, begin: str = BEGIN, end: str = END) -> tuple[str, str]:
    """What stands before and after the marks of a document; raises UsageError where it has none."""
    before, has_begin, rest = text.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise UsageError(f"no place for the results: it needs {begin} and {end}, each on a line of its own")
    return before, after


def with_excerpt(text: str, published: Results, analysis: Analysis, link: str) -> str:
    """A document with the part between its marks computed anew; raises UsageError where it has no such marks."""
    before, after = around(text)
    return f"{before}{BEGIN}\n\n{excerpt(published, analysis, link)}\n\n{END}{after}"
