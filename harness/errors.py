"""Broken infrastructure, as opposed to a bad candidate; the command line turns each into an exit code."""

from __future__ import annotations


class TritonrlError(Exception):
    """Base of the errors that end a command with one line on stderr."""

    exit_code = 3


class UsageError(TritonrlError):
    """Bad input from the user: a file, an option, a task. Exit 2."""

    exit_code = 2


class SandboxError(TritonrlError):
    """The sandbox itself is broken (a zygote died, a fork failed); no verdict may be drawn from it."""


class DriftError(TritonrlError):
    """Results on disk were made by another configuration or version; the message is the field-by-field difference."""


class TaskError(UsageError):
    """A task cannot be used: its reference does not import, run or fit the form."""


class TooLargeError(TaskError):
    """A task needs more memory at its declared sizes than may be used; the message says how much."""


class DivergedError(Exception):
    """A training reached numbers that are none: the failure of its cell, and of nothing that other cells share."""
