"""A seccomp filter: system calls that a confined candidate may not make, checked by the kernel before each call.

The filter is a list of what no candidate needs once it is confined, not of what it may do: recording runs Python,
torch, Triton's compiler and `ptxas`, whose calls differ with every version. What is refused, and how, goes by class:

- *death* (SIGSYS) for what is only ever an attempt to get out: other processes' memory, mounts and namespaces, kernel
  modules, file handles that go round path checks, other architectures' entry points. The verdict names it.
- *ENOSYS* for facilities that libraries probe for and do without: io_uring, user faults, performance counters, memory
  files (which no limit bounds) and System V segments (which outlive their process); `clone3`, whose flags a filter
  cannot see, so that `clone` is used, whose new namespaces are refused.
- *ENONET* for the network, which nothing else here answers, so that an attempt is told from every other error.
- *EPERM* for settings that the zygote's watch relies on, and, where there is no PID namespace, for signals to any
  process but the job's first.

The filter is assembled here from the kernel's documented structures. It needs no-new-privileges, binds every process
that the candidate starts, and cannot be taken off.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct

from . import syscalls

_LOAD, _EQUALS, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
ALLOW, KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000
"""x86_64 answers to a second set of numbers from here on."""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SET_SECCOMP, _MODE_FILTER = 22, 2
_NEW_NAMESPACES = 0x7E020000
_WATCHED_SETTINGS = (1, 4, 35, 36, 0x59616D61)
"""prctl's death signal, dumpability, memory map, subreaper and ptracer."""

# (x86_64, aarch64); None where the architecture has no such call
_DEADLY: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "unshare": (272, 97),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "iopl": (172, None),
    "ioperm": (173, None),
    "bpf": (321, 280),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
}
_MISSING: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "kcmp": (312, 272),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "process_madvise": (440, 440),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "modify_ldt": (154, None),
    "personality": (135, 92),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
_NETWORK: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
}
_SIGNALS: dict[str, tuple[int | None, int | None]] = {
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}
_BY_ARGUMENT: dict[str, tuple[int, int]] = {
    "clone": (56, 220),
    "prctl": (157, 167),
    "sendto": (44, 206),
    "kill": (62, 129),
    "tgkill": (234, 131),
}
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    **_DEADLY,
    **_MISSING,
    **_NETWORK,
    **_SIGNALS,
    **_BY_ARGUMENT,
}
"""Every call that the filter knows."""

_Instruction = tuple[int, int, int, int]


@functools.cache
def assemble(machine: str, own_pid: int | None = None) -> bytes:
    """Return the filter for an architecture; with `own_pid` it also confines signals to that process.

    Raises KeyError for an architecture whose numbers are not known here.
    """
    if machine not in _ARCHITECTURES:
        raise KeyError(f"system call numbers of {machine} are not known")
    column = list(_ARCHITECTURES).index(machine)
    code: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUALS, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, KILL)]
    refused = [(_DEADLY, KILL), (_MISSING, fail(errno.ENOSYS)), (_NETWORK, fail(errno.ENONET))]
    if own_pid is not None:
        refused.append((_SIGNALS, fail(errno.EPERM)))
    for calls, action in refused:
        for numbers in calls.values():
            number = numbers[column]
            if number is not None:
                code += [(_EQUALS, 0, 1, number), (_RETURN, 0, 0, action)]
    by_argument = {name: numbers[column] for name, numbers in _BY_ARGUMENT.items()}
    code += _when(by_argument["clone"], [_argument(0), (_HAS_BITS, 0, 1, _NEW_NAMESPACES)], KILL)
    for option in _WATCHED_SETTINGS:
        code += _when(by_argument["prctl"], [_argument(0), (_EQUALS, 0, 1, option)], fail(errno.EPERM))
    for half in (0, 4):  # of the address that is sent to; none for a socket that has its peer
        code += _when(by_argument["sendto"], [_argument(4, half), (_EQUALS, 1, 0, 0)], fail(errno.ENONET))
    if own_pid is not None:
        own = [_argument(0), (_EQUALS, 2, 0, own_pid), (_EQUALS, 1, 0, 0)]
        code += _when(by_argument["kill"], own, fail(errno.EPERM))
        code += _when(by_argument["tgkill"], own, fail(errno.EPERM))
    code.append((_RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def install(program: bytes) -> None:
    """Put this process and its descendants under the filter, for good; raises OSError where the kernel has none."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer)))
    syscalls.control_process(_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(header))


def is_known(machine: str | None = None) -> bool:
    """Return whether the filter has the numbers of this machine's calls."""
    return (machine or os.uname().machine) in _ARCHITECTURES


def fail(number: int) -> int:
    """Return the action that makes a call fail with this error."""
    return _ERROR | number


def _argument(index: int, half: int = 0) -> _Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index + half)


def _when(number: int, condition: list[_Instruction], action: int) -> list[_Instruction]:
    """Act where the call has this number and the condition falls through; else go on, with the number loaded."""
    block = [*condition, (_RETURN, 0, 0, action), (_LOAD, 0, 0, _NUMBER)]
    return [(_EQUALS, 0, len(block), number), *block]
