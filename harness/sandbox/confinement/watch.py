"""Watch jobs through /proc and their scratch folders, and end what they leave behind.

Limits of the kernel hold for one process; what several do together is only seen by looking. Where there is no PID
namespace to end with a job, its processes are found as descendants: a job and its zygote are subreapers, so a daemon
that detaches from its parents stays below its job, and comes to the zygote when the job ends.

Where the machine has too little memory, and not a job too much, the kernel ends a process of its own choice. A job's
death by that says nothing of its candidate. So jobs offer themselves before everything else on the machine, and
whoever had one ended so runs it again (`Sandbox`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time
from collections.abc import Collection, Iterator

from attrs import frozen

_MAX_FILES = 4096
_BLOCK = 512
_PATIENCE_S = 5.0


@frozen(kw_only=True)
class Member:
    """A process of a job; `num_bytes` is its resident memory that belongs to no file on disk."""

    pid: int
    threads: int
    num_bytes: int


def families(roots: Collection[int]) -> dict[int, list[Member]]:
    """Return the processes of each job, by the job's first process, from /proc of the zygote's namespace."""
    parents: dict[int, int] = {}
    members: dict[int, Member] = {}
    for pid, parent, threads in processes():
        if pid == 1:
            continue
        try:
            num_bytes = resident_bytes(str(pid))
        except OSError:
            continue  # it ended meanwhile
        parents[pid] = parent
        members[pid] = Member(pid=pid, threads=threads, num_bytes=num_bytes)
    found: dict[int, list[Member]] = {root: [] for root in roots}
    for pid, member in members.items():
        root = _root_of(pid, parents, found)
        if root is not None:
            found[root].append(member)
    return found


def resident_bytes(process: str) -> int:
    """Return memory that belongs to no file on disk; what processes share counts in each."""
    total = 0
    with open(f"/proc/{process}/status", "rb") as file:
        for line in file:
            if line.startswith((b"RssAnon:", b"RssShmem:")):
                total += int(line.split()[1]) << 10
    return total


def waited_s(pid: int) -> float:
    """Return the seconds that a process's first thread could have run and waited for a processor; 0 if not known."""
    try:
        with open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def exceeds_on_disk(folder: str, processes: Collection[int], limit: int) -> bool:
    """Return whether a scratch folder, with files that were deleted and are still open, holds more than `limit` bytes.

    More than a few thousand files count as too much.
    """
    total = files = 0
    pending = [folder]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    total, files = total + found.st_blocks * _BLOCK, files + 1
                    if stat.S_ISDIR(found.st_mode):
                        pending.append(entry.path)
                if files > _MAX_FILES:
                    return True
    return total + sum(map(_deleted_bytes, processes)) > limit


def has_other_children(known: Collection[int]) -> bool:
    """Return whether this process has children beside the known ones, as far as the kernel tells cheaply."""
    children: set[int] = set()
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children") as file:
                children.update(map(int, file.read().split()))
    except OSError:
        return True
    return not children <= set(known)


def end_user(uid: int) -> None:
    """Kill every process with this real uid, in one step that no fork escapes; only root can."""
    helper = os.fork()
    if helper == 0:
        with contextlib.suppress(OSError):
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        os._exit(0)
    os.waitpid(helper, 0)


def end_descendants(spared: Collection[int]) -> None:
    """Kill and reap all descendants of this process but those in and below `spared`.

    All are stopped before any is killed, so that none can fork meanwhile.
    """
    deadline = time.monotonic() + _PATIENCE_S
    for number in (signal.SIGSTOP, signal.SIGKILL):
        reached: set[int] = set()
        while fresh := set(descendants(spared)) - reached:
            for pid in fresh:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            reached |= fresh
    while remaining := list(descendants(spared)):
        for pid in remaining:
            with contextlib.suppress(ChildProcessError):  # a child's child, until that is reaped
                os.waitpid(pid, 0)
        if time.monotonic() > deadline:
            return


def processes(uid: int | None = None) -> Iterator[tuple[int, int, int]]:
    """Yield (pid, parent, threads) of every process in sight, or of those of one user."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                if uid is not None and os.fstat(file.fileno()).st_uid != uid:
                    continue
                fields = file.read().rpartition(b")")[2].split()
                yield int(name), int(fields[1]), int(fields[17])


def _root_of(pid: int, parents: dict[int, int], roots: Collection[int]) -> int | None:
    while pid not in roots and pid in parents:
        pid = parents[pid]
    return pid if pid in roots else None


def descendants(spared: Collection[int] = ()) -> Iterator[int]:
    """Yield the processes that come from this one, but for those that come from the spared ones."""
    parents = {pid: parent for pid, parent, _ in processes()}
    roots = {os.getpid(), *spared}
    for pid in parents:
        if pid not in roots and _root_of(pid, parents, roots) == os.getpid():
            yield pid


def _deleted_bytes(process: int) -> int:
    total = 0
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{process}/fd/{name}")
                if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    total += found.st_blocks * _BLOCK
    return total


def count_kills() -> int:
    """Return how many processes this machine's kernel has ended for want of memory; 0 where it does not say."""
    with contextlib.suppress(OSError), open("/proc/vmstat") as file:
        for line in file:
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    return 0


def offer_first() -> None:
    """Let the kernel end this process, and what it starts, before others: not the judge, nor a zygote."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
