"""The verifier as an object that judges completions, and as a reward function of other trainers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from tritonrl.core.config import Config, VerifierConfig
from tritonrl.core.corpus import render
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.serialisation import canonical_json, to_plain
from tritonrl.harness.adapters.rewards import compute_score, make_trl_reward
from tritonrl.harness.adapters.scorer import Scorer, load_task, load_tasks, verify
from tritonrl.harness.errors import TaskError, UsageError
from tritonrl.harness.settings import load_config

from ..kernels import ADD, add

RIGHT = f"Here it is:\n```python\n{add()}```\n"
WRONG = f"```python\n{add('x - y')}```"


@pytest.fixture(scope="module")
def scorer() -> Iterator[Scorer]:
    """A scorer without a timing, so that a right kernel is worth exactly 0.7."""
    with Scorer(Config(verifier=VerifierConfig(timing="none")), jobs=2) as made:
        yield made


def test_completions_are_worth_what_they_achieve(scorer: Scorer) -> None:
    """A right kernel is worth 0.7, one that compiles 0.3, and text without code nothing."""
    assert scorer.score(ADD, RIGHT) == 0.7
    assert scorer.score(ADD, WRONG) == 0.3
    assert scorer.score(ADD, "I cannot do that.") == 0.0


def test_verdicts_say_why(scorer: Scorer) -> None:
    """A verdict has its stages, its seconds and, where the kernel is not right, a reason with the stage in it."""
    right, wrong, none = scorer.judge_many([(ADD, RIGHT), (ADD, WRONG), (ADD, "I cannot do that.")])
    assert [verdict.correct for verdict in (right, wrong, none)] == [True, False, False]
    assert right.reason == ""
    assert wrong.reason.startswith(f"tiny: {Outcome.WRONG_VALUES}")
    assert none.reason == f"ast: {Outcome.NO_CODE}"
    assert [result.stage for result in wrong.stages] == list(Stage)
    assert right.seconds >= 0.0
    assert [scorer.reward(verdict) for verdict in (right, wrong, none)] == [0.7, 0.3, 0.0]


def test_a_scorer_gives_what_its_goal_says(scorer: Scorer) -> None:
    """Where correctness alone is wanted, a kernel that compiles and is wrong is worth nothing."""
    verdicts = scorer.judge_many([(ADD, RIGHT), (ADD, WRONG)])
    with Scorer(load_config(settings=["reward.goal=correctness"])) as strict:
        assert [strict.reward(verdict) for verdict in verdicts] == [0.7, 0.0]


def test_a_batch_without_code_is_warned_of(scorer: Scorer) -> None:
    """Several completions that all hold no code are nearly always a fault of the prompts, and one alone is not."""
    with pytest.warns(RuntimeWarning, match=r"none of these 2 completions holds code.*'nothing'.*chat messages"):
        assert scorer.score_many([(ADD, "nothing"), (ADD, "?")]) == [0.0, 0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scorer.score(ADD, "nothing") == 0.0
        assert scorer.score_many([(ADD, "nothing"), (ADD, WRONG)]) == [0.0, 0.3]


def test_one_kernel_is_verified_without_a_scorer(tmp_path: Path) -> None:
    """A path is read, and a source is a completion too; the sandbox is gone afterwards."""
    path = tmp_path / "add.py"
    path.write_text(add())
    assert verify(ADD, path).correct
    assert verify(ADD, add("x - y")).outcome is Outcome.WRONG_VALUES


def test_suites_are_loaded_by_name() -> None:
    """So many tasks a level are drawn, the same ones each time; an unknown suite is an error that names the others."""
    tasks = load_tasks("core13:train", 2)
    assert [task.level for task in tasks] == [1, 1, 2, 2]
    assert load_tasks("core13:train", 2) == tasks
    assert load_task(tasks[0].task_id) == tasks[0]
    with pytest.raises(UsageError, match="core13:heldout"):
        load_tasks("core14:train")


def test_a_scorer_without_a_configuration_draws_its_seed() -> None:
    """No file knows on which inputs it verifies; a configuration that is given keeps its seed."""
    with Scorer() as one, Scorer() as other, Scorer(Config(verifier=VerifierConfig(seed=7))) as third:
        seeds = [scorer.verifier.context.oracle.seed for scorer in (one, other, third)]
    assert len(set(seeds)) == 3
    assert 0 not in seeds
    assert seeds[2] == 7


def test_trl_gets_rewards_in_the_order_of_the_completions(scorer: Scorer) -> None:
    """Text and conversations are scored alike, tasks come from a column, further columns are no matter."""
    reward = make_trl_reward(scorer)
    completions = [WRONG, [{"role": "assistant", "content": RIGHT}], "nothing", RIGHT]
    tasks = [ADD, to_plain(ADD), canonical_json(ADD), ADD]
    assert reward(prompts=[""] * 4, completions=completions, task=tasks, other=[1] * 4) == [0.3, 0.7, 0.0, 0.7]


def test_trl_can_log_why(scorer: Scorer) -> None:
    """Where TRL offers functions to log with, they get the reasons in order and the rates of the batch."""
    extra: dict[str, list[object]] = {}
    metrics: dict[str, float] = {}
    reward = make_trl_reward(scorer)
    log = {"log_extra": extra.__setitem__, "log_metric": metrics.__setitem__}
    reward(completions=[RIGHT, WRONG, WRONG, "?"], task=[ADD] * 4, **log)
    assert extra["reason"] == ["correct", *[scorer.judge(ADD, WRONG).reason] * 2, f"ast: {Outcome.NO_CODE}"]
    assert metrics == {"tritonrl/valid": 0.75, "tritonrl/compiled": 0.75, "tritonrl/correct": 0.25}


def test_a_data_set_without_tasks_is_an_error(scorer: Scorer) -> None:
    """A missing column, a wrong length or an unknown task stops the trainer at once."""
    reward = make_trl_reward(scorer)
    with pytest.raises(UsageError, match="task_id"):
        reward(prompts=[""], completions=[RIGHT])
    with pytest.raises(UsageError, match="1 completions for 2 tasks"):
        reward(prompts=[""], completions=[RIGHT], task=[ADD, ADD])
    with pytest.raises(UsageError, match="no-such-task"):
        reward(prompts=[""], completions=[RIGHT], task_id=["no-such-task"])


def test_a_closed_scorer_says_so() -> None:
    """Outside its block a scorer names the block, and not what was closed with it."""
    with Scorer() as closed:
        pass
    with pytest.raises(UsageError, match="the scorer is closed"):
        closed.score(ADD, "nothing")


def test_jobs_are_at_least_one() -> None:
    """No job at all is refused before a sandbox is made."""
    with pytest.raises(UsageError, match="jobs: must be >= 1, got 0"):
        Scorer(jobs=0)


@pytest.mark.parametrize(
    ("completion", "shown"), [(None, "None"), (["a"], "a list of str"), (7, "int"), (b"x", "bytes"), ({}, "dict")]
)
def test_a_completion_of_another_type_is_named(scorer: Scorer, completion: object, shown: str) -> None:
    """The caller learns which completion it is, what was expected and what came."""
    with pytest.raises(UsageError, match=f"completion 1: expected text, or a list of messages.*, got {shown}$"):
        scorer.score_many([(ADD, "nothing"), (ADD, completion)])  # type: ignore[list-item]


@pytest.mark.parametrize("task", [None, 7, ["a"], [("task_id", "x")]])
def test_a_task_of_another_type_is_named(scorer: Scorer, task: object) -> None:
    """What a task may be is said where something else came."""
    with pytest.raises(UsageError, match=r"not a task: expected a record, its JSON, an id .* TASK\.py, got"):
        scorer.score(task, "nothing")  # type: ignore[arg-type]


def test_a_file_names_its_task(scorer: Scorer, tmp_path: Path) -> None:
    """A path to a task, as text or not, is scored as that task; it is read anew where it changed."""
    path = tmp_path / "add.py"
    path.write_text(ADD.source)
    assert scorer.score(str(path), RIGHT) == 0.7
    assert load_task(path).task_id.startswith("file-add-")
    assert load_task(path) is load_task(str(path))
    path.write_text("x = 1")
    with pytest.raises(TaskError, match=r"file-add-.* the reference defines no Model"):
        load_task(path)
    with pytest.raises(UsageError, match=r"not a task: .*absent\.py: No such file"):
        load_task(str(tmp_path / "absent.py"))


def test_a_corpus_id_names_its_task() -> None:
    """An id is enough of a task."""
    task_id = "l1-softmax-00c0ffee12345678"
    assert load_task(task_id) == render(task_id).task


def test_verl_scores_with_one_scorer_for_the_process() -> None:
    """verl's signature gives the reward by the default configuration, which has no timing, and why beside it."""
    right = compute_score("tritonrl", RIGHT, to_plain(ADD), extra_info={"split": "train"}, reward_router_address=None)
    wrong = compute_score(data_source="tritonrl", solution_str=WRONG, ground_truth=canonical_json(ADD))
    assert (right["score"], right["correct"], right["reason"]) == (0.7, 1.0, "")
    assert (wrong["score"], wrong["correct"], wrong["compiled"]) == (0.3, 0.0, 1.0)
    assert str(Outcome.WRONG_VALUES) in wrong["reason"]
    assert right.keys() == wrong.keys()
