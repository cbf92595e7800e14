"""Attacks that bring a task of their own are refused by the audit verifier, where and why their headers say.

Their folders, below `contract`, are root causes: what of a task's input space or of a candidate's life was never tried.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tritonrl.core.config import Config
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.core.verdict import Verdict
from tritonrl.harness.bench.verifier.attacks import TASKS, Attack, read_attacks, read_tasks
from tritonrl.harness.verification.verifier import open_verifier

from ..selection import CONTRACT

FOLDER = Path(__file__).parent / "contract"
RIGHT = Path(__file__).parents[1] / "genuine" / "tasks"
"""Tasks that right kernels are written for too."""
ATTACKS = read_attacks(FOLDER)


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest) -> dict[str, Verdict]:
    """The audit verifier's verdicts on the attacks that this session has chosen, by name."""
    chosen = {item.name.partition("[")[2].rstrip("]") for item in request.session.items}
    attacks = [attack for attack in ATTACKS if attack.name in chosen]
    tasks = read_tasks(attacks, [FOLDER / TASKS, RIGHT])
    with open_verifier(Config()) as verifier:
        pairs = [(tasks[attack.task_id], attack.source) for attack in attacks]
        found = verifier.verify_many(pairs, AUDIT, jobs=2)
    return {attack.name: verdict for attack, verdict in zip(attacks, found, strict=True)}


def marks_of(attack: Attack) -> list[pytest.MarkDecorator]:
    """Slow, but for a few, and expected to fail where the attack is open."""
    slow = [] if attack.name in CONTRACT else [pytest.mark.slow]
    return slow + ([pytest.mark.xfail(strict=True, reason=attack.open_reason)] if attack.open_reason else [])


@pytest.mark.parametrize("attack", [pytest.param(attack, id=attack.name, marks=marks_of(attack)) for attack in ATTACKS])
def test_an_attack_on_the_contract_is_refused(verdicts: dict[str, Verdict], attack: Attack) -> None:
    """The audit verifier refuses it, with the outcome and at the stage of its header."""
    verdict = verdicts[attack.name]
    assert not verdict.correct, "accepted"
    assert (verdict.outcome, verdict.reached) in attack.answers, f"{verdict.where}: {verdict.objection}"


def test_every_root_cause_has_four_attacks() -> None:
    """No folder has fewer files, and no task is left over."""
    folders = [attack.name.partition("/")[0] for attack in ATTACKS]
    assert len(set(folders)) == 13
    assert min(folders.count(folder) for folder in folders) >= 4
    own = {path.stem for path in (FOLDER / TASKS).glob("*.py")}
    right = {path.stem for path in RIGHT.glob("*.py")}
    assert {attack.task_id for attack in ATTACKS} - right <= own <= {attack.task_id for attack in ATTACKS}
