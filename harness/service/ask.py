"""`tritonrl verify --url`: what the command does where a server verifies; imports nothing that takes long."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
    """An item, how its errors call it, and its line of a batch."""

    label: str
    item: dict[str, Any]
    line: int | None = None


def refuse_settings(*settings: object) -> None:
    """Raise UsageError where a setting of the verifier is given, which is not asked then."""
    if any(settings):
        raise UsageError(
            "--url: the server has a configuration; leave out --backend, --preset, --config, "
            "--set, --jobs and --unordered"
        )


def read_items(
    candidate: Path | None, task: str | None, batch: Path | None, on_bad_line: Callable[[str], None]
) -> list[AskedItem]:
    """Return the items of a batch, or the one of a candidate with its task; raises UsageError.

    `on_bad_line` is told of each line of a batch that cannot be verified, and the line is left out.
    """
    if batch is not None:
        items = []
        for number, name, source in read_entries(batch, on_bad_line):
            label = f"{batch}:{number}"
            try:
                items.append(AskedItem(label=label, item={"task": _task_of(name), "candidate": source}, line=number))
            except UsageError as error:
                on_bad_line(f"{label}: {error}")
        return items
    assert candidate is not None
    assert task is not None
    return [AskedItem(label=task, item={"task": _task_of(task), "candidate": read_text(candidate)})]


def _task_of(name: str) -> str | dict[str, str]:
    """Return an id as it is, and a file as a program with its name: the server does not read files."""
    path = Path(name)
    return {"name": path.stem, "source": read_text(path)} if name.endswith(".py") or path.is_file() else name


def ask_server(
    url: str,
    candidate: Path | None,
    task: str | None,
    batch: Path | None,
    extensions: str | None,
    as_json: bool,
) -> int:
    """Print the server's verdicts in order; returns the exit code of the contract."""
    spec = AUDIT if extensions is None else VerifierSpec.for_training(parse_extensions(extensions))
    bad: list[str] = []

    def note_bad(problem: str) -> None:
        bad.append(problem)
        print(f"tritonrl: {problem}", file=sys.stderr)

    asked = read_items(candidate, task, batch, note_bad)
    with RemoteVerifier(url) as verifier:
        replies = verifier.ask([one.item for one in asked], spec)
    for one, reply in zip(asked, replies, strict=True):
        if "error" in reply:
            note_bad(f"{one.label}: {reply['error']}")
        else:
            plain = reply if one.line is None else reply | {"line": one.line}
            print_result(plain, render_verdict(plain), as_json)
    return 2 if bad else 0 if all(reply["correct"] for reply in replies) else 1
