"""Measured and simulated timing of candidates that are right."""
