"""Every attack is refused by the audit verifier, where and why its header says; the kernels it imitates are not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tritonrl.core.config import LimitsConfig, TimingConfig, VerifierConfig
from tritonrl.core.corpus import render
from tritonrl.core.outcome import Outcome
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.core.verdict import Verdict
from tritonrl.harness.bench.verifier.attacks import NUM_MECHANISMS, Attack, read_attacks
from tritonrl.harness.verification.verifier import Verifier

from ..conftest import SharedSandboxes
from ..selection import attacks_by_default

FOLDER = Path(__file__).parent
ATTACKS = read_attacks(FOLDER)
BY_DEFAULT = attacks_by_default(ATTACKS, (FOLDER / "README.md").read_text())
TASKS = {attack.task_id: False for attack in ATTACKS} | {a.task_id: True for a in ATTACKS if a.name in BY_DEFAULT}
"""Whether an attack that is tried by default has the task."""
SEED = 20261121
"""One draw, so that a failure repeats; `tritonrl bench attacks` tries others."""
_ROW = re.compile(r"\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|")
_FILE = re.compile(r"`([a-z_]+/[a-z0-9_]+\.py)`")


@pytest.fixture(scope="session")
def verifier(sandboxes: SharedSandboxes) -> Verifier:
    """One verifier for the session, with less time than by default, since some attacks use up what they are given."""
    config = VerifierConfig(timing="simulated", seed=SEED)
    return Verifier(config, TimingConfig(), sandboxes.get(LimitsConfig(cpu_s=8)))


@pytest.fixture(scope="session")
def verdicts(verifier: Verifier, request: pytest.FixtureRequest) -> dict[str, Verdict]:
    """The verdicts on the attacks that this session has chosen, two at a time, by name."""
    named = {attack.name: attack for attack in ATTACKS}
    chosen = [name for item in request.session.items if (name := item.name.partition("[")[2].rstrip("]")) in named]
    pairs = [(render(named[name].task_id).task, named[name].source) for name in chosen]
    return dict(zip(chosen, verifier.verify_many(pairs, AUDIT, jobs=2), strict=True))


def describe(verdict: Verdict) -> str:
    """Where and why a verdict refuses."""
    return f"{verdict.where}: {verdict.objection}"


def marks_of(attack: Attack) -> list[pytest.MarkDecorator]:
    """Slow where others show the same, and expected to fail where the attack is open."""
    slow = [] if attack.name in BY_DEFAULT else [pytest.mark.slow]
    return slow + ([pytest.mark.xfail(strict=True, reason=attack.open_reason)] if attack.open_reason else [])


@pytest.mark.parametrize("attack", [pytest.param(attack, id=attack.name, marks=marks_of(attack)) for attack in ATTACKS])
def test_an_attack_is_refused_for_its_own_reason(verdicts: dict[str, Verdict], attack: Attack) -> None:
    """The audit verifier gives the outcome and the stage of the header, so no refusal is by accident."""
    verdict = verdicts[attack.name]
    assert not verdict.correct, "accepted"
    assert (verdict.outcome, verdict.reached) in attack.answers, describe(verdict)


@pytest.mark.parametrize(
    "task_id", [pytest.param(task, marks=[] if TASKS[task] else [pytest.mark.slow]) for task in sorted(TASKS)]
)
def test_the_honest_kernel_of_each_attacked_task_is_accepted(verifier: Verifier, task_id: str) -> None:
    """The teacher's solution passes where the attacks do not."""
    example = render(task_id)
    verdict = verifier.verify(example.task, example.solution, AUDIT)
    assert verdict.outcome is Outcome.PASSED, describe(verdict)


def test_the_table_names_every_mechanism_and_only_files_that_show_it() -> None:
    """The README has one row a mechanism, with existing files whose headers say so, or a reason why there is none."""
    rows = {int(number): (files, line) for number, _, files, line in _ROW.findall((FOLDER / "README.md").read_text())}
    assert sorted(rows) == list(range(1, NUM_MECHANISMS + 1))
    shown = {attack.name: attack.mechanisms for attack in ATTACKS}
    for number, (files, line) in rows.items():
        named = _FILE.findall(files)
        assert named or files.strip().startswith("none: "), f"row {number}"
        assert line.strip(), f"row {number}"
        for name in named:
            assert number in shown[name], f"row {number}: {name}"


def test_most_attacks_are_stopped_by_construction() -> None:
    """At least 25 files pass the AST stage, which is a filter and not the defence."""
    assert sum(not attack.name.startswith("text/") for attack in ATTACKS) >= 25
    assert len(ATTACKS) >= 70


def test_the_folder_says_which_line_of_defence_holds() -> None:
    """Files in `text` are refused from their text alone, the others by what they do."""
    for attack in ATTACKS:
        folder = attack.name.partition("/")[0]
        stages = {str(stage) for _, stage in attack.answers}
        if folder == "text":
            assert stages == {"ast"}, attack.name
        elif folder != "heldout":
            assert "ast" not in stages, attack.name
