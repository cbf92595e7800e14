"""Mutation of kernels that are known to be right: small plausible mistakes, one at a time, labelled by kind."""
