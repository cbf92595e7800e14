"""What a benchmark says while it runs, and what it reads of processes and devices."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define

if TYPE_CHECKING:
    import torch

_EVERY = 25


@define
class RunningCount:
    """Says on stderr how far a run is that may be cut off: its verdicts, and of how many `what` is true."""

    num_all: int
    what: str = ""
    num_done: int = 0
    num_true: int = 0

    def note(self, is_true: bool = False) -> None:
        """Count one; one in 25 is worth a line, and so is the last."""
        self.num_done += 1
        self.num_true += is_true
        if self.num_done % _EVERY == 0 or self.num_done == self.num_all:
            found = f", {self.num_true} {self.what}" if self.what else ""
            print(f"{self.num_done} of {self.num_all} verdicts{found}", file=sys.stderr, flush=True)


def read_proc(process: int | str, name: str) -> bytes:
    """Return a file of a process in /proc, empty where the process has ended."""
    try:
        return Path(f"/proc/{process}/{name}").read_bytes()
    except OSError:
        return b""


def read_kb(process: int | str, field: bytes, name: str = "status") -> int:
    """Return the kilobytes that a line of such a file tells, 0 where there is none."""
    lines = (line.split() for line in read_proc(process, name).splitlines())
    return next((int(words[1]) for words in lines if words[:1] == [field]), 0)


def describe_device(device: torch.device) -> str:
    """Return a GPU's name, or the CPU with its number of threads."""
    import torch

    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU, {torch.get_num_threads()} threads"


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done what was put on its stream; a processor has."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
