"""The sandbox's contract: what confines a candidate's code, and what does not.

Covered, each by more than one means where the kernel has them, so that the loss of one leaves the others:

- *Files*: Landlock allows reading the Python installation and the system's libraries, and writing in the scratch
  folder. Nothing else opens, not even to read: no home, no working directory of the judge's, nothing of other
  processes in /proc.
- *Scratch*: a tmpfs of bounded size that vanishes with the child's mount namespace; without namespaces a folder on
  disk, whose size, deleted but open files included, the zygote watches.
- *Network*: no sockets (seccomp, which also answers connections, and datagrams through socket pairs), an empty network
  namespace, and Landlock's TCP rules.
- *Other processes*: the child is the first process of a PID namespace and sees, signals and traces nothing outside.
  seccomp forbids tracing and reading memory; without the namespace it confines signals to the job's first process, and
  Landlock confines both to the job.
- *What it leaves behind*: when the first process of the namespace dies, the kernel kills whatever it started, daemons
  in sessions of their own too. Without namespaces job and zygote are subreapers: whatever detaches stays in the family,
  and the zygote kills the family before it replies (under root, the job's real uid is its own, so that one signal
  reaches all of it at once).
- *System calls*: seccomp refuses what no candidate needs (`seccomp` lists it, with what each class is answered).
- *Memory*: an address-space limit for each process, and the zygote's watch over all together, shared memory included.
- *Processes*: RLIMIT_NPROC for a uid or a user namespace of the job's own, and the zygote's watch. The limit does not
  bind uid 0, so under root the child's real uid is another one; its effective uid stays, or it could not read a Python
  installed under /root.
- *Time*: RLIMIT_CPU for each process; the zygote kills the job at the wall-clock limit.
- *Output*: stdout and stderr are a pipe that the zygote counts and discards; files are bounded by RLIMIT_FSIZE and by
  the scratch folder's size; answers by `zygote.MAX_ANSWER_BYTES`.
- *Privileges*: no capabilities and no-new-privileges.

A refused attempt is an error in the candidate's code. Where it lets the error escape, the outcome names the attempt
(file access, network access, a forbidden call); where it swallows the error and goes on, nothing was touched, and it is
judged by what it computes. Tracing, mounting and the like end it at once (SIGSYS).

Not covered:

- bugs of the kernel; side channels (timing, load, what /proc/stat and /proc/meminfo tell);
- for the length of the watch's interval (50 ms), what only the watch bounds: the memory of several processes together;
- the candidate's power over *its own answer*. Its Python shares a process with the recorder, from whose frames it can
  take the token and answer with a plan of its own. Such a plan is still only data: the judge audits it, and what it
  launches is compiled code (backend `cuda`, in a process without candidate code) or the source's kernels, cut out of
  its text and held to the kernel language (backend `interpret`, `kernel_module`). Numbers come from kernels alone.
- Without namespaces: what a job's family does between the death of a zygote that is itself killed and its own end;
  memory files and System V segments where there is no seccomp either.

What a kernel or container forbids is left out; `describe_protections`, which `tritonrl doctor` prints, says of each
protection what enforces it here, or what its loss means. Every item is tried in
tests/harness/sandbox/confinement/test_contract.py.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import resource
import site
import sys
from collections.abc import Callable, Collection, Iterator

from attrs import evolve, frozen

from ....core.config import LimitsConfig
from . import seccomp, syscalls, watch

NAMESPACES, LANDLOCK, SECCOMP = "namespaces", "landlock", "seccomp"
"""What a sandbox can be told to do without, as on a machine that does not grant it."""
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_NUM_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # by ABI; 16 from 5 on

_SYSTEM_FOLDERS = ("/usr", "/lib", "/lib64", "/bin", "/sys/devices/system/cpu", "/opt/rocm")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/self")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_STAND_IN_UID = 65534
_FIRST_JOB_UID = 0x60000000


@frozen(kw_only=True)
class Protections:
    """Protections that this machine grants; found once by the zygote, by trying."""

    pid_namespace: bool = False
    network_namespace: bool = False
    own_proc: bool = False
    user_namespace: bool = False
    landlock: int = 0
    seccomp: bool = False


def isolate_zygote(without: Collection[str] = ()) -> Protections:
    """Put this process's next children into a PID namespace, and itself into empty network and mount namespaces.

    An ordinary user needs a user namespace for that; root does without, because a child must be able to change its
    real uid. Must run while the process has one thread. The caller forks: the child is the namespace's first process.
    """
    landlock = 0 if LANDLOCK in without else syscalls.landlock_version()
    if NAMESPACES in without:
        return Protections(landlock=landlock)
    spaces = syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWNS
    uid, gid = os.geteuid(), os.getegid()
    for extra in (0, syscalls.CLONE_NEWUSER) if uid == 0 else (syscalls.CLONE_NEWUSER,):

        def enter(flags: int = spaces | extra) -> None:
            syscalls.unshare(flags)
            if flags & syscalls.CLONE_NEWUSER:
                _map_ids(uid, gid)

        if _succeeds(enter):
            enter()
            return Protections(pid_namespace=True, network_namespace=True, landlock=landlock)
    return Protections(landlock=landlock)


def complete(protections: Protections, without: Collection[str] = ()) -> Protections:
    """Return the protections with those that only the namespace's first process can set up or try.

    A /proc of its own lets the zygote count what its jobs run; whether a child may enter a user namespace and mount
    there is tried in a fork.
    """
    with contextlib.suppress(KeyError):
        seccomp.assemble(os.uname().machine)  # once for all children
    protections = evolve(protections, seccomp=SECCOMP not in without and _succeeds(_restrict_calls))
    if not protections.pid_namespace:
        return evolve(protections, own_proc=True)  # the one /proc there is shows this namespace
    try:
        syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
        syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
        own_proc = True
    except OSError:
        own_proc = False

    def enter() -> None:
        _enter_own_user_namespace()
        syscalls.mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m")

    return evolve(protections, own_proc=own_proc, user_namespace=_succeeds(enter))


def _succeeds(attempt: Callable[[], None]) -> bool:
    """Return whether `attempt` raises no OSError; tried in a fork, since there is no way back out of a namespace."""
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def confine(limits: LimitsConfig, protections: Protections, scratch: str, times_memory: int = 1) -> None:
    """Confine the calling process for good; `scratch` is the one folder that it may write to.

    Its addresses are limited to so many times what it may use of the memory, if somebody watches what it uses.
    """
    os.setsid()
    if protections.user_namespace:
        _enter_own_user_namespace()
        size = f"size={limits.file_mb}m,nr_inodes=4096,mode=700"
        syscalls.mount("tmpfs", scratch, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, size)
    elif os.geteuid() == 0:
        with contextlib.suppress(OSError):  # without the right to
            os.setresuid(job_uid(os.getpid()), 0, 0)
            syscalls.control_process(syscalls.PR_SET_DUMPABLE, 1)
    with contextlib.suppress(OSError):
        syscalls.control_process(syscalls.PR_SET_PDEATHSIG, 9)
    if not protections.pid_namespace:
        syscalls.control_process(syscalls.PR_SET_CHILD_SUBREAPER, 1)  # daemons stay below this process
    os.chdir(scratch)
    address_mb = limits.memory_mb * (times_memory if protections.own_proc else 1)
    _set_limits(limits, address_mb, 0 if protections.user_namespace else _num_other_tasks())
    syscalls.control_process(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.drop_capabilities()
    if protections.landlock:
        _restrict_files(protections.landlock, scratch)
    if protections.seccomp:
        _restrict_calls(None if protections.pid_namespace else os.getpid())


def _restrict_calls(own_pid: int | None = None) -> None:
    machine = os.uname().machine
    if not seccomp.is_known(machine):
        raise OSError(errno.ENOSYS, f"system call numbers of {machine} are not known")
    syscalls.control_process(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install(seccomp.assemble(machine, own_pid))


def job_uid(pid: int) -> int:
    """Return the real uid of a job of root's that has no user namespace.

    One of its own, so that limits count it alone.
    """
    return _FIRST_JOB_UID + pid


def _enter_own_user_namespace() -> None:
    uid, gid = os.geteuid(), os.getegid()
    if os.getuid() == 0:
        with contextlib.suppress(OSError):  # in a user namespace that maps no second uid
            os.setresuid(_STAND_IN_UID, 0, 0)
            syscalls.control_process(syscalls.PR_SET_DUMPABLE, 1)
    syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
    _map_ids(uid, gid)


def _map_ids(uid: int, gid: int) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _set_limits(limits: LimitsConfig, address_mb: int, num_other_tasks: int) -> None:
    with open("/proc/self/statm") as file:
        mapped_bytes = int(file.read().split()[0]) * resource.getpagesize()
    memory = mapped_bytes + (address_mb << 20)  # torch's libraries and reservations are mapped already
    for kind, value in (
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, limits.file_mb << 20),
        (resource.RLIMIT_NPROC, limits.processes + num_other_tasks),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # no softer limit of time: the first process of a namespace does not hear SIGXCPU
        resource.setrlimit(kind, (value, value))


def _num_other_tasks() -> int:
    """Return how many tasks of this process's real uid are not its own.

    Other jobs of the same user start some meanwhile.
    """
    uid = os.getuid()
    if uid != os.geteuid():
        return 0
    found = sum(threads for _, _, threads in watch.processes(uid))
    return 2 * found + 64


def _restrict_files(version: int, scratch: str) -> None:
    handled = (1 << _NUM_FILE_RIGHTS.get(version, 16)) - 1
    ruleset = syscalls.landlock_create(handled, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    try:
        for path, access in _rules(scratch, handled):
            _allow(ruleset, path, access & handled)
        syscalls.landlock_restrict(ruleset)
    finally:
        os.close(ruleset)


def _find_file(name: str) -> str:
    """Return where a module lies, which need not be imported yet."""
    spec = importlib.util.find_spec(name)
    return "" if spec is None else spec.origin or ""


def _rules(scratch: str, everything: int) -> Iterator[tuple[str, int]]:
    readable = _READ_FILE | _READ_DIR | _EXECUTE
    folders = {sys.prefix, sys.base_prefix, *site.getsitepackages(), *_SYSTEM_FOLDERS}
    folders |= {os.path.dirname(os.path.dirname(_find_file(name))) for name in ("torch", "triton")}
    for folder in sorted(folders):
        yield folder, readable
    for file in _SYSTEM_FILES:
        yield file, _READ_FILE | _READ_DIR
    for device in _DEVICES:
        yield device, _READ_FILE | (_WRITE_FILE | _TRUNCATE if device == "/dev/null" else 0)
    yield scratch, everything & ~_IOCTL_DEVICE


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR):
            return
        raise
    try:
        if not os.path.isdir(path):
            access &= _FILE_RIGHTS
        syscalls.landlock_allow(ruleset, descriptor, access)
    finally:
        os.close(descriptor)


_SCOPED_SIGNALS, _NETWORK_RULES = 6, 4
"""The Landlock versions from which signals and TCP can be confined."""


@frozen(kw_only=True)
class Capability:
    """One protection: `means` says what enforces it here; `loss` is empty unless something is missing."""

    name: str
    active: bool
    means: str
    loss: str = ""

    @property
    def detail(self) -> str:
        """Return the line that a person reads."""
        return "; ".join(part for part in (self.means, self.loss) if part)


def describe_protections(found: Protections) -> tuple[Capability, ...]:
    """Return every item of the contract, in its order."""
    scoped = found.landlock >= _SCOPED_SIGNALS
    own_space = {"PID namespace": found.pid_namespace}
    network_loss = "a candidate can connect wherever this user can"
    if found.landlock >= _NETWORK_RULES:
        network_loss = "TCP alone is refused, by Landlock; UDP and local sockets are open"
    rows: tuple[tuple[str, dict[str, bool], str], ...] = (
        (
            "files",
            {f"Landlock ABI {found.landlock}": found.landlock > 0},
            "a candidate reads and writes what this user can: run it as a user that owns nothing",
        ),
        (
            "scratch",
            {"tmpfs of bounded size": found.user_namespace},
            "it is a folder on disk, whose size is only looked at every 50 ms",
        ),
        (
            "network",
            {"no sockets (seccomp)": found.seccomp, "empty network namespace": found.network_namespace},
            network_loss,
        ),
        (
            "other processes' memory",
            own_space | {"seccomp": found.seccomp, "Landlock": found.landlock > 0},
            "a candidate can trace this user's processes, the judge too",
        ),
        (
            "signals",
            own_space | {"seccomp": found.seccomp, "Landlock": scoped},
            "a candidate can signal this user's processes, the judge too",
        ),
        (
            "process tree",
            own_space,
            "daemons are found as descendants and killed with their job, but outlive a zygote that is itself killed",
        ),
        (
            "system calls",
            {"seccomp": found.seccomp},
            "the kernel's whole interface is in reach (io_uring, bpf, keys, memory files that no limit bounds)",
        ),
        (
            "privileges",
            {"none, in a user namespace of its own": found.user_namespace},
            "no capabilities, but the uid is that of the judge",
        ),
        (
            "processes",
            {"RLIMIT_NPROC": found.user_namespace, "watched": found.own_proc},
            "a fork bomb is bounded by this user's limit alone",
        ),
        ("memory", {"RLIMIT_AS": True, "watched": found.own_proc}, "several processes together may exceed the limit"),
        ("time", {"RLIMIT_CPU": True, "wall clock": True}, ""),
        ("output", {"counted pipe": True, "RLIMIT_FSIZE": True}, ""),
    )
    return tuple(_capability(*row, is_missing=row[0] == "memory" and not found.own_proc) for row in rows)


def _capability(name: str, means: dict[str, bool], loss: str, is_missing: bool) -> Capability:
    """Return the capability; one that `is_missing` is lost whatever else enforces a part of it."""
    present = ", ".join(mean for mean, active in means.items() if active)
    active = bool(present) and not is_missing
    return Capability(name=name, active=active, means=present, loss="" if active else loss)
