"""The words between the corpus and a model: the request for a kernel, and the form of an answer.

The request is short, since the embedded policy is small, and states the contract of `core.task`: other sizes, and the
dtypes listed.
"""

from __future__ import annotations

from ..task import Task


def user_message(task: Task) -> str:
    """Write the request: what to write, the contract, the description if there is one, and the reference program."""
    description = f"{task.description}\n" if task.description else ""
    return (
        f"Write ModelNew with Triton kernels. Any sizes; dtypes: {', '.join(task.dtypes)}.\n"
        f"{description}"
        f"```python\n{task.source.strip()}\n```"
    )


def assistant_message(solution: str) -> str:
    """Write the answer: one fenced block of Python."""
    return f"```python\n{solution.strip()}\n```"
