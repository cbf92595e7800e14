"""The system call filter, run by an evaluator of its own: every decision, for every architecture, without a kernel."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.sandbox.confinement.seccomp import ALLOW, KILL, NUMBERS, assemble, fail, is_known

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
_FILL = """
from tritonrl.harness.sandbox.confinement.syscalls import fill_holes

def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

before = resident_bytes()
fill_holes()
print(resident_bytes() - before)
"""
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
MACHINES = sorted(ARCHITECTURES)
OWN = 4321


def _decide(machine: str, number: int, *arguments: int, own_pid: int | None = None, architecture: int = 0) -> int:
    """What the filter says, by the rules of classic BPF."""
    data = struct.pack("<iIQ6Q", number, architecture or ARCHITECTURES[machine][1], 0, *(*arguments, *[0] * 6)[:6])
    program = list(struct.iter_unpack("<HBBI", assemble(machine, own_pid)))
    position, loaded = 0, 0
    while True:
        code, if_true, if_false, value = program[position]
        position += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, value)
            continue
        holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
        position += if_true if holds else if_false


def _number(machine: str, name: str) -> int:
    number = NUMBERS[name][ARCHITECTURES[machine][0]]
    assert number is not None
    return number


EXPECTED = {
    "ptrace": KILL,
    "process_vm_writev": KILL,
    "mount": KILL,
    "unshare": KILL,
    "bpf": KILL,
    "keyctl": KILL,
    "io_uring_setup": fail(errno.ENOSYS),
    "userfaultfd": fail(errno.ENOSYS),
    "memfd_create": fail(errno.ENOSYS),
    "clone3": fail(errno.ENOSYS),
    "socket": fail(errno.ENONET),
    "connect": fail(errno.ENONET),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", EXPECTED)
def test_call_is_answered_by_its_class(machine: str, name: str) -> None:
    """Attempts to get out die, facilities are missing, the network has an error of its own."""
    assert _decide(machine, _number(machine, name)) == EXPECTED[name]


@pytest.mark.parametrize("machine", MACHINES)
def test_arguments_decide_where_they_can(machine: str) -> None:
    """Threads and forks are clones without new namespaces; datagrams without an address go to their peer."""
    clone, prctl, sendto = (_number(machine, name) for name in ("clone", "prctl", "sendto"))
    assert _decide(machine, clone, 0x3D0F00) == ALLOW
    assert _decide(machine, clone, 0x11) == ALLOW
    assert _decide(machine, clone, 0x11 | 0x10000000) == KILL
    assert _decide(machine, prctl, 15) == ALLOW
    assert _decide(machine, prctl, 36) == fail(errno.EPERM)
    assert _decide(machine, sendto, 3, 0, 0, 0, 0) == ALLOW
    for address in (0x7FFF00000000, 0x1000):
        assert _decide(machine, sendto, 3, 0, 0, 0, address) == fail(errno.ENONET)


@pytest.mark.parametrize("machine", MACHINES)
@given(pid=st.integers(-(2**31), 2**31 - 1))
def test_signals_reach_the_job_alone_where_there_is_no_namespace(machine: str, pid: int) -> None:
    """With a pid of its own the filter lets through signals to it and to its group; without, all."""
    kill, tgkill = _number(machine, "kill"), _number(machine, "tgkill")
    allowed = pid in (0, OWN)
    for number in (kill, tgkill):
        decision = _decide(machine, number, pid & (2**64 - 1), own_pid=OWN)
        assert decision == (ALLOW if allowed else fail(errno.EPERM))
        assert _decide(machine, number, pid & (2**64 - 1)) == ALLOW
    assert _decide(machine, kill, OWN, own_pid=OWN) == ALLOW
    assert _decide(machine, _number(machine, "pidfd_send_signal"), own_pid=OWN) == fail(errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, 2**30 - 1), arguments=st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6))
def test_calls_that_are_not_listed_pass(machine: str, number: int, arguments: list[int]) -> None:
    """The filter decides about the calls that it names and about no other."""
    column = ARCHITECTURES[machine][0]
    if number not in {numbers[column] for numbers in NUMBERS.values()}:
        assert _decide(machine, number, *arguments, own_pid=OWN) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_other_entry_points_of_the_kernel_are_closed(machine: str) -> None:
    """Calls by another architecture's numbers, or by x86_64's second set, die."""
    other = next(code for name, (_, code) in ARCHITECTURES.items() if name != machine)
    assert _decide(machine, 0, architecture=other) == KILL
    assert _decide(machine, 0, architecture=0x40000003) == KILL
    assert _decide("x86_64", 0x40000000 + 39) == KILL


def test_unknown_architecture_has_no_filter() -> None:
    """Where the numbers are not known, there is no filter rather than a wrong one."""
    assert not is_known("riscv64")
    with pytest.raises(KeyError, match="riscv64"):
        assemble("riscv64")


def test_memory_lies_in_huge_pages_and_holds_what_it_held() -> None:
    """Most of 32 MB is in huge pages afterwards, with the same bytes."""
    done = subprocess.run([sys.executable, "-c", _GATHER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    num_gathered, more_kb, is_same = done.stdout.split()
    assert is_same == "True"
    if num_gathered == "0":
        pytest.skip("this kernel does not gather pages (Linux 6.1 does)")
    assert int(more_kb) >= 24 << 10


@pytest.mark.parametrize("threshold", ["131072", "4096"], ids=["heap", "maps"])
def test_filling_holes_ends_and_keeps_little(threshold: str) -> None:
    """Also where large blocks of `malloc` are maps of their own, so that the heap's end never moves."""
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": threshold}
    command = [sys.executable, "-c", _FILL]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=60)
    assert int(found.stdout) < 32 << 20
