"""Describe the sandbox's contract, one line for each protection: how it holds here, or what its loss means."""

from __future__ import annotations

from attrs import frozen

from .confinement import Protections

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
        """The line that a person reads."""
        return "; ".join(part for part in (self.means, self.loss) if part)


def describe_protections(found: Protections) -> tuple[Capability, ...]:
    """Every item of the contract (`confinement`), in its order."""
    scoped = found.landlock >= _SCOPED_SIGNALS
    own_space = {"PID namespace": found.pid_namespace}
    return (
        _capability(
            "files",
            {f"Landlock ABI {found.landlock}": found.landlock > 0},
            "a candidate reads and writes what this user can: run it as a user that owns nothing",
        ),
        _capability(
            "scratch",
            {"tmpfs of bounded size": found.user_namespace},
            "it is a folder on disk, whose size is only looked at every 50 ms",
        ),
        _capability(
            "network",
            {"no sockets (seccomp)": found.seccomp, "empty network namespace": found.network_namespace},
            "TCP alone is refused, by Landlock; UDP and local sockets are open"
            if found.landlock >= _NETWORK_RULES
            else "a candidate can connect wherever this user can",
        ),
        _capability(
            "other processes' memory",
            own_space | {"seccomp": found.seccomp, "Landlock": found.landlock > 0},
            "a candidate can trace this user's processes, the judge too",
        ),
        _capability(
            "signals",
            own_space | {"seccomp": found.seccomp, "Landlock": scoped},
            "a candidate can signal this user's processes, the judge too",
        ),
        _capability(
            "process tree",
            own_space,
            "daemons are found as descendants and killed with their job, but outlive a zygote that is itself killed",
        ),
        _capability(
            "system calls",
            {"seccomp": found.seccomp},
            "the kernel's whole interface is in reach (io_uring, bpf, keys, memory files that no limit bounds)",
        ),
        _capability(
            "privileges",
            {"none, in a user namespace of its own": found.user_namespace},
            "no capabilities, but the uid is that of the judge",
        ),
        _capability(
            "processes",
            {"RLIMIT_NPROC": found.user_namespace, "watched": found.own_proc},
            "a fork bomb is bounded by this user's limit alone",
        ),
        _capability(
            "memory",
            {"RLIMIT_AS": True, "watched": found.own_proc},
            "",
            needs="watched",
            partly="several processes together may exceed the limit",
        ),
        _capability("time", {"RLIMIT_CPU": True, "wall clock": True}, ""),
        _capability("output", {"counted pipe": True, "RLIMIT_FSIZE": True}, ""),
    )


def _capability(name: str, means: dict[str, bool], loss: str, needs: str = "", partly: str = "") -> Capability:
    present = ", ".join(mean for mean, active in means.items() if active)
    active = bool(present) and means.get(needs, True)
    return Capability(name=name, active=active, means=present, loss="" if active else (partly if present else loss))
