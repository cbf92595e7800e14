"""Measures the training rate of several processes together, beside that of one.

Each process is what `accelerate launch` makes of one of SFT's, with a batch of its own size (weak scaling): the
efficiency is what N processes do over N times what one does.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import frozen

from ...errors import TritonrlError

PROGRAM = "tritonrl.harness.bench.policy.training"
"""The module that is one process: its arguments are a workload as JSON, and where the first writes the rate."""


@frozen(kw_only=True)
class Scaling:
    """Rates of several processes together; `efficiency` is over as many times the rate of one."""

    processes: int
    tokens_per_s: float
    efficiency: float
    seconds_a_step: float


def measure_scaling(workload: Mapping[str, Any], processes: Sequence[int]) -> tuple[Scaling, ...]:
    """Measure the rate of each number of processes; that of one always, as a process of its own too."""
    if not processes:
        return ()
    rates = {number: _launch(workload, number) for number in sorted({1, *processes})}
    return tuple(
        Scaling(
            processes=number,
            tokens_per_s=rate["tokens_per_s"],
            efficiency=rate["tokens_per_s"] / (number * rates[1]["tokens_per_s"]),
            seconds_a_step=rate["seconds_a_step"],
        )
        for number, rate in rates.items()
    )


def _launch(workload: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Measure the rate of so many processes together; raises TritonrlError where they fail."""
    command = [sys.executable]
    if number > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # without --multi_gpu it starts one process where there are no GPUs, whatever number it is given
        command += ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"]
        command += ["--num_processes", str(number)]
        command += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", str(port)]
    with tempfile.TemporaryDirectory(prefix="tritonrl-bench-") as folder:
        answer = Path(folder) / "rate.json"
        command += ["-m", PROGRAM, json.dumps(workload), str(answer)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not answer.exists():
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise TritonrlError(f"{number} processes ended with exit code {done.returncode}: {last}")
        rate: dict[str, Any] = json.loads(answer.read_text())
        if rate["processes"] != number:
            raise TritonrlError(f"{rate['processes']} of {number} processes were started")
        return rate


def describe(device: torch.device) -> str:
    """A GPU's name, or the CPU with its number of threads."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU, {torch.get_num_threads()} threads"


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done what was put on its stream; a processor has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
