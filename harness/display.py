"""Shows how the grid runs: one live picture on a terminal, plain lines elsewhere, or nothing.

A cell reports events and does not know who listens. The live picture is the grid itself, the current cell's phase,
the rate and the time left; a plain display prints a line a phase, so that a log of a batch job stays readable.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TextIO

from attrs import Factory, define

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live


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


class Progress(Protocol):
    """Receives what happens; the calls come from one thread."""

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

    def close(self) -> None:
        """End the display."""


class Silent:
    """Shows nothing."""

    def grid(self, cells: Sequence[tuple[str, int, CellState]]) -> None: ...

    def cell(self, cell: str, seed: int, state: CellState, message: str = "") -> None: ...

    def focus(self, cell: str, seed: int) -> None: ...

    def phase(self, text: str, total: int) -> None: ...

    def advance(self, done: int) -> None: ...

    def close(self) -> None: ...


@define
class Plain:
    """A line for each change of state and each phase."""

    stream: TextIO = Factory(lambda: sys.stderr)
    _started: float = Factory(time.monotonic)
    _current: str = ""

    def _write(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:7.1f}s] {text}", file=self.stream, flush=True)

    def grid(self, cells: Sequence[tuple[str, int, CellState]]) -> None:
        num_cached = sum(state is CellState.CACHED for _, _, state in cells)
        self._write(f"{len(cells)} cells, {num_cached} of them finished before")

    def cell(self, cell: str, seed: int, state: CellState, message: str = "") -> None:
        self._current = f"{cell} seed {seed}"
        self._write(f"{self._current}: {state.value}{f': {message}' if message else ''}")

    def focus(self, cell: str, seed: int) -> None:
        self._current = f"{cell} seed {seed}"

    def phase(self, text: str, total: int) -> None:
        label = f"{self._current}: " if self._current else ""
        self._write(f"{label}{text}{f' {total}' if total else ''}")

    def advance(self, done: int) -> None: ...

    def close(self) -> None: ...


_MARKS = {
    CellState.CACHED: ("=", "cyan"),
    CellState.WAITING: ("·", "dim"),
    CellState.RUNNING: (">", "bold yellow"),
    CellState.COMPLETE: ("✓", "green"),
    CellState.FAILED: ("✗", "red"),
}


@define
class Rich:
    """One live picture, redrawn a few times a second."""

    _states: dict[tuple[str, int], CellState] = Factory(dict)
    _text: str = ""
    _total: int = 0
    _done: int = 0
    _phase_started: float = 0.0
    _cell_started: float = 0.0
    _cell_seconds: list[float] = Factory(list)
    _live: Live | None = None

    def grid(self, cells: Sequence[tuple[str, int, CellState]]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._states = {(cell, seed): state for cell, seed, state in cells}
        self._live = Live(
            get_renderable=self.render, console=Console(stderr=True), refresh_per_second=4, transient=False
        )
        self._live.start()

    def cell(self, cell: str, seed: int, state: CellState, message: str = "") -> None:
        if state is CellState.RUNNING:
            self._cell_started = time.monotonic()
        elif state is CellState.COMPLETE and (cell, seed) in self._states:
            self._cell_seconds.append(time.monotonic() - self._cell_started)
        if (cell, seed) in self._states:
            self._states[cell, seed] = state
        self._text, self._total, self._done = f"{cell} seed {seed}", 0, 0
        if message and self._live is not None:
            self._live.console.print(f"{cell} seed {seed}: {message}", markup=False, style="red")

    def focus(self, cell: str, seed: int) -> None: ...

    def phase(self, text: str, total: int) -> None:
        self._text, self._total, self._done = text, total, 0
        self._phase_started = time.monotonic()

    def advance(self, done: int) -> None:
        self._done = done

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def render(self) -> RenderableType:
        """Draw the picture: a row a seed, a column a cell, and the line below."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        seeds = sorted({seed for _, seed in self._states})
        cells = list(dict.fromkeys(cell for cell, _ in self._states))
        table = Table(box=None, pad_edge=False, padding=(0, 1))
        table.add_column("seed")
        for cell in cells:
            table.add_column(cell, justify="center")
        for seed in seeds:
            marks = [self._states.get((cell, seed)) for cell in cells]
            table.add_row(str(seed), *[Text(*_MARKS[mark]) if mark else "" for mark in marks])
        return Group(table, Text(self._line()))

    def _line(self) -> str:
        running = [f"{cell} seed {seed}" for (cell, seed), state in self._states.items() if state is CellState.RUNNING]
        parts = [*running, self._text]
        if self._total:
            parts.append(f"{self._done}/{self._total}")
            elapsed = time.monotonic() - self._phase_started
            if self._done and elapsed > 0:
                parts.append(f"{self._done / elapsed:.1f} candidates/s")
        left = sum(state in (CellState.WAITING, CellState.RUNNING) for state in self._states.values())
        if self._cell_seconds and left:
            mean_s = sum(self._cell_seconds) / len(self._cell_seconds)
            parts.append(f"about {left * mean_s / 60:.0f} min left")
        return "  ".join(part for part in parts if part)


def open_display(kind: DisplayKind | None) -> Progress:
    """Open the display of that kind; by default the live one on a terminal and plain lines elsewhere."""
    if kind is None:
        kind = DisplayKind.RICH if sys.stderr.isatty() else DisplayKind.PLAIN
    match kind:
        case DisplayKind.RICH:
            return Rich()
        case DisplayKind.PLAIN:
            return Plain()
        case DisplayKind.NONE:
            return Silent()
