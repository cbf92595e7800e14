"""`tritonrl report`: what a results folder says, as text, as a page, and as a folder to publish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..command_line import guarded, open_console
from ..errors import UsageError


@guarded
def report(
    results: Annotated[Path, typer.Argument(help="A results folder.")],
    form: Annotated[str, typer.Option("--format", help="rich, markdown or json.")] = "rich",
    html: Annotated[Path | None, typer.Option("--html", help="Write one self-contained page here.")] = None,
) -> None:
    """Show what a results folder says.

    Example: tritonrl report results/quick --html quick.html
    """
    from ..analysis import analyse
    from ..store import Results
    from .text import ReportFormat, as_json, as_markdown, print_report

    if form not in set(ReportFormat):
        raise UsageError(f"--format {form}: must be one of {', '.join(ReportFormat)}")
    folder = Results(root=results)
    analysis = analyse(folder)
    # the page first: a path that cannot be written is said before anything is printed
    if html is not None:
        from .page import as_html

        html.write_text(as_html(analysis, folder), encoding="utf-8")
    if form == ReportFormat.RICH:
        print_report(analysis, open_console())
    else:
        print((as_markdown if form == ReportFormat.MARKDOWN else as_json)(analysis))
