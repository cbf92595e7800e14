"""Content-addressed work: what has been done once is never done again.

Everything expensive in a cell (sampling, fine-tuning) is a unit of work whose key is the fingerprint of all that
determines its result, and of nothing else: no path, process, device count or clock. A unit's value is stored under
its key by writing beside it and renaming, so that a value is either absent or whole. Resuming after a crash is
therefore running again, and cells whose paths coincide share every unit they have in common.

A lock on the key lets several workers share one store: the second waits for the first and finds its value. Should
the locks of a shared file system not hold between its hosts, both do the work and one result stays. The seconds that a
unit reports are those of first doing it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from attrs import frozen

from ..core.serialisation import fingerprint

FORMAT = 1
"""Raised when the meaning of stored values changes, so that old ones are not taken for new ones."""

_ABANDONED_S = 86_400.0
"""Longer than a unit of work takes: a folder's time is that of its first files, however long its maker is at it."""


@frozen(kw_only=True)
class Work:
    """A stored unit: its value (plain data), the folder of its files where it has one, and its seconds."""

    key: str
    value: Any
    seconds: float
    folder: Path | None = None


def work_key(kind: str, **parts: Any) -> str:
    """Return the identity of a unit of work: a fingerprint of its kind and of everything that determines its result."""
    return fingerprint({"kind": kind, "format": FORMAT, "parts": parts})


def user_cache() -> Path:
    """Return the folder where commands without a results folder keep what is worth keeping."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "tritonrl"


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader, now or after a crash, finds the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}.partial")
    with beside.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


def sweep_partials(folder: Path) -> None:
    """Remove what killed processes left of unfinished writes in a folder and its subfolders.

    Whether a process of another machine is alive cannot be seen: what it wrote is left until it is a day old. Other
    processes may be at work in the folder, so that what is seen may be gone a moment later.
    """
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if name.startswith(".") and name.endswith(".partial"):
                with contextlib.suppress(FileNotFoundError):
                    _sweep_partial(Path(parent, name))
        folders[:] = [name for name in folders if not name.endswith(".partial")]


def _sweep_partial(path: Path) -> None:
    process = path.name.rsplit(".", 2)[1]
    if path.name.endswith(f".{platform.node()}.{process}.partial"):
        is_abandoned = process.isdigit() and not Path(f"/proc/{process}").exists()
    else:
        is_abandoned = time.time() - path.stat().st_mtime > _ABANDONED_S
    if is_abandoned and path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    elif is_abandoned:
        path.unlink(missing_ok=True)


@frozen(kw_only=True)
class WorkStore:
    """Values under `root/KIND/KEY`, one folder a unit, with `value.json` and the files that the unit made."""

    root: Path

    def once(self, kind: str, key: str, make: Callable[[Path], Any]) -> Work:
        """Return the unit `key`, made by `make(folder)` where it is not stored yet.

        `make` returns plain JSON data and may leave files in the folder that it is given; that folder is renamed
        into place when it is whole.
        """
        place = self.root / kind / key[:2] / key
        if not (place / "value.json").exists():
            with self.locked(key):
                if not (place / "value.json").exists():
                    self._make(place, make)
        stored = json.loads((place / "value.json").read_text())
        return Work(key=key, value=stored["value"], seconds=stored["seconds"], folder=place)

    def has(self, kind: str, key: str) -> bool:
        return (self.root / kind / key[:2] / key / "value.json").exists()

    def take_over(self, other: WorkStore, kind: str) -> None:
        """Store the values of another store's units of a kind, which have no files, beside those that are here."""
        for path in other.root.glob(f"{kind}/*/*/value.json"):
            key = path.parent.name
            if not self.has(kind, key):
                write_atomically(self.root / kind / key[:2] / key / "value.json", path.read_bytes())

    def _make(self, place: Path, make: Callable[[Path], Any]) -> None:
        unfinished = self.root / "unfinished" / f".{place.name}.{platform.node()}.{os.getpid()}.partial"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        try:
            started = time.monotonic()
            value = make(unfinished)
            seconds = time.monotonic() - started
            text = json.dumps({"value": value, "seconds": seconds}, allow_nan=False)
            write_atomically(unfinished / "value.json", text.encode())
            place.parent.mkdir(parents=True, exist_ok=True)
            if not (place / "value.json").exists():
                unfinished.rename(place)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    @contextlib.contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Hold the lock of that name; other workers on this store wait."""
        # the kernel drops the lock when its holder dies, so a crash leaves nothing to clean up
        with self._open_lock(key) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def claimed(self, key: str) -> Iterator[bool]:
        """Hold the lock of that name if nobody does, and say whether; a dead holder's is free."""
        with self._open_lock(key) as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def _open_lock(self, key: str) -> TextIO:
        locks = self.root / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        return (locks / key).open("w")
