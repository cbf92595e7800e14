"""A cell: real verifier, real sandboxes, teacher answers; and the random streams that cells share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from attrs import evolve
from tritonrl.core.config import merge
from tritonrl.core.corpus import FAMILIES, Split, split_of
from tritonrl.core.recipe.learner import Completion
from tritonrl.harness.display import Progress
from tritonrl.harness.errors import DriftError
from tritonrl.harness.study.grid import count_samples, parse_grid, run_grid
from tritonrl.harness.study.pipeline import CellContext, find_start, take_start
from tritonrl.harness.study.store import Results
from tritonrl.harness.study.task_draws import evaluation_tasks, root_seed, round_tasks
from tritonrl.harness.verification.verifier import open_verifier

from ..context_stub import TeacherLearner, solutions, stub_context, tiny_config

REAL = {
    "rl": {"rounds": 1, "tasks_per_round": 2, "samples_per_task": 3, "keep": 2},
    "evaluation": {"level1_tasks": 1, "level2_tasks": 1, "samples_per_task": 1},
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two cells judged by the real verifier in real sandboxes."""
    config = tiny_config(**REAL)
    results = Results(root=tmp_path_factory.mktemp("real"))
    with open_verifier(config, results.evidence_path) as verifier:
        line = CellContext(
            config=config,
            learner=TeacherLearner(answers=solutions(config, [0])),
            judge=verifier,
            work=results.work,
            progress=Progress(),
        )
        outcome = run_grid(results, config, parse_grid("none,msct"), range(1), lambda: line, Progress())
    assert (outcome.num_complete, outcome.num_failed) == (3, 0)
    return results


def test_teachers_are_found_correct_and_broken_answers_rejected(real: Results) -> None:
    """The real verifier accepts each teacher's solution, in training and audit, and rejects what has no kernel."""
    candidates = real.read("candidates")
    accepted, rejected = candidates.filter("correct"), candidates.filter(~pl.col("correct"))
    assert accepted.height > 0
    assert rejected.height > 0
    assert accepted["audit_correct"].all()
    assert (accepted["torch_operators"] == 0).all()
    assert set(rejected["reached"]) == {"ast"}
    assert (accepted["reward"] >= 0.7).all()
    assert (rejected["reward"] == 0.0).all()


def test_simulated_clock_fills_estimates_alone(real: Results) -> None:
    """Under the simulated timing correct candidates have an estimated speedup, and nobody has a measured one."""
    candidates = real.read("candidates")
    assert candidates["speedup"].null_count() == candidates.height
    assert candidates.filter("correct")["estimated_speedup"].null_count() == 0
    assert set(real.read("cells")["timing_mode"]) == {"simulated timing"}
    trials = real.read("timings").group_by("cell").agg(pl.col("calibrated").first())
    assert dict(trials.iter_rows()) == {"none": False, "msct": True}


def test_selection_takes_only_rewarded_distinct_sources(real: Results) -> None:
    """What is trained on earned something, and no source is selected twice for a task."""
    selected = real.read("candidates").filter("selected")
    assert selected.height > 0
    assert (selected["reward"] > 0.0).all()
    assert selected.select("cell", "slot", "candidate").is_unique().all()


def test_staging_attempts_fewer_stages(real: Results) -> None:
    """The staged cell stops where a candidate fails; the exhaustive one attempts all five stages on each."""
    stages = real.read("stages").filter(pl.col("verifier") == "training")
    counts = stages.group_by("cell", "slot", "sample").len()
    assert set(counts.filter(pl.col("cell") == "none")["len"]) == {5}
    assert min(counts.filter(pl.col("cell") == "msct")["len"]) == 1


def test_task_of_a_slot_depends_on_seed_round_and_level_alone() -> None:
    """Slots at equal levels have equal tasks whatever the other slots are: cells share their draws."""
    root = root_seed(tiny_config(), 0)
    ones, mixed = round_tasks(root, 1, (1, 1, 1)), round_tasks(root, 1, (1, 2, 1))
    assert [ones[0], ones[2]] == [mixed[0], mixed[2]]
    assert mixed[1].level == 2
    assert round_tasks(root, 0, (1, 1, 1)) != ones
    assert round_tasks(root_seed(tiny_config(), 1), 1, (1, 1, 1)) != ones


def test_families_take_turns_over_rounds() -> None:
    """As many slots as there are families see each family once, across rounds; all tasks are of the train split."""
    root = root_seed(tiny_config(), 0)
    tasks = [task for number in range(3) for task in round_tasks(root, number, (1,) * 3)]
    assert len({task.family for task in tasks}) == len(FAMILIES[1]) == 9
    assert {split_of(task) for task in tasks} == {Split.TRAIN}


def test_evaluation_is_held_out_and_the_same_for_every_seed() -> None:
    """Evaluation tasks are held-out, balanced over families, and depend on the root seed alone."""
    config = merge({"evaluation": {"level1_tasks": 9, "level2_tasks": 4}})
    tasks = evaluation_tasks(config)
    assert {split_of(task) for task in tasks} == {Split.HELDOUT}
    assert sorted(task.family for task in tasks) == sorted((*FAMILIES[1], *FAMILIES[2]))
    assert evaluation_tasks(merge({"evaluation": {"level1_tasks": 9, "level2_tasks": 4}, "seed": 1})) != tasks


def test_a_part_of_each_tasks_samples_is_audited(tmp_path: Path) -> None:
    """The first samples of a task have an audit, with its stages; the others have none, and rates leave them out."""
    config, results = tiny_config(rl={"rounds": 1, "samples_per_task": 3, "audited_samples": 2}), Results(root=tmp_path)
    run_grid(results, config, parse_grid("none"), range(1), lambda: stub_context(results, config), Progress())
    candidates = results.read("candidates")
    assert set(candidates.filter(pl.col("audit_correct").is_null())["sample"]) == {2}
    assert candidates.filter(pl.col("sample") < 2)["audit_outcome"].null_count() == 0
    audited = results.read("stages").filter(pl.col("verifier") == "audit")
    assert set(audited["sample"]) == {0, 1}
    first = candidates.filter((pl.col("level") == 1) & (pl.col("sample") < 2))
    assert results.read("rounds")["level1_audit_accuracy"].to_list() == [first["audit_correct"].mean()]


@pytest.mark.parametrize(("every", "after"), [(1, [0, 1, 2, 3]), (2, [1, 3]), (3, [2]), (5, [])])
def test_rounds_between_are_evaluated_every_so_often(tmp_path: Path, every: int, after: list[int]) -> None:
    """After every so many rounds, never after the last, which the final evaluation follows."""
    evaluation = {
        "level1_tasks": 1,
        "level2_tasks": 1,
        "samples_per_task": 1,
        "round_samples": 1,
        "evaluate_every": every,
    }
    config = tiny_config(
        rl={"rounds": 5, "tasks_per_round": 1, "samples_per_task": 1, "keep": 1}, evaluation=evaluation
    )
    results = Results(root=tmp_path)
    run_grid(results, config, parse_grid("none"), range(1), lambda: stub_context(results, config), Progress())
    found = results.read("evaluation").filter(pl.col("phase") == "rl")["round"].drop_nulls().unique().sort().to_list()
    assert found == after
    assert count_samples(config, "none") == 5 + 2 * len(after) + 2


def test_nothing_selected_leaves_the_model(tmp_path: Path) -> None:
    """A cell in which no candidate earned anything ends with the adapter it started from."""

    class Hopeless(TeacherLearner):
        def sample(self, adapter, prompts, seeds, sampling, on_done):  # type: ignore[no-untyped-def]
            return [Completion(text="I cannot do that.", tokens=(0,), finished=True)] * len(prompts)

    config, results = tiny_config(), Results(root=tmp_path)
    learner = Hopeless(answers={})
    run_grid(results, config, parse_grid("none"), range(1), lambda: stub_context(results, config, learner), Progress())
    assert learner.num_finetunings == 1
    assert results.read("cells")["adapter"].n_unique() == 1
    assert results.read("rounds")["num_selected"].sum() == 0


def test_a_grid_starts_from_a_given_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is copied into the folder, evaluated as the start, and no other is trained; another one is refused."""
    name = "tritonrl.harness.policy.model.states.identify_state"
    monkeypatch.setattr(name, lambda folder: (folder / "state.json").read_text())
    given = tmp_path / "given"
    given.mkdir()
    (given / "state.json").write_text(json.dumps({"skill": 1}))
    config, results = tiny_config(sft={"num_pairs": 0}, **REAL), Results(root=tmp_path / "out")
    learner = TeacherLearner(answers=solutions(config, [0, 1]))
    assert take_start(results, given) == find_start(results)
    line = evolve(stub_context(results, config, learner), given=find_start(results))
    outcome = run_grid(results, config, parse_grid("none,msct"), range(2), lambda: line, Progress())
    assert (outcome.num_complete, outcome.num_failed) == (6, 0)
    starts = results.read("cells").filter(pl.col("cell") == "sft")
    assert starts.height == 2
    assert (starts["train_s"] == 0.0).all()
    for other in (None, tmp_path / "other"):
        with pytest.raises(DriftError, match="another start"):
            take_start(results, other and shutil.copytree(given, other) and _with_skill(other, 2))


def _with_skill(folder: Path, skill: int) -> Path:
    (folder / "state.json").write_text(json.dumps({"skill": skill}))
    return folder


def test_what_training_would_have_accepted_is_told(real: Results) -> None:
    """The audit's right samples were accepted, what failed before the full run was not, and a start has no verifier."""
    evaluation = real.read("evaluation")
    assert evaluation.filter(pl.col("cell") == "sft")["accepted"].is_null().all()
    trained = evaluation.filter(pl.col("cell") != "sft")
    assert (trained["accepted"] == trained["correct"]).all()
