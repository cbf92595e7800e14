"""The answers of an exam: drawn by the chunk and kept, and in further turns drawn again where they were refused.

In a further turn the model reads one message (`core.text.prompts.retry_message`), with the audit's reason beside the
answer that was given, so that any policy can take one. The reason is the audit's own, so what is right after several
turns is no longer judged blindly: compare it with other figures of several turns alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from ...core.outcome import Outcome
from ...core.recipe.learner import Sampling
from ...core.seeds import derive
from ...core.task import Task
from ...core.text.extraction import extract
from ...core.text.prompts import refusal_message, retry_message, user_message
from ..study.pipeline import CellContext, Model, draw_answers
from ..study.rows import Attempt
from ..study.task_draws import root_seed
from ..tables import Row
from ..tasks.suites import SuiteTask

_CHUNK = 256
"""Completions that a killed exam may lose; as many as keep a GPU busy."""


def draw_all(context: CellContext, model: Model, tasks: Sequence[SuiteTask]) -> list[Attempt]:
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


def refused(rows: Sequence[Row]) -> list[int]:
    """Return the places of the answers that were judged and are not right."""
    return [place for place, row in enumerate(rows) if row["correct"] is False]


def ask_again(
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
