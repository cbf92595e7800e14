"""What rounds learn from: groups, answers that were cut, and the model that a policy gradient leaves."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import polars as pl
import pytest
from attrs import evolve
from tritonrl.core.config import Config, merge
from tritonrl.core.recipe.advantages import weigh_tokens
from tritonrl.core.recipe.extensions import VerifierSpec
from tritonrl.core.recipe.learner import Completion
from tritonrl.core.task import Task
from tritonrl.core.verdict import Verdict
from tritonrl.harness.display import Plain, Progress
from tritonrl.harness.errors import TaskError
from tritonrl.harness.study.grid import parse_grid, run_grid
from tritonrl.harness.study.learning import Sample, choose, weigh_answers
from tritonrl.harness.study.store import Results
from tritonrl.harness.study.task_draws import evaluation_tasks, root_seed, round_tasks

from ..context_stub import TeacherLearner, TextJudge, solutions, stub_context, tiny_config

RLOO = {"rl": {"algorithm": "rloo", "rounds": 2, "tasks_per_round": 3, "samples_per_task": 6, "minibatches": 2}}


@pytest.fixture(scope="module")
def task() -> Task:
    """Any task."""
    return evaluation_tasks(tiny_config())[0]


def group(task: Task, marks: str) -> list[Sample]:
    """Samples of a task by letters: right, wrong, partly right, or cut at the limit though right."""
    rewards = {"r": 0.7, "w": 0.0, "p": 0.3, "c": 0.7}
    return [
        Sample(
            task=task,
            completion=Completion(text=f"{number}", tokens=(number,), finished=mark != "c"),
            source=f"{number}",
            is_correct=mark in "rc",
            reward=rewards[mark],
        )
        for number, mark in enumerate(marks)
    ]


@pytest.mark.parametrize(
    ("marks", "algorithm", "skip_solved", "expected"),
    [
        ("rwrw", "rloo", False, (0, 1, 2, 3)),
        ("rwcw", "rloo", False, (0, 1, 3)),
        ("cccw", "rloo", False, ()),
        ("rrrr", "rloo", False, ()),
        ("wpwp", "rloo", False, ()),
        ("rpww", "grpo", True, (0, 1, 2, 3)),
        ("rrrr", "best-of-n", False, (0, 1)),
        ("rrrr", "best-of-n", True, ()),
        ("wprw", "best-of-n", True, (2, 1)),
    ],
)
def test_which_samples_are_learned_from(
    task: Task, marks: str, algorithm: str, skip_solved: bool, expected: tuple[int, ...]
) -> None:
    """A policy gradient takes finished answers of groups that have something to compare, best-of-n the best."""
    config = merge({"rl": {"algorithm": algorithm, "skip_solved": skip_solved, "keep": 2}}).rl
    other = group(task, "ww")
    assert choose([other, group(task, marks)], config) == tuple(2 + place for place in expected)


def test_all_right_groups_teach_speed_unless_they_are_left_out(task: Task) -> None:
    """Where rewards of right answers differ, they are compared, but for `skip_solved`."""
    fast = [evolve(sample, reward=0.7 + 0.1 * number) for number, sample in enumerate(group(task, "rr"))]
    config = merge({"rl": {"algorithm": "rloo"}}).rl
    assert choose([fast], config) == (0, 1)
    assert choose([fast], evolve(config, skip_solved=True)) == ()


def test_solved_groups_are_held_where_they_weigh_something(task: Task) -> None:
    """All answers of a group that is all right, and none of a mixed one, gain the weight; an all-wrong one is left."""
    config = merge({"rl": {"algorithm": "rloo", "solved_weight": 0.2}}).rl
    groups = [group(task, "rr"), group(task, "ww"), group(task, "rw")]
    chosen = choose(groups, config)
    assert chosen == (0, 1, 4, 5)
    # four of the six finished answers are used
    assert [answer.advantage * 6 / 4 for answer in weigh_answers(groups, chosen, config)] == pytest.approx(
        [0.2, 0.2, 0.7, -0.7]
    )


def test_advantages_are_of_the_answers_that_are_used(task: Task) -> None:
    """What was cut is in nobody's baseline; an answer keeps its tokens and its task's prompt."""
    config = merge({"rl": {"algorithm": "rloo"}}).rl
    groups = [group(task, "rwcw"), group(task, "ww")]
    answers = weigh_answers(groups, choose(groups, config), config)
    # three of the five finished answers are used
    assert [answer.advantage for answer in answers] == pytest.approx([0.42, -0.21, -0.21])
    assert [answer.tokens for answer in answers] == [(0,), (1,), (3,)]
    softer = weigh_answers(groups, choose(groups, config), evolve(config, negative_weight=0.5))
    assert [answer.advantage for answer in softer] == pytest.approx([0.42, -0.105, -0.105])


@pytest.mark.parametrize("others", [0, 1, 5])
def test_a_group_weighs_the_same_whatever_others_have_to_compare(task: Task, others: int) -> None:
    """Of a round of six groups a mixed one's part of the token mean does not depend on how many more are mixed."""
    config = merge({"rl": {"algorithm": "rloo"}}).rl
    groups = [group(task, "rwww"), *[group(task, "rrww")] * others, *[group(task, "wwww")] * (5 - others)]
    answers = weigh_answers(groups, choose(groups, config), config)
    weights = weigh_tokens("rloo", [answer.advantage for answer in answers], [1] * len(answers), 1)
    assert weights[0] == pytest.approx(0.7 / 24)


def run(folder: Path, config: Config, learner: TeacherLearner) -> Results:
    """One cell of stand-ins."""
    results = Results(root=folder)
    run_grid(results, config, parse_grid("none"), range(1), lambda: stub_context(results, config, learner), Progress())
    return results


def test_rounds_of_a_policy_gradient(tmp_path: Path) -> None:
    """Each round goes on from the last one's adapter and the cell's start, and its row says what it was like."""
    config = tiny_config(**RLOO)
    learner = TeacherLearner(answers=solutions(config, [0]), cut_every=3)
    results = run(tmp_path, config, learner)
    rounds = results.read("rounds")
    assert rounds["clip_share"].to_list() == [0.25, 0.25]
    assert rounds["gradient_norm"].to_list() == [1.5, 1.5]
    assert rounds["kl"].to_list() == [0.125] * 2
    assert rounds["entropy"].to_list() == [1.5] * 2
    assert rounds["mean_tokens"].to_list() == [2.0, 2.0]
    assert all(0.0 < share < 1.0 for share in rounds["finished_share"])
    candidates = results.read("candidates")
    for row in rounds.iter_rows(named=True):
        own = candidates.filter(pl.col("round") == row["round"])
        by_task = own.group_by("slot").agg(pl.col("correct").n_unique() > 1, pl.col("candidate").n_unique())
        assert row["mixed_groups"] == by_task["correct"].mean()
        assert row["distinct_answers"] == by_task["candidate"].mean()
        assert row["num_selected"] == own["selected"].sum() > 0
    (first, answers, begun), (second, _, same) = learner.reinforced
    assert first == begun == same
    assert second not in (None, first)
    assert sum(answer.advantage for answer in answers) == pytest.approx(0.0, abs=1e-9)
    assert results.read("training").filter(pl.col("phase") == "rl").height == 4


def test_a_killed_run_resumes_to_the_same_rounds(tmp_path: Path) -> None:
    """What was learned before the kill is not learned again, and the tables are those of a run in one go."""
    config = tiny_config(**RLOO)
    answers = solutions(config, [0])
    whole = run(tmp_path / "whole", config, TeacherLearner(answers=answers))
    # the start's evaluation, and the first round's samples, come before
    run(tmp_path / "killed", config, TeacherLearner(answers=answers, failing_at=3))
    resumed = TeacherLearner(answers=answers)
    killed = run(tmp_path / "killed", config, resumed)
    assert len(resumed.reinforced) == 1
    for name in ("rounds", "candidates", "training"):
        frame = whole.read(name)
        kept = [column for column in frame.columns if not column.endswith("_s")]
        assert killed.read(name).select(kept).equals(frame.select(kept), null_equal=True)


def test_no_audit_in_training(tmp_path: Path) -> None:
    """Without it training samples have no audit's verdict, and rounds no audit's accuracy; equal texts are one call."""
    config = tiny_config(rl={"rounds": 1, "tasks_per_round": 2, "samples_per_task": 6, "audit": False, "keep": 1})
    results = Results(root=tmp_path)
    learner = TeacherLearner(answers=solutions(config, [0]))
    context = stub_context(results, config, learner)
    asked: list[int] = []
    judge = context.judge

    class Counting:
        backend = judge.backend
        gather = judge.gather
        verify_ahead = judge.verify_ahead

        def verify_many(self, pairs, *rest):  # type: ignore[no-untyped-def]
            asked.append(len(pairs))
            assert len({(task.task_id, source) for task, source in pairs}) == len(pairs)
            return judge.verify_many(pairs, *rest)

    run_grid(results, config, parse_grid("none"), range(1), lambda: evolve(context, judge=Counting()), Progress())
    assert results.read("candidates")["audit_correct"].null_count() == 12
    assert results.read("rounds")["level1_audit_accuracy"].null_count() == 1
    assert set(results.read("stages")["verifier"]) == {"training"}
    # all samples of the round, and none of the exams
    assert len(judge.ahead) == 12
    # start, round and end; a task has a right text and a wrong one at most
    assert len(asked) == 3
    assert asked[1] <= 4


def test_a_failing_reference_costs_its_own_group_alone(tmp_path: Path) -> None:
    """The round goes on with the others, says which was passed over and why, and samples keep their numbers."""
    config = tiny_config(rl={"rounds": 1, "tasks_per_round": 3, "samples_per_task": 4, "audit": False})
    results = Results(root=tmp_path)
    told = StringIO()
    context = stub_context(results, config, TeacherLearner(answers=solutions(config, [0])), Plain(stream=told))
    bad = round_tasks(root_seed(config, 0), 0, (1, 1, 1))[1]

    class Failing(TextJudge):
        def _verdict(self, task: Task, source: str, spec: VerifierSpec) -> Verdict:
            if task.task_id == bad.task_id:
                raise TaskError(f"{task.task_id}: running the reference failed")
            return super()._verdict(task, source, spec)

    outcome = run_grid(
        results, config, parse_grid("none"), range(1), lambda: evolve(context, judge=Failing()), context.progress
    )
    assert outcome.num_failed == 0
    found = results.read("candidates").filter(pl.col("phase") == "rl")
    assert set(found["slot"]) == {0, 2}
    assert found["sample"].to_list() == [0, 1, 2, 3] * 2
    assert f"tasks passed over: {bad.task_id}: running the reference failed" in told.getvalue()
