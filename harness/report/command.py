"""`tritonrl report`: what a results folder says, as text, as a page, and as a folder to publish."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..command_line import guarded, open_console
from ..errors import UsageError
from ..settings import require_results

if TYPE_CHECKING:
    from ..study.store import Results


class ReportFormat(StrEnum):
    RICH = "rich"
    MARKDOWN = "markdown"
    JSON = "json"


@guarded
def report(
    results: Annotated[Path, typer.Argument(help="A results folder.")],
    form: Annotated[
        str | None, typer.Option("--format", help="rich (default, unless --html writes a page), markdown or json.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write one self-contained page here.")] = None,
    publish: Annotated[
        Path | None, typer.Option("--publish", help="Write tables, page, provenance and README into this folder.")
    ] = None,
    excerpt: Annotated[
        Path | None, typer.Option("--excerpt", help="Write the results into this document, between its marks.")
    ] = None,
    grid: Annotated[
        str | None, typer.Option("--grid", help="These cells and their starts alone, as `ablate --grid` names them.")
    ] = None,
    power: Annotated[
        str | None, typer.Option("--power", help="Only what runs of SEEDSxTASKS would show, such as 3x200,5x400.")
    ] = None,
) -> None:
    """Show what a results folder says; with --html or --publish, write that and name the files.

    Example: tritonrl report results/quick --html quick.html

    Example: tritonrl report results/paper --publish results --excerpt README.md

    Example: tritonrl report results --power 3x200,3x400

    Only seeds that have every cell are compared; --grid leaves out cells that not all seeds have yet.
    """
    if form is not None and form not in set(ReportFormat):
        raise UsageError(f"--format {form}: must be one of {', '.join(ReportFormat)}")
    require_results(results)
    from ..analysis.analysis import analyse
    from ..study.grid import parse_grid
    from ..study.store import Results
    from .sections import as_json, as_markdown, print_report

    folder, cells = Results(root=results), None if grid is None else tuple(map(str, parse_grid(grid)))
    if power is not None:
        if (form, html, publish, excerpt, grid) != (None, None, None, None, None):
            raise UsageError("--power: it prints a table and nothing else; leave out the other options")
        _print_power(folder, power)
        return
    # the page first: a path that cannot be written is said before anything is printed
    if html is not None:
        from .page import as_html

        html.write_text(as_html(analyse(folder, cells), folder), encoding="utf-8")
        # stdout has what --format asks for, and nothing else
        print(f"{html}: {html.stat().st_size / 1e6:.1f} MB, one page that needs no network", file=sys.stderr)
    if publish is not None or excerpt is not None:
        _publish(folder, publish, excerpt, cells)
        return
    if html is not None and form is None:
        return
    analysis = analyse(folder, cells)
    if form in (None, ReportFormat.RICH):
        print_report(analysis, open_console())
    else:
        print((as_markdown if form == ReportFormat.MARKDOWN else as_json)(analysis))


def _print_power(results: Results, written: str) -> None:
    from ..analysis.analysis import predict_detectable

    try:
        sizes = [(int(seeds), int(tasks)) for seeds, tasks in (size.split("x") for size in written.split(","))]
    except ValueError:
        raise UsageError(f"--power {written}: expected seeds x tasks, such as 3x200,5x400") from None
    found = predict_detectable(results, sizes)
    print("smallest main effect, in points, whose 95% interval excludes 0 with a chance of 80%, by seeds x tasks")
    print(f"{'effect':8}" + "".join(f"{f'{seeds}x{tasks}':>10}" for seeds, tasks in sizes))
    for name, row in found.items():
        print(f"{name.upper():8}" + "".join(f"{'' if value is None else f'{100 * value:.1f}':>10}" for value in row))


def _publish(results: Results, target: Path | None, document: Path | None, cells: tuple[str, ...] | None) -> None:
    from ..analysis.analysis import analyse
    from ..settings import read_text
    from ..study.store import Results
    from .publish import around, publish, with_excerpt

    if document is not None:
        around(read_text(document))
    if target is not None:
        files = publish(results, target, cells)
        total = sum(path.stat().st_size for path in files)
        print(f"{target}: {len(files)} files, {total / 1e6:.1f} MB")
    if document is not None:
        published = Results(root=target) if target is not None else results
        link = os.path.relpath(published.root, document.parent)
        document.write_text(
            with_excerpt(read_text(document), published, analyse(published, cells), link), encoding="utf-8"
        )
        print(f"{document}: the results between its marks are those of {published.root}")
