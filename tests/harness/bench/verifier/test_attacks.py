"""The sweep over attacks: what is accepted or refused for another reason is told, with the seed that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tritonrl.core.config import Config
from tritonrl.core.corpus import render as render_task
from tritonrl.harness.bench.verifier.attacks import judge_attacks, read_attack, read_attacks, read_tasks
from tritonrl.harness.errors import UsageError

TASK = "l1-unary-7fce4ae6f9f1a504"
HEADER = '"""An attack.\n\nMechanism: own\nTask: {task}\nOutcome: {outcome}\nStage: {stage}\n"""\n'


def _write(folder: Path, name: str, source: str, outcome: str, stage: str) -> None:
    path = folder / "some" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEADER.format(task=TASK, outcome=outcome, stage=stage) + source)


def test_a_right_kernel_among_the_attacks_is_told_as_accepted(tmp_path: Path) -> None:
    """One that is refused as its header says is no surprise; one that passes is, and so is another reason."""
    _write(tmp_path, "as_said.py", "x = 1\n", "no_model", "ast")
    _write(tmp_path, "otherwise.py", "x = 1\n", "wrong_values", "full")
    _write(tmp_path, "right.py", render_task(TASK).solution, "wrong_values", "full")
    rounds: list[int] = []
    attacks = read_attacks(tmp_path)
    tasks = read_tasks(attacks, [])
    figures = judge_attacks(Config(), attacks, tasks, 1, 2, lambda seed, found: rounds.append(len(found)))
    assert {each.attack: each.is_accepted for each in figures.surprises} == {
        "some/otherwise.py": False,
        "some/right.py": True,
    }
    assert figures.num_accepted == 1
    assert rounds == [2]
    assert (figures.num_attacks, len(figures.seeds)) == (3, 1)


def test_attacks_bring_tasks_of_their_own(tmp_path: Path) -> None:
    """A folder of tasks beside them is no folder of attacks; a task that is nowhere is an error by name."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "own.py").write_text(render_task(TASK).task.source)
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "bad.py").write_text(HEADER.format(task="own", outcome="no_model", stage="ast"))
    attacks = read_attacks(tmp_path)
    assert [attack.task_id for attack in attacks] == ["own"]
    assert read_tasks(attacks, [tmp_path / "other", tmp_path / "tasks"])["own"].source == render_task(TASK).task.source
    with pytest.raises(UsageError, match=r"no task own\.py"):
        read_tasks(attacks, [tmp_path / "other"])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('"""No header."""\n', "not a header line"),
        ('"""One.\n\nMechanism: own\n"""\n', "no Task, Outcome, Stage"),
        ("def (", "invalid syntax"),
        (HEADER.format(task=TASK, outcome="no_such", stage="ast"), "no such outcome: no_such"),
    ],
)
def test_a_file_without_a_sound_header_is_refused_by_name(tmp_path: Path, source: str, said: str) -> None:
    """The error names the file and what is wrong with it."""
    path = tmp_path / "bad.py"
    path.write_text(source)
    with pytest.raises(UsageError, match=said):
        read_attack(path, "bad.py")


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    """Nothing to try is not 'none accepted'."""
    with pytest.raises(UsageError, match="no attacks"):
        read_attacks(tmp_path)
