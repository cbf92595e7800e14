"""The words between the corpus and a model: the request for a kernel, and the form of an answer.

The request is short, since the embedded policy is small, and states the contract of `core.task`: other sizes, and the
dtypes listed.
"""

from __future__ import annotations

from ..task import Task


def user_message(task: Task) -> str:
    """Write the request: what to write, the contract, the description and the reference program."""
    return (
        f"Write ModelNew with Triton kernels. Any sizes; dtypes: {', '.join(task.dtypes)}.\n"
        f"{task.description}\n"
        f"```python\n{task.source.strip()}\n```"
    )


def assistant_message(solution: str) -> str:
    """Write the answer: one fenced block of Python."""
    return f"```python\n{solution.strip()}\n```"


def chat_prompt(task: Task) -> list[dict[str, str]]:
    """Write the request as a list of chat messages, the form to which trainers apply a model's chat template."""
    return [{"role": "user", "content": user_message(task)}]


def refusal_message(reason: str) -> str:
    """Write the next turn of a conversation whose last answer the verifier refused, and why it did."""
    return f"The verifier refused it. {reason}\nWrite the whole of ModelNew again, mended."


def retry_message(task: Task, answer: str, reason: str) -> str:
    """Write the request for a second try in one message, for models that read a single turn."""
    return f"{user_message(task)}\nThis answer was tried:\n{assistant_message(answer)}\n{refusal_message(reason)}"
