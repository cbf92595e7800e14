"""Benchmarks of sampling and training."""
