"""What an attack file says about itself.

Each file below this folder is a candidate whose module docstring ends with a strict header: one `Name: value` line for
each of `Mechanism` (numbers of the README's table, or `own`), `Task` (an id of the corpus), `Outcome` and `Stage`
(what the audit verifier must answer). `Also` gives a second `outcome@stage` where the answer truly depends on the
machine, and `Open` the reason why an attack is not yet refused as it should be.
"""

from __future__ import annotations

import ast
from pathlib import Path

from attrs import frozen
from tritonrl.core.outcome import Outcome, Stage

FOLDER = Path(__file__).parent
NUM_MECHANISMS = 46
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


def read_attack(path: Path) -> Attack:
    """The attack in a file; raises ValueError for a header that is not of the form."""
    source = path.read_text(encoding="utf-8")
    name = path.relative_to(FOLDER).as_posix()
    docstring = ast.get_docstring(ast.parse(source)) or ""
    header: dict[str, str] = {}
    for line in docstring.rpartition("\n\n")[2].splitlines():
        key, colon, value = line.partition(": ")
        if not colon or key not in _KNOWN or key in header or not value.strip():
            raise ValueError(f"{name}: not a header line: {line!r}")
        header[key] = value.strip()
    missing = [key for key in _NEEDED if key not in header]
    if missing:
        raise ValueError(f"{name}: no {', '.join(missing)}")
    own = header["Mechanism"] == "own"
    mechanisms = () if own else tuple(int(number) for number in header["Mechanism"].split(","))
    if any(not 1 <= number <= NUM_MECHANISMS for number in mechanisms):
        raise ValueError(f"{name}: no such mechanism: {header['Mechanism']}")
    answers = [(Outcome.from_code(header["Outcome"]), Stage(header["Stage"]))]
    if "Also" in header:
        code, _, stage = header["Also"].partition("@")
        answers.append((Outcome.from_code(code), Stage(stage)))
    return Attack(
        name=name,
        source=source,
        mechanisms=mechanisms,
        task_id=header["Task"],
        answers=tuple(answers),
        open_reason=header.get("Open", ""),
    )


def read_attacks() -> list[Attack]:
    """All attacks, in the order of their names; the folder `heldout` may be empty."""
    return [read_attack(path) for path in sorted(FOLDER.glob("*/*.py"))]
