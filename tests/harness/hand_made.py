"""Tables with rows made by hand: a test states the columns that it is about, and the others are null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from tritonrl.core.recipe.extensions import CellSpec
from tritonrl.harness.tables import TABLES

RawRow = Mapping[str, Any]


def table(name: str, rows: Iterable[RawRow]) -> pl.DataFrame:
    """A frame of this table."""
    blank = dict.fromkeys(TABLES[name].columns)
    return TABLES[name].frame([{**blank, **row} for row in rows])


def cells(*names: str, seeds: Sequence[int] = (0,), failed: Sequence[str] = ()) -> pl.DataFrame:
    """One row a cell and seed; those in `failed` did not finish."""
    rows = []
    for name in names:
        spec = None if name == "sft" else CellSpec.parse(name)
        on = (None,) * 4 if spec is None else spec.extensions.flags
        for seed in seeds:
            rows.append(
                {
                    "cell": name,
                    **dict(zip(("multi_input", "staged", "curriculum", "timing"), on, strict=True)),
                    "variation": None if spec is None or spec.variation is None else str(spec.variation),
                    "seed": seed,
                    "status": "failed" if name in failed else "complete",
                    **dict.fromkeys(("wall_s", "sample_s", "verify_s", "train_s"), 1.0),
                }
            )
    return table("cells", rows)


def judged(
    cell: str, marks: Mapping[str, Sequence[int]], seed: int = 0, after: int | None = None, level: int = 1
) -> list[RawRow]:
    """Rows of `evaluation`: for each task, which of its samples are correct; `after` is the round, null for the end."""
    return [
        {
            "cell": cell,
            "seed": seed,
            "phase": "sft" if cell == "sft" else "rl",
            "round": after,
            "slot": slot,
            "task": task,
            "level": level,
            "sample": sample,
            **dict.fromkeys(("valid", "compiled", "correct"), bool(mark)),
        }
        for slot, (task, samples) in enumerate(marks.items())
        for sample, mark in enumerate(samples)
    ]


def spent(cell: str, seconds: Sequence[float], seed: int = 0, num_candidates: int = 10) -> list[RawRow]:
    """Rows of `rounds`: the verification seconds of each round."""
    return [
        {
            "cell": cell,
            "seed": seed,
            "round": index,
            "num_candidates": num_candidates,
            "mean_reward": 0.1 * index,
            "verify_s": one,
        }
        for index, one in enumerate(seconds)
    ]
