"""The words between the corpus and a model."""

from __future__ import annotations

from tritonrl.core.corpus import render
from tritonrl.core.text.prompts import (
    assistant_message,
    chat_prompt,
    refusal_message,
    retry_message,
    user_message,
)


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


def test_a_second_try_sees_the_first_and_why_it_was_refused() -> None:
    """The request comes first, then the answer that was given and the reason, in one message."""
    example = render("l1-softmax-00c0ffee12345678")
    message = retry_message(example.task, "x = 1", "ast: no kernel")
    assert message.startswith(user_message(example.task))
    assert message.index(assistant_message("x = 1")) < message.index(refusal_message("ast: no kernel"))
    assert "ast: no kernel" in message


def test_a_chat_is_the_request_alone() -> None:
    """Trainers get one message of the user's."""
    task = render("l1-softmax-00c0ffee12345678").task
    assert chat_prompt(task) == [{"role": "user", "content": user_message(task)}]
