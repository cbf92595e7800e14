"""The task corpus: from a seed to a task in KernelBench's form and a teacher solution."""

from .catalogue import FAMILIES, Split, examples, is_corpus_id, render, split_of
from .corruption import corrupt

__all__ = ["FAMILIES", "Split", "corrupt", "examples", "is_corpus_id", "render", "split_of"]
