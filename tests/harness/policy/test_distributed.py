"""Two processes take the steps that one takes."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from tritonrl.harness.policy.training.packing import cut, share

WORKER = """
import sys
from pathlib import Path
from tritonrl.core.config import PolicyConfig
from tritonrl.harness.policy.model.lora_adapters import attach_adapter, save_adapter
from tritonrl.harness.policy.training.finetune import finetune
from tritonrl.harness.policy.model.load import LoraShape, load_policy
from tritonrl.harness.policy.training.distributed import join_world, leave_world

world = join_world(cpu=True)
policy = load_policy(PolicyConfig(threads=1), "cpu")
attach_adapter(policy, LoraShape(dropout=0.0), 0)
pairs = [(f"write {number}", f"def f(x):\\n    return x * {number}" + " + 1" * number) for number in range(7)]
points = finetune(policy, pairs, epochs=1, learning_rate=1e-3, batch_size=3, seed=0, world=world)
losses = [point.loss for point in points]
if world.rank == 0:
    save_adapter(policy, Path(sys.argv[1]))
    Path(sys.argv[1], "losses").write_text("\\n".join(str(number) for number in (world.size, *losses)))
leave_world()
"""


def learned(folder: Path, size: int) -> tuple[dict[str, torch.Tensor], list[float]]:
    """What so many processes of the worker have left there."""
    found, *losses = [float(line) for line in (folder / "losses").read_text().split()]
    assert found == size
    return load_file(folder / "adapter_model.safetensors"), losses


def test_two_processes_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`accelerate launch` on two processes gives the adapter and the losses of one, with the same batches."""
    script, one, two = tmp_path / "worker.py", tmp_path / "one", tmp_path / "two"
    script.write_text(WORKER)
    monkeypatch.setattr(sys, "argv", [str(script), str(one)])
    runpy.run_path(str(script))
    alone, losses = learned(one, 1)
    # with --cpu in place of --multi_gpu it starts one process, whatever number it is given
    options = ["--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no"]
    launcher = ["-m", "accelerate.commands.launch", *options, "--dynamo_backend", "no"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(script), str(two)]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    together, shared = learned(two, 2)
    torch.testing.assert_close(torch.tensor(shared), torch.tensor(losses), rtol=1e-5, atol=1e-6)
    assert alone.keys() == together.keys()
    moved = max(float(weight.abs().max()) for name, weight in alone.items() if "lora_B" in name)
    for name, weight in alone.items():
        torch.testing.assert_close(together[name], weight, rtol=1e-3, atol=0.02 * moved, msg=name)


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 5), st.integers(1, 80))
def test_every_pair_is_computed_once(lengths: list[int], size: int, limit: int) -> None:
    """Shares and microbatches together hold each pair once, and no microbatch of several exceeds the limit."""
    pairs = [([number] * length, 0) for number, length in enumerate(lengths)]
    parts = [part for rank in range(size) for part in cut(share(pairs, rank, size), limit)]
    assert sorted(tokens[0] for part in parts for tokens, _ in part) == list(range(len(lengths)))
    assert all(len(part) == 1 or sum(len(tokens) for tokens, _ in part) <= limit for part in parts)
