"""Reads attack files and their headers.

Each file below a folder of attacks is a candidate whose module docstring ends with a strict header: one `Name: value`
line for each of `Mechanism` (numbers of the README's table, or `own`), `Task` (an id of the corpus), `Outcome` and
`Stage` (what the audit verifier must answer). `Also` gives other `outcome@stage`, with commas between, where the answer
truly depends on the machine or on what is drawn, and `Open` why an attack is not yet refused as it should be.
"""

from __future__ import annotations

import ast
from pathlib import Path

from attrs import frozen

from ....core.outcome import Outcome, Stage
from ...errors import UsageError
from ...settings import read_text

NUM_MECHANISMS = 46
"""Ways in which evaluators of kernels have been seen to be deceived; `tests/attacks/README.md` lists them."""
_NEEDED = ("Mechanism", "Task", "Outcome", "Stage")
_KNOWN = (*_NEEDED, "Also", "Open")


@frozen(kw_only=True)
class Attack:
    """A candidate that must be refused, and the answers that count as refused for its own reason."""

    name: str
    source: str
    mechanisms: tuple[int, ...]
    task_id: str
    answers: tuple[tuple[Outcome, Stage], ...]
    open_reason: str = ""


def read_attack(path: Path, name: str) -> Attack:
    """Read the attack in a file; raises UsageError for a header that is not of the form."""
    source = read_text(path)
    try:
        docstring = ast.get_docstring(ast.parse(source)) or ""
        return _from_header(name, source, docstring.rpartition("\n\n")[2])
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None
    except KeyError as error:
        raise UsageError(f"{path}: no such outcome: {error.args[0].lower()}") from None


def _from_header(name: str, source: str, text: str) -> Attack:
    header: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(": ")
        if not colon or key not in _KNOWN or key in header or not value.strip():
            raise ValueError(f"not a header line: {line!r}")
        header[key] = value.strip()
    missing = [key for key in _NEEDED if key not in header]
    if missing:
        raise ValueError(f"no {', '.join(missing)}")
    own = header["Mechanism"] == "own"
    mechanisms = () if own else tuple(int(number) for number in header["Mechanism"].split(","))
    if any(not 1 <= number <= NUM_MECHANISMS for number in mechanisms):
        raise ValueError(f"no such mechanism: {header['Mechanism']}")
    answers = [(Outcome.from_code(header["Outcome"]), Stage(header["Stage"]))]
    for answer in header["Also"].split(",") if "Also" in header else ():
        code, _, stage = answer.strip().partition("@")
        answers.append((Outcome.from_code(code), Stage(stage)))
    return Attack(
        name=name,
        source=source,
        mechanisms=mechanisms,
        task_id=header["Task"],
        answers=tuple(answers),
        open_reason=header.get("Open", ""),
    )


def read_attacks(folder: Path) -> list[Attack]:
    """Read all attacks one folder down, in the order of their names; raises UsageError where there is none."""
    paths = sorted(folder.glob("*/*.py"))
    if not paths:
        raise UsageError(f"{folder}: no attacks (FOLDER/*/*.py)")
    return [read_attack(path, path.relative_to(folder).as_posix()) for path in paths]
