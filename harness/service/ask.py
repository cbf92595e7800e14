"""`tritonrl verify --url`: what the command does where a server verifies; imports nothing that takes long."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from ...core.recipe.extensions import AUDIT, VerifierSpec
from ..command_line import parse_extensions, print_result
from ..errors import UsageError
from ..plain_text import render_verdict
from ..settings import read_text
from ..tasks.batch import read_entries
from .client import RemoteVerifier


@frozen(kw_only=True)
class AskedItem:
    """An item, and how its errors call it."""

    label: str
    item: dict[str, Any]


def refuse_settings(*settings: object) -> None:
    """Raise UsageError where a setting of the verifier is given, which is not asked then."""
    if any(settings):
        raise UsageError("--url: the server has a configuration; leave out --backend, --preset, --config and --set")


def read_items(candidate: Path | None, task: str | None, batch: Path | None) -> list[AskedItem]:
    """Return the items of a batch, or the one of a candidate with its task; raises UsageError."""
    if batch is not None:
        return [
            AskedItem(label=f"{batch}:{number}", item={"task": _task_of(name), "candidate": source})
            for number, name, source in read_entries(batch)
        ]
    assert candidate is not None
    assert task is not None
    return [AskedItem(label=task, item={"task": _task_of(task), "candidate": read_text(candidate)})]


def _task_of(name: str) -> str | dict[str, str]:
    """Return an id as it is, and a file as a program with its name: the server does not read files."""
    path = Path(name)
    return {"name": path.stem, "source": read_text(path)} if name.endswith(".py") or path.is_file() else name


def ask_server(url: str, asked: Sequence[AskedItem], extensions: str | None, as_json: bool) -> int:
    """Print the server's verdicts in order; returns the exit code of the contract."""
    spec = AUDIT if extensions is None else VerifierSpec.for_training(parse_extensions(extensions))
    with RemoteVerifier(url) as verifier:
        replies = verifier.ask([one.item for one in asked], spec)
    bad = list(_show(asked, replies, as_json))
    return 2 if bad else 0 if all(reply["correct"] for reply in replies) else 1


def _show(asked: Sequence[AskedItem], replies: Sequence[dict[str, Any]], as_json: bool) -> Iterator[str]:
    for one, reply in zip(asked, replies, strict=True):
        if "error" in reply:
            print(f"tritonrl: {one.label}: {reply['error']}", file=sys.stderr)
            yield one.label
        else:
            print_result(reply, render_verdict(reply), as_json)
