"""Calls of the kernel that change how a process holds its memory, and not what it holds."""

from __future__ import annotations

import subprocess
import sys

import pytest

_GATHER = """
from tritonrl.harness.sandbox.confinement.syscalls import gather_into_huge_pages

def huge_kb():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("AnonHugePages"))

data = bytes(range(256)) * (1 << 17)
copy = bytearray(data)
before = huge_kb()
num_gathered = gather_into_huge_pages()
print(num_gathered, huge_kb() - before, copy == data)
"""


def test_memory_lies_in_huge_pages_and_holds_what_it_held() -> None:
    """Most of 32 MB is in huge pages afterwards, with the same bytes."""
    done = subprocess.run([sys.executable, "-c", _GATHER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    num_gathered, more_kb, is_same = done.stdout.split()
    assert is_same == "True"
    if num_gathered == "0":
        pytest.skip("this kernel does not gather pages (Linux 6.1 does)")
    assert int(more_kb) >= 24 << 10
