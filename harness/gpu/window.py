"""Memory that the judge and an executor share, through which results of gigabytes pass by the piece."""

from __future__ import annotations

import contextlib
import mmap
import os

import torch

_NUM_BYTES = 128 << 20


def make_window() -> int:
    """Make the memory, and return its descriptor; nothing of it is taken before something is written."""
    descriptor = os.memfd_create("tritonrl-window", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, _NUM_BYTES)
    return descriptor


def open_window(descriptor: int) -> torch.Tensor:
    """Map the memory as bytes on the processor, so that a GPU copies quickly where there is one."""
    window = torch.frombuffer(mmap.mmap(descriptor, _NUM_BYTES), dtype=torch.uint8)
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        with contextlib.suppress(RuntimeError):
            torch.cuda.cudart().cudaHostRegister(window.data_ptr(), _NUM_BYTES, 0)  # type: ignore[no-untyped-call]
    return window
