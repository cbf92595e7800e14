"""Where stand-ins sit an exam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from attrs import define, evolve, field
from tritonrl.core.config import Config
from tritonrl.core.corpus import render
from tritonrl.core.outcome import Outcome
from tritonrl.core.recipe.learner import Completion
from tritonrl.core.task import Profile, Task
from tritonrl.core.text.prompts import user_message
from tritonrl.harness.display import Progress
from tritonrl.harness.evaluation import evaluation as exam
from tritonrl.harness.evaluation.asked import Criterion, TaskSelection
from tritonrl.harness.evaluation.evaluation import (
    Evaluation,
    EvaluationIdentity,
    identify_selection,
)
from tritonrl.harness.evaluation.finished import EvaluationResult
from tritonrl.harness.evaluation.suite_criterion import BySuite, SuiteVerdict
from tritonrl.harness.study.pipeline import CellContext
from tritonrl.harness.study.store import Results
from tritonrl.harness.tasks.suites import load_suite
from typer.testing import Result

from ... import command
from ..context_stub import TeacherLearner, TextJudge, stub_context, tiny_config
from ..datasets.made_up import SMALL_PROBLEM
from ..kernels import pointwise

TIMES = ("verify_s", "suite_s")
FOREIGN = {"level1/1_First.py": SMALL_PROBLEM, "level2/1_Second.py": SMALL_PROBLEM.replace("200", "100")}
CORPUS = TaskSelection(suite="core13:heldout", limit=2)


def invoke(*arguments: object) -> Result:
    """Run `tritonrl eval` in this process."""
    return command.invoke("eval", *arguments)


def judge_by_text(task: Task, source: str) -> SuiteVerdict:
    """A criterion that is content with the word triton."""
    return SuiteVerdict(correct="triton" in source, sizes=Profile.SMALL, excess=0.005, seconds=0.1)


class UnaskedJudge(TextJudge):
    """Has a name, and judges nothing."""

    def verify_many(self, *_: Any) -> Any:
        raise AssertionError("an answer was to be judged")


@define
class MendingLearner(TeacherLearner):
    """Gives the teacher's solution, in some samples, to a request that says why an answer was refused."""

    def sample(
        self, adapter: Path | None, prompts: Sequence[str], seeds: Sequence[int], *rest: Any
    ) -> list[Completion]:
        refusal = f"ast: {Outcome.NO_KERNEL}"
        requests = {prompt: prompt.partition("\nThis answer was tried:\n")[0] for prompt in prompts}
        assert all(prompt == request or refusal in prompt for prompt, request in requests.items())
        return super().sample(adapter, [requests[prompt] for prompt in prompts], seeds, *rest)


@define
class Room:
    """Where stand-ins sit an exam; counts how often a line was opened. `cut_every` is the learner's."""

    root: Path
    config: Config = field(factory=lambda: tiny_config(evaluation={"samples_per_task": 3}))
    num_opened: int = 0
    num_samplings: int = 0
    cut_every: int = 1_000_003

    def sit(
        self,
        questions: TaskSelection,
        *,
        criterion: Criterion = Criterion.BOTH,
        adapter: str | None = None,
        failing_at: int | None = None,
        by_suite: BySuite = judge_by_text,
        judge: TextJudge | None = None,
        turns: int = 1,
    ) -> EvaluationResult:
        """One sitting; the teacher's solutions are known for every task asked."""
        with self._enter(questions, criterion, adapter, failing_at, by_suite, judge, turns) as entered:
            return entered.run()

    def draw(self, questions: TaskSelection) -> int:
        """As `sit`, up to where answers are judged; nobody is asked to."""
        with self._enter(questions, Criterion.BOTH, None, None, judge_by_text, UnaskedJudge()) as entered:
            return entered.draw()

    @contextmanager
    def _enter(
        self,
        questions: TaskSelection,
        criterion: Criterion,
        adapter: str | None,
        failing_at: int | None,
        by_suite: BySuite,
        judge: TextJudge | None,
        turns: int = 1,
    ) -> Iterator[Evaluation]:
        results = Results(root=self.root)
        answers = {}
        if questions.suite is not None:
            for entry in load_suite(questions.suite, levels=questions.levels, num=questions.limit).tasks:
                answers[user_message(entry.shown)] = entry.solution or pointwise("x")
        else:
            answers = {user_message(task): render(task.task_id).solution for task in exam.evaluation_tasks(self.config)}
        learner = MendingLearner(answers=answers, failing_at=failing_at, cut_every=self.cut_every)

        @contextmanager
        def open_context() -> Iterator[CellContext]:
            self.num_opened += 1
            line = stub_context(results, self.config, learner)
            yield line if judge is None else evolve(line, judge=judge)

        identity = EvaluationIdentity(
            config=self.config,
            policy="",
            backend="",
            tasks=identify_selection(self.config, questions),
            criterion=criterion,
            adapter=adapter,
            turns=turns,
        )
        try:
            yield Evaluation(
                results=results,
                identity=identity,
                questions=questions,
                open_context=open_context,
                progress=Progress(),
                by_suite=lambda _: by_suite,
            )
        finally:
            self.num_samplings += learner.num_samplings


def without_times(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of an exam but for what differs from run to run."""
    return frame.drop(TIMES).to_dicts()
