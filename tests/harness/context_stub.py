"""A learner and a judge that stand in for a model and a verifier where a test is about the line between them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import Factory, define
from tritonrl.core.candidate import Candidate, TimingReport
from tritonrl.core.config import Config, merge
from tritonrl.core.corpus import has_teacher, render
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.recipe.extensions import VerifierSpec
from tritonrl.core.recipe.learner import (
    Answer,
    Completion,
    OnDone,
    OnDrawn,
    OnStep,
    PolicyUpdate,
    Sampling,
    Training,
    UpdateFigures,
)
from tritonrl.core.task import Task
from tritonrl.core.text.prompts import assistant_message, user_message
from tritonrl.core.verdict import StageResult, Verdict
from tritonrl.harness.display import Progress
from tritonrl.harness.errors import TaskError
from tritonrl.harness.study.pipeline import CellContext
from tritonrl.harness.study.store import Results
from tritonrl.harness.study.task_draws import evaluation_tasks, root_seed, round_tasks
from tritonrl.harness.tables import TABLES, read_table

KERNEL = "import triton\n\n\n@triton.jit\ndef kernel():\n    pass\n\n\nclass ModelNew:\n    pass\n"
"""What stands for an answer to a task without a teacher."""
BROKEN = "```python\nclass ModelNew:\n    pass\n```"


def tiny_config(**changes: object) -> Config:
    """A run of the smallest size that still has rounds, both levels and an evaluation."""
    return merge(
        {
            "sft": {"num_pairs": 4},
            "rl": {"rounds": 2, "tasks_per_round": 2, "samples_per_task": 3, "keep": 1},
            "curriculum": {"window": 1},
            "evaluation": {"level1_tasks": 1, "level2_tasks": 1, "samples_per_task": 1},
            "verifier": {"timing": "simulated"},
            **changes,
        }
    )


def solutions(config: Config, seeds: Sequence[int]) -> dict[str, str]:
    """Teacher solutions by prompt, or what stands for one, for every task that a run of these seeds can draw."""
    tasks = list(evaluation_tasks(config))
    for seed in seeds:
        for number in range(config.rl.rounds):
            for level in (1, 2):
                levels = [level] * config.rl.tasks_per_round
                tasks += round_tasks(root_seed(config, seed), number, levels, config.suite)
    return {
        user_message(task): render(task.task_id).solution if has_teacher(task.task_id) else KERNEL for task in tasks
    }


@define
class TeacherLearner:
    """Gives the teacher's solution or a broken one, by seed; each update makes it better.

    `failing_at` is the number of the call to `sample` that raises; `pause_s` is slept in each call; `context` is the
    number of characters that fit. Of the seeds that `cut_every` divides, answers come to no end.
    """

    answers: dict[str, str]
    fingerprint: str = "teacher"
    failing_at: int | None = None
    pause_s: float = 0.0
    context: int = 100_000
    num_samplings: int = 0
    num_finetunings: int = 0
    cut_every: int = 1_000_003
    reinforced: list[tuple[Path | None, tuple[Answer, ...], Path | None]] = Factory(list)

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        return [len(prompt) + len(answer) <= self.context for prompt, answer in pairs]

    def sample(
        self,
        adapter: Path | None,
        prompts: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        on_done: OnDone,
        on_drawn: OnDrawn = lambda *_: None,
    ) -> list[Completion]:
        self.num_samplings += 1
        time.sleep(self.pause_s)
        if self.num_samplings == self.failing_at:
            raise RuntimeError("the model is on fire")
        skill = _skill(adapter)
        completions = [
            Completion(
                text=assistant_message(self.answers[prompt]) if seed % 5 <= skill else BROKEN,
                tokens=(seed % 7, 0),
                finished=seed % self.cut_every != 0,
            )
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        for position, completion in reversed(list(enumerate(completions))):
            on_drawn(position, completion)
        return completions

    def reinforce(
        self,
        adapter: Path | None,
        answers: Sequence[Answer],
        update: PolicyUpdate,
        start: Path | None,
        target: Path,
        on_step: OnStep,
    ) -> UpdateFigures:
        self.num_finetunings += 1
        self.reinforced.append((adapter, tuple(answers), start))
        target.mkdir(parents=True)
        (target / "state.json").write_text(json.dumps({"skill": _skill(adapter) + 1}))
        steps = tuple(range(update.minibatches))
        return UpdateFigures(
            losses=tuple(-0.5 for _ in steps),
            gradient_norms=tuple(1.0 + step for step in steps),
            clip_shares=tuple(0.25 for _ in steps),
            kl=0.125,
            entropy=1.5,
        )

    def finetune(
        self, adapter: Path | None, pairs: Sequence[tuple[str, str]], training: Training, target: Path, on_step: OnStep
    ) -> list[float]:
        self.num_finetunings += 1
        time.sleep(self.pause_s)
        skill = _skill(adapter)
        target.mkdir(parents=True)
        (target / "state.json").write_text(json.dumps({"skill": skill + 1}))
        return [1.0 / (step + 1 + skill) for step in range(len(pairs))]


def _skill(adapter: Path | None) -> int:
    skill: int = json.loads((adapter / "state.json").read_text())["skill"] if adapter else 0
    return skill


@define
class TextJudge:
    """Finds a source correct if it launches a kernel; its seconds differ from call to call, as a real judge's do."""

    backend: str = "interpret"
    ahead: list[tuple[str, str]] = Factory(list)
    """The (task's id, source) of what was to be verified ahead."""

    @contextmanager
    def verify_ahead(self, spec: VerifierSpec, jobs: int) -> Iterator[Callable[[Task, str], None]]:
        yield lambda task, source: self.ahead.append((task.task_id, source))

    def verify_many(
        self,
        pairs: Sequence[tuple[Task, str]],
        spec: VerifierSpec,
        jobs: int = 1,
        on_done: Callable[[int, Verdict], None] | None = None,
        on_bad_task: Callable[[int, Exception], None] | None = None,
    ) -> list[Verdict]:
        verdicts = []
        for index, (task, source) in enumerate(pairs):
            try:
                verdicts.append(self._verdict(task, source, spec))
            except TaskError as error:
                if on_bad_task is None:
                    raise
                on_bad_task(index, error)
            else:
                if on_done is not None:
                    on_done(index, verdicts[-1])
        return verdicts

    def gather(self, task: Task, source: str, spec: VerifierSpec) -> Candidate:
        timing = TimingReport(
            simulated=True, calibrated=spec.calibrated, candidate_us=(5.0, 5.5), reference_us=(10.0,), seconds=0.0
        )
        return Candidate(task_id=task.task_id, source=source).with_evidence(timing=timing)

    def _verdict(self, task: Task, source: str, spec: VerifierSpec) -> Verdict:
        good = "triton.jit" in source
        outcomes = [Outcome.PASSED if good else Outcome.NO_KERNEL]
        outcomes += [Outcome.PASSED if good else Outcome.NOT_RUN] * 4
        return Verdict(
            task_id=task.task_id,
            candidate=Candidate(task_id=task.task_id, source=source).sha256,
            backend=self.backend,
            stages=tuple(
                StageResult(stage=stage, outcome=outcome, seconds=time.perf_counter() % 1)
                for stage, outcome in zip(Stage, outcomes, strict=True)
            ),
            estimated_speedup=2.0 if good else None,
        )


def stub_context(
    results: Results, config: Config, learner: TeacherLearner | None = None, progress: Progress | None = None
) -> CellContext:
    """A line of stand-ins over a results folder."""
    return CellContext(
        config=config,
        learner=learner or TeacherLearner(answers=solutions(config, range(2))),
        judge=TextJudge(),
        work=results.work,
        progress=progress or Progress(),
    )


def equal_but_for_times(first: Path, second: Path) -> bool:
    """Whether two results folders hold the same tables, apart from elapsed times."""
    for table in TABLES.values():
        ours, theirs = (read_table(table, folder / f"{table.name}.parquet") for folder in (first, second))
        if not ours.drop(table.times).equals(theirs.drop(table.times), null_equal=True):
            return False
    return True
