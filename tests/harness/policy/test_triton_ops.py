"""The decoding kernels compute what plain torch does, under Triton's interpreter or, where there is one, on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

CHECKS = Path(__file__).parent / "kernel_checks.py"


def test_kernels_agree_with_torch() -> None:
    """Every check of the kernels passes, in a process of its own, because the interpreter is chosen at import."""
    mode = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(CHECKS)]
    done = subprocess.run(command, env={**os.environ, **mode}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "..." in done.stdout
