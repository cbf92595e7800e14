"""Linux calls that Python 3.11 has no function for; each raises OSError or returns what the kernel did."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 16384, 1 << 18

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 4, 38, 36

# numbers above 403 are the same on every architecture
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_CAPSET = {"x86_64": 126, "aarch64": 91}
_SETRESUID = {"x86_64": 117, "aarch64": 147}
_MADV_COLLAPSE = 25
_LINUX_CAPABILITY_VERSION_3 = 0x20080522

_MORE_THAN_A_HOLE, _LEAST_HOLE, _MOST_BLOCKS = 100_000, 24, 1000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.sbrk.restype = ctypes.c_void_p
_malloc = _libc.malloc
_malloc.restype, _malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _syscall(number: int, *arguments: object) -> int:
    return _checked(int(_libc.syscall(ctypes.c_long(number), *arguments)))


def unshare(flags: int) -> None:
    """Move this process (for `CLONE_NEWPID`: its next children) into new namespaces."""
    _checked(_libc.unshare(flags))


def join_namespace(descriptor: int, flags: int) -> None:
    """Move this process (for `CLONE_NEWPID`: its next children) into the namespace that the descriptor names."""
    _checked(_libc.setns(descriptor, flags))


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount a file system in this process's mount namespace."""
    _checked(
        _libc.mount(
            source.encode(),
            target.encode(),
            kind.encode() if kind else None,
            ctypes.c_ulong(flags),
            data.encode() if data else None,
        )
    )


def control_process(option: int, value: int, extra: int = 0) -> None:
    """Call prctl with one argument or two."""
    _checked(_libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(extra), 0, 0))


def drop_capabilities() -> None:
    """Give up every capability of this process, for good once no-new-privileges is set."""
    header = struct.pack("<II", _LINUX_CAPABILITY_VERSION_3, 0)
    _syscall(_CAPSET[os.uname().machine], ctypes.c_char_p(header), ctypes.c_char_p(bytes(24)))


def set_thread_user(uid: int) -> None:
    """Set the calling thread's three user ids; those of the process's other threads stay, unlike with `os`."""
    _syscall(_SETRESUID[os.uname().machine], *[ctypes.c_uint(uid)] * 3)


def gather_into_huge_pages() -> int:
    """Move this process's private memory into huge pages where the kernel can, and say how many ranges it did.

    A fork copies one entry for each then in the place of 512, and most of its cost is copying entries.
    """
    num_gathered = 0
    with contextlib.suppress(OSError), open("/proc/self/maps") as file:
        for line in file.readlines():
            addresses, access, _, _, inode, *name = line.split()
            if access == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
                first, last = (int(address, 16) for address in addresses.split("-"))
                refused = _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_COLLAPSE)
                num_gathered += not refused  # too small for one, or a kernel before 6.1
    return num_gathered


def fill_holes() -> None:
    """Take what `malloc` has free between other memory, for good: forks then get memory side by side.

    A hole that a fork uses costs a copy of its page, and of its neighbours', where the allocator links them. Nothing is
    done where another allocator is loaded, or another setting, so that memory does not grow at the heap's end.
    """
    end, blocks = _libc.sbrk(0), []
    while _libc.sbrk(0) == end:
        blocks.append(_malloc(_MORE_THAN_A_HOLE))
        if len(blocks) == _MOST_BLOCKS:
            for block in blocks:
                _libc.free(ctypes.c_void_p(block))
            return
    above = blocks[-1]
    size = _MORE_THAN_A_HOLE // 2
    while size >= _LEAST_HOLE:
        taken = _malloc(size)
        if taken is None or taken > above:  # no hole is as large
            _libc.free(ctypes.c_void_p(taken))
            size = min(size - 8, size * 19 // 20)
    _libc.free(ctypes.c_void_p(above))


def landlock_version() -> int:
    """Return the kernel's Landlock ABI, 0 where there is none."""
    try:
        return _syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    except OSError:
        return 0


def landlock_create(handled_files: int, handled_network: int, scoped: int) -> int:
    """Return a descriptor of a new rule set; fields that the kernel's ABI lacks must be 0."""
    attributes = struct.pack("<QQQ", handled_files, handled_network, scoped)
    size = 24 if scoped else 16 if handled_network else 8
    return _syscall(_LANDLOCK_CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(size), ctypes.c_uint(0))


def landlock_allow(ruleset: int, descriptor: int, access: int) -> None:
    """Allow `access` at and beneath the file that the descriptor names."""
    rule = ctypes.create_string_buffer(struct.pack("<Qi", access, descriptor), 12)
    _syscall(_LANDLOCK_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint(0))


def landlock_restrict(ruleset: int) -> None:
    """Confine this process and its descendants; needs no-new-privileges."""
    _syscall(_LANDLOCK_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
