"""Mutation of kernels that are known to be right: small plausible mistakes, one at a time, labelled by kind."""

from .enumerate import Mutant, enumerate_mutants, sample_mutants
from .program import MutationClass

__all__ = ["Mutant", "MutationClass", "enumerate_mutants", "sample_mutants"]
