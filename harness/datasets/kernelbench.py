"""KernelBench's problems as rows: folders of files such as `level1/12_Name.py`, or Parquet.

Nothing of it is trained on. Reading imports nothing: a row is text with a place in the suite, and what is wrong with
one (no code, no level that there is, no number, a number taken before) is a reason to skip it, never an error.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from ..errors import UsageError
from .place import locate, read_parquet

LEVELS = (1, 2, 3)
_COLUMNS = ("code", "level", "name", "problem_id")
_NAME = re.compile(r"(\d+)_(.+?)(?:\.py)?")


@frozen(kw_only=True)
class Problem:
    level: int
    number: int
    name: str
    code: str

    @property
    def task_id(self) -> str:
        """`kb-l2-012-` and the start of the code's hash."""
        return f"kb-l{self.level}-{self.number:03}-{hashlib.sha256(self.code.encode()).hexdigest()[:12]}"


@frozen(kw_only=True)
class Skipped:
    """A row that is no task, and why."""

    name: str
    reason: str


def read_kernelbench(place: str) -> tuple[list[Problem], list[Skipped]]:
    """Problems ordered by level and number, and the rows that are none; raises UsageError."""
    option = f"--suite kernelbench:{place}"
    path = locate(place, option)
    if path.is_dir() and any(path.glob("level*/*.py")):
        rows = _read_folder(path)
    elif path.is_dir() and not any(path.rglob("*.parquet")):
        raise UsageError(f"{option}: neither level1/*.py, level2/*.py, ... nor a Parquet file in {path}")
    else:
        rows = iter(read_parquet(path, _COLUMNS, option))
    problems, skipped = _sort(rows)
    if not problems:
        counts = Counter(entry.reason for entry in skipped).most_common(3)
        reasons = "; ".join(f"{number} for {reason}" for reason, number in counts)
        raise UsageError(f"{option}: no problem there ({len(skipped)} rows skipped{f': {reasons}' if reasons else ''})")
    return problems, skipped


def _read_folder(path: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(path.glob("level*/*.py")):
        level = file.parent.name.removeprefix("level")
        named = _NAME.fullmatch(file.name)
        try:
            code: str | bytes = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            code = file.read_bytes()
        except OSError:
            code = ""
        yield {
            "code": code,
            "level": int(level) if level.isdecimal() else level,
            "name": file.stem,
            "problem_id": int(named[1]) if named else None,
        }


def _sort(rows: Iterable[dict[str, Any]]) -> tuple[list[Problem], list[Skipped]]:
    problems: dict[tuple[int, int], Problem] = {}
    skipped: list[Skipped] = []
    for position, row in enumerate(rows):
        name = str(row["name"] or f"row {position}")
        reason = _find_fault(row)
        key = (row["level"], row["problem_id"])
        if reason is None and key in problems:
            reason = f"a second problem {key[1]} of level {key[0]}"
        if reason is not None:
            skipped.append(Skipped(name=name, reason=reason))
        else:
            named = _NAME.fullmatch(name)
            problems[key] = Problem(level=key[0], number=key[1], name=named[2] if named else name, code=row["code"])
    return [problems[key] for key in sorted(problems)], skipped


def _find_fault(row: dict[str, Any]) -> str | None:
    if not isinstance(row["code"], str | None):
        return "code that is no text"
    if not (row["code"] or "").strip():
        return "no code"
    # 1.0 equals 1, and would give another id
    if type(row["level"]) is not int or row["level"] not in LEVELS:
        return f"level {row['level']!r} is none of {', '.join(map(str, LEVELS))}"
    if type(row["problem_id"]) is not int or row["problem_id"] < 0:
        return "no number"
    return None
