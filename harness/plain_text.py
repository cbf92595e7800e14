"""Plain lines for a person, of what a command found: a verdict, a dry run, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.outcome import Outcome
from .command_line import print_result

if TYPE_CHECKING:
    from pathlib import Path

    from .study.grid import GridOutcome, PlannedCell


_MOST_ITEMS = 40
"""Of a list of figures in lines for a person."""


def render_verdict(plain: Mapping[str, Any]) -> list[str]:
    """Format a verdict, one line a stage, under its line of a batch where it has one."""
    lines = [f"line {plain['line']}"] if "line" in plain else []
    lines += [f"{'correct' if plain['correct'] else 'rejected'}  {plain['candidate'][:12]}  {plain['task']}"]
    for stage in plain["stages"]:
        sentence = "passed" if stage["passed"] else str(Outcome.from_code(stage["outcome"]))
        message = f": {stage['message']}" if stage["message"] else ""
        lines.append(f"  {stage['stage']:8} {stage['seconds']:7.2f} s  {sentence}{message}")
    if plain.get("cached"):
        lines.append("  cached: the server knew the verdict, and the seconds are those of then")
    speedup = "not measured" if plain["speedup"] is None else f"{plain['speedup']:.2f}"
    if plain.get("estimated_speedup") is not None:
        speedup += f" (simulated timing: {plain['estimated_speedup']:.2f})"
    if plain.get("compiled_speedup") is not None:
        speedup += f" (over torch.compile {plain['compiled_speedup']:.2f})"
    if plain.get("declared"):
        lines.append(f"  declared: {plain['declared']}")
    return [
        *lines,
        f"  reward {plain['reward']:.2f}, speedup {speedup}, backend {plain['backend']}, seed {plain['seed']}",
    ]


def render_plan(planned: Sequence[PlannedCell]) -> list[str]:
    """Format a dry run, one line a cell, and the total."""
    wide = max(6, *(len(cell.cell) for cell in planned))
    lines = [f"{'cell':{wide}} {'seed':>4}  {'state':6} {'samples':>8} {'updates':>8} {'seconds':>8}"]
    for cell in planned:
        seconds = "unknown" if cell.seconds is None else f"{cell.seconds:.0f}"
        lines.append(
            f"{cell.cell:{wide}} {cell.seed:4}  {cell.state:6} {cell.num_samples:8} {cell.num_updates:8} {seconds:>8}"
        )
    samples, updates = sum(cell.num_samples for cell in planned), sum(cell.num_updates for cell in planned)
    known = [cell.seconds for cell in planned if cell.seconds is not None]
    if len(known) == len(planned):
        # the sum over one worker: several share it
        cost = f", about {sum(known) / 60:.1f} minutes of one worker"
    else:
        cost = "; how long that takes is known once a start and a cell have finished in this folder"
    return [*lines, f"{len(planned)} cells, {samples:,} samples to draw and verify, at most {updates:,} updates{cost}"]


def render_outcome(outcome: GridOutcome, out: Path) -> list[str]:
    """Format what became of a grid's cells."""
    done = f"{outcome.num_complete} complete ({outcome.num_cached} of them cached), {outcome.num_failed} failed: {out}"
    if not outcome.num_unfinished:
        return [done]
    return [done, f"{outcome.num_unfinished} unfinished: the same command goes on with them"]


def render_losses(losses: Sequence[float]) -> str:
    """Format a training's losses: that of its first step and the mean of its last tenth."""
    if not losses:
        return "no step was taken"
    last = losses[-max(1, len(losses) // 10) :]
    reached = sum(last) / len(last)
    risen = "; it has risen: the learning rate may be too large" if reached > 2 * losses[0] else ""
    return f"loss {losses[0]:.3g} to {reached:.3g} in {len(losses)} steps{risen}"


def print_figures(figures: Any, as_json: bool, lines: list[str] | None = None) -> None:
    """Print figures on stdout: as one line of JSON, or for a person by these lines, or else field by field."""
    from ..core.serialisation import to_plain

    plain = to_plain(figures)
    print_result(plain, render_fields(plain) if lines is None else lines, as_json)


def render_fields(plain: Mapping[str, Any]) -> list[str]:
    """Format a record field by field; what a field has several of stands below it."""
    width = max(map(len, plain), default=0)
    lines = []
    for name, value in plain.items():
        title = name.replace("_", " ")
        if isinstance(value, Mapping) and value:
            lines += [title, *(f"  {line}" for line in render_fields(value))]
        elif isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple | str) for item in value):
            lines.append(f"{title:{width}}  {len(value)}")
            lines += [f"  {_show(item)}" for item in value[:_MOST_ITEMS]]
            lines += [f"  and {len(value) - _MOST_ITEMS} more, which --json has"] if len(value) > _MOST_ITEMS else []
        else:
            lines.append(f"{title:{width}}  {_show(value)}")
    return lines


def _show(value: Any) -> str:
    """Format a value in one line; a list that begins with a name is that of something and what belongs to it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {_show(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list | tuple):
        has_name = bool(value) and isinstance(value[0], str)
        return (" " if has_name else ", ").join(map(_show, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    return str(value)
