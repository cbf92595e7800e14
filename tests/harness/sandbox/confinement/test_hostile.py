"""Hostile candidates: each is refused with its own outcome, and leaves no process and no file behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import evolve
from tritonrl.core.outcome import Outcome
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.sandbox.wire import RecordReply

from ....conftest import SharedSandboxes
from ..conftest import SMALL_LIMITS, find_zygote, request

MODEL = """
import torch.nn as nn
class ModelNew(nn.Module):
    def forward(self, x):
        return x
"""

BOMBS = {
    "infinite loop": ("while True: pass", Outcome.TIMEOUT),
    "sleep": ("import time; time.sleep(1000)", Outcome.TIMEOUT),
    "memory at once": ("x = bytearray(1 << 40)", Outcome.MEMORY_LIMIT),
    "memory bit by bit": ("x = []\nwhile True: x.append(bytes(1 << 20))", Outcome.MEMORY_LIMIT),
    "tensor": ("import torch\nx = torch.ones(1 << 36)", Outcome.MEMORY_LIMIT),
    "memory in several processes": (
        "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        x = b'x' * (600 << 20); time.sleep(60)\n"
        "time.sleep(60)",
        Outcome.MEMORY_LIMIT,
    ),
    "fork bomb": ("import os\nwhile True: os.fork()", Outcome.PROCESS_LIMIT),
    "fork bomb that catches": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        Outcome.PROCESS_LIMIT,
    ),
    "shell fork bomb": (
        "import os\nos.system('while :; do sleep 100 & done; sleep 100')\nos.read(0, 1)\nwhile True: pass",
        Outcome.PROCESS_LIMIT,
    ),
    "threads": (
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(100,)).start()",
        Outcome.PROCESS_LIMIT,
    ),
    "1 GB on stdout": ("import os\nfor _ in range(1024): os.write(1, bytes(1 << 20))", Outcome.OUTPUT_LIMIT),
    "1 GB printed": ("while True: print('x' * 100000)", Outcome.OUTPUT_LIMIT),
    "1 GB file": ("f = open('big', 'wb')\nfor _ in range(1024): f.write(bytes(1 << 20))", Outcome.OUTPUT_LIMIT),
    "many files": (
        "for i in range(1024):\n    with open(f'f{i}', 'wb') as f: f.write(bytes(1 << 20))",
        Outcome.OUTPUT_LIMIT,
    ),
    "write to /tmp": ("open('/tmp/tritonrl_escaped', 'w').write('x')", Outcome.FILE_ACCESS),
    "write to the installation": ("import torch; open(torch.__file__, 'a').write('x')", Outcome.FILE_ACCESS),
    "read a secret": ("open('/etc/passwd').read()", Outcome.FILE_ACCESS),
    "list a folder": ("import os; os.listdir('/')", Outcome.FILE_ACCESS),
    "exit": ("import os; os._exit(0)", Outcome.CRASHED),
    "exit 97": ("import os; os._exit(97)", Outcome.CRASHED),
    "segfault": ("import ctypes; ctypes.string_at(0)", Outcome.CRASHED),
    "abort": ("import os; os.abort()", Outcome.CRASHED),
    "network": ("import socket; socket.create_connection(('1.1.1.1', 80), 3)", Outcome.NETWORK_ACCESS),
    "mount": (
        "import ctypes, os\nc = ctypes.CDLL(None, use_errno=True)\n"
        "if c.unshare(0x10000000 | 0x20000) == 0 and c.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None) == 0: os._exit(5)\n"
        "raise OSError(ctypes.get_errno(), 'refused')",
        Outcome.FORBIDDEN_CALL,
    ),
    "kill everything": (
        "import os, signal\nos.kill(-1, signal.SIGKILL)\nraise KeyError('alive')",
        Outcome.IMPORT_FAILED,
    ),
}


def _first_outcome(reply: RecordReply) -> Outcome:
    failure = reply.failure or reply.recordings[0].failure
    assert failure is not None
    return failure.outcome


@pytest.mark.parametrize("name", [name for name in BOMBS if name != "sleep"])
def test_bomb_has_its_own_outcome(sandbox: Sandbox, name: str) -> None:
    """Each way to misbehave is refused with the outcome that names it; sleeping is below, beside other jobs."""
    source, outcome = BOMBS[name]
    reply = sandbox.record(source + MODEL, [request((4,))])
    assert _first_outcome(reply) is outcome, reply


def test_what_is_too_large_is_named_with_its_own_limit(sandbox: Sandbox) -> None:
    """Printing is bounded by the configuration, answering by a bound of its own, and the messages say which."""
    source = (
        "import os\nfor fd in range(200, 1024):\n    try:\n        while True: os.write(fd, bytes(1 << 20))\n"
        "    except OSError: pass\n"
    )
    messages = []
    for text in (source, BOMBS["1 GB on stdout"][0]):
        failure = sandbox.record(text + MODEL, [request((4,))]).failure
        assert failure is not None
        assert failure.outcome is Outcome.OUTPUT_LIMIT
        messages.append(failure.message)
    assert messages == ["results of more than 256 MB", f"printed more than {SMALL_LIMITS.output_mb} MB"]


def test_nothing_is_left_behind(sandbox: Sandbox) -> None:
    """A daemon in a session of its own dies with its job, and the scratch folder is gone."""
    marker = "86423.5"
    daemon = f"import subprocess\nsubprocess.Popen(['/usr/bin/sleep', '{marker}'], start_new_session=True)"
    reply = sandbox.record(f"open('kept', 'w').write('x')\n{daemon}" + MODEL, [request((4,))])
    assert reply.failure is None
    assert reply.recordings[0].failure is None
    assert not [name for name in os.listdir(sandbox._root) if name.startswith("job-")]
    assert marker not in " ".join(_command_lines())
    assert not os.path.exists("/tmp/tritonrl_escaped")


def test_garbage_in_every_descriptor_is_no_result(sandbox: Sandbox) -> None:
    """Bytes written to all open descriptors never become a recording."""
    source = "import os\nfor fd in range(1024):\n    try: os.write(fd, b'trl1' + bytes(64))\n    except OSError: pass\n"
    reply = sandbox.record(source + MODEL, [request((4,))])
    assert reply.failure is not None
    assert reply.failure.outcome is Outcome.BROKEN_PROTOCOL


def test_forged_answer_without_the_token_is_refused(sandbox: Sandbox) -> None:
    """A well-formed frame that the recorder did not write is not believed."""
    source = (
        "import os\nfrom tritonrl.harness.sandbox import wire\n"
        "for fd in range(3, 1024):\n    try: os.write(fd, wire.encode({'recordings': []}))\n    except OSError: pass\n"
        "os._exit(0)\n"
    )
    reply = sandbox.record(source + MODEL, [])
    assert reply.failure is not None
    assert reply.failure.outcome is Outcome.BROKEN_PROTOCOL


def test_two_threads_share_a_sandbox(sandbox: Sandbox) -> None:
    """A job that sleeps is ended in time, and does not hold up another thread's jobs."""
    source, outcome = BOMBS["sleep"]
    outcomes: list[Outcome] = []
    sleeping = threading.Thread(
        target=lambda: outcomes.append(_first_outcome(sandbox.record(source + MODEL, [request((4,))])))
    )
    sleeping.start()
    replies = [sandbox.record(MODEL, [request((4,))]) for _ in range(5)]
    assert not outcomes
    assert all(reply.recordings[0].plan is not None for reply in replies)
    sleeping.join()
    assert outcomes == [outcome]


def test_killed_zygote_is_replaced(sandbox: Sandbox) -> None:
    """A job after the zygote's death is done by a new zygote."""
    find_zygote(sandbox).kill()
    reply = sandbox.record(MODEL, [request((4,))])
    assert reply.recordings[0].plan is not None


def test_a_zygote_outlives_what_forked_it() -> None:
    """Jobs go on where the process that forks zygotes has ended; the next zygote has another."""
    with Sandbox(SMALL_LIMITS) as box:
        zygote, server = find_zygote(box), box._find_server()
        server.process.kill()
        server.process.wait()
        assert box.record(MODEL, [request((4,))]).recordings[0].plan is not None
        assert find_zygote(box) is zygote
        zygote.kill()
        assert box.record(MODEL, [request((4,))]).recordings[0].plan is not None
        assert box._find_server() is not server
        assert zygote.last_words() == "its words are gone"


def test_closing_a_sandbox_waits_for_no_import() -> None:
    """One that is closed while its processes start leaves none of them behind."""
    box = Sandbox(SMALL_LIMITS)
    box.start_soon()
    _wait_until(lambda: box._server is not None)
    server = box._server
    assert server is not None
    box.close()
    assert server.process.poll() is not None
    assert not server.is_ready


def test_only_the_jobs_own_process_answers(sandbox: Sandbox) -> None:
    """A candidate that forks, and whose fork goes on to the end before it does, is judged by what itself says."""
    reply = sandbox.record("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)" + MODEL, [request((4,))])
    assert reply.failure is None or reply.failure.outcome is not Outcome.BROKEN_PROTOCOL, reply


@pytest.mark.parametrize(
    "name", ["sleep", "memory bit by bit", "fork bomb that catches", "1 GB on stdout", "write to /tmp", "exit"]
)
def test_fallback_without_namespaces_still_refuses(sandboxes: SharedSandboxes, name: str) -> None:
    """Limits, Landlock and the watch hold where no namespace is granted."""
    source, outcome = BOMBS[name]
    # a sleeper takes all the time that it is given
    limits = evolve(SMALL_LIMITS, wall_s=3) if name == "sleep" else SMALL_LIMITS
    plain = sandboxes.get(limits, without=["namespaces"])
    assert _first_outcome(plain.record(source + MODEL, [request((4,))])) is outcome


def _command_lines() -> Iterator[str]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    yield file.read().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue


def test_killed_judge_leaves_nothing(tmp_path: Path) -> None:
    """When the judge is killed in the middle of a job, its zygotes, children and scratch folders go too."""
    judge = (
        "from tritonrl.harness.sandbox.sandbox import Sandbox\n"
        "from tests.harness.sandbox.conftest import request\n"
        "sandbox = Sandbox()\nsandbox.start('compile')\nprint('ready', flush=True)\n"
        'sandbox.record(\'import subprocess\\nsubprocess.run(["/usr/bin/sleep", "86424.5"])\', [request((4,))])\n'
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", judge], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        _wait_until(lambda: "/usr/bin/sleep 86424.5 " in _command_lines())
        process.kill()
    _wait_until(lambda: "86424.5" not in " ".join(_command_lines()) and str(tmp_path) not in " ".join(_command_lines()))
    (parent,) = tmp_path.iterdir()
    _wait_until(lambda: not [name for root in parent.iterdir() for name in os.listdir(root) if name.startswith("job-")])
    subprocess.run(
        [sys.executable, "-c", "from tritonrl.harness.sandbox.sandbox import Sandbox; Sandbox().close()"],
        env=environment,
        check=True,
    )
    assert not list(parent.iterdir())


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
