"""What a study draws of the suite without teachers: its tasks, the pairs of its start, families by success."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tritonrl.core.config import merge
from tritonrl.core.corpus import Split, has_teacher, split_of
from tritonrl.core.recipe.curriculum import count_successes, start
from tritonrl.harness.display import Progress
from tritonrl.harness.study.grid import parse_grid, run_grid
from tritonrl.harness.study.store import Results
from tritonrl.harness.study.task_draws import (
    evaluation_tasks,
    family_of,
    rehearsed_slots,
    round_families,
    round_tasks,
    supervised_examples,
)

from ..context_stub import stub_context, tiny_config

CONFIG = merge({"suite": "open", "sft": {"num_pairs": 40}, "curriculum": {"families": "success"}})


def test_the_start_learns_from_the_field_and_the_rounds_have_no_teacher() -> None:
    """Pairs are of `field`; what is trained on and judged by is of `open`, each in its split."""
    pairs = list(supervised_examples(CONFIG, 1))
    assert len(pairs) == 40
    assert all("-field_" in example.task.task_id for example in pairs)
    drawn = round_tasks(1, 0, (1,) * 8 + (2,) * 9, "open")
    assert {family_of(task).partition("_")[0] for task in drawn} == {"open"}
    assert len({family_of(task) for task in drawn}) == 17
    assert not any(has_teacher(task.task_id) for task in drawn)
    assert {split_of(task) for task in drawn} == {Split.TRAIN}
    assert {split_of(task) for task in evaluation_tasks(CONFIG)} == {Split.HELDOUT}


def test_a_run_rewards_speed_after_correctness(tmp_path: Path) -> None:
    """A whole run without teachers: the first round pays for what is right, untimed, the second for its speed too."""
    config = tiny_config(
        suite="open",
        rl={"rounds": 2, "tasks_per_round": 2, "samples_per_task": 3, "keep": 1, "algorithm": "rloo"},
        reward={"goal": "speed", "speed_after": 1},
    )
    results = Results(root=tmp_path)
    line = stub_context(results, config)
    outcome = run_grid(results, config, parse_grid("none"), range(1), lambda: line, Progress())
    assert (outcome.num_complete, outcome.num_failed) == (2, 0)
    found = results.read("candidates")
    for number, paid in ((0, 0.7), (1, 0.5 + 0.5 * 2 / 3)):
        right = found.filter((pl.col("round") == number) & pl.col("correct"))
        assert right["reward"].to_list() == pytest.approx([paid] * right.height)
        assert right.height > 0
    assert found.filter(~pl.col("correct"))["reward"].sum() == 0.0
    assert results.read("timings").filter(pl.col("phase") == "rl")["round"].unique().to_list() == [1]


def test_rounds_draw_more_of_what_is_half_right() -> None:
    """A family that is always right gets its floor; where families take turns, nobody is chosen."""
    levels = (1,) * 20
    state = start(CONFIG.curriculum, False)
    names = {family_of(task) for task in round_tasks(1, 0, levels, "open")}
    solved = sorted(names)[:-1]
    state = count_successes(state, [(name, True) for name in solved for _ in range(200)])
    chosen = round_families(CONFIG, state, 1, 3, levels)
    assert sum(name not in solved for name in chosen) >= 8
    drawn = round_tasks(1, 3, levels, "open", None, chosen)
    assert [family_of(task) for task in drawn] == list(chosen)
    assert len({task.task_id for task in drawn}) == len(drawn)
    assert round_families(merge({"suite": "open"}), state, 1, 3, levels) == ()


def test_a_chosen_family_with_nothing_admitted_gives_its_turn_away() -> None:
    """The task is then of the next family in the seed's order."""
    chosen = ("open_map",) * 2
    drawn = round_tasks(1, 0, (1, 1), "open", lambda task: family_of(task) != "open_map", chosen)
    assert {family_of(task) for task in drawn} == {family_of(drawn[0])} != {"open_map"}


def test_rehearsed_slots_have_tasks_of_the_pairs_suite() -> None:
    """A quarter of the round is of `field`, in its training split and at the slot's level; the rest is as without."""
    config = merge({"suite": "open", "rl": {"tasks_per_round": 16}, "curriculum": {"rehearsal_share": 0.25}})
    levels = (1, 2) * 8
    rehearsed = rehearsed_slots(config, 1, 3)
    assert len(rehearsed) == 4
    assert rehearsed != rehearsed_slots(config, 1, 4)
    drawn = round_tasks(1, 3, levels, "open", rehearsed=rehearsed)
    for slot, (task, usual) in enumerate(zip(drawn, round_tasks(1, 3, levels, "open"), strict=True)):
        assert task.level == levels[slot]
        if slot in rehearsed:
            assert "-field_" in task.task_id
            assert split_of(task) is Split.TRAIN
        else:
            assert task == usual
    chosen = round_families(CONFIG, start(CONFIG.curriculum, False), 1, 3, levels)
    by_success = round_tasks(1, 3, levels, "open", None, chosen, rehearsed)
    assert [by_success[slot] for slot in rehearsed] == [drawn[slot] for slot in rehearsed]
    assert rehearsed_slots(CONFIG, 1, 3) == frozenset()
