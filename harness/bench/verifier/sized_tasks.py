"""Tasks of our corpus at the sizes of GPU benchmarks, with their teachers: up to gigabytes of inputs.

The corpus draws sizes that a training run can afford. Here its declared sizes are doubled, one after the other in a
drawn order, until inputs, parameters and results take a drawn number of bytes. Teachers are right at any sizes, so that
right and wrong answers at real sizes can be made without a model.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from ....core.seeds import derive
from ....core.serialisation import from_plain, to_plain
from ....core.task import Example, Task
from ....core.text.named_sizes import read_sizes
from ...errors import TaskError
from ...reference.sizes.declared_sizes import measure, with_declared
from ...side_by_side import map_side_by_side
from ...tasks.suites import corpus_examples

LEAST_BYTES, MOST_BYTES = 16 << 20, 14 << 30
_MOST_FLOPS = 4e12
_LEAST_SIZE = 8
"""Smaller constants count taps, groups and heads."""
_MOST_DOUBLINGS = 24


@frozen(kw_only=True)
class Sized:
    """An example at its size: bytes of inputs, parameters and results."""

    example: Example
    num_bytes: float


def sized_examples(
    suite: str, seed: int, count: int, levels: Sequence[int], most_bytes: int = MOST_BYTES
) -> list[Sized]:
    """Draw so many examples of a suite, levels in turn, each at a size of its own up to `most_bytes`."""
    per_level = -(-count // len(levels))
    drawn = [list(corpus_examples(suite, seed, per_level, (level,))) for level in levels]
    chosen = [of_level[place] for place in range(per_level) for of_level in drawn][:count]
    items = [
        {"task": to_plain(example.task), "seed": derive(seed, "sized", number), "most_bytes": most_bytes}
        for number, example in enumerate(chosen)
    ]
    found = map_side_by_side(enlarge_plain, items)
    return [
        Sized(example=evolve(example, task=from_plain(plain["task"], Task)), num_bytes=plain["num_bytes"])
        for example, plain in zip(chosen, found, strict=True)
    ]


def enlarge_plain(item: dict[str, Any]) -> dict[str, Any]:
    """Return `enlarge` of plain data, as plain data."""
    task, num_bytes = enlarge(from_plain(item["task"], Task), item["seed"], item["most_bytes"])
    return {"task": to_plain(task), "num_bytes": num_bytes}


def enlarge(task: Task, seed: int, most_bytes: int = MOST_BYTES) -> tuple[Task, float]:
    """The task with larger declared sizes, and its bytes: a drawn number, or less where nothing more can be doubled."""
    draw = random.Random(seed)
    low, high = math.log(min(LEAST_BYTES, most_bytes)), math.log(most_bytes)
    wanted = math.exp(draw.uniform(low, high))
    names = [name for name, size in read_sizes(task.source).items() if size >= _LEAST_SIZE and name in dict(task.tiny)]
    num_bytes, _ = measure(task)
    for _ in range(_MOST_DOUBLINGS):
        if num_bytes >= wanted or not names:
            break
        name = draw.choice(names)
        larger = with_declared(task, ((name, 2 * read_sizes(task.source)[name]),))
        try:
            found, flops = measure(larger)
        except TaskError:
            found, flops = math.inf, 0.0
        if found > most_bytes or flops > _MOST_FLOPS:
            names.remove(name)
        else:
            task, num_bytes = larger, found
    return task, num_bytes
