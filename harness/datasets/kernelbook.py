"""KernelBook's rows as pairs to train on: a PyTorch module, and what Inductor made of it.

A row has the class `{entry_point}` in `python_code` and `{entry_point}New` in `triton_code`. Here they become `Model`
and `ModelNew`, since those are the names that prompts ask for and verifiers look at; nothing else is changed. The
prompt is the one that our own tasks have. Three things should be known of what it then teaches: Inductor's programs
hold for the sizes that they were made for, whereas our prompts ask for any; they import `torch._inductor`, which the
verifier refuses in its first stage, so that no answer that is written like them passes; and they leave to PyTorch's
operators what Inductor leaves to them (`extern_kernels`), which the audit refuses as well.

A file with the column `prompt` beside (our own exports) is read back as it was written. What is wrong
with a row is a `Flaw`, never an error. Nothing is executed.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, TypeGuard

from attrs import frozen

from ...core.task import Task
from ...core.text.parsing import UNPARSABLE, class_names, rename_class
from ...core.text.prompts import assistant_message, user_message

COLUMNS = ("entry_point", "python_code", "triton_code")
_HALF = re.compile("[\ud800-\udfff]")
WRITTEN = ("prompt",)
"""Columns that only our own files have."""


class Flaw(StrEnum):
    """Why a row is no pair."""

    NO_TEXT = "a field that is missing, empty or no text"
    NO_OBJECT = "a line that is no JSON object"
    NO_TURNS = "messages that are not one question and one answer"
    REFERENCE_SYNTAX = "a PyTorch program that is no Python"
    SOLUTION_SYNTAX = "a Triton program that is no Python"
    NO_REFERENCE = "no class of the entry point's name"
    NO_SOLUTION = "no ModelNew, by its own name or the entry point's"
    NAME_TAKEN = "another thing that is called Model or ModelNew"
    NO_KERNEL = "no Triton kernel"
    REPEATED = "the same pair as another row"
    TOO_LONG = "longer than the policy's context"
    SHARED = "the same computation as a task that is left out"
    NOT_COMPARED = "a program that could not be compared with those tasks"


@frozen(kw_only=True)
class SourcePair:
    """A question and its answer; `reference` is the program that the question is about, in KernelBench's form."""

    prompt: str
    answer: str
    reference: str


def has_kernel(source: str) -> bool:
    """Whether a program has a Triton kernel of its own."""
    return "triton.jit" in source or "@jit" in source


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is a text that says something; half of a surrogate pair, which JSON can hold, is none."""
    return isinstance(value, str) and bool(value.strip()) and not _HALF.search(value)


def read_row(row: dict[str, Any]) -> SourcePair | Flaw:
    entry, reference, solution = (row.get(column) for column in COLUMNS)
    if not (is_text(entry) and is_text(reference) and is_text(solution)):
        return Flaw.NO_TEXT
    try:
        if entry not in class_names(reference):
            return Flaw.NO_REFERENCE
    except UNPARSABLE:
        return Flaw.REFERENCE_SYNTAX
    try:
        if f"{entry}New" not in class_names(solution):
            return Flaw.NO_SOLUTION
    except UNPARSABLE:
        return Flaw.SOLUTION_SYNTAX
    if not has_kernel(solution):
        return Flaw.NO_KERNEL
    try:
        reference = rename_class(reference, entry, "Model")
        solution = rename_class(solution, f"{entry}New", "ModelNew")
    except UNPARSABLE:
        return Flaw.NAME_TAKEN
    prompt = row.get("prompt")
    if not is_text(prompt):
        prompt = user_message(Task(task_id=entry, level=1, family="kernelbook", description=entry, source=reference))
    return SourcePair(prompt=prompt, answer=assistant_message(solution), reference=reference)
