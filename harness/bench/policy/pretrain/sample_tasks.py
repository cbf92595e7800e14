"""Completions of a pretrained checkpoint for tasks of the corpus, written as JSON lines to be verified elsewhere.

A GPU machine that pretrains may lack what the verifier needs; one line here has all that a judge wants: the task's id
and the completion.
"""

from __future__ import annotations

import json
import time
from itertools import islice
from pathlib import Path

import torch

from .....core.config import PolicyConfig
from .....core.corpus import FAMILIES, Split, examples
from .....core.seeds import derive
from .....core.text.prompts import user_message
from ....policy.model.load import load_policy
from ....policy.sampling.engine import sample

SAMPLES = ((0.0, 1), (0.7, 4))
"""Temperatures, and how many completions of each task at them."""


def write_samples(checkpoint: Path, split: str, tasks_per_family: int, seed: int, device: torch.device) -> str:
    """Sample every family's tasks with the checkpoint and write `samples.jsonl` in its folder; one line about it."""
    policy = load_policy(PolicyConfig(name=str(checkpoint)), device=str(device))
    root, started = derive(seed, "sample-tasks", split), time.perf_counter()
    tasks = [
        example.task
        for level, families in FAMILIES.items()
        for family in families
        for example in islice(examples(Split(split), level, derive(root, family), (family,)), tasks_per_family)
    ]
    lines, num_tokens, num_finished = [], 0, 0
    for temperature, count in SAMPLES:
        repeated = [task for task in tasks for _ in range(count)]
        completions = sample(
            policy,
            [user_message(task) for task in repeated],
            [derive(root, "sample", number) for number in range(len(repeated))],
            temperature=temperature,
            max_new_tokens=768,
        )
        for number, (task, completion) in enumerate(zip(repeated, completions, strict=True)):
            num_tokens, num_finished = num_tokens + completion.num_tokens, num_finished + completion.finished
            record = {
                "checkpoint": checkpoint.name,
                "task": task.task_id,
                "level": task.level,
                "family": task.family,
                "temperature": temperature,
                "sample": number % count,
                "finished": completion.finished,
                "num_tokens": completion.num_tokens,
                "completion": completion.text,
            }
            lines.append(json.dumps(record))
    (checkpoint / "samples.jsonl").write_text("\n".join(lines) + "\n")
    seconds = time.perf_counter() - started
    return (
        f"{checkpoint.name}: {len(lines)} completions of {len(tasks)} tasks in {seconds:.1f} s, "
        f"{num_finished / len(lines):.1%} finished, {num_tokens / seconds:.0f} tokens/s"
    )
