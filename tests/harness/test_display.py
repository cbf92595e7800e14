"""What a person reads while something runs, and in lines afterwards."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tritonrl.cli import app
from tritonrl.harness.display import CellState, Plain, Progress, Rich
from tritonrl.harness.errors import DivergedError
from tritonrl.harness.plain_text import render_losses
from tritonrl.harness.study.grid import run_grid
from tritonrl.harness.study.runner import ablation
from tritonrl.harness.study.store import Results
from typer.testing import CliRunner

from .context_stub import TeacherLearner, stub_context, tiny_config


def test_a_phase_has_its_cell_before_it_where_there_is_one() -> None:
    """Before any cell a line is the phase alone, without the colon that would follow a cell."""
    display = Plain(stream=io.StringIO())
    display.phase("preparing tasks", 0)
    display.cell("msct", 0, CellState.RUNNING)
    display.phase("verifying", 40)
    lines = [line.partition("] ")[2] for line in display.stream.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines == ["preparing tasks", "msct seed 0: running", "msct seed 0: verifying 40"]


def test_long_silence_is_broken() -> None:
    """After ten seconds without a word a plain display says how far the phase is, its loss and the time left."""
    now = [0.0]
    display = Plain(stream=io.StringIO(), clock=lambda: now[0])
    display.cell("sft", 0, CellState.RUNNING)
    display.phase("fine-tuning", 40)
    for second in range(1, 22):
        now[0] = float(second)
        display.metrics("sft", second, {"loss": 1 / second})
        display.advance(second)
    lines = [line.partition("] ")[2] for line in display.stream.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines[2:] == [
        "sft seed 0: fine-tuning 10/40, loss 0.100 (10 s, 30 s left)",
        "sft seed 0: fine-tuning 20/40, loss 0.050 (20 s, 20 s left)",
    ]


def test_a_display_that_was_started_speaks_by_itself() -> None:
    """Where nothing advances for long, as when a model loads, lines come from another thread; none after the end."""
    stream = io.StringIO()
    display = Plain(stream=stream, silence_s=0.01).start()
    display.phase("loading", 0)
    while len(stream.getvalue().splitlines()) < 4:
        time.sleep(0.01)
    display.close()
    assert "loading (0 s)" in stream.getvalue()


def test_a_rounds_figures_are_a_line() -> None:
    """What a person looks at of a round is told at once."""
    display = Plain(stream=io.StringIO())
    display.cell("msct", 1, CellState.RUNNING)
    display.metrics("round", 2, {"reward": 0.25, "mixed_groups": 0.5, "rejected_ast": 3.0, "correct": 0.125})
    last = display.stream.getvalue().splitlines()[-1]  # type: ignore[attr-defined]
    assert last.endswith("msct seed 1: round 2: reward 0.25, correct 0.125, mixed groups 0.5")


def test_the_live_picture_has_a_bar_without_a_grid() -> None:
    """An evaluation, which has no cells, shows its phase, how far it is, and its figures."""
    display = Rich()
    display.phase("auditing", 8)
    display.advance(3)
    display.metrics("sft", 3, {"loss": 0.5})
    console = Console(file=io.StringIO(), width=120)
    console.print(display.render())
    display.close()
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "auditing" in text
    assert "3/8" in text
    assert "loss 0.500" in text


@pytest.mark.parametrize(
    ("losses", "line"),
    [
        ([], "no step was taken"),
        ([0.5], "loss 0.5 to 0.5 in 1 steps"),
        ([1.0] * 18 + [0.1, 0.3], "loss 1 to 0.2 in 20 steps"),
        ([0.055, 10.0, 8.3], "loss 0.055 to 8.3 in 3 steps; it has risen: the learning rate may be too large"),
    ],
)
def test_a_training_is_told_by_its_losses(losses: Sequence[float], line: str) -> None:
    """The first step's loss and the mean of the last tenth; one that is twice the first is remarked on."""
    assert render_losses(losses) == line


class Diverging(TeacherLearner):
    """Trains into numbers that are none."""

    def finetune(self, *_: Any) -> list[float]:
        raise DivergedError("training diverged: loss nan, gradient nan in step 2 of 9")


@pytest.mark.parametrize("diverges", [False, True])
def test_sft_says_how_it_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, diverges: bool) -> None:
    """A start has its losses in the command's lines, and one that failed has the reason in place of an adapter."""

    def run(config: Any, out: Path, *_: Any, **__: Any) -> Any:
        tiny, results = tiny_config(), Results(root=out)
        line = stub_context(results, tiny, Diverging(answers={}) if diverges else None)
        return run_grid(results, tiny, (), range(1), lambda: line, Progress())

    monkeypatch.setattr(ablation, "run_ablation", run)
    done = CliRunner().invoke(app, ["sft", "--out", str(tmp_path)], prog_name="tritonrl")
    assert done.exit_code == (1 if diverges else 0), done.output
    if diverges:
        assert "sft seed 0: failed, DivergedError: training diverged: loss nan" in done.stdout
    else:
        assert "  loss 1 to 0.25 in 4 steps\n" in done.stdout
