"""The report as one HTML page: what each part shows, put into the template with style, script and data inside.

The page may load nothing: its content security policy allows its own style, its own script by hash, and no connection.
Text of candidates and messages is escaped in markup and written as text by the script. Every number in a table is a
`<data>` element with the exact value and its path in the analysis, which the page carries as JSON.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from ...core.serialisation import to_plain
from ..analysis.findings import Analysis
from ..analysis.number_format import Form
from ..study.store import Results
from .candidates import KINDS, Shelf, gather
from .cell_plots import cost_plot, funnel_plot, grid_plot
from .curve_plots import curriculum_plot, held_out_plot, learning_plot, losses_plot, rewards_plot
from .effect_plots import comparisons_plot, effects_plot, interactions_plot, sweep_plot
from .sections import describe_work, headline, sections
from .sheet import Cell, Figure, Sheet, Table
from .theme import typeset


def as_html(analysis: Analysis, results: Results) -> str:
    """The report of a results folder as one HTML page that needs no network."""
    shelf = gather(results)
    plain = {**to_plain(analysis), "shelf": _shelf_figures(shelf)}
    sheet = Sheet(plain=plain)
    script = asset("browse.js")
    return fill_template(
        "page.html.jinja",
        analysis=analysis,
        headline=typeset(headline(analysis)),
        work=describe_work(analysis),
        style=Markup(asset("style.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        plots=_plots(analysis),
        tables={section.name: section for section in sections(analysis) if isinstance(section, Table)},
        written_columns=_written_columns,
        entry=entry,
        number=lambda path, form=Form.COUNT: entry(sheet.number(path, Form(form))),
        shelf=shelf,
        data=_embedded(plain),
        entries=_embedded(
            {
                "kinds": KINDS,
                "entries": shelf.entries,
                "tasks": shelf.tasks,
                "sentences": {reason.outcome: reason.sentence for reason in shelf.reasons},
            }
        ),
    )


def fill_template(name: str, **values: Any) -> str:
    """The page that a template of the report makes of these values; what is no markup is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__, "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["typeset"] = typeset
    return environment.get_template(name).render(values)


def entry(cell: Cell) -> Markup:
    """A table's entry as markup; an interval in brackets is set back."""
    parts: list[Markup] = []
    for part in cell.parts:
        if isinstance(part, Figure):
            parts.append(_number(part))
        elif part == " [":
            parts.append(Markup(' <span class="ci">['))
        elif part == "]":
            parts.append(Markup("]</span>"))
        else:
            parts.append(Markup("{}").format(typeset(part)))
    shown = Markup("").join(parts)
    return Markup("<b>{} {}</b>").format(shown, cell.mark) if cell.mark else shown


def _number(figure: Figure) -> Markup:
    if figure.value is None:
        return Markup('<span class="none">–</span>')
    return Markup('<data value="{}" data-at="{}" data-form="{}">{}</data>').format(
        repr(figure.value), figure.at, figure.form.value, typeset(figure.text)
    )


def _written_columns(table: Table) -> list[int]:
    """The columns that a page shows: lines drawn in characters are left to its plots."""
    return [index for index in range(len(table.columns)) if not any(row[index].drawn for row in table.rows)]


def asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _embedded(plain: Any) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _shelf_figures(shelf: Shelf) -> dict[str, Any]:
    return {
        "num_shown": len(shelf.entries),
        "num_distinct": shelf.num_distinct,
        "num_samples": shelf.num_samples,
        "num_disagreements": shelf.num_disagreements,
        "reasons": to_plain(shelf.reasons),
    }


def _plots(analysis: Analysis) -> dict[str, Markup | None]:
    """The drawings by name; null where there is nothing to draw."""
    return {
        "grid": grid_plot(analysis) if analysis.cells else None,
        "effects": effects_plot(analysis),
        "interactions": interactions_plot(analysis),
        "held_out": held_out_plot(analysis),
        "learning": learning_plot(analysis),
        "rewards": rewards_plot(analysis),
        "losses": losses_plot(analysis),
        "curriculum": curriculum_plot(analysis),
        "funnel": funnel_plot(analysis.funnel),
        "sweep": sweep_plot(analysis.noise_sweep),
        "comparisons": comparisons_plot(analysis.comparisons),
        "cost": cost_plot(analysis),
    }
