"""Commands that a launcher starts as several processes: what one process does, done by two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.policy.parallel import World

SETTINGS = (
    *("policy.max_new_tokens=200", "sft.num_pairs=6", "sft.lora_dropout=0.0", "sft.batch_size=3"),
    *("evaluation.level1_tasks=1", "evaluation.level2_tasks=0", "evaluation.samples_per_task=2"),
)


def supervise(out: Path, *launcher: str) -> str:
    """What `tritonrl sft` prints, started so."""
    chosen = [part for setting in SETTINGS for part in ("--set", setting)]
    command = [*launcher, "-m", "tritonrl.cli", "sft", "--preset", "quick", *chosen, "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, *command, "--display", "none"], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses_and_answers(out: Path) -> tuple[list[float], list[str]]:
    """The loss of every step, and the candidates of the evaluation."""
    return (
        pl.read_parquet(out / "training.parquet")["loss"].to_list(),
        pl.read_parquet(out / "evaluation.parquet")["candidate"].to_list(),
    )


def test_a_launched_command_does_what_one_process_does(tmp_path: Path) -> None:
    """Two processes of torchrun train and sample what one does; one of them prints and writes, once."""
    said = supervise(tmp_path / "two", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    supervise(tmp_path / "one")
    assert said.count("seed 0: complete") == 1
    (losses, answers), (expected, texts) = (losses_and_answers(tmp_path / name) for name in ("two", "one"))
    assert len(losses) == 2
    assert losses == pytest.approx(expected, rel=1e-4)
    assert answers == texts


@given(st.integers(0, 40), st.integers(1, 9))
def test_shares_hold_every_item_once(number: int, size: int) -> None:
    """The processes' shares, one after the other, are all items in order, and none has two more than another."""
    shares = [list(range(number))[World(rank=rank, size=size).slice_of(number)] for rank in range(size)]
    assert [item for share in shares for item in share] == list(range(number))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
