"""Shows how the grid runs: one live picture on a terminal, plain lines elsewhere, or nothing.

A cell reports events and does not know who listens. The live picture is the grid itself, the current cell's phase,
the rate and the time left; a plain display prints a line a phase, so that a log of a batch job stays readable.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

from attrs import Factory, define

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.progress import Progress as Bars


class CellState(StrEnum):
    CACHED = "cached"
    WAITING = "waiting"
    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"


class DisplayKind(StrEnum):
    RICH = "rich"
    PLAIN = "plain"
    NONE = "none"


class Progress:
    """Receives what happens, and shows nothing of it; the calls come from one thread."""

    def grid(self, cells: Sequence[tuple[str, int, CellState]]) -> None:
        """Set the (cell, seed) pairs of the run and where each stands."""

    def cell(self, cell: str, seed: int, state: CellState, message: str = "") -> None:
        """Note that a cell changed its state."""

    def focus(self, cell: str, seed: int) -> None:
        """Attribute the phases that follow to this cell; for cells that run side by side."""

    def phase(self, text: str, total: int) -> None:
        """Begin a phase of `total` items (0 = unknown) of the current cell."""

    def advance(self, done: int) -> None:
        """Note that many items of the phase as done."""

    def metrics(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        """Note figures of the current cell at a step of a kind of phase, such as "sft" (`harness.metrics`)."""

    def close(self) -> None:
        """End the display."""


SILENCE_S = 10.0
"""A plain display says something at least this often."""


@define
class Plain(Progress):
    """A line for each change of state and each phase, and one where there was none for `silence_s`."""

    stream: TextIO = Factory(lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    silence_s: float = SILENCE_S
    _started: float = Factory(lambda self: self.clock(), takes_self=True)
    _last: float = Factory(lambda self: self.clock(), takes_self=True)
    _current: str = ""
    _text: str = "starting"
    _total: int = 0
    _done: int = 0
    _phase_started: float = Factory(lambda self: self.clock(), takes_self=True)
    _figures: str = ""
    _is_closed: threading.Event = Factory(threading.Event)

    def start(self) -> Plain:
        """Say something in long silences from now on, whatever this thread is at."""
        threading.Thread(target=self._watch, name="display", daemon=True).start()
        return self

    def _watch(self) -> None:
        while not self._is_closed.wait(max(0.1, self._last + self.silence_s - self.clock())):
            self.beat()

    def beat(self) -> None:
        """Say how far the phase is if nothing was said for long."""
        now = self.clock()
        if now - self._last < self.silence_s:
            return
        label = f"{self._current}: " if self._current else ""
        count = f" {self._done}/{self._total}" if self._total else f" {self._done}" if self._done else ""
        passed = now - self._phase_started
        left = f", {passed * (self._total - self._done) / self._done:.0f} s left" if self._total and self._done else ""
        self._write(f"{label}{self._text}{count}{self._figures} ({passed:.0f} s{left})")

    def _write(self, text: str) -> None:
        self._last = self.clock()
        print(f"[{self._last - self._started:7.1f}s] {text}", file=self.stream, flush=True)

    def grid(self, cells: Sequence[tuple[str, int, CellState]]) -> None:
        num_cached = sum(state is CellState.CACHED for _, _, state in cells)
        self._write(f"{len(cells)} cells, {num_cached} of them finished before")

    def cell(self, cell: str, seed: int, state: CellState, message: str = "") -> None:
        self._current, self._figures = f"{cell} seed {seed}", ""
        self._write(f"{self._current}: {state.value}{f': {message}' if message else ''}")

    def focus(self, cell: str, seed: int) -> None:
        self._current = f"{cell} seed {seed}"

    def phase(self, text: str, total: int) -> None:
        self._text, self._total, self._done, self._figures = text, total, 0, ""
        self._phase_started = self.clock()
        label = f"{self._current}: " if self._current else ""
        self._write(f"{label}{text}{f' {total}' if total else ''}")

    def advance(self, done: int) -> None:
        self._done = done
        self.beat()

    def metrics(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        if "loss" in values:
            self._figures = f", loss {values['loss']:.3f}"
        else:
            label = f"{self._current}: " if self._current else ""
            self._write(f"{label}{phase} {step}: {show_figures(values)}")

    def close(self) -> None:
        self._is_closed.set()


def show_figures(values: Mapping[str, float]) -> str:
    """Format the figures of a round or an evaluation that a person looks at, in one line."""
    return ", ".join(f"{name.replace('_', ' ')} {values[name]:.3g}" for name in _SHOWN if name in values)


_SHOWN = (
    *("reward", "valid", "compiled", "correct", "mixed_groups", "distinct_answers", "mean_tokens", "finished_share"),
    *("kl", "entropy", "clip_share", "gradient_norm", "sample_s", "verify_s", "train_s"),
)


_MARKS = {
    CellState.CACHED: ("=", "cyan"),
    CellState.WAITING: ("·", "dim"),
    CellState.RUNNING: (">", "bold yellow"),
    CellState.COMPLETE: ("✓", "green"),
    CellState.FAILED: ("✗", "red"),
}


@define
class Rich(Progress):
    """One live picture: the grid where there is one, and the current phase's bar with its rate and time left."""

    _states: dict[tuple[str, int], CellState] = Factory(dict)
    _cell_started: float = 0.0
    _cell_seconds: list[float] = Factory(list)
    _live: Live | None = None
    _bars: Bars | None = None

    def grid(self, cells: Sequence[tuple[str, int, CellState]]) -> None:
        self._states = {(cell, seed): state for cell, seed, state in cells}
        self._open()

    def _open(self) -> Bars:
        """Begin to draw, where that has not begun; returns the bars."""
        if self._bars is None:
            from rich import progress
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True)
            self._bars = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(bar_width=24),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                progress.TimeRemainingColumn(),
                progress.TextColumn("{task.fields[figures]}", markup=False),
                console=console,
            )
            self._live = Live(get_renderable=self.render, console=console, refresh_per_second=4, transient=False)
            self._live.start()
        return self._bars

    def cell(self, cell: str, seed: int, state: CellState, message: str = "") -> None:
        if state is CellState.RUNNING:
            self._cell_started = time.monotonic()
        elif state is CellState.COMPLETE and (cell, seed) in self._states:
            self._cell_seconds.append(time.monotonic() - self._cell_started)
        if (cell, seed) in self._states:
            self._states[cell, seed] = state
        self._begin(f"{cell} seed {seed}", 0)
        if message and self._live is not None:
            self._live.console.print(f"{cell} seed {seed}: {message}", markup=False, style="red")

    def phase(self, text: str, total: int) -> None:
        self._begin(text, total)

    def _begin(self, text: str, total: int) -> None:
        bars = self._open()
        for task_id in bars.task_ids:
            bars.remove_task(task_id)
        bars.add_task(text, total=total or None, figures="")

    def advance(self, done: int) -> None:
        bars = self._open()
        for task_id in bars.task_ids:
            bars.update(task_id, completed=done)

    def metrics(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        bars = self._open()
        for task_id in bars.task_ids:
            bars.update(task_id, figures=f"loss {values['loss']:.3f}" if "loss" in values else show_figures(values))

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def render(self) -> RenderableType:
        """Draw the picture: a row a seed, a column a cell, and the bar below."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[RenderableType] = []
        if self._states:
            seeds = sorted({seed for _, seed in self._states})
            cells = list(dict.fromkeys(cell for cell, _ in self._states))
            table = Table(box=None, pad_edge=False, padding=(0, 1))
            table.add_column("seed")
            for cell in cells:
                table.add_column(cell, justify="center")
            for seed in seeds:
                marks = [self._states.get((cell, seed)) for cell in cells]
                table.add_row(str(seed), *[Text(*_MARKS[mark]) if mark else "" for mark in marks])
            parts = [table, Text(self._line())]
        return Group(*parts, self._open())

    def _line(self) -> str:
        running = [f"{cell} seed {seed}" for (cell, seed), state in self._states.items() if state is CellState.RUNNING]
        left = sum(state in (CellState.WAITING, CellState.RUNNING) for state in self._states.values())
        if self._cell_seconds and left:
            mean_s = sum(self._cell_seconds) / len(self._cell_seconds)
            running.append(f"about {left * mean_s / 60:.0f} min left")
        return "  ".join(running)


def choose_kind(kind: DisplayKind | None) -> DisplayKind:
    """Choose a kind of display: that one, or the live one on a terminal and plain lines elsewhere."""
    return kind or (DisplayKind.RICH if sys.stderr.isatty() else DisplayKind.PLAIN)


def open_display(kind: DisplayKind | None) -> Progress:
    """Open the display of that kind; by default the live one on a terminal and plain lines elsewhere."""
    match choose_kind(kind):
        case DisplayKind.RICH:
            return Rich()
        case DisplayKind.PLAIN:
            return Plain().start()
        case DisplayKind.NONE:
            return Progress()
