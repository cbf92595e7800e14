"""The verifier as a reward function of other trainers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tritonrl.core.config import Config, VerifierConfig
from tritonrl.core.corpus import render
from tritonrl.core.serialisation import canonical_json, to_plain
from tritonrl.harness.adapters import Scorer, compute_score, make_trl_reward, read_task
from tritonrl.harness.errors import TaskError, UsageError

from .kernels import ADD, add

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
    assert read_task(path).task_id.startswith("file-add-")
    assert read_task(path) is read_task(str(path))
    path.write_text("x = 1")
    with pytest.raises(TaskError, match=r"file-add-.* the reference defines no Model"):
        read_task(path)
    with pytest.raises(UsageError, match=r"not a task: .*absent\.py: No such file"):
        read_task(str(tmp_path / "absent.py"))


def test_a_corpus_id_names_its_task() -> None:
    """An id is enough of a task."""
    task_id = "l1-softmax-00c0ffee12345678"
    assert read_task(task_id) == render(task_id).task


def test_verl_scores_with_one_scorer_for_the_process() -> None:
    """verl's signature gives the reward by the default configuration, which has no timing."""
    assert compute_score("corpus", RIGHT, to_plain(ADD), extra_info={"split": "train"}) == 0.7
    assert compute_score("corpus", WRONG, canonical_json(ADD)) == 0.3
