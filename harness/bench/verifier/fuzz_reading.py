"""Fuzzed texts read in processes of their own: completions, lines of a batch, messages of children and clients.

Completions go through extraction and the AST stage. A text that ends its process is a finding like an exception or an
answer that takes seconds. This module imports little, since every such process imports it.

A line must be an entry or an error of that line, a message a reply or a failure: no other exception, and no wait for a
pipe. The folder of a batch has what people and attackers leave in folders: links that lead out or nowhere, pipes,
folders and sockets with a module's name, a file of no text.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen

from ....core.outcome import Outcome
from ....core.serialisation import from_plain
from ....core.task import Example
from ....core.text.extraction import extract
from ....core.verdict import Verdict
from ....stages.syntax import inspect_source
from ...errors import UsageError
from ...sandbox import wire
from ...sandbox.wire import read_run_result
from ...service.messages import read_request, verdict_from_plain
from ...tasks.batch import read_batch
from ..watching import read_kb
from .fuzz_texts import fuzzed

SLOW_S = 5.0
"""A text that keeps a core busy for longer is a finding."""
_CHUNK = 50
_START_S, _SECONDS_A_LINE = 60.0, 0.5
_MOST_MB = 1024
_FINDINGS = "findings.json"
_LARGE = 1 << 22
_DEEP = 100_000
_NAMES = ("right.py", "link.py", "out.py", "nowhere.py", "loop.py", "pipe.py", "folder.py", "socket.py", "bytes.py")
_PATHS = (
    *_NAMES,
    *("../right.py", "/etc/passwd", "/dev/zero", "/dev/stdin.py", "/proc/self/environ", "missing.py", ".py", "", "."),
    *("\0.py", "a\0b.py", "\ud800.py", "é.py", "a" * 5000 + ".py", "a/" * 3000 + "b.py", "~/x.py", "-", "$HOME/x.py"),
)
_VALUES: tuple[Any, ...] = (None, True, 0, -1, 1e308, [], {}, "", "\0", "\ud800", "x" * 1000, [[]], {"a": {}})


@frozen(kw_only=True)
class TextResult:
    """The fate of one completion: the AST stage's outcome (null where it has no code), and a finding or ""."""

    number: int
    outcome: str | None
    cpu_s: float
    finding: str = ""


Reader = Callable[[Sequence[int]], list[TextResult]]
"""Reads the completions with the given numbers."""


def read_text(text: str, number: int = 0) -> TextResult:
    """Read one completion through extraction and the AST stage; never raises."""
    began = time.process_time()
    outcome, finding = None, ""
    try:
        source = extract(text)
        if source is not None:
            failure = inspect_source(source)
            outcome = (failure.outcome if failure is not None else Outcome.PASSED).code
    except Exception as error:
        finding = f"completion {number}: {type(error).__name__}: {error}"[:300]
    cpu_s = time.process_time() - began
    if cpu_s > SLOW_S:
        finding = finding or f"completion {number}: {cpu_s:.1f} s"
    return TextResult(number=number, outcome=outcome, cpu_s=cpu_s, finding=finding)


def read_texts(examples: Sequence[Example], seed: int, numbers: Sequence[int]) -> list[TextResult]:
    """Read the completions with these numbers, one after the other."""
    return [read_text(fuzzed(examples, seed, number), number) for number in numbers]


def read_apart(read: Reader, count: int, jobs: int) -> list[TextResult]:
    """Read completions 0 to `count`-1 in processes of their own, in order; one that ends its process is a finding."""
    chunks = [range(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
    results: list[TextResult] = []
    broken: list[range] = []
    with _processes(jobs) as pool:
        for chunk, future in [(chunk, pool.submit(read, chunk)) for chunk in chunks]:
            try:
                results += future.result()
            except BrokenProcessPool:
                broken.append(chunk)
    for number in (number for chunk in broken for number in chunk):
        # one of them is at fault, the others only shared its pool
        with _processes(1) as pool:
            try:
                results += pool.submit(read, [number]).result()
            except BrokenProcessPool:
                text = f"completion {number}: ended its process"
                results.append(TextResult(number=number, outcome=None, cpu_s=0.0, finding=text))
    return sorted(results, key=lambda result: result.number)


def _processes(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(max_workers=count, mp_context=multiprocessing.get_context("spawn"))


def choose_for_funnel(results: Sequence[TextResult], count: int) -> list[int]:
    """Return numbers of completions that have code: half of them past the AST stage, as far as there are as many."""
    valid = [result.number for result in results if result.outcome == Outcome.PASSED.code]
    others = [result.number for result in results if result.outcome not in (None, Outcome.PASSED.code)]
    chosen = valid[: max(count // 2, count - len(others))]
    return sorted(chosen + others[: count - len(chosen)])


def fill_folder(folder: Path, source: str) -> None:
    """Put the files, links and pipes there that lines may name."""
    (folder / "right.py").write_text(source)
    (folder / "link.py").symlink_to("right.py")
    (folder / "out.py").symlink_to("/etc/passwd")
    (folder / "nowhere.py").symlink_to("gone.py")
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "bytes.py").write_bytes(b"\xff\xfe\0" * 100)
    os.mkfifo(folder / "pipe.py")
    (folder / "folder.py").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket.py"))


def draw_line(rng: random.Random, task: str, source: str) -> bytes:
    entry: dict[str, Any] = {"task": task, "candidate": source}
    kind = rng.randrange(8)
    if kind == 0:
        entry["candidate"] = rng.choice(_PATHS)
    elif kind == 1:
        entry["task"] = rng.choice(_PATHS)
    elif kind == 2:
        entry[rng.choice(("task", "candidate", "other"))] = rng.choice(_VALUES)
    elif kind == 3:
        del entry[rng.choice(("task", "candidate"))]
    elif kind == 4:
        return rng.choice(_texts(rng))
    elif kind == 5:
        at = rng.randrange(len(source) + 1)
        entry["candidate"] = source[:at] + rng.choice(("\0", "\ud800", "\ufeff", "\r", "\u2028")) + source[at:]
    elif kind == 6:
        text = bytearray(json.dumps(entry).encode())
        for _ in range(rng.randrange(1, 9)):
            text[rng.randrange(len(text))] = rng.randrange(256)
        return bytes(text)
    return json.dumps(entry).encode()


def _texts(rng: random.Random) -> Sequence[bytes]:
    return (
        b"[" * _DEEP,
        b'{"a":' * _DEEP,
        b"9" * 5000,
        b'"' + b"a" * _LARGE,
        b'{"task": "' + b"a" * _LARGE + b'", "candidate": ""}',
        b"\xff\xfe\xfd",
        b"\0" * 100,
        b"NaN",
        b'{"task": NaN, "candidate": Infinity}',
        b"null",
        bytes(rng.randrange(256) for _ in range(200)),
    )


def read_lines(folder: Path, task: str, source: str, seed: int, count: int) -> list[str]:
    """Read `count` batches of one line each; returns a finding for each that was neither an entry nor an error."""
    findings = []
    for number in range(count):
        line = draw_line(random.Random(f"lines:{seed}:{number}"), task, source)
        path = folder / "batch.jsonl"
        path.write_bytes(line + b"\n")
        finding = _examine(partial(_read_one, path), UsageError)
        findings += [f"line {number}: {finding}"] if finding else []
    return findings


def read_lines_apart(task: str, source: str, seed: int, count: int) -> list[str]:
    """Read `count` lines and as many messages in a process of its own; that it ends or waits is a finding too."""
    with tempfile.TemporaryDirectory() as name:
        fill_folder(Path(name), source)
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_report, args=(Path(name), task, source, seed, count))
        process.start()
        process.join(_START_S + count * _SECONDS_A_LINE)
        if process.is_alive():
            process.kill()
            process.join()
            return ["lines and messages: still being read"]
        found = Path(name, _FINDINGS)
        if process.exitcode or not found.exists():
            return [f"lines and messages: their process ended with {process.exitcode}"]
        findings: list[str] = json.loads(found.read_text())
        return findings


def _report(folder: Path, task: str, source: str, seed: int, count: int) -> None:
    findings = read_lines(folder, task, source, seed, count) + read_messages(seed, count)
    # not getrusage's: what started this process leaves its own peak there
    memory_mb = read_kb("self", b"VmHWM:") >> 10
    if memory_mb > _MOST_MB:
        findings.append(f"lines and messages: {memory_mb} MB")
    (folder / _FINDINGS).write_text(json.dumps(findings))


def _read_one(path: Path) -> None:
    problems: list[str] = []
    for _, _, text in read_batch(path, problems.append):
        text.count("\n")
    for problem in problems:
        problem.encode()


def read_messages(seed: int, count: int) -> list[str]:
    """Decode `count` frames and requests; returns a finding for each that ends in another way than it may."""
    findings = []
    for number in range(count):
        rng = random.Random(f"messages:{seed}:{number}")
        for name, read, allowed in _readers(rng):
            finding = _examine(read, *allowed)
            findings += [f"message {number}, as {name}: {finding}"] if finding else []
    return findings


def _readers(rng: random.Random) -> Iterator[tuple[str, Callable[[], object], tuple[type[Exception], ...]]]:
    header = {"results": [{"variant": "original", "outputs": [0], "written": [], "tainted": []}], "seconds": 0.1}
    frame = bytearray(wire.encode(header, [bytes(8)]))
    for _ in range(rng.randrange(1, 6)):
        frame[rng.randrange(len(frame))] = rng.randrange(256)
    data = bytes(frame[: rng.randrange(len(frame) + 1)]) if rng.randrange(2) else bytes(frame)
    yield "a frame", lambda: wire.decode(data), (wire.FrameError,)
    plain = _spoil(rng, header["results"][0])  # type: ignore[index]
    # what a reply is read by catches these (`Sandbox._ask`)
    allowed = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
    yield "a result", lambda: read_run_result(plain, [bytes(8)]), allowed
    request = _spoil(rng, {"items": [{"task": "l1-x", "candidate": "y"}], "spec": {"multi_input": True}})
    yield "a request", lambda: read_request(request), (ValueError,)
    yield "a verdict", lambda: from_plain(_spoil(rng, {"task_id": "x", "stages": []}), Verdict), (ValueError,)
    yield "an answer", lambda: verdict_from_plain(_spoil(rng, {"task": "x", "stages": []})), (KeyError, TypeError)


def _spoil(rng: random.Random, plain: Any) -> Any:
    """Return plain data with one value at a random place replaced, removed or added."""
    if isinstance(plain, dict) and plain and rng.randrange(4):
        key = rng.choice(sorted(plain))
        return {**plain, key: _spoil(rng, plain[key])}
    if isinstance(plain, list) and plain and rng.randrange(3):
        return [_spoil(rng, plain[0]), *plain[1:]]
    if isinstance(plain, dict) and rng.randrange(2):
        return {**plain, "other": rng.choice(_VALUES)}
    return rng.choice(_VALUES)


def _examine(read: Callable[[], object], *allowed: type[Exception]) -> str:
    """Return what is wrong with the way in which reading ended, or ""."""
    began = time.process_time()
    try:
        read()
    except allowed:
        pass
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    took = time.process_time() - began
    return f"{took:.1f} s" if took > SLOW_S else ""
