"""Pairs to train on that come from files: `kernelbook:PARQUET|FOLDER|HUB_NAME`, `FILE.jsonl` or `FILE.parquet`.

A Parquet file has KernelBook's columns: a PyTorch module, and what Inductor made of it: the classes `{entry_point}`
and `{entry_point}New`. Here they become `Model` and `ModelNew`, since those are the names that prompts ask for and
verifiers look at; nothing else is changed, and nothing is executed. Three things should be known of what KernelBook
teaches: Inductor's programs hold for the sizes that they were made for, whereas our prompts ask for any; they import
`torch._inductor`, which the verifier refuses in its first stage, so that no answer that is written like them passes;
and they leave to PyTorch's operators what Inductor leaves to them (`extern_kernels`), which the audit refuses as well.
A file with the column `prompt` beside (our own exports) is read back as it was written.

A line of JSONL is a chat of two turns, `{"messages": [{"role": "user", ...}, {"role": "assistant", ...}]}`, or
`{"prompt": ..., "answer": ...}`; `tritonrl tasks export` writes both. Rows are looked at in an order that a seed
decides, until there are as many pairs as were asked for; each row that is none is counted by its reason. What
identifies the data is the rows' content, wherever they lie.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeGuard

from attrs import frozen

from ...core.task import Task
from ...core.text.extraction import extract
from ...core.text.parsing import UNPARSABLE, class_names, rename_class
from ...core.text.prompts import assistant_message, user_message
from ..errors import UsageError
from ..settings import is_regular, read_lines
from .place import locate, read_parquet

KERNELBOOK = "kernelbook:"
COLUMNS = ("entry_point", "python_code", "triton_code")
_HALF = re.compile("[\ud800-\udfff]")
WRITTEN = ("prompt",)
"""Columns that only our own files have."""
_BATCH = 64
"""Rows that are compared with a suite side by side."""


class Flaw(StrEnum):
    """Why a row is no pair."""

    NO_TEXT = "a field that is missing, empty or no text"
    NO_OBJECT = "a line that is no JSON object"
    NO_TURNS = "messages that are not one question and one answer"
    REFERENCE_SYNTAX = "a PyTorch program that is no Python"
    SOLUTION_SYNTAX = "a Triton program that is no Python"
    NO_REFERENCE = "no class of the entry point's name"
    NO_SOLUTION = "no ModelNew, by its own name or the entry point's"
    NAME_TAKEN = "another thing that is called Model or ModelNew"
    NO_KERNEL = "no Triton kernel"
    REPEATED = "the same pair as another row"
    TOO_LONG = "longer than the policy's context"
    SHARED = "the same computation as a task that is left out"
    NOT_COMPARED = "a program that could not be compared with those tasks"


@frozen(kw_only=True)
class SourcePair:
    """A question and its answer; `reference` is the program that the question is about, in KernelBench's form."""

    prompt: str
    answer: str
    reference: str


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is a text that says something; half of a surrogate pair, which JSON can hold, is none."""
    return isinstance(value, str) and bool(value.strip()) and not _HALF.search(value)


Fits = Callable[[Sequence[tuple[str, str]]], list[bool]]
"""Of each prompt and answer, whether a policy can read both at once."""
Compare = Callable[[Sequence[str]], list[Flaw | None]]
"""Which of these programs may not be trained on."""


@frozen(kw_only=True)
class PairFile:
    """The rows of a data set as they are, their SHA-256, and how one is read."""

    name: str
    rows: tuple[Any, ...]
    fingerprint: str
    read: Callable[[Any], SourcePair | Flaw]


@frozen(kw_only=True)
class Chosen:
    """Pairs that were found: of `num_rows` so many were looked at, and these were left out for these reasons."""

    pairs: tuple[tuple[str, str], ...]
    num_rows: int
    num_seen: int
    left_out: tuple[tuple[Flaw, int], ...]


@lru_cache
def identify_pairs(data: str) -> str:
    """The SHA-256 of a data set's rows, found once for a process; raises UsageError where there is none."""
    return open_pairs(data).fingerprint


def find_pairs(data: str) -> Path:
    """Where the data set that `sft.data` names is; raises UsageError where there is none, and reads nothing."""
    option = f"--data {data}"
    if data.startswith(KERNELBOOK) or data.endswith(".parquet"):
        return locate(data.removeprefix(KERNELBOOK), option)
    if not data.endswith(".jsonl"):
        raise UsageError(f"{option}: expected kernelbook:PARQUET, FILE.jsonl or FILE.parquet")
    if not is_regular(Path(data)):
        raise UsageError(f"{option}: no such file")
    return Path(data)


def open_pairs(data: str) -> PairFile:
    """The data set that `sft.data` names; raises UsageError where there is none."""
    option, path = f"--data {data}", find_pairs(data)
    if data.startswith(KERNELBOOK) or data.endswith(".parquet"):
        rows: Iterable[Any] = read_parquet(path, COLUMNS, option, WRITTEN)
        read: Callable[[Any], SourcePair | Flaw] = read_row
    else:
        rows, read = [line for line in read_lines(path) if line.strip()], read_line
    found = PairFile(name=data, rows=tuple(rows), fingerprint=_fingerprint(rows), read=read)
    if not found.rows:
        raise UsageError(f"{option}: no row there")
    return found


def _fingerprint(rows: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        text = row if isinstance(row, str) else json.dumps(row, sort_keys=True, default=repr)
        digest.update(f"{len(text)}:".encode() + text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _find_flaw(solution: str, name: str) -> Flaw | None:
    """Why a program is no solution with a class of this name and a Triton kernel of its own."""
    try:
        if name not in class_names(solution):
            return Flaw.NO_SOLUTION
    except UNPARSABLE:
        return Flaw.SOLUTION_SYNTAX
    return None if "triton.jit" in solution or "@jit" in solution else Flaw.NO_KERNEL


def read_row(row: dict[str, Any]) -> SourcePair | Flaw:
    entry, reference, solution = (row.get(column) for column in COLUMNS)
    if not (is_text(entry) and is_text(reference) and is_text(solution)):
        return Flaw.NO_TEXT
    try:
        if entry not in class_names(reference):
            return Flaw.NO_REFERENCE
    except UNPARSABLE:
        return Flaw.REFERENCE_SYNTAX
    if (flaw := _find_flaw(solution, f"{entry}New")) is not None:
        return flaw
    try:
        reference = rename_class(reference, entry, "Model")
        solution = rename_class(solution, f"{entry}New", "ModelNew")
    except UNPARSABLE:
        return Flaw.NAME_TAKEN
    prompt = row.get("prompt")
    if not is_text(prompt):
        prompt = user_message(Task(task_id=entry, level=1, family="kernelbook", description=entry, source=reference))
    return SourcePair(prompt=prompt, answer=assistant_message(solution), reference=reference)


def read_line(line: str) -> SourcePair | Flaw:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        return Flaw.NO_OBJECT
    if "messages" in entry:
        turns = _read_turns(entry["messages"])
        if turns is None:
            return Flaw.NO_TURNS
        prompt, answer = turns
    else:
        prompt, answer = entry.get("prompt"), entry.get("answer")
    if not (is_text(prompt) and is_text(answer)):
        return Flaw.NO_TEXT
    if (flaw := _find_flaw(extract(answer) or "", "ModelNew")) is not None:
        return flaw
    return SourcePair(prompt=prompt, answer=answer, reference=extract(prompt) or "")


def _read_turns(messages: Any) -> tuple[Any, Any] | None:
    """The question and the answer of a chat that has no more than these."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return None
    if [message.get("role") for message in messages] != ["user", "assistant"]:
        return None
    return messages[0].get("content"), messages[1].get("content")


def choose_pairs(
    source: PairFile,
    number: int,
    order: Sequence[int],
    fits: Fits,
    compare: Compare | None = None,
    on_seen: Callable[[int], None] | None = None,
) -> Chosen:
    """The first `number` pairs of the rows in this order that fit and that `compare` has nothing against."""
    flaws: Counter[Flaw] = Counter()
    pairs: dict[tuple[str, str], None] = {}
    readable = _readable(source, order, fits, flaws, pairs)
    while len(pairs) < number:
        # no more than are wanted, so that a row is looked at only where it may be needed
        batch = list(islice(readable, min(_BATCH, number - len(pairs))))
        if not batch:
            break
        refusals = [None] * len(batch) if compare is None else compare([pair.reference for pair in batch])
        for pair, refusal in zip(batch, refusals, strict=True):
            if refusal is not None:
                flaws[refusal] += 1
            elif (pair.prompt, pair.answer) in pairs:
                flaws[Flaw.REPEATED] += 1
            else:
                pairs[pair.prompt, pair.answer] = None
        if on_seen is not None:
            on_seen(len(pairs) + flaws.total())
    left_out = tuple((flaw, flaws[flaw]) for flaw in Flaw if flaws[flaw])
    return Chosen(pairs=tuple(pairs), num_rows=len(source.rows), num_seen=len(pairs) + flaws.total(), left_out=left_out)


def _readable(
    source: PairFile,
    order: Sequence[int],
    fits: Fits,
    flaws: Counter[Flaw],
    taken: dict[tuple[str, str], None],
) -> Iterator[SourcePair]:
    """The rows that are pairs of a length that fits, flaws of the others being counted."""
    for place in order:
        pair = source.read(source.rows[place])
        if isinstance(pair, Flaw):
            flaws[pair] += 1
        elif (pair.prompt, pair.answer) in taken:
            flaws[Flaw.REPEATED] += 1
        elif not fits([(pair.prompt, pair.answer)])[0]:
            flaws[Flaw.TOO_LONG] += 1
        else:
            yield pair
