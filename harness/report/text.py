"""The report as Markdown, as JSON, and on a terminal."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING

from ...core.serialisation import to_plain
from ..analysis.findings import Analysis
from .sections import sections
from .tables import Prose, Table

if TYPE_CHECKING:
    from rich.console import Console


class ReportFormat(StrEnum):
    RICH = "rich"
    MARKDOWN = "markdown"
    JSON = "json"


def as_markdown(analysis: Analysis) -> str:
    """The report as Markdown."""
    parts = ["# tritonrl ablation"]
    for section in sections(analysis):
        parts.append(f"## {section.title}")
        if isinstance(section, Prose):
            parts.append("\n".join(f"- {line}" for line in section.lines) or "Nothing to say.")
        else:
            parts += [f"{section.caption[:1].upper()}{section.caption[1:]}.", markdown_table(section)]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """A table as Markdown; what would end a cell, or be read as emphasis, is written so that it does not."""
    lines = [table.columns, ("---", *("---:" for _ in table.columns[1:]))]
    lines += [tuple(cell.text.replace("|", "/") for cell in row) for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_json(analysis: Analysis) -> str:
    """The analysis as one JSON object."""
    return json.dumps(to_plain(analysis), indent=2, allow_nan=False)


def print_report(analysis: Analysis, console: Console) -> None:
    """Draw the report with rich."""
    from rich.table import Table as Drawn
    from rich.text import Text

    for section in sections(analysis):
        console.print(Text(f"\n{section.title}", style="bold"))
        if isinstance(section, Prose):
            for line in section.lines:
                console.print(Text(f"  {line}"))
            continue
        console.print(Text(section.caption, style="dim"))
        drawn = Drawn(box=None, pad_edge=False, header_style="cyan")
        for index, column in enumerate(section.columns):
            drawn.add_column(Text(column), justify="left" if index == 0 else "right", no_wrap=index == 0)
        for row in section.rows:
            drawn.add_row(*[Text(cell.text) for cell in row])
        console.print(drawn)
