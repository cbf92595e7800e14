"""`tritonrl sample`: completions of the configured policy for one task."""

from __future__ import annotations

from pathlib import Path

from ...core.config import Config
from ...core.recipe.learner import Sampling
from ...core.seeds import derive
from ...core.task import Task
from ...core.text.extraction import extract
from ...core.text.prompts import user_message


def sample_task(config: Config, task: Task, num: int, adapter: Path | None) -> list[tuple[str, str | None]]:
    """Draw `num` completions for a task, each with the source that is extracted from it."""
    from .distributed_learner import load_learner

    learner = load_learner(config.policy)
    sampling = Sampling(
        temperature=config.rl.temperature, top_p=config.rl.top_p, max_new_tokens=config.policy.max_new_tokens
    )
    seeds = [derive(config.seed, "sample command", task.task_id, number) for number in range(num)]
    completions = learner.sample(adapter, [user_message(task)] * num, seeds, sampling, lambda _: None)
    return [(completion, extract(completion)) for completion in completions]
