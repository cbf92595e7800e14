"""Attention within packed documents and the decoding kernels compute what plain torch does."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch
from tritonrl.harness.policy.model import transformer
from tritonrl.harness.policy.model.transformer import attend_by_lengths, attend_by_parts, attend_within, has_kernel

CHECKS = Path(__file__).parent / "kernel_checks.py"
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
LENGTHS = [5, 1, 8, 2]


def row(device: str, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Queries of four heads, keys and values of two, for one row."""
    torch.manual_seed(0)
    return tuple(
        torch.randn(1, heads, sum(LENGTHS), 64, device=device, dtype=dtype, requires_grad=True) for heads in (4, 2, 2)
    )


@pytest.mark.parametrize("shares_heads", [True, False])
def test_the_kernel_is_given_what_it_expects(shares_heads: bool) -> None:
    """A kernel gets tokens first, all borders, and as many heads of keys as it can use."""

    def kernel(queries: Any, keys: Any, values: Any, starts: Any, ends: Any, most: int, longest: int) -> torch.Tensor:
        assert queries.shape == (16, 4, 64)
        assert keys.shape == values.shape == (16, 2 if shares_heads else 4, 64)
        assert starts.tolist() == ends.tolist() == [0, 5, 6, 14, 16]
        assert most == longest == 8
        parts = (states.transpose(0, 1)[None] for states in (queries, keys, values))
        return attend_by_parts(*parts, LENGTHS)[0].transpose(0, 1)

    states = row("cpu", torch.float32)
    borders = torch.tensor([0, *accumulate(LENGTHS)], dtype=torch.int32)
    found = attend_by_lengths(*states, borders, 8, kernel, shares_heads)
    torch.testing.assert_close(found, attend_by_parts(*states, LENGTHS))


def test_a_cpu_has_no_kernel() -> None:
    """Without a GPU, or in float32, the row is cut into parts."""
    assert not has_kernel(torch.device("cpu"), torch.bfloat16)
    states = row("cpu", torch.float32)
    attend = attend_within(LENGTHS, torch.device("cpu"), torch.float32, 8)
    torch.testing.assert_close(attend(*states), attend_by_parts(*states, LENGTHS))


@needs_gpu
def test_torchs_kernel_keeps_documents_apart() -> None:
    """On a GPU torch's kernel has the results and the gradients of each document by itself."""
    device, dtype = torch.device("cuda"), torch.bfloat16
    assert transformer.has_kernel(device, dtype)
    found, expected = row("cuda", dtype), row("cuda", dtype)
    result = attend_within(LENGTHS, device, dtype, 100)(*found)
    wanted = attend_by_parts(*expected, LENGTHS)
    torch.testing.assert_close(result, wanted, rtol=0.02, atol=0.02)
    for each in (result, wanted):
        torch.autograd.backward((each.float() ** 2).sum())
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=0.03, atol=0.1)


def test_kernels_agree_with_torch() -> None:
    """Every check of the kernels passes, in a process of its own, because the interpreter is chosen at import."""
    mode = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(CHECKS)]
    done = subprocess.run(command, env={**os.environ, **mode}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "..." in done.stdout
