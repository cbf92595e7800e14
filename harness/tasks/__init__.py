"""Suites of tasks: found by name, counted, validated, and compared with one another."""
