"""What the commands say in lines: how a training went, and why one failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tritonrl.cli import app
from tritonrl.harness.display import Silent
from tritonrl.harness.errors import DivergedError
from tritonrl.harness.plain_text import render_losses
from tritonrl.harness.study.grid import run_grid
from tritonrl.harness.study.runner import ablation
from tritonrl.harness.study.store import Results
from typer.testing import CliRunner

from .context_stub import TeacherLearner, stub_context, tiny_config


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
        return run_grid(results, tiny, (), range(1), lambda: line, Silent())

    monkeypatch.setattr(ablation, "run_ablation", run)
    done = CliRunner().invoke(app, ["sft", "--out", str(tmp_path)], prog_name="tritonrl")
    assert done.exit_code == (1 if diverges else 0), done.output
    if diverges:
        assert "sft seed 0: failed, DivergedError: training diverged: loss nan" in done.stdout
    else:
        assert "  loss 1 to 0.25 in 4 steps\n" in done.stdout
