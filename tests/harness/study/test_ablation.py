"""The ablation's command: a dry run refuses what the run would, and says what it cannot do here or must do again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from tritonrl.harness.display import Progress
from tritonrl.harness.report.publish import publish
from tritonrl.harness.settings import to_toml
from tritonrl.harness.study.archive import pack, unpack
from tritonrl.harness.study.grid import GridOutcome, order_cells, parse_grid, run_grid
from tritonrl.harness.study.runner.ablation import run_ablation
from tritonrl.harness.study.store import Results
from typer.testing import Result

from ... import command
from ..context_stub import stub_context, tiny_config


def invoke(*arguments: object) -> Result:
    """Run `tritonrl ablate` in this process."""
    return command.invoke("ablate", *arguments)


@pytest.fixture
def finished(tmp_path: Path) -> Results:
    """A finished run of stand-ins, with the configuration that made it beside it."""
    results, config = Results(root=tmp_path / "run"), tiny_config()
    results.plan(order_cells(parse_grid("none"), range(1)))
    run_grid(results, config, parse_grid("none"), range(1), lambda: stub_context(results, config), Progress())
    (tmp_path / "config.toml").write_text(to_toml(config))
    return results


@pytest.mark.parametrize("options", [["--dry-run"], ["--dry-run", "--json"], []])
def test_another_configuration_is_refused_dry_or_not(finished: Results, options: list[str]) -> None:
    """The differing field is named, with exit 3, and nothing is priced."""
    given = ["--grid", "none", "--config", finished.root.parent / "config.toml", "--set", "rl.keep=2"]
    result = invoke(*given, "--out", finished.root, *options)
    assert result.exit_code == 3
    assert "config.rl.keep: 1 -> 2" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_what_is_no_run_is_refused_dry_or_not(finished: Results, options: list[str]) -> None:
    """Published tables and a file are one line and exit 2."""
    root = finished.root.parent
    publish(finished, root / "published")
    (root / "file").write_text("")
    # what `tritonrl compare --publish` wrote
    (root / "compared").mkdir(exist_ok=True)
    (root / "compared" / "exams.parquet").write_text("")
    published = "published tables, not a run"
    for name, words in (("published", published), ("compared", published), ("file", "file: a file, not a folder")):
        result = invoke("--grid", "none", "--config", root / "config.toml", "--out", root / name, *options)
        assert result.exit_code == 2
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_a_dry_run_says_what_this_machine_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU or a scheduler the plan is printed, beside why it cannot be run here, and nothing is written."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    given = ["--grid", "none", "--out", tmp_path / "out", "--dry-run", "--json"]
    for options, words in (
        (["--preset", "paper"], "measured needs a GPU"),
        (["--preset", "paper", "--executor", "slurm"], "no `sbatch`"),
    ):
        result = invoke(*given, *options)
        assert result.exit_code == 0
        assert [cell["cell"] for cell in json.loads(result.stdout)] == ["sft", "none"]
        (line,) = result.stderr.splitlines()
        assert line.startswith("tritonrl: this machine cannot run it: ")
        assert words in line
    assert invoke(*given, "--preset", "quick").stderr == ""
    assert not (tmp_path / "out").exists()


def test_a_start_that_is_trained_again_is_told(
    finished: Results, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a pack left out a start that new cells need, the dry run and the run say so in one line."""
    there = Results(root=finished.root.parent / "there")
    pack(finished, finished.root.parent / "parts", 1 << 20)
    unpack(finished.root.parent / "parts", there)
    told = f"tritonrl: seed 0: the supervised start is trained again, since its adapter is not in {there.root}; "
    given = ["--config", finished.root.parent / "config.toml", "--out", there.root, "--dry-run"]
    assert invoke("--grid", "none", *given).stderr == ""
    result = invoke("--grid", "none,m", *given)
    assert result.stderr.startswith(told)
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout.splitlines()[1].split()[:3] == ["sft", "0", "again"]

    done = GridOutcome(num_complete=0, num_failed=0, num_cached=0)
    monkeypatch.setattr("tritonrl.harness.study.runner.ablation._run_here", lambda *_: done)
    run_ablation(tiny_config(), there.root, parse_grid("none,m"), 1)
    assert capsys.readouterr().err.startswith(told)
    shutil.copytree(finished.root / "work", there.root / "work", dirs_exist_ok=True)
    run_ablation(tiny_config(), there.root, parse_grid("none,m"), 1)
    assert capsys.readouterr().err == ""
