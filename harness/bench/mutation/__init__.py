"""Mutation of kernels that are known to be right: small plausible mistakes, one at a time, labelled by kind."""

from .enumerate import Mutant, enumerate_mutants, sample_mutants
from .program import MutationClass
from .score import Fate, Judge, KillRates, MutantRow, MutationScore, score_mutants

__all__ = [
    "Fate",
    "Judge",
    "KillRates",
    "Mutant",
    "MutantRow",
    "MutationClass",
    "MutationScore",
    "enumerate_mutants",
    "sample_mutants",
    "score_mutants",
]
