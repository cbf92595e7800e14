"""Benchmarks on a GPU: timing, agreement of backends, crash isolation."""
