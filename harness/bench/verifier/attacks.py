"""Judges every attack by the audit verifier, under several seeds: `tritonrl bench attacks`.

Inputs, sizes and samples of programs are the seed's draw, so an attack that fails at some of them only is refused with
a probability, which one run cannot show. Here each round has a seed of its own; what was ever accepted is listed, and
so is every answer that the attack's header does not give.
"""

from __future__ import annotations

import ast
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from ....core.config import Config
from ....core.corpus import is_corpus_id
from ....core.outcome import Outcome, Stage
from ....core.recipe.extensions import AUDIT
from ....core.task import Task
from ....core.verdict import Verdict
from ...errors import UsageError
from ...settings import read_text
from ...tasks.suites import find_example, task_from_file

NUM_MECHANISMS = 46
"""Ways in which evaluators of kernels have been seen to be deceived; `tests/attacks/README.md` lists them."""
_NEEDED = ("Mechanism", "Task", "Outcome", "Stage")
_KNOWN = (*_NEEDED, "Also", "Open")
TASKS = "tasks"
"""The folder of tasks beside attacks that bring their own."""


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
    paths = sorted(path for path in folder.glob("*/*.py") if path.parent.name != TASKS)
    if not paths:
        raise UsageError(f"{folder}: no attacks (FOLDER/*/*.py)")
    return [read_attack(path, path.relative_to(folder).as_posix()) for path in paths]


def read_tasks(attacks: Sequence[Attack], folders: Sequence[Path]) -> dict[str, Task]:
    """Return the attacked tasks by id: the corpus's, or a file `ID.py` of the first folder that has it.

    Raises UsageError for one that is neither.
    """
    return {name: _find_task(name, folders) for name in sorted({attack.task_id for attack in attacks})}


def _find_task(name: str, folders: Sequence[Path]) -> Task:
    if is_corpus_id(name):
        return find_example(name).task
    for folder in folders:
        if (folder / f"{name}.py").is_file():
            return task_from_file(folder / f"{name}.py")
    raise UsageError(f"no task {name}.py in {', '.join(map(str, folders))}")


@frozen(kw_only=True)
class Surprise:
    """An attack that was accepted, or refused with an answer that its header does not name."""

    attack: str
    seed: int
    is_accepted: bool
    answer: str
    is_open: bool = False


@frozen(kw_only=True)
class AttackFigures:
    """All rounds: `num_attacks` in each, one seed each."""

    backend: str
    num_attacks: int
    num_open: int
    """Of them, those whose headers say that they are not refused yet."""
    seeds: tuple[int, ...]
    surprises: tuple[Surprise, ...]
    wall_s: float

    @property
    def num_accepted(self) -> int:
        """Return verdicts that took an attack for a right kernel, where its header does not say so."""
        return sum(surprise.is_accepted and not surprise.is_open for surprise in self.surprises)


def judge_attacks(
    config: Config,
    attacks: Sequence[Attack],
    tasks: Mapping[str, Task],
    num_rounds: int,
    jobs: int,
    on_round: Callable[[int, Sequence[Surprise]], None],
) -> AttackFigures:
    """Judge every attack once a round; `on_round` is called with the seed and its surprises after each.

    `tasks` has the attacked ones by id.
    """
    from ...verification.verifier import open_verifier

    began = time.perf_counter()
    seeds = tuple(secrets.randbits(53) for _ in range(num_rounds))
    pairs = [(tasks[attack.task_id], attack.source) for attack in attacks]
    surprises: list[Surprise] = []
    backend = ""
    for seed in seeds:
        with open_verifier(evolve(config, verifier=evolve(config.verifier, seed=seed))) as verifier:
            backend = verifier.backend
            verdicts = verifier.verify_many(pairs, AUDIT, jobs)
        found = [surprise for pair in zip(attacks, verdicts, strict=True) for surprise in _find_surprise(*pair, seed)]
        surprises += found
        on_round(seed, found)
    return AttackFigures(
        backend=backend,
        num_attacks=len(attacks),
        num_open=sum(bool(attack.open_reason) for attack in attacks),
        seeds=seeds,
        surprises=tuple(surprises),
        wall_s=time.perf_counter() - began,
    )


def _find_surprise(attack: Attack, verdict: Verdict, seed: int) -> list[Surprise]:
    if (verdict.outcome, verdict.reached) in attack.answers:
        return []
    answer = f"{verdict.where}: {verdict.objection}".rstrip(": ")
    is_open = bool(attack.open_reason)
    return [Surprise(attack=attack.name, seed=seed, is_accepted=verdict.correct, answer=answer, is_open=is_open)]
