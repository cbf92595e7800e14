"""Benchmarks of the verifier: attacks, false rejects, fuzzing, throughput, soak."""
