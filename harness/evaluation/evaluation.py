"""An exam: what a policy gets right of a suite, sample by sample, written as the `evaluation` table.

On our own suites the audit verifier judges. On a suite that is not ours results are given twice, side by side: by its
own criterion (`harness.evaluation.suite_criterion`), so that they can be compared with published ones, and by the
audit; where the two disagree is a finding about both.

All answers are drawn before the first is judged, so that they can be judged elsewhere (`open`). They are kept by the
chunk, verdicts as they are found, and the table is written last. So the same command continues what was killed, and
does nothing but read a finished exam; a folder that holds another exam is refused with what differs.

In a further turn the model reads one message (`core.text.prompts.retry_message`), with the audit's reason beside the
answer that was given, so that any policy can take one. The reason is the audit's own, so what is right after several
turns is no longer judged blindly: compare it with other figures of several turns alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from ...core.config import Config
from ...core.outcome import Outcome
from ...core.recipe.extensions import AUDIT
from ...core.recipe.learner import Sampling
from ...core.seeds import derive
from ...core.serialisation import fingerprint, to_plain
from ...core.task import Task
from ...core.text.extraction import extract
from ...core.text.prompts import refusal_message, retry_message, user_message
from ...core.verdict import Verdict
from ..display import Progress
from ..errors import UsageError
from ..side_by_side import cancelling_pool
from ..study.pipeline import CellContext, Model, draw_answers
from ..study.rows import Attempt, evaluation_row, verdict_figures
from ..study.store import Results, RunIdentity, require_folder
from ..study.task_draws import evaluation_tasks, root_seed
from ..tables import TABLES, Row, write_table
from ..tasks.suites import Suite, SuiteTask, identify_suite, load_suite
from ..work import write_atomically
from .asked import Criterion, TaskSelection
from .finished import EVALUATION, EvaluationResult, read_finished
from .suite_criterion import BySuite, SuiteVerdict, criterion_of

_CONFIG = ("seed", "policy", "verifier", "timing", "evaluation", "limits")
"""The parts of a configuration that an exam's result depends on."""
_CHUNK = 256
"""Completions that a killed exam may lose; as many as keep a GPU busy."""


@frozen(kw_only=True)
class EvaluationIdentity(RunIdentity):
    tasks: str
    criterion: Criterion
    adapter: str | None = field(default=None)
    drawn_with: dict[str, Any] | None = field(default=None)
    """The versions of the packages that drew the answers, where that was done elsewhere."""
    asked: dict[str, Any] | None = field(default=None)
    """The options that chose the tasks, and how many there are; known once the suite is prepared."""
    turns: int = 1
    """Answers a sample may give, each after the first with the reason why the one before was refused."""

    def training(self) -> dict[str, str]:
        """Nothing: an exam trains on no data."""
        return {}

    def notes(self) -> dict[str, Any]:
        """What was asked for, in words: `tasks` is a fingerprint."""
        return {} if self.asked is None else {"asked": self.asked}

    def plain(self) -> dict[str, Any]:
        """As plain data, without what an exam's result does not depend on."""
        plain = super().plain()
        config = {key: value for key, value in plain["config"].items() if key in _CONFIG}
        exam = {"tasks": self.tasks, "criterion": self.criterion.value, "adapter": self.adapter}
        elsewhere = {} if self.drawn_with is None else {"drawn_with": self.drawn_with}
        turns = {} if self.turns == 1 else {"turns": self.turns}
        return {**plain, "config": config, "exam": exam | elsewhere | turns}


@frozen(kw_only=True)
class Evaluation:
    """An exam in its folder; `open_context` is called only where there is something to draw or to judge.

    `identity` lacks what only a loaded model tells (policy and backend), which is compared once that is known.
    """

    results: Results
    identity: EvaluationIdentity
    questions: TaskSelection
    open_context: Callable[[], AbstractContextManager[CellContext]]
    progress: Progress
    adapter: Path | None = None
    by_suite: Callable[[CellContext], BySuite] = criterion_of

    def run(self) -> EvaluationResult:
        """Ask what has no answer yet, and judge what has no verdict; raises DriftError in another exam's folder."""
        finished = self._find_finished()
        if finished is not None:
            return finished
        suite = self._prepare(is_sized=False)
        with self.open_context() as context:
            attempts = self._draw(context, suite)
            suite = self._prepare()
            attempts = _of_tasks(attempts, suite)
            rows = self._judge(context, attempts, suite)
            by_turn = [_share_correct(rows)]
            for turn in range(2, self.identity.turns + 1):
                self._ask_again(context, suite, attempts, rows, turn)
                by_turn.append(_share_correct(rows))
        return self._write(suite, attempts, rows, by_turn if len(by_turn) > 1 else ())

    def draw(self) -> int:
        """Ask what has no answer yet, and judge nothing; how many answers there are. Raises as `run`."""
        finished = self._find_finished()
        if finished is not None:
            return finished.frame.height
        suite = self._prepare(is_sized=False)
        with self.open_context() as context:
            return len(self._draw(context, suite))

    def _find_finished(self) -> EvaluationResult | None:
        require_folder(self.results.root)
        _require_same(self.results, self.identity, self.questions)
        return read_finished(self.results.root)

    def _prepare(self, is_sized: bool = True) -> Suite:
        """The suite, without sizes to judge at while answers are drawn: no reference is run for them."""
        self.results.sweep()
        self.progress.phase("preparing tasks" if is_sized else "reading tasks", 0)
        suite = _load(self.identity, self.questions, self.progress.advance, is_sized)
        if not suite.tasks:
            reasons = "; ".join(f"{entry.name}: {entry.reason}" for entry in suite.skipped[:3])
            raise UsageError(f"--suite {suite.name}: no task to ask{f' ({reasons})' if reasons else ''}")
        return suite

    def _draw(self, context: CellContext, suite: Suite) -> list[Attempt]:
        """Every answer, once the folder is this exam's."""
        identity, asked = self.identity, {**to_plain(self.questions), "num_tasks": len(suite.tasks)}
        backend = context.judge.backend
        self.results.claim(evolve(identity, policy=context.learner.fingerprint, backend=backend, asked=asked))
        return _draw_all(context, self._model(), suite.tasks)

    def _model(self) -> Model:
        adapter = self.identity.adapter
        return Model() if adapter is None else Model(key=f"outside {adapter}", folder=self.adapter)

    def _judge(self, context: CellContext, attempts: Sequence[Attempt], suite: Suite) -> list[Row]:
        """A row for each answer, by the audit, by the suite's own criterion, or by both."""
        criterion, pairs = self.identity.criterion, [(attempt.task, attempt.source) for attempt in attempts]
        audits: list[Verdict | str | None] = [None] * len(pairs)
        if not suite.is_foreign or criterion is not Criterion.SUITE:
            context.progress.phase("auditing", len(pairs))
            audits = _audit(context, pairs)
            figures = verdict_figures([audit for audit in audits if isinstance(audit, Verdict)])
            context.progress.metrics("evaluation", 0, figures)
        verdicts: list[SuiteVerdict | None] = [None] * len(pairs)
        if suite.is_foreign and criterion is not Criterion.AUDIT:
            context.progress.phase("judging by the suite's criterion", len(pairs))
            verdicts = _ask_suite(context, pairs, self.by_suite(context))
        return [
            {**evaluation_row(attempt, audit), **_suite_columns(verdict)}
            for attempt, audit, verdict in zip(attempts, audits, verdicts, strict=True)
        ]

    def _ask_again(
        self, context: CellContext, suite: Suite, attempts: list[Attempt], rows: list[Row], turn: int
    ) -> None:
        """Put another answer and its row in the place of each that was refused."""
        places = [place for place, row in enumerate(rows) if row["correct"] is False]
        if not places:
            return
        shown = {entry.index: entry.shown for entry in suite.tasks}
        old = [attempts[place] for place in places]
        new = _draw_again(context, self._model(), old, [rows[place] for place in places], shown, turn)
        for place, attempt, row in zip(places, new, self._judge(context, new, suite), strict=True):
            attempts[place], rows[place] = attempt, row

    def _write(
        self, suite: Suite, attempts: Sequence[Attempt], rows: Sequence[Row], by_turn: Sequence[float]
    ) -> EvaluationResult:
        root, frame, table = self.results.root, EVALUATION.frame(rows), TABLES["sources"]
        sources = {
            row["candidate"]: {"candidate": row["candidate"], "source": attempt.source}
            for attempt, row in zip(attempts, rows, strict=True)
        }
        write_table(table, table.frame(sources.values()), root / "sources.parquet")
        told = {"suite": suite.name, "skipped": [to_plain(entry) for entry in suite.skipped]}
        told |= {"by_turn": list(by_turn)} if by_turn else {}
        write_atomically(root / "suite.json", json.dumps(told, indent=2).encode())
        # last, since its presence says that the exam is finished
        write_table(EVALUATION, frame, root / "evaluation.parquet")
        return EvaluationResult(frame=frame, skipped=suite.skipped, by_turn=tuple(by_turn))


def _draw_all(context: CellContext, model: Model, tasks: Sequence[SuiteTask]) -> list[Attempt]:
    """Draw as many answers to each task as the configuration says."""
    num_samples = context.config.evaluation.samples_per_task
    size, root = max(1, _CHUNK // num_samples), root_seed(context.config, 0)
    sampling = Sampling.of(context.config, context.config.evaluation)
    chunks = [tasks[start : start + size] for start in range(0, len(tasks), size)]
    attempts: list[Attempt] = []
    for number, chunk in enumerate(chunks, start=1):
        spread = [(entry, sample) for entry in chunk for sample in range(num_samples)]
        seeds = [derive(root, "evaluation sample", entry.index, sample) for entry, sample in spread]
        shown, phase = [entry.shown for entry, _ in spread], f"part {number} of {len(chunks)}"
        drawn = draw_answers(context, model, shown, seeds, sampling, phase).value
        attempts += [
            Attempt(
                cell="exam",
                seed=0,
                phase="exam",
                round=None,
                slot=entry.index,
                task=entry.task,
                sample=sample,
                source=extract(text) or "",
                finished=finished,
            )
            for (entry, sample), (text, finished) in zip(spread, drawn, strict=True)
        ]
    return attempts


def _draw_again(
    context: CellContext,
    model: Model,
    attempts: Sequence[Attempt],
    rows: Sequence[Row],
    shown: Mapping[int, Task],
    turn: int,
) -> list[Attempt]:
    """Draw another answer for each attempt, having told why its row's verdict refused it; `shown` is by slot."""
    root, sampling = root_seed(context.config, 0), Sampling.of(context.config, context.config.evaluation)
    drawn: list[tuple[str, bool | None]] = []
    for start in range(0, len(attempts), _CHUNK):
        chunk = list(zip(attempts[start : start + _CHUNK], rows[start : start + _CHUNK], strict=True))
        tasks = [shown[attempt.slot] for attempt, _ in chunk]
        seeds = [derive(root, "evaluation sample", one.slot, one.sample, f"turn {turn}") for one, _ in chunk]
        prompts = [_prompt(context, task, *pair) for task, pair in zip(tasks, chunk, strict=True)]
        drawn += draw_answers(context, model, tasks, seeds, sampling, f"turn {turn}", prompts).value
    return [
        evolve(attempt, source=extract(text) or "", finished=finished)
        for attempt, (text, finished) in zip(attempts, drawn, strict=True)
    ]


def _prompt(context: CellContext, task: Task, attempt: Attempt, row: Row) -> str:
    """Write what an attempt's next turn reads: without the answer where that would leave no room for another."""
    message = f": {row['message']}" if row["message"] else ""
    reason = f"{row['reached']}: {Outcome.from_code(row['outcome'])}{message}"
    prompt = retry_message(task, attempt.source, reason)
    # a second answer is about as long as the first
    (fits,) = context.learner.fits([(prompt, attempt.source)])
    return prompt if fits and attempt.source else f"{user_message(task)}\n{refusal_message(reason)}"


def _share_correct(rows: Sequence[Row]) -> float:
    return sum(row["correct"] is True for row in rows) / len(rows)


def identify_selection(config: Config, questions: TaskSelection) -> str:
    """A fingerprint of the tasks that are asked, without preparing them; raises UsageError."""
    if questions.suite is None:
        return fingerprint([task.task_id for task in evaluation_tasks(config)])
    return identify_suite(
        questions.suite, levels=questions.levels, num=questions.limit, seed=config.seed, picks=questions.tasks
    )


def fingerprint_adapter(folder: Path | None) -> str | None:
    """The identity of an adapter's files, wherever they are; raises UsageError where there is none."""
    if folder is None:
        return None
    from ..policy.model.states import identify_state

    return identify_state(folder)


def _require_same(results: Results, identity: EvaluationIdentity, questions: TaskSelection) -> None:
    """Raise DriftError where the folder holds another exam; other tasks are told in words."""
    wanted, recorded = identity.plain(), results.recorded() or {}
    told = {}
    if recorded.get("exam", {}).get("tasks", identity.tasks) != identity.tasks:
        told["exam.tasks"] = f"exam.tasks: {_tell_other_tasks(recorded.get('asked'), identity, questions)}"
    results.require_same({key: wanted[key] for key in ("config", "versions", "exam")}, told)


def _tell_other_tasks(asked: dict[str, Any] | None, identity: EvaluationIdentity, questions: TaskSelection) -> str:
    """How the tasks that are asked for differ from those of a folder's exam, as far as that is recorded."""
    if asked is None:
        return "other tasks are asked for (--suite, --levels, --limit or --tasks differ)"
    options = to_plain(questions)
    changed = ", ".join(f"--{name}" for name in options if asked[name] != options[name])
    why = f"{changed} differ{'' if ',' in changed else 's'}" if changed else "the suite has changed since"
    # those of a suite that is not ours would have to be prepared to be counted
    is_ours = not (questions.suite or "").startswith("kernelbench:")
    now = f" -> {len(_load(identity, questions, lambda _: None).tasks)}" if is_ours else ""
    return f"other tasks are asked for ({why}): {asked['num_tasks']}{now}"


def _of_tasks(attempts: Sequence[Attempt], suite: Suite) -> list[Attempt]:
    """The answers to tasks that can be judged, with these as the judge has them."""
    tasks = {entry.index: entry.task for entry in suite.tasks}
    return [evolve(each, task=tasks[each.slot]) for each in attempts if each.slot in tasks]


def _load(
    identity: EvaluationIdentity,
    questions: TaskSelection,
    on_prepared: Callable[[int], None],
    is_sized: bool = True,
) -> Suite:
    if questions.suite is None:
        asked = evaluation_tasks(identity.config)
        return Suite(name="held-out tasks", tasks=tuple(SuiteTask(index=i, task=t) for i, t in enumerate(asked)))
    return load_suite(
        questions.suite,
        levels=questions.levels,
        num=questions.limit,
        seed=identity.config.seed,
        picks=questions.tasks,
        on_done=on_prepared,
        is_sized=is_sized,
    )


def _audit(context: CellContext, pairs: Sequence[tuple[Task, str]]) -> list[Verdict | str | None]:
    """A verdict for each pair, or why the task, which is not ours, cannot be audited."""
    found: list[Verdict | str | None] = [None] * len(pairs)
    done = count(1)

    def keep(index: int, answer: Verdict | Exception) -> None:
        found[index] = answer if isinstance(answer, Verdict) else str(answer)
        context.progress.advance(next(done))

    context.judge.verify_many(pairs, AUDIT, context.jobs, keep, keep)
    return found


def _ask_suite(context: CellContext, pairs: Sequence[tuple[Task, str]], by_suite: BySuite) -> list[SuiteVerdict | None]:
    distinct = {(task.task_id, source): (task, source) for task, source in pairs}
    with cancelling_pool(context.jobs, "suite") as pool:
        running = {key: pool.submit(by_suite, *pair) for key, pair in distinct.items()}
        for number, _ in enumerate(as_completed(running.values()), start=1):
            context.progress.advance(number)
    return [running[task.task_id, source].result() for task, source in pairs]


def _suite_columns(verdict: SuiteVerdict | None) -> dict[str, Any]:
    return {
        "suite_correct": None if verdict is None else verdict.correct,
        "suite_sizes": None if verdict is None else verdict.sizes.value,
        "suite_excess": None if verdict is None else verdict.excess,
        "suite_message": None if verdict is None or not verdict.message else verdict.message,
        "suite_s": None if verdict is None else verdict.seconds,
    }
