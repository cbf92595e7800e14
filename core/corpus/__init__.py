"""The task corpus: from a seed to a task in KernelBench's form and a teacher solution."""

from ..task import Split
from .catalogue import (
    example_ids,
    examples,
    has_teacher,
    is_corpus_id,
    is_novel,
    novel_examples,
    render,
    render_task,
    split_of,
    tasks,
)
from .corruption import corrupt
from .registry import ALL_FAMILIES, FAMILIES, SUITES, TAUGHT, TAUGHT_SUITES, families

__all__ = [
    "ALL_FAMILIES",
    "FAMILIES",
    "SUITES",
    "TAUGHT",
    "TAUGHT_SUITES",
    "Split",
    "corrupt",
    "example_ids",
    "examples",
    "families",
    "has_teacher",
    "is_corpus_id",
    "is_novel",
    "novel_examples",
    "render",
    "render_task",
    "split_of",
    "tasks",
]
