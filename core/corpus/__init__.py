"""The task corpus: from a seed to a task in KernelBench's form and a teacher solution."""

from .catalogue import (
    ALL_FAMILIES,
    FAMILIES,
    SUITES,
    Split,
    example_ids,
    examples,
    families,
    has_heldout_dialect,
    is_corpus_id,
    is_novel,
    novel_examples,
    render,
    split_of,
)
from .corruption import corrupt

__all__ = [
    "ALL_FAMILIES",
    "FAMILIES",
    "SUITES",
    "Split",
    "corrupt",
    "example_ids",
    "examples",
    "families",
    "has_heldout_dialect",
    "is_corpus_id",
    "is_novel",
    "novel_examples",
    "render",
    "split_of",
]
