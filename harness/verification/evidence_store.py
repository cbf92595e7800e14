"""Evidence, kept by content: whatever was once found out about a candidate is not found out again.

A key names the source, the task, the probe and what its answer depends on (backend, target, seed, the sandbox's limits,
versions of torch and triton), and no verifier specification: the run on the original inputs that a cell without
extension M needs is the same as the first of five that a cell with it needs. The first gathering wins, so that the
seconds in a verdict do not depend on who asks later. SQLite in WAL mode survives a kill at any moment and serves
several threads and processes.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import threading
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from ...core.config import LimitsConfig
from ...core.serialisation import canonical_json, fingerprint, from_plain, to_plain
from ..errors import DriftError

T = TypeVar("T")
EVIDENCE_VERSION = 65
_BUSY_TIMEOUT_S = 60.0


def evidence_key(
    *,
    source_sha256: str,
    task_fingerprint: str,
    probe: str,
    backend: str,
    target: str,
    seed: int,
    limits: LimitsConfig,
) -> str:
    """The identity of one piece of evidence, as 64 hex digits."""
    return fingerprint(
        {
            "version": EVIDENCE_VERSION,
            "torch": _version("torch"),
            "triton": _version("triton"),
            "source": source_sha256,
            "task": task_fingerprint,
            "probe": probe,
            "backend": backend,
            "target": target,
            "seed": seed,
            "limits": to_plain(limits),
        }
    )


@cache
def _version(package: str) -> str:
    # reading a package's metadata takes 1.5 ms, and there is a key for each of a candidate's probes
    return version(package)


class EvidenceStore:
    """Records and blobs by key in one SQLite file; a context manager.

    Without a path the file is a temporary one, which other processes may open and which ends with this store.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._folder = None if path is not None else tempfile.TemporaryDirectory(prefix="tritonrl-evidence-")
        self.path = path or Path(self._folder.name if self._folder else "", "evidence.sqlite")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(
            str(self.path),
            timeout=_BUSY_TIMEOUT_S,
            check_same_thread=False,
            isolation_level=None,
        )
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(f"PRAGMA synchronous={'NORMAL' if path is not None else 'OFF'}")
            for table in ("evidence", "blobs"):
                self._connection.execute(
                    f"CREATE TABLE IF NOT EXISTS {table} (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
                )
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise DriftError(f"{path}: not an evidence store: {error}") from error

    def __enter__(self) -> EvidenceStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
        if self._folder is not None:
            self._folder.cleanup()

    def get(self, key: str, kind: type[T]) -> T | None:
        """The record of class `kind` under `key`, or None."""
        data = self._select("evidence", key)
        if data is None:
            return None
        try:
            return from_plain(json.loads(data), kind)
        except ValueError as error:
            raise DriftError(f"{self.path}: evidence written by another version: {error}") from error

    def put(self, key: str, record: object) -> None:
        """Keep a record, unless there is one under `key` already."""
        self._insert("evidence", [(key, canonical_json(record).encode())])

    def get_blob(self, sha256: str) -> bytes | None:
        """The bytes with this SHA-256, or None."""
        return self._select("blobs", sha256)

    def put_blobs(self, blobs: Mapping[str, bytes]) -> None:
        """Keep bytes by their SHA-256."""
        self._insert("blobs", blobs.items())

    def _select(self, table: str, key: str) -> bytes | None:
        with self._lock:
            row = self._connection.execute(f"SELECT value FROM {table} WHERE key = ?", (key,)).fetchone()
        return None if row is None else zlib.decompress(row[0])

    def _insert(self, table: str, rows: Iterable[tuple[str, bytes]]) -> None:
        packed = [(key, zlib.compress(value, 1)) for key, value in rows]
        if not packed:
            return
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", packed)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
