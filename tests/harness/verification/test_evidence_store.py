"""The evidence store: first gathering wins, other questions have other keys, and a kill loses nothing kept."""

from __future__ import annotations

import hashlib
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, fields
from tritonrl.core.candidate import RunReport, TimingReport, Variant
from tritonrl.core.config import LimitsConfig
from tritonrl.harness.errors import DriftError
from tritonrl.harness.verification.evidence_store import EvidenceStore, evidence_key


def report(seconds: float) -> RunReport:
    """A report told apart by its seconds."""
    return RunReport(variant=Variant.ORIGINAL, seconds=seconds)


def test_the_first_gathering_wins(tmp_path: Path) -> None:
    """What is kept under a key stays, and another store on the same file reads it."""
    path = tmp_path / "deep" / "evidence.sqlite"
    with EvidenceStore(path) as store:
        assert store.get("key", RunReport) is None
        store.put("key", report(1.0))
        store.put("key", report(2.0))
        assert store.get("key", RunReport) == report(1.0)
    with EvidenceStore(path) as store:
        assert store.get("key", RunReport) == report(1.0)


def test_blobs_come_back_as_they_were() -> None:
    """Bytes are found by their SHA-256, and unknown ones are None."""
    data = bytes(range(256)) * 1000
    sha = hashlib.sha256(data).hexdigest()
    with EvidenceStore() as store:
        store.put_blobs({sha: data})
        assert store.get_blob(sha) == data
        assert store.get_blob("0" * 64) is None


def test_every_part_of_a_key_counts() -> None:
    """Another source, task, probe, backend, target, seed or limit is another key; the same is the same."""
    parts: dict[str, Any] = {
        "source_sha256": "a",
        "task_fingerprint": "b",
        "probe": "c",
        "backend": "d",
        "target": "e",
        "seed": 0,
        "limits": LimitsConfig(),
    }
    changes: list[dict[str, Any]] = [{name: "other"} for name in list(parts)[:5]]
    changes += [{"seed": 1}]
    changes += [{"limits": evolve(LimitsConfig(), **{field.name: 77})} for field in fields(LimitsConfig)]
    keys = {evidence_key(**{**parts, **change}) for change in changes}
    assert len(keys) == len(changes) == 12
    assert evidence_key(**parts) not in keys
    assert evidence_key(**parts) == evidence_key(**{**parts, "limits": LimitsConfig()})


def test_evidence_of_another_form_is_drift(tmp_path: Path) -> None:
    """Records that do not fit, and files that are no store, are refused, never taken for a miss."""
    with EvidenceStore() as store:
        store.put("key", report(1.0))
        with pytest.raises(DriftError):
            store.get("key", TimingReport)
    path = tmp_path / "evidence.sqlite"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(DriftError):
        EvidenceStore(path)


def test_threads_share_a_store() -> None:
    """Writers and readers on several threads lose nothing."""
    with EvidenceStore() as store:

        def write(worker: int) -> None:
            for index in range(50):
                store.put(f"{worker}:{index}", report(float(index)))

        threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = [store.get(f"{worker}:{index}", RunReport) for worker in range(4) for index in range(50)]
    assert kept == [report(float(index)) for _ in range(4) for index in range(50)]


def test_a_kill_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    """A process killed between writes leaves a sound file with every record that it had finished."""
    path = tmp_path / "evidence.sqlite"
    program = (
        "import sys, itertools\n"
        "from pathlib import Path\n"
        "from tritonrl.harness.verification.evidence_store import EvidenceStore\n"
        "store = EvidenceStore(Path(sys.argv[1]))\n"
        "for n in itertools.count():\n"
        "    store.put(f'key-{n}', {'n': n})\n"
        "    print(n, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last = 0
        for line in process.stdout:
            last = int(line)
            if last >= 200:
                break
        process.send_signal(signal.SIGKILL)
    with EvidenceStore(path) as store:
        assert all(store.get(f"key-{n}", dict) == {"n": n} for n in range(last + 1))
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
