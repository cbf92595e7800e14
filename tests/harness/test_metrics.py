"""Live metrics: what a run tells as it goes on, and what each tracker makes of it."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from tritonrl.harness.display import CellState, DisplayKind
from tritonrl.harness.errors import UsageError
from tritonrl.harness.metrics import open_progress
from tritonrl.harness.study.grid import parse_grid, run_grid
from tritonrl.harness.study.store import Results

from .context_stub import stub_context, tiny_config


def test_a_run_tells_rounds_and_evaluations(tmp_path: Path) -> None:
    """Each round of a cell has its reward, mixed groups, rates, rejections and seconds; evaluations have rates."""
    results, config = Results(root=tmp_path), tiny_config()
    progress = open_progress(DisplayKind.NONE, ["jsonl"], tmp_path)
    run_grid(
        results, config, parse_grid("ms"), range(1), lambda: stub_context(results, config, progress=progress), progress
    )
    progress.close()
    events = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {event["run"] for event in events} == {"sft seed 0", "ms seed 0"}
    rounds = [event for event in events if event["phase"] == "round"]
    assert [event["step"] for event in rounds] == [1, 2]
    candidates = results.read("candidates").filter(results.read("candidates")["round"] == 0)
    assert rounds[0]["reward"] == pytest.approx(candidates["reward"].mean())
    assert rounds[0]["rejected_ast"] == round((1 - rounds[0]["valid"]) * candidates.height)
    groups = [set(group["reward"].to_list()) for _, group in candidates.group_by("slot")]
    assert rounds[0]["mixed_groups"] == sum(len(group) > 1 for group in groups) / len(groups)
    assert {"sample_s", "verify_s", "train_s", "correct"} <= set(rounds[0])
    assert [event["step"] for event in events if event["phase"] == "evaluation"] == [0, 2]


def test_a_resumed_run_appends(tmp_path: Path) -> None:
    """The lines of an earlier command stay."""
    for step in (1, 2):
        progress = open_progress(DisplayKind.NONE, ["jsonl"], tmp_path)
        progress.cell("msct", 3, CellState.RUNNING)
        progress.metrics("rl", step, {"loss": 0.5})
        progress.close()
    events = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(event["run"], event["phase"], event["step"], event["loss"]) for event in events] == [
        ("msct seed 3", "rl", 1, 0.5),
        ("msct seed 3", "rl", 2, 0.5),
    ]


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_trackers_have_a_run_for_each_cell(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell of a seed is a run, ended when the next begins; figures carry their phase and its step."""
    calls: list[Any] = []
    module = types.ModuleType(name)
    module.init = lambda **about: calls.append(about["name"])  # type: ignore[attr-defined]
    module.log = calls.append  # type: ignore[attr-defined]
    module.finish = lambda: calls.append("finish")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)
    progress = open_progress(DisplayKind.NONE, [name], tmp_path / "mine")
    progress.cell("none", 0, CellState.RUNNING)
    progress.metrics("rl", 1, {"loss": 0.5})
    progress.metrics("round", 1, {"reward": 0.1})
    progress.cell("m", 0, CellState.RUNNING)
    progress.metrics("rl", 1, {"loss": 0.25})
    progress.close()
    assert calls == [
        "mine none seed 0",
        {"rl/step": 1, "rl/loss": 0.5},
        {"round/step": 1, "round/reward": 0.1},
        "finish",
        "mine m seed 0",
        {"rl/step": 1, "rl/loss": 0.25},
        "finish",
    ]


def test_tensorboard_has_a_folder_for_each_cell(tmp_path: Path) -> None:
    """Event files of the real package hold the figures by phase and name."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    progress = open_progress(DisplayKind.NONE, ["tensorboard"], tmp_path)
    progress.cell("msct", 0, CellState.RUNNING)
    for step in (1, 2):
        progress.metrics("sft", step, {"loss": 1.0 / step})
    progress.close()
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard" / "msct-seed-0")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("sft/loss")] == [(1, 1.0), (2, 0.5)]


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboard"])
def test_a_tracker_that_is_not_installed_is_a_usage_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told by name, with how to install it, before anything runs."""
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UsageError, match=f"--log {name}: not installed .pip install {name}."):
        open_progress(DisplayKind.NONE, [name], tmp_path)


def test_an_unknown_tracker_and_a_missing_folder_are_usage_errors(tmp_path: Path) -> None:
    """The names that there are are listed; without a results folder there is nowhere to log."""
    with pytest.raises(UsageError, match="must be one of jsonl, tensorboard, wandb, trackio"):
        open_progress(DisplayKind.NONE, ["tensorbord"], tmp_path)
    with pytest.raises(UsageError, match="--out"):
        open_progress(DisplayKind.NONE, ["jsonl"], None)
