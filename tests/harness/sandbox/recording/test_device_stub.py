"""How Triton's assembler is started from a process whose real and effective users differ, as under root."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_ANOTHER_UID = 65534
_PROLOGUE = f"""
import os, subprocess
from tritonrl.harness.sandbox.recording.device_stub import run_tools_as_one_user
run_tools_as_one_user()
os.setresuid({_ANOTHER_UID}, 0, 0)
from triton.backends.nvidia import compiler
run = compiler.subprocess.run
"""


def _run(text: str) -> str:
    done = subprocess.run([sys.executable, "-c", _PROLOGUE + text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root's children have two users")


def test_tool_is_one_user_and_its_caller_stays_two() -> None:
    """The tool runs with real uid = effective uid; the process that starts it keeps its own real uid."""
    text = """
done = run(["sh", "-c", "id -ru; id -u"], stdout=subprocess.PIPE, check=True, close_fds=False)
print(*done.stdout.split(), *os.getresuid())
"""
    assert _run(text) == f"b'0' b'0' {_ANOTHER_UID} 0 0"


def test_tool_is_started_without_a_copy_of_its_caller() -> None:
    """The start names no user and no function to call, either of which would make `subprocess` fork the caller."""
    text = """
class Noting(subprocess.Popen):
    def __init__(self, command, **options):
        print(options.get("user"), options.get("preexec_fn"), getattr(subprocess, "_USE_VFORK", True))
        super().__init__(command, **options)

subprocess.Popen = Noting
run(["true"], check=True, close_fds=False)
"""
    assert _run(text) == "None None True"


def test_failure_of_a_tool_is_raised_to_its_caller() -> None:
    """What the start raises in the thread reaches the caller, as where a tool fails or is not there."""
    text = """
for command in (["false"], ["/no/such/tool"]):
    try:
        run(command, check=True, close_fds=False)
    except Exception as error:
        print(type(error).__name__)
"""
    assert _run(text).split() == ["CalledProcessError", "FileNotFoundError"]
