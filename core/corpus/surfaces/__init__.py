"""Surfaces: a task's program in one of the dialects in which people write such programs."""
