"""The closed list of what can become of a candidate; each value is the sentence that a person reads.

A bad candidate is data, so every way to fail has a name here. Broken infrastructure is not in the list: that is
an exception (`harness.errors`). In JSON and in tables an outcome appears as its `code`.
"""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """The five stages, in the order of the funnel."""

    AST = "ast"
    COMPILE = "compile"
    TINY = "tiny"
    FULL = "full"
    TIMING = "timing"


class Outcome(StrEnum):
    PASSED = "passed"
    NOT_RUN = "not attempted, because an earlier stage failed"

    # of an answer, where its text is refused: a verdict is about the text alone
    CUT = "the answer was cut at the limit of tokens"

    # AST: decided from the text alone
    NO_CODE = "the completion holds no code"
    SYNTAX_ERROR = "the source is not valid Python"
    NO_MODEL = "the source defines no class ModelNew with a forward method"
    NO_KERNEL = "no function is decorated with triton.jit"
    NO_LAUNCH = "no Triton kernel is launched"
    FORBIDDEN_IMPORT = "the source imports a module that candidates may not use"
    FORBIDDEN_NAME = "the source uses a name that candidates may not use"

    # compile: recording the launch plan and compiling it
    IMPORT_FAILED = "importing the source failed"
    INIT_FAILED = "building ModelNew failed"
    FORWARD_FAILED = "running forward failed"
    DATA_DEPENDENT = "the host code reads a value that only exists on the GPU"
    NOT_REPRODUCIBLE = "recording the same sizes twice gave two different plans"
    COMPILE_FAILED = "Triton refuses to compile a kernel"
    OUT_OF_RESOURCES = "a kernel needs more of the GPU than it has"
    WRONG_SIGNATURE = "the result has not the shape or dtype of the reference's"
    TORCH_ARITHMETIC = "PyTorch operators do arithmetic that a kernel should do"
    OUTPUT_NOT_WRITTEN = "no launched kernel writes the returned tensor"
    INPUT_UNUSED = "the result does not depend on every input that the reference depends on"

    # tiny and full: running the plan
    RUN_FAILED = "running a kernel failed"
    UNSUPPORTED = "the plan uses something that this backend cannot run"
    INPUT_MUTATED = "a kernel changed an input"
    OUT_OF_BOUNDS = "a kernel wrote outside its buffers"
    NOT_FINITE = "the result has NaN or infinite elements where the reference has none"
    WRONG_VALUES = "the result differs from the reference"
    DISGUISED = "the code that was compiled is not what the source's kernels compile to"
    KERNEL_IRRELEVANT = "removing the kernels does not change the result"

    # the sandbox, at any stage that runs the candidate's code
    TIMEOUT = "ran out of time"
    MEMORY_LIMIT = "used more memory than allowed"
    PROCESS_LIMIT = "started more processes than allowed"
    OUTPUT_LIMIT = "wrote more output than allowed"
    FILE_ACCESS = "touched a file outside its scratch folder"
    NETWORK_ACCESS = "tried to reach the network"
    FORBIDDEN_CALL = "made a system call that no candidate needs"
    CRASHED = "its process died"
    BROKEN_PROTOCOL = "its process answered with something that is not a result"

    @property
    def code(self) -> str:
        """Return the stable identifier that tables and JSON carry."""
        return self.name.lower()

    @classmethod
    def from_code(cls, code: str) -> Outcome:
        """Return the outcome whose `code` this is; raises KeyError for an unknown one."""
        return cls[code.upper()]


_LONGEST_MESSAGE = 2_000


def printable(text: str) -> str:
    """Return a message as one line that any terminal, JSON reader or table takes.

    Messages quote what candidates wrote. Line ends become spaces; what does not print (control codes, lone surrogates,
    marks that reverse the direction of writing) is escaped, and what is very long is cut.
    """
    if len(text) > _LONGEST_MESSAGE:
        text = f"{text[:_LONGEST_MESSAGE]}..."
    if text.isprintable():
        return text
    return "".join(
        " " if mark in "\r\n\t" else mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii")
        for mark in text
    )
