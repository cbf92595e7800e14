"""Tasks as other tools read them: one row a task for TRL, verl, verifiers and inspect_ai, files for KernelBench.

Prompts are chat messages wherever the tool takes them, so that it applies the model's chat template. What is right is
named by the task's id, from which a `Scorer` renders the task again.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ...core.task import Task
from ...core.text.prompts import chat_prompt, user_message
from ..errors import UsageError
from ..work import write_atomically

Row = dict[str, Any]


def trl_row(task: Task, _: int) -> Row:
    """Make a row of TRL's: a conversational `prompt`, and the columns that the reward function reads."""
    return {"prompt": chat_prompt(task), "task": task.task_id, "level": task.level, "family": task.family}


def verl_row(task: Task, number: int) -> Row:
    """Make a row of verl's: its five columns, the task being the reward model's ground truth."""
    return {
        "data_source": "tritonrl",
        "prompt": chat_prompt(task),
        "ability": "triton",
        "reward_model": {"style": "rule", "ground_truth": task.task_id},
        "extra_info": {"index": number, "task": task.task_id, "level": task.level, "family": task.family},
    }


def verifiers_row(task: Task, number: int) -> Row:
    """Make a row of verifiers': a `prompt` of chat messages, the task as the `answer`, and `info` about it."""
    info = {"task": task.task_id, "level": task.level, "family": task.family}
    return {"example_id": number, "prompt": chat_prompt(task), "answer": task.task_id, "info": info}


def inspect_row(task: Task, _: int) -> Row:
    """Make a sample of inspect_ai's: input, target (the task), id and metadata."""
    metadata = {"level": task.level, "family": task.family}
    return {"id": task.task_id, "input": user_message(task), "target": task.task_id, "metadata": metadata}


ROWS: Mapping[str, Callable[[Task, int], Row]] = {
    "trl": trl_row,
    "verl": verl_row,
    "verifiers": verifiers_row,
    "inspect": inspect_row,
}
"""The formats that are one file."""
FORMATS = (*ROWS, "kernelbench")


def export_rows(path: Path, tasks: Iterable[Task], form: str) -> int:
    """Write the tasks in a tool's form to a Parquet or JSONL file, and count them; raises UsageError."""
    if path.suffix not in (".parquet", ".jsonl"):
        raise UsageError(f"{path}: --format {form} goes to a file that ends with .parquet or .jsonl")
    rows = [ROWS[form](task, number) for number, task in enumerate(tasks)]
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        write_atomically(path, "".join(f"{json.dumps(row)}\n" for row in rows).encode())
    else:
        import polars as pl

        buffer = io.BytesIO()
        pl.DataFrame(rows).write_parquet(buffer)
        write_atomically(path, buffer.getvalue())
    return len(rows)


def export_problems(folder: Path, tasks: Iterable[Task]) -> int:
    """Write the tasks as KernelBench's problems, `level1/1_softmax_l1-softmax-00c0ff.py`, and count them."""
    counts: dict[int, int] = {}
    for task in tasks:
        number = counts[task.level] = counts.get(task.level, 0) + 1
        place = folder / f"level{task.level}"
        place.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"\W+", "_", task.task_id)
        write_atomically(place / f"{number}_{name}.py", f"{task.source.strip()}\n".encode())
    return sum(counts.values())
