"""The task corpus: from a seed to a task in KernelBench's form and a teacher solution."""
