"""The sandbox's contract, item by item: each is tried by a candidate, with the kernel's protections and with fewer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from attrs import evolve
from tritonrl.core.candidate import Failure
from tritonrl.core.config import TimingConfig, VerifierConfig
from tritonrl.core.outcome import Outcome
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.tasks.suites import find_example
from tritonrl.harness.verification.verifier import Verifier

from ....conftest import SharedSandboxes
from ..conftest import IDENTITY, SMALL_LIMITS, find_zygote, only, request

MODES = {
    "all protections": (),
    "no namespaces": ("namespaces",),
    "Landlock alone": ("namespaces", "seccomp"),
    "seccomp alone": ("namespaces", "landlock"),
}


Boxes = Mapping[str, Sandbox]


@pytest.fixture(scope="module")
def boxes(sandboxes: SharedSandboxes) -> Boxes:
    """A sandbox for each mode."""
    limits = evolve(SMALL_LIMITS, wall_s=20, cpu_s=10)
    return {mode: sandboxes.get(limits, without=missing) for mode, missing in MODES.items()}


def _failure(box: Sandbox, source: str) -> Failure:
    reply = box.record(source + IDENTITY, [request((4,))])
    failure = reply.failure or reply.recordings[0].failure
    assert failure is not None
    return failure


def _require(box: Sandbox, *names: str) -> None:
    """Skip where this machine lacks a protection that the mode was to keep."""
    lost = [capability.name for capability in box.capabilities() if capability.name in names and not capability.active]
    if lost:
        pytest.skip(f"not protected here: {', '.join(lost)}")


def _answers(box: Sandbox, attempts: list[str]) -> list[str]:
    """What each expression gives a candidate that swallows every exception: a value's or an error's text."""
    lines = ["answers = []"]
    for attempt in attempts:
        lines += ["try:", f"    answers.append(str({attempt})[:30])", "except BaseException as error:"]
        lines += ["    answers.append(type(error).__name__)"]
    lines.append("raise KeyError('|'.join(answers))")
    failure = _failure(box, "import os, ctypes, signal, socket\n" + "\n".join(lines))
    assert failure.outcome is Outcome.IMPORT_FAILED, failure
    return failure.message.partition("'")[2].rpartition("'")[0].split("|")


WITH_FILES = [mode for mode, without in MODES.items() if "landlock" not in without]
WITH_CALLS = [mode for mode, without in MODES.items() if "seccomp" not in without]


@pytest.mark.parametrize("mode", WITH_FILES)
def test_secrets_stay_secret(boxes: Boxes, mode: str, tmp_path: Path) -> None:
    """No file of the user's, the judge's or the system's is read, and swallowing the refusal gains nothing."""
    _require(boxes[mode], "files")
    secret = tmp_path / "key"
    secret.write_text("SECRET")
    zygote, server = find_zygote(boxes[mode]).pid, boxes[mode]._find_server().process.pid
    paths = [str(secret), os.path.abspath("pyproject.toml"), "/etc/shadow", os.path.expanduser("~/.bashrc")]
    paths += [
        f"/proc/{pid}/{name}" for pid in (os.getpid(), zygote, server, os.getppid()) for name in ("environ", "mem")
    ]
    found = _answers(boxes[mode], [f"open({path!r}, 'rb').read(6)" for path in paths] + ["os.listdir('/root')"])
    assert set(found) <= {"PermissionError", "FileNotFoundError"}, dict(zip(paths, found, strict=False))
    assert found[0] == "PermissionError"


@pytest.mark.parametrize("mode", WITH_FILES)
def test_nothing_is_written_outside_scratch(boxes: Boxes, mode: str, tmp_path: Path) -> None:
    """Neither a plain write nor a link nor a move touches a file outside the scratch folder."""
    _require(boxes[mode], "files")
    target = tmp_path / "target"
    target.write_text("kept")
    attempts = [
        f"open({str(target)!r}, 'w')",
        f"os.truncate({str(target)!r}, 0)",
        f"os.remove({str(target)!r})",
        f"os.symlink({str(target)!r}, 'link') or open('link', 'w')",
        f"os.link({str(target)!r}, 'hard') or open('hard', 'w')",
        f"open('mine', 'w').close() or os.rename('mine', {str(tmp_path / 'moved')!r})",
        f"os.mkdir({str(tmp_path / 'made')!r})",
        "open('/dev/shm/tritonrl', 'w')",
    ]
    found = _answers(boxes[mode], attempts)
    assert set(found) <= {"PermissionError", "OSError", "FileNotFoundError"}, found
    assert target.read_text() == "kept"
    assert os.listdir(tmp_path) == ["target"]


@pytest.mark.parametrize("mode", WITH_CALLS)
@pytest.mark.parametrize("way", ["tcp", "udp", "abstract", "pair", "name"])
def test_network_attempt_has_its_outcome(boxes: Boxes, mode: str, way: str) -> None:
    """Every way to reach a socket of the host is refused with the outcome that says so, and nothing arrives."""
    _require(boxes[mode], "system calls")
    name = f"\0tritonrl-{os.getpid()}-{way}"
    kind = socket.SOCK_STREAM if way in ("tcp", "abstract") else socket.SOCK_DGRAM
    family = socket.AF_INET if way in ("tcp", "udp", "name") else socket.AF_UNIX
    with socket.socket(family, kind) as listener:
        listener.bind(("127.0.0.1", 0) if family is socket.AF_INET else name)
        if kind is socket.SOCK_STREAM:
            listener.listen()
        listener.settimeout(0.05)
        address = repr(listener.getsockname() if family is socket.AF_INET else name)
        source = {
            "tcp": f"socket.create_connection({address}, 1)",
            "udp": f"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', {address})",
            "abstract": f"socket.socket(socket.AF_UNIX).connect({address})",
            "pair": f"socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', {address})",
            "name": "socket.getaddrinfo('example.org', 80)",
        }[way]
        assert _failure(boxes[mode], f"import socket\n{source}").outcome is Outcome.NETWORK_ACCESS
        with pytest.raises(TimeoutError):
            listener.accept() if kind is socket.SOCK_STREAM else listener.recv(1)


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this user's that does nothing."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("mode", MODES)
def test_other_processes_are_not_signalled(boxes: Boxes, mode: str, victim: subprocess.Popen[bytes]) -> None:
    """The judge, the zygote, the process that forks zygotes, a sibling job and a bystander survive every signal."""
    box = boxes[mode]
    _require(box, "signals")
    zygote, server = find_zygote(box), box._find_server()
    replies = []
    source = "import time; time.sleep(1)" + IDENTITY
    sleeping = threading.Thread(target=lambda: replies.append(box.record(source, [request((4,))])))
    sleeping.start()
    time.sleep(0.2)
    sibling = next(iter(_children(zygote.pid)), 0)
    pids = [pid for pid in (victim.pid, zygote.pid, server.process.pid, os.getpid(), sibling) if pid > 1]
    attempts = [f"os.kill({pid}, 9)" for pid in pids] + ["os.kill(os.getppid() or 2**22, 9)"]
    attempts += [f"os.killpg({pid}, 9)" for pid in pids]
    attempts += [f"signal.pidfd_send_signal(os.pidfd_open({victim.pid}), 9)"]
    attempts += [f"ctypes.CDLL(None, use_errno=True).syscall(234, {pid}, {pid}, 9) or 'sent'" for pid in pids]
    everyone, *found = _answers(box, ["os.kill(-1, 9)", *attempts])
    assert set(found) <= {"PermissionError", "ProcessLookupError", "OSError", "-1"}, found
    assert everyone in ("PermissionError", "ProcessLookupError", "None")  # "None": sent to all it may signal, none
    sleeping.join()
    assert replies[0].failure is None
    assert victim.poll() is None
    assert zygote.is_up
    assert server.is_up


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", ["ptrace", "process_vm_readv"])
def test_other_processes_are_not_read(boxes: Boxes, mode: str, call: str, victim: subprocess.Popen[bytes]) -> None:
    """Tracing a process or reading its memory ends the candidate, or fails where there is no seccomp."""
    _require(boxes[mode], "other processes' memory", *(["system calls"] if mode in WITH_CALLS else []))
    arguments = {"ptrace": f"101, 16, {victim.pid}, 0, 0", "process_vm_readv": f"310, {victim.pid}, v, 1, v, 1, 0"}
    source = (
        "import ctypes\nb = ctypes.create_string_buffer(16)\n"
        "v = (ctypes.c_size_t * 2)(ctypes.addressof(b), 8)\n"
        f"raise KeyError(ctypes.CDLL(None, use_errno=True).syscall({arguments[call]}))"
    )
    failure = _failure(boxes[mode], source)
    if mode in WITH_CALLS:
        assert failure.outcome is Outcome.FORBIDDEN_CALL
    else:
        assert failure.message == "KeyError: -1"


FORBIDDEN = {
    "new user namespace": "c.syscall(272, 0x10000000)",
    "clone into a namespace": "c.syscall(56, 0x10000011, 0, 0, 0, 0)",
    "mount": "c.mount(b'none', b'/', b'tmpfs', 0, None)",
    "bpf": "c.syscall(321, 0, 0, 0)",
    "file handle": "c.syscall(304, 0, 0, 0)",
    "32-bit entry": "c.syscall(0x40000000 + 39)",
}


@pytest.mark.parametrize("attempt", FORBIDDEN)
def test_forbidden_call_has_its_outcome(boxes: Boxes, attempt: str) -> None:
    """A call that is only ever an attempt to get out ends the candidate, whether or not it looks at the result."""
    _require(boxes["no namespaces"], "system calls")
    failure = _failure(boxes["no namespaces"], f"import ctypes\nc = ctypes.CDLL(None)\n{FORBIDDEN[attempt]}")
    assert failure.outcome is Outcome.FORBIDDEN_CALL


def test_facilities_that_libraries_probe_for_are_missing(boxes: Boxes) -> None:
    """Calls that a library may try and do without fail, and the candidate goes on."""
    _require(boxes["all protections"], "system calls")
    numbers = (425, 323, 298, 319, 435, 29, 312)
    code = "(c := ctypes.CDLL(None, use_errno=True)).syscall({}, 0, 0, 0, 0) or 0, ctypes.get_errno()"
    found = _answers(boxes["all protections"], [f"({code.format(number)})" for number in numbers])
    assert set(found) == {"(-1, 38)"}
    assert _answers(boxes["all protections"], ["ctypes.CDLL(None, use_errno=True).prctl(36, 0, 0, 0, 0)"]) == ["-1"]


DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid() if os.getpgrp() == os.getpid() else None
        os.execv(sys.executable, [sys.executable, "-c", "import time, signal; time.sleep(600)  # MARKER"])
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", ["", "\nos._exit(0)\n", "\nos.abort()\n"])
def test_daemon_ends_with_its_job(boxes: Boxes, mode: str, end: str) -> None:
    """A process that detached from everything is gone when the reply is there, however the job ended."""
    marker = f"tritonrl-daemon-{os.getpid()}-{mode}-{len(end)}"
    reply = boxes[mode].record(DAEMON.replace("MARKER", marker) + end + IDENTITY, [request((4,))])
    assert (reply.failure is None) == (not end)
    assert marker not in _everything_running()
    assert not [name for name in os.listdir(boxes[mode]._root) if name.startswith("job-")]


EXHAUSTION = {
    "shared memory of several processes": (
        "import os, mmap, time\nfor _ in range(6):\n    if os.fork() == 0:\n        m = mmap.mmap(-1, 400 << 20)\n"
        "        for _ in range(400): m.write(bytes(1 << 20))\n        time.sleep(60)\ntime.sleep(60)",
        Outcome.MEMORY_LIMIT,
    ),
    "processes that changed their uid": (
        "import os, time\ntry: os.setresuid(0, 0, 0)\nexcept OSError: pass\n"
        "while True:\n    try:\n        if os.fork() == 0: time.sleep(60)\n    except OSError: pass",
        Outcome.PROCESS_LIMIT,
    ),
    "daemons": (
        "import os, time\nwhile True:\n    try:\n        if os.fork() == 0:\n            os.setsid()\n"
        "            if os.fork() == 0: time.sleep(60)\n            os._exit(0)\n"
        "        os.wait()\n    except OSError: pass",
        Outcome.PROCESS_LIMIT,
    ),
    "deleted files": (
        "import os\nkept = []\nwhile True:\n    kept.append(open('f', 'wb', 0)); kept[-1].write(bytes(1 << 20))\n"
        "    os.remove('f')",
        Outcome.OUTPUT_LIMIT,
    ),
    "many files": (
        "while True:\n    for i in range(6000): open(f'f{i}', 'w').close()",
        Outcome.OUTPUT_LIMIT,
    ),
}


@pytest.mark.parametrize("mode", ["all protections", "no namespaces"])
@pytest.mark.parametrize("name", EXHAUSTION)
def test_exhaustion_is_bounded(boxes: Boxes, mode: str, name: str) -> None:
    """What no limit of a single process bounds is bounded by the job's file system or by the watch."""
    source, outcome = EXHAUSTION[name]
    assert _failure(boxes[mode], source).outcome is outcome


@pytest.mark.parametrize("mode", MODES)
def test_capabilities_say_what_is_lost(boxes: Boxes, mode: str) -> None:
    """Each protection has one line, which names what enforces it or what its loss means."""
    found = {capability.name: capability for capability in boxes[mode].capabilities()}
    assert len(found) == 12
    assert all((not capability.loss) == capability.active and capability.detail for capability in found.values())
    lost = {name for name, capability in found.items() if not capability.active}
    without_namespaces = {"scratch", "process tree", "privileges"}
    expected = {
        "all protections": set(),
        "no namespaces": without_namespaces,
        "Landlock alone": without_namespaces | {"network", "system calls"},
        "seccomp alone": without_namespaces | {"files"},
    }[mode]
    missing_anyway = {item.name for item in boxes["all protections"].capabilities() if not item.active}
    assert lost - missing_anyway == expected - missing_anyway


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def _everything_running() -> str:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append(Path(f"/proc/{name}/cmdline").read_bytes().decode(errors="replace"))
            except OSError:
                continue
    return " ".join(found)


def test_coding_cookie_makes_no_other_text(boxes: Boxes) -> None:
    """A file is imported as the text that was inspected: a cookie that would decode a comment into code is refused."""
    source = "# coding: utf-7\n# +AAo-raise KeyError('hidden')\n"
    failure = _failure(boxes["all protections"], source)
    assert failure.outcome is Outcome.IMPORT_FAILED
    assert failure.message.startswith("SyntaxError: encoding problem")
    assert only(boxes["all protections"].record("# coding: utf-8\n" + IDENTITY, [request((4,))])).plan is not None


@pytest.mark.parametrize("mode", ["no namespaces"])
def test_verification_works_with_fewer_protections(sandboxes: SharedSandboxes, mode: str) -> None:
    """Where a kernel grants less, a right kernel is still accepted and a wrong one refused for its values."""
    example = find_example("l1-softmax-00c0ffee12345678")
    wrong = example.solution.replace("tl.exp(", "tl.exp2(")
    assert wrong != example.solution
    verifier = Verifier(VerifierConfig(), TimingConfig(), sandboxes.get(without=MODES[mode]))
    assert verifier.verify(example.task, example.solution, AUDIT).correct
    assert verifier.verify(example.task, wrong, AUDIT).outcome is Outcome.WRONG_VALUES


@pytest.mark.parametrize("mode", MODES)
def test_no_users_variable_is_read(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child finds what the sandbox made for it, and nothing else of the environment that the judge runs in."""
    monkeypatch.setenv("HF_TOKEN", "secret-one")
    monkeypatch.setenv("PYTHONSTARTUP_TOKEN", "secret-two")
    reads = ["'secret' in str(open('/proc/self/environ', 'rb').read())", "'secret' in repr(os.environ)"]
    with Sandbox(SMALL_LIMITS, without=MODES[mode]) as box:
        answers = _answers(box, [*reads, "'HF_TOKEN' in os.environ", "'HOME' in os.environ"])
    assert "True" not in answers[:-1]
    assert answers[-1] == "True"
