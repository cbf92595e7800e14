"""The words between the corpus and a model."""

from __future__ import annotations

from tritonrl.core.corpus import render
from tritonrl.core.text.prompts import assistant_message, user_message


def test_the_request_states_task_and_contract() -> None:
    """The request has the dtypes of the contract, the description and the whole reference in a fence."""
    task = render("l1-softmax-00c0ffee12345678").task
    message = user_message(task)
    assert ", ".join(task.dtypes) in message.splitlines()[0]
    assert message.splitlines()[1] == task.description
    assert f"```python\n{task.source.strip()}\n```" in message
    assert message.count("```") == 2


def test_the_answer_is_one_fence() -> None:
    """The answer is the solution in a single block, and nothing around it."""
    solution = render("l2-linear_chain-00c0ffee12345678").solution
    message = assistant_message(solution)
    assert message == f"```python\n{solution.strip()}\n```"
    assert message.count("```") == 2
