"""The tables of a run: what each column means and holds, and how a table is written, read and compared.

Tidy Parquet, one fact a row. A value that was not measured is null, never NaN. Row order is fixed by each table's
key, so two runs of one configuration give equal tables, but for the columns that hold elapsed time: those are exactly
the ones whose names end in `_s`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from attrs import frozen

from .errors import DriftError
from .work import write_atomically

SCHEMA_VERSION = "2"
TIME_SUFFIX = "_s"

Row = Mapping[str, Any]


class DamagedTableError(DriftError):
    """A file that should be a table cannot be read as Parquet."""


_TEXT, _INT, _REAL, _BOOL = pl.String(), pl.Int64(), pl.Float64(), pl.Boolean()


@frozen(kw_only=True)
class Table:
    """A table's columns with their types, and the leading columns that order its rows."""

    name: str
    columns: dict[str, pl.DataType]
    key: tuple[str, ...]

    @property
    def times(self) -> tuple[str, ...]:
        """The columns that hold elapsed seconds and so differ between equal runs."""
        return tuple(column for column in self.columns if column.endswith(TIME_SUFFIX))

    def frame(self, rows: Iterable[Row]) -> pl.DataFrame:
        """Rows as a typed frame in key order; raises where a value has another type or a column is unknown."""
        listed = list(rows)
        for row in listed:
            if row.keys() != self.columns.keys():
                raise KeyError(f"{self.name}: {sorted(row.keys() ^ self.columns.keys())}")
        frame = pl.DataFrame([dict(row) for row in listed], schema=self.columns, strict=True, orient="row")
        reals = [column for column, kind in self.columns.items() if kind == _REAL]
        return frame.with_columns(pl.col(reals).fill_nan(None)).sort(self.key, maintain_order=True)


_SAMPLE: dict[str, pl.DataType] = {
    "cell": _TEXT,
    "seed": _INT,
    "phase": _TEXT,  # "sft": the model that all cells start from; "rl": the cell's own
    "round": _INT,  # of an evaluation: the round that it follows, null for the one that ends a phase
    "slot": _INT,  # position of the task in its round or suite
    "task": _TEXT,
    "level": _INT,
    "family": _TEXT,
    "sample": _INT,
}
_JUDGEMENT: dict[str, pl.DataType] = {
    "candidate": _TEXT,
    "backend": _TEXT,
    "reached": _TEXT,
    "outcome": _TEXT,
    "message": _TEXT,
    "valid": _BOOL,
    "compiled": _BOOL,
    "correct": _BOOL,
    "torch_operators": _INT,  # that compute in the declared plan; null where none was recorded
    "declared": _TEXT,  # what was seen at the declared sizes; null where it is not correct, and in earlier runs
}
_SPEEDUPS: dict[str, pl.DataType] = {"speedup": _REAL, "estimated_speedup": _REAL}
SAMPLE_KEY = ("cell", "seed", "phase", "round", "slot", "sample")
"""A sample's place in a run."""

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="cells",
            columns={
                "cell": _TEXT,
                "multi_input": _BOOL,
                "staged": _BOOL,
                "curriculum": _BOOL,
                "timing": _BOOL,
                "variation": _TEXT,  # what a control or a run of the noise sweep has beside them; null in the grid
                "seed": _INT,
                "fingerprint": _TEXT,
                "status": _TEXT,  # complete | failed
                "message": _TEXT,
                "adapter": _TEXT,  # folder of the final adapter, relative to the results; null = the base model
                "backend": _TEXT,
                "timing_mode": _TEXT,
                "versions": _TEXT,
                "wall_s": _REAL,
                "sample_s": _REAL,
                "verify_s": _REAL,
                "train_s": _REAL,
            },
            key=("cell", "seed"),
        ),
        Table(
            name="rounds",
            columns={
                "cell": _TEXT,
                "seed": _INT,
                "round": _INT,
                "level2_share": _REAL,
                "num_level1_tasks": _INT,
                "num_level2_tasks": _INT,
                "num_candidates": _INT,
                "num_selected": _INT,
                "mean_reward": _REAL,
                "level1_accuracy": _REAL,  # as the training verifier saw it
                "level2_accuracy": _REAL,
                "level1_audit_accuracy": _REAL,
                "level2_audit_accuracy": _REAL,
                "mixed_groups": _REAL,  # share of tasks with right and wrong samples
                "distinct_answers": _REAL,  # different sources a task
                "mean_tokens": _REAL,  # of a completion; this and the rest are null where best-of-n learned
                "finished_share": _REAL,  # of completions that ended before the limit
                "clip_share": _REAL,  # of tokens whose ratio was clipped
                "kl": _REAL,  # of the policy before the update from the start of RL, nats a token of what was learned
                "entropy": _REAL,  # of the next token's distribution at the sampling temperature, nats
                "gradient_norm": _REAL,  # mean over the round's steps, before clipping
                "sample_s": _REAL,
                "verify_s": _REAL,
                "train_s": _REAL,
            },
            key=("cell", "seed", "round"),
        ),
        Table(
            name="candidates",
            columns={
                **_SAMPLE,
                **_JUDGEMENT,
                "audit_reached": _TEXT,  # this and the next four are null where the audit was not asked
                "audit_outcome": _TEXT,
                "audit_valid": _BOOL,
                "audit_compiled": _BOOL,
                "audit_correct": _BOOL,
                "reward_correctness": _REAL,
                "reward_performance": _REAL,
                "reward": _REAL,
                "selected": _BOOL,
                **_SPEEDUPS,  # as the cell was told
                "noise_factor": _REAL,  # that the speedup was multiplied by on purpose; null where none was injected
                "ast_s": _REAL,
                "compile_s": _REAL,
                "tiny_s": _REAL,
                "full_s": _REAL,
                "timing_s": _REAL,
            },
            key=SAMPLE_KEY,
        ),
        Table(
            name="stages",
            columns={
                **_SAMPLE,
                "verifier": _TEXT,  # training | audit
                "stage": _TEXT,
                "stage_index": _INT,
                "outcome": _TEXT,
                "passed": _BOOL,
                "message": _TEXT,
                "stage_s": _REAL,
            },
            key=(*SAMPLE_KEY, "verifier", "stage_index"),
        ),
        Table(
            name="training",
            columns={"cell": _TEXT, "seed": _INT, "phase": _TEXT, "round": _INT, "step": _INT, "loss": _REAL},
            key=("cell", "seed", "phase", "round", "step"),
        ),
        Table(
            name="evaluation",
            columns={
                **_SAMPLE,
                **_JUDGEMENT,
                **_SPEEDUPS,
                "finished": _BOOL,  # before the limit of tokens; null where not known, and in earlier runs
                "accepted": _BOOL,  # by the cell's training verifier; null for a start, and in earlier runs
                "verify_s": _REAL,
            },
            key=SAMPLE_KEY,
        ),
        Table(
            name="timings",
            columns={
                **_SAMPLE,
                "verifier": _TEXT,
                "subject": _TEXT,  # candidate | reference | control (A/A) | reference_tf32 | reference_compiled
                "simulated": _BOOL,
                "calibrated": _BOOL,
                "trial": _INT,
                "runtime_us": _REAL,
            },
            key=(*SAMPLE_KEY, "verifier", "subject", "trial"),
        ),
        Table(name="sources", columns={"candidate": _TEXT, "source": _TEXT}, key=("candidate",)),
    )
}


def write_table(table: Table, frame: pl.DataFrame, path: Path) -> None:
    """Write a frame of the table atomically, with the schema's version in the file's metadata."""
    write_atomically(path, encode_table(table, frame))


def encode_table(table: Table, frame: pl.DataFrame, effort: int | None = None) -> bytes:
    """A frame of the table as a Parquet file; `effort` is zstd's level, from 1 to 22."""
    buffer = io.BytesIO()
    metadata = {"tritonrl.schema": SCHEMA_VERSION, "tritonrl.table": table.name}
    frame.write_parquet(buffer, compression="zstd", compression_level=effort, metadata=metadata)
    return buffer.getvalue()


def read_table(table: Table, path: Path) -> pl.DataFrame:
    """Read a table; raises DriftError where it was written under another version of the schema, or is damaged."""
    check_table(path)
    with _naming(path):
        return with_columns(table, pl.read_parquet(path))


def with_columns(table: Table, frame: pl.DataFrame) -> pl.DataFrame:
    """A recorded frame with nulls in the columns that its table has got since."""
    added = {name: kind for name, kind in table.columns.items() if name not in frame.columns}
    if not added:
        return frame
    others = [name for name in frame.columns if name not in table.columns]
    return frame.with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in added.items()).select(
        *table.columns, *others
    )


def check_table(path: Path) -> None:
    """Look at the end of a table's file alone; raises DriftError for another version and where that end is damaged."""
    with _naming(path):
        version = pl.read_parquet_metadata(path).get("tritonrl.schema")
    if version != SCHEMA_VERSION:
        raise DriftError(f"{path}: schema version {version!r}, this tritonrl reads {SCHEMA_VERSION!r}")


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    # polars says what is wrong, but not with which file
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise DamagedTableError(f"{path}: a damaged table ({error})") from error
