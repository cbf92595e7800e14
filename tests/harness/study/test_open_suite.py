"""What a study draws of the suite without teachers: its tasks, the pairs of its start, families by success."""

from __future__ import annotations

from tritonrl.core.config import merge
from tritonrl.core.corpus import Split, has_teacher, split_of
from tritonrl.core.recipe.curriculum import count_successes, start
from tritonrl.harness.study.task_draws import (
    evaluation_tasks,
    family_of,
    round_families,
    round_tasks,
    supervised_examples,
)

CONFIG = merge({"suite": "open", "sft": {"num_pairs": 40}, "curriculum": {"families": "success"}})


def test_the_start_learns_from_the_field_and_the_rounds_have_no_teacher() -> None:
    """Pairs are of `field`; what is trained on and judged by is of `open`, each in its split."""
    pairs = list(supervised_examples(CONFIG, 1))
    assert len(pairs) == 40
    assert all("-field_" in example.task.task_id for example in pairs)
    drawn = round_tasks(1, 0, (1, 2) * 9, "open")
    assert {family_of(task).partition("_")[0] for task in drawn} == {"open"}
    assert len({family_of(task) for task in drawn}) == 18
    assert not any(has_teacher(task.task_id) for task in drawn)
    assert {split_of(task) for task in drawn} == {Split.TRAIN}
    assert {split_of(task) for task in evaluation_tasks(CONFIG)} == {Split.HELDOUT}


def test_rounds_draw_more_of_what_is_half_right() -> None:
    """A family that is always right gets its floor; where families take turns, nobody is chosen."""
    levels = (1,) * 20
    state = start(CONFIG.curriculum, False)
    names = {family_of(task) for task in round_tasks(1, 0, levels, "open")}
    solved = sorted(names)[:8]
    state = count_successes(state, [(name, True) for name in solved for _ in range(200)])
    chosen = round_families(CONFIG, state, 1, 3, levels)
    assert sum(name not in solved for name in chosen) >= 10
    drawn = round_tasks(1, 3, levels, "open", None, chosen)
    assert [family_of(task) for task in drawn] == list(chosen)
    assert len({task.task_id for task in drawn}) == len(drawn)
    assert round_families(merge({"suite": "open"}), state, 1, 3, levels) == ()


def test_a_chosen_family_with_nothing_admitted_gives_its_turn_away() -> None:
    """The task is then of the next family in the seed's order."""
    chosen = ("open_map",) * 2
    drawn = round_tasks(1, 0, (1, 1), "open", lambda task: family_of(task) != "open_map", chosen)
    assert {family_of(task) for task in drawn} == {family_of(drawn[0])} != {"open_map"}
