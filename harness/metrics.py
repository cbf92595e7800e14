"""Live metrics: one stream of events, and the trackers that it goes to.

An event is a step of fine-tuning (loss, learning rate), the end of a round (reward, rates, mixed groups, candidates by
the stage that decided, seconds) or an evaluation (rates). They come through the display's protocol
(`harness.display`), from this process or from workers, so that every command that shows progress can log it.

`jsonl` needs nothing and is appended to, so that a resumed run goes on in the same file; the others are imported when
they are asked for. In a tracker each cell of each seed is a run of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TextIO

from attrs import Factory, define

from .display import CellState, DisplayKind, Progress, open_display
from .errors import UsageError

Values = Mapping[str, float]


class SinkKind(StrEnum):
    JSONL = "jsonl"
    TENSORBOARD = "tensorboard"
    WANDB = "wandb"
    TRACKIO = "trackio"


class Sink(Protocol):
    """Receives the events of one run after the other."""

    def log(self, run: str, phase: str, step: int, values: Values) -> None:
        """Note values of a phase ("sft", "rl", "round", "evaluation") at a step of it."""

    def close(self) -> None:
        """End what is open."""


@define
class JsonLines:
    path: Path
    _stream: TextIO | None = None

    def log(self, run: str, phase: str, step: int, values: Values) -> None:
        if self._stream is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = self.path.open("a", encoding="utf-8")
        event = {"time": time.time(), "run": run, "phase": phase, "step": step, **values}
        print(json.dumps(event), file=self._stream, flush=True)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


@define
class TensorBoard:
    folder: Path
    make_writer: Any
    _writers: dict[str, Any] = Factory(dict)

    def log(self, run: str, phase: str, step: int, values: Values) -> None:
        if run not in self._writers:
            self._writers[run] = self.make_writer(str(self.folder / run.replace(" ", "-")))
        for name, value in values.items():
            self._writers[run].add_scalar(f"{phase}/{name}", value, step)
        self._writers[run].flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


@define
class Tracker:
    """Logs to wandb, or to trackio, which has the same functions: one open run, the next one ends it."""

    module: Any
    group: str
    _run: str | None = None

    def log(self, run: str, phase: str, step: int, values: Values) -> None:
        if run != self._run:
            self.close()
            self.module.init(project="tritonrl", group=self.group, name=f"{self.group} {run}")
            self._run = run
        # without a step of the run's: phases count theirs anew, and trackers take none that falls
        self.module.log({f"{phase}/step": step, **{f"{phase}/{name}": value for name, value in values.items()}})

    def close(self) -> None:
        if self._run is not None:
            self.module.finish()
            self._run = None


def open_progress(
    kind: DisplayKind | None,
    names: Sequence[str],
    out: Path | None,
    writer: str = "",
    shown: Progress | None = None,
) -> Progress:
    """Open a display, or use the one that is `shown`; its events go to the sinks of these names too, in a folder.

    `writer` tells processes on several machines apart. Raises UsageError for a sink that is none, is not installed, or
    has no folder.
    """
    if names and out is None:
        raise UsageError("--log: say with --out where the results are kept")
    sinks = [_open_sink(name, out, writer) for name in dict.fromkeys(names) if out is not None]
    display = open_display(kind) if shown is None else shown
    return Logged(display, sinks) if sinks else display


def _open_sink(name: str, out: Path, writer: str) -> Sink:
    match name:
        case SinkKind.JSONL:
            # shared file systems do not append for several machines at once
            return JsonLines(out / (f"metrics-{writer}.jsonl" if writer else "metrics.jsonl"))
        case SinkKind.TENSORBOARD:
            return TensorBoard(out / "tensorboard", _import(name, "torch.utils.tensorboard").SummaryWriter)
        case SinkKind.WANDB | SinkKind.TRACKIO:
            return Tracker(_import(name, name), out.name)
        case _:
            raise UsageError(f"--log {name}: must be one of {', '.join(SinkKind)}")


def _import(name: str, module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise UsageError(f"--log {name}: not installed (pip install {name})") from None


@define
class Logged(Progress):
    """A display whose events go to sinks too."""

    display: Progress
    sinks: Sequence[Sink]
    _run: str = "evaluation"

    def grid(self, cells: Sequence[tuple[str, int, CellState]]) -> None:
        self.display.grid(cells)

    def cell(self, cell: str, seed: int, state: CellState, message: str = "") -> None:
        self._run = f"{cell} seed {seed}"
        self.display.cell(cell, seed, state, message)

    def focus(self, cell: str, seed: int) -> None:
        self._run = f"{cell} seed {seed}"
        self.display.focus(cell, seed)

    def phase(self, text: str, total: int) -> None:
        self.display.phase(text, total)

    def advance(self, done: int) -> None:
        self.display.advance(done)

    def metrics(self, phase: str, step: int, values: Values) -> None:
        self.display.metrics(phase, step, values)
        for sink in self.sinks:
            sink.log(self._run, phase, step, values)

    def close(self) -> None:
        self.display.close()
        for sink in self.sinks:
            sink.close()
