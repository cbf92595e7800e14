"""What benchmarks call the device that a figure was measured on."""

from __future__ import annotations

import torch


def describe(device: torch.device) -> str:
    """A GPU's name, or the CPU with its number of threads."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU, {torch.get_num_threads()} threads"
