"""The benchmark of fine-tuning: figures that fit together, and both sides computing the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig
from tritonrl.cli import app
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.bench.policy import training
from tritonrl.harness.bench.policy.training import Workload, measure_training
from tritonrl.harness.errors import TritonrlError
from typer.testing import CliRunner

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.fixture
def shape(tmp_path: Path) -> str:
    """A tiny model's config.json, with room for the tokens of the shipped tokenizer."""
    config = LlamaConfig(**SIZES, num_key_value_heads=2, vocab_size=4096, tie_word_embeddings=True)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(tmp_path)
    return f"random:{tmp_path / 'config.json'}"


def test_both_sides_compute_the_same(shape: str) -> None:
    """Ours and the plain loop start from one loss; rates, sizes and padding fit together, as JSON and as lines."""
    figures = measure_training(Workload(policy=shape, pairs=8, batch=3, steps=4, warmup=1, threads=1))
    ours, plain = figures.ours, figures.plain
    assert plain is not None
    assert ours.first_loss == pytest.approx(plain.first_loss, rel=1e-4)
    assert ours.last_loss == pytest.approx(plain.last_loss, rel=0.02)
    assert ours.tokens_per_s is not None
    assert plain.tokens_per_s is not None
    assert figures.speedup == pytest.approx(ours.tokens_per_s / plain.tokens_per_s)
    assert 0.0 <= figures.share_of_padding < 0.5
    assert ours.peak_gb is None
    # of two layers: query and output, key and value, and the three of the MLP, each inputs and outputs times the rank
    assert figures.num_trained == 2 * 16 * (2 * (32 + 32) + 2 * (32 + 16) + 3 * (32 + 48))
    assert to_plain(figures)["batch"] == 3


def test_efficiency_is_over_the_rate_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes with 1.8 times the rate of one have an efficiency of 90%; one is measured unasked."""
    rates = {1: {"tokens_per_s": 100.0, "seconds_a_step": 1.0}, 2: {"tokens_per_s": 180.0, "seconds_a_step": 1.1}}
    monkeypatch.setattr(training, "_launch", lambda _, number: rates[number])
    one, two = training.measure_scaling(Workload(policy="nano"), [2])
    assert (one.processes, one.efficiency) == (1, 1.0)
    assert (two.processes, two.efficiency) == (2, pytest.approx(0.9))
    assert training.measure_scaling(Workload(policy="nano"), []) == ()


def test_a_process_alone_writes_its_rate(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of the launched processes writes what it measured."""
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    workload = {"policy": shape, "pairs": 4, "batch": 2, "steps": 3, "warmup": 1}
    training.main([json.dumps(workload), str(tmp_path / "rate.json")])
    rate = json.loads((tmp_path / "rate.json").read_text())
    assert rate["tokens_per_s"] > 0
    assert rate["first_loss"] > 0
    assert rate["processes"] == 1
    # a launcher that starts fewer than it is asked for does not have them measured as more
    monkeypatch.setattr(subprocess, "run", lambda command, **_: write_rate(Path(command[-1]), rate))
    with pytest.raises(TritonrlError, match="1 of 2 processes were started"):
        training.measure_scaling(Workload(policy=shape), [2])


def write_rate(answer: Path, rate: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    answer.write_text(json.dumps(rate))
    return subprocess.CompletedProcess([], 0)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--policy", "nano", "--random", "smollm2-135m"], "exclude"),
        (["--steps", "4", "--warmup", "4"], "--warmup"),
        (["--processes", "2,x"], "--processes"),
        (["--compile", "maybe"], "--compile"),
    ],
)
def test_wrong_options_are_one_line(options: list[str], word: str) -> None:
    """What cannot be measured is refused before anything is loaded."""
    result = CliRunner().invoke(app, ["bench", "train", *options])
    assert result.exit_code == 2
    assert word in result.output
