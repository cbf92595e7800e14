"""Untrusted text is parsed quietly and in time that grows with it; prompts say what a task is."""

import ast
import contextlib
import gc
import threading
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.corpus import render
from tritonrl.core.text.parsing import parse
from tritonrl.core.text.prompts import assistant_message, chat_prompt, refusal_message, retry_message, user_message

gaps = st.sampled_from(("", " ", "\t", "\\\n", " \\\n  "))


@given(gaps, gaps, st.integers(min_value=101, max_value=300))
def test_an_endless_module_name_is_refused(before: str, after: str, num_parts: int) -> None:
    """A dotted name of more than a hundred parts is a syntax error, whatever stands around its dots."""
    with pytest.raises(SyntaxError, match="more than a hundred parts"):
        parse("import " + f"{before}.{after}".join(["a"] * num_parts))


@given(st.integers(min_value=1, max_value=99))
def test_a_module_name_of_ordinary_length_parses(num_parts: int) -> None:
    """A name with a hundred parts or fewer gives the tree that Python gives."""
    source = "import " + ".".join(["a"] * num_parts) + "\nx = 1.5\n"
    assert ast.dump(parse(source)) == ast.dump(ast.parse(source))


def test_parsing_is_quiet_in_threads() -> None:
    """Texts with doubtful escapes, parsed side by side, warn nobody and leave the filters as they were."""
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=parse, args=("x = '\\d'\n",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not seen
    assert warnings.filters == before


class _Interrupting:
    """Garbage whose collection lets other threads run."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        time.sleep(0)


def test_parsing_outlasts_parsers_in_other_threads() -> None:
    """Another thread in the midst of a tree of its own, which CPython 3.11 mistakes for an error, disturbs no parse."""
    source = "\n".join(f"def f{n}(x):\n    return [x + {n}, (x * ({n} - x), {{'a': x}})]" for n in range(60))
    is_over = threading.Event()

    def disturb() -> None:
        while not is_over.is_set():
            _Interrupting()
            with contextlib.suppress(SystemError):
                ast.parse(source)

    threshold, other = gc.get_threshold(), threading.Thread(target=disturb)
    gc.set_threshold(10, 2, 2)
    other.start()
    try:
        trees = []
        for _ in range(40):
            _Interrupting()
            trees.append(len(parse(source).body))
    finally:
        is_over.set()
        other.join()
        gc.set_threshold(*threshold)
    assert trees == [60] * 40


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
