"""Where a results folder comes from: each command that worked on it, by which code, on what machine, and for how long.

An invocation is one command on one machine. Its record is a file of its own in `invocations/`, rewritten while it runs,
so that one that is killed loses no more than the last seconds, and hosts that share a folder do not meet.
`provenance.json` is all of them with their sum, and the one of the two that is published. A command that finds nothing
to do leaves no record.

GPU-hours are the wall time of an invocation times the GPUs that it held, busy or not: what it would be billed for.
Nothing here identifies a result: two labs with other machines have equal identities
(`harness.study.store.RunIdentity`).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from ...core.serialisation import from_plain, to_plain
from ..work import write_atomically
from .store import Results, package_versions

HEARTBEAT_S = 15.0
_ROOT = Path(__file__).resolve().parents[2]
_CODE = ("__init__.py", "cli.py", "core", "stages", "harness")


@frozen(kw_only=True)
class Machine:
    """What an invocation ran on; nothing that names the machine itself."""

    system: str
    processor: str
    num_processors: int
    memory_gb: int
    gpus: tuple[str, ...]
    """A name for each GPU that the invocation held."""
    driver: str | None


def _without_paths(command: str) -> str:
    """Return a command with the last names of absolute paths."""
    return shlex.join(Path(part).name if part.startswith("/") else part for part in shlex.split(command))


@frozen(kw_only=True)
class Invocation:
    """One command's work on a folder; `ended` is false for one that was cut short, whose times are its last sign."""

    command: str = field(converter=_without_paths)
    """As it can be given on any machine: folders by their names."""
    started_at: str
    seconds: float
    ended: bool
    num_workers: int
    num_finished: int
    """Cells and starts that were complete when it ended and were not when it began."""
    commit: str | None
    modified: bool | None
    """Whether tracked files differ from the commit; both are null outside a git checkout."""
    source: str
    """SHA-256 over the package's Python files, in or outside a checkout."""
    versions: dict[str, str | None]
    machine: Machine

    @property
    def gpu_hours(self) -> float:
        """Wall time times GPUs held."""
        return self.seconds * len(self.machine.gpus) / 3600.0


@frozen(kw_only=True)
class Totals:
    """What all invocations on a folder took together; hours of machines that worked side by side are added up."""

    invocations: int
    wall_hours: float
    gpu_hours: float


def add_up(invocations: Sequence[Invocation]) -> Totals:
    return Totals(
        invocations=len(invocations),
        wall_hours=sum(invocation.seconds for invocation in invocations) / 3600.0,
        gpu_hours=sum(invocation.gpu_hours for invocation in invocations),
    )


@contextmanager
def recorded_invocation(results: Results, command: str, num_workers: int, devices: Sequence[str]) -> Iterator[None]:
    """Keep an invocation's record up to date while the context lasts, and collect all records at its end."""
    began, before = time.monotonic(), _count_finished(results)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    commit, modified = _find_commit()
    invocation = Invocation(
        command=command,
        started_at=started_at,
        seconds=0.0,
        ended=False,
        num_workers=num_workers,
        num_finished=0,
        commit=commit,
        modified=modified,
        source=digest_source(),
        versions=package_versions(),
        machine=describe_machine(devices),
    )
    path = results.root / "invocations" / f"{started_at.replace(':', '')[:17]}-{secrets.token_hex(4)}.json"

    def save(ended: bool) -> None:
        finished = max(0, _count_finished(results) - before)
        now = evolve(invocation, seconds=time.monotonic() - began, ended=ended, num_finished=finished)
        write_atomically(path, json.dumps(to_plain(now), indent=2).encode())

    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT_S):
            save(False)

    save(False)
    thread = threading.Thread(target=beat, name="invocation", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        save(True)
        write_provenance(results)


def _count_finished(results: Results) -> int:
    # a folder whose name starts with a dot is half a cell, which may be moved away while it is looked at
    folders = results.root.glob("cells/[!.]*/seed*")
    return sum(
        results.cell_status(path.parent.name, int(path.name.removeprefix("seed"))) == "complete" for path in folders
    )


def read_invocations(results: Results) -> tuple[Invocation, ...]:
    """All invocations of a folder, in the order in which they began; a published one has them in `provenance.json`."""
    records = [json.loads(path.read_text()) for path in (results.root / "invocations").glob("*.json")]
    path = results.root / "provenance.json"
    if not records and path.exists():
        records = json.loads(path.read_text())["invocations"]
    invocations = [from_plain(record, Invocation) for record in records]
    return tuple(sorted(invocations, key=lambda invocation: (invocation.started_at, invocation.command)))


def write_provenance(results: Results) -> None:
    write_atomically(results.root / "provenance.json", provenance_text(results).encode())


def provenance_text(results: Results) -> str:
    """The folder's identity, its invocations and their sum, as JSON."""
    invocations = read_invocations(results)
    plain: dict[str, Any] = {
        "run": results.recorded(),
        "totals": to_plain(add_up(invocations)),
        "invocations": [to_plain(invocation) for invocation in invocations],
    }
    return json.dumps(plain, indent=2) + "\n"


def describe_machine(devices: Sequence[str]) -> Machine:
    """This machine with the GPUs of that name or number."""
    gpus, driver = _describe_gpus(devices)
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=_find_processor(),
        num_processors=len(os.sched_getaffinity(0)),
        memory_gb=round(memory_gb),
        gpus=gpus,
        driver=driver,
    )


def _find_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _describe_gpus(devices: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    if not devices:
        return (), None
    program = shutil.which("nvidia-smi")
    # asked of the driver's own program: PyTorch would make a context on each
    query = [program or "", "--query-gpu=name,driver_version", "--format=csv,noheader", f"--id={','.join(devices)}"]
    done = subprocess.run(query, capture_output=True, text=True) if program else None
    rows = [line.split(", ") for line in done.stdout.splitlines()] if done is not None and done.returncode == 0 else []
    if len(rows) != len(devices) or any(len(row) != 2 for row in rows):
        return ("unknown",) * len(devices), None
    return tuple(name for name, _ in rows), rows[0][1]


def _find_commit() -> tuple[str | None, bool | None]:
    """The commit of the code that runs, and whether tracked files differ from it."""
    git = ["git", "-C", str(_ROOT)]
    try:
        top = subprocess.run([*git, "rev-parse", "--show-toplevel", "HEAD"], capture_output=True, text=True)
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True
        )
    except OSError:
        return None, None
    lines = top.stdout.split()
    # an installed copy may lie inside another project's checkout, whose commit says nothing
    if top.returncode != 0 or len(lines) != 2 or Path(lines[0]).resolve() != _ROOT:
        return None, None
    return lines[1], bool(changed.stdout.strip())


def digest_source() -> str:
    """SHA-256 over the names and contents of the package's Python files."""
    digest = hashlib.sha256()
    paths = [
        path for name in _CODE for path in ([_ROOT / name] if name.endswith(".py") else (_ROOT / name).rglob("*.py"))
    ]
    for path in sorted(paths):
        digest.update(f"{path.relative_to(_ROOT).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
