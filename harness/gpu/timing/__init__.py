"""Timing on a GPU: protocol, stopwatch, copies of what is timed, and references."""
