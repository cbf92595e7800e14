"""Further turns of an exam: what was refused is asked again, with the audit's reason beside the answer that was given.

The model reads one message (`core.text.prompts.retry_message`), so that any policy can take a second turn. The reason
is the audit's own, so what is right after several turns is no longer judged blindly: compare it with other figures of
several turns alone.
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

_CHUNK = 256


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
    config, root = context.config.evaluation, root_seed(context.config, 0)
    sampling = Sampling(
        temperature=config.temperature, top_p=config.top_p, max_new_tokens=context.config.policy.max_new_tokens
    )
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
