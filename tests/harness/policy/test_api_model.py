"""Models behind an API: what is asked, what is kept, and what a server's refusals lead to.

A server of the tests' own speaks as much of the protocol as is used; the last test asks transformers' own server, where
it is installed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import pytest
from attrs import evolve
from tritonrl.cli import app
from tritonrl.core.corpus import render
from tritonrl.core.recipe.learner import Sampling, Training
from tritonrl.core.text.prompts import user_message
from tritonrl.harness.errors import TritonrlError, UsageError
from tritonrl.harness.policy.api_model import ApiModel, parse_name
from tritonrl.harness.work import WorkStore
from typer.testing import CliRunner

SAMPLING = Sampling(temperature=0.5, top_p=1.0, max_new_tokens=9)
Answer = tuple[int, dict[str, str], Any]
Script = Callable[[dict[str, Any], int], Answer | None]
"""The answer to a body that is asked for the n-th time in all; null: the connection is cut."""


def says(text: str | None, **message: Any) -> Answer:
    """An answer with one choice."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text, **message}}
    return 200, {}, {"choices": [choice], "usage": {"total_tokens": 3}}


def fails(status: int, code: str | None = None, param: str | None = None, **headers: str) -> Answer:
    """An error in the protocol's form."""
    return status, headers, {"error": {"message": f"because {code}", "code": code, "param": param}}


def echo(body: dict[str, Any], _: int) -> Answer:
    """Says what was asked with which seed."""
    return says(f"{body['messages'][0]['content']} by {body['seed']}")


@contextlib.contextmanager
def serving(script: Script) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that follows a script; its address, and the bodies that it was asked."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({**body, "_path": self.path, "_key": self.headers.get("Authorization")})
            answer = script(body, len(asked))
            if answer is None:
                self.close_connection = True
                return
            status, headers, plain = answer
            data = plain if isinstance(plain, bytes) else json.dumps(plain).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(url: str, root: Path, prompts: list[str], seeds: list[int], **options: Any) -> list[str]:
    """The completions of a model behind that address."""
    model = ApiModel(f"openai:m@{url}", WorkStore(root=root), **options)
    return [completion.text for completion in model.sample(None, prompts, seeds, SAMPLING, lambda _: None)]


def test_answers_are_in_the_order_of_the_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each prompt is asked as one user's message with its own seed, the sampling and the environment's key."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    done: list[int] = []
    with serving(echo) as (url, asked):
        model = ApiModel(f"openai:m@{url}", WorkStore(root=tmp_path), 4)
        found = model.sample(None, ["a", "b", "a", "c"], [1, 2, 3, 2**40 + 4], SAMPLING, done.append)
    assert [completion.text for completion in found] == ["a by 1", "b by 2", "a by 3", "c by 4"]
    assert done == [1, 2, 3, 4]
    first = next(body for body in asked if body["seed"] == 1)
    assert first == {
        "model": "m",
        "messages": [{"role": "user", "content": "a"}],
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": 1,
        "_path": "/v1/chat/completions",
        "_key": "Bearer secret",
    }


def test_an_answer_that_was_cut_is_not_finished(tmp_path: Path) -> None:
    """A server's "length" is the limit of tokens; what it stops for another reason came to its end."""

    def cut_the_second(body: dict[str, Any], _: int) -> Answer:
        status, headers, plain = echo(body, 0)
        plain["choices"][0]["finish_reason"] = {1: "stop", 2: "length", 3: "content_filter"}[body["seed"]]
        return status, headers, plain

    with serving(cut_the_second) as (url, _):
        model = ApiModel(f"openai:m@{url}", WorkStore(root=tmp_path))
        found = model.sample(None, ["a"] * 3, [1, 2, 3], SAMPLING, lambda _: None)
    assert [completion.finished for completion in found] == [True, False, True]


def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    """What was answered before an interrupt, or in an earlier command, is read; the same within one call too."""

    def third_is_refused(body: dict[str, Any], _: int) -> Answer:
        return fails(401, "no key") if body["seed"] == 3 else echo(body, 0)

    with serving(third_is_refused) as (url, asked):
        with pytest.raises(UsageError):
            ask(url, tmp_path, ["a", "a", "a"], [1, 2, 3], num_requests=1)
        assert len(asked) == 3
        assert ask(url, tmp_path, ["a", "a", "a"], [1, 2, 1]) == ["a by 1", "a by 2", "a by 1"]
        assert len(asked) == 3
        assert ask(url, tmp_path, ["b"], [1]) == ["b by 1"]
    assert len(asked) == 4


@pytest.mark.parametrize(
    "first", [fails(429, "rate_limit_exceeded", Retry_After="0"), fails(503), fails(500), None, (502, {}, b"<html>")]
)
def test_a_busy_server_is_asked_again(first: Answer | None, tmp_path: Path) -> None:
    """After a rate limit, a server's error or a cut connection the same is asked again."""
    with serving(lambda body, number: first if number == 1 else echo(body, 0)) as (url, asked):
        assert ask(url, tmp_path, ["a"], [1], patience_s=20) == ["a by 1"]
    assert len(asked) == 2
    assert asked[0] == asked[1]


def test_a_timeout_is_asked_again(tmp_path: Path) -> None:
    """An answer that takes too long is not waited for."""

    def slow_first(body: dict[str, Any], number: int) -> Answer:
        if number == 1:
            time.sleep(1.0)
        return echo(body, 0)

    with serving(slow_first) as (url, asked):
        assert ask(url, tmp_path, ["a"], [1], timeout_s=0.3, patience_s=20) == ["a by 1"]
        assert len(asked) >= 2


def test_patience_ends_and_what_was_answered_stays(tmp_path: Path) -> None:
    """A server that stays busy is an infrastructure error in its own words."""

    def only_first(body: dict[str, Any], _: int) -> Answer:
        return echo(body, 0) if body["seed"] == 1 else fails(429, "rate_limit_exceeded", Retry_After="0.05")

    with serving(only_first) as (url, asked):
        with pytest.raises(TritonrlError, match=r"no answer within 0.3 s: 429 because rate_limit_exceeded"):
            ask(url, tmp_path, ["a", "a"], [1, 2], num_requests=1, patience_s=0.3)
        num_asked = len(asked)
        assert ask(url, tmp_path, ["a"], [1]) == ["a by 1"]
        assert len(asked) == num_asked


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (says(None, refusal="I cannot help with that."), "I cannot help with that."),
        (says(None), ""),
        (fails(400, "content_filter"), ""),
        (fails(400, "context_length_exceeded"), ""),
        ((400, {}, {"error": {"code": 400, "message": "exceeds the available context size"}}), ""),
    ],
)
def test_a_refusal_is_an_answer(answer: Answer, text: str, tmp_path: Path) -> None:
    """What a model or its filter refuses is a completion without code, kept as any other."""
    with serving(lambda body, _: answer if body["seed"] == 2 else echo(body, 0)) as (url, asked):
        assert ask(url, tmp_path, ["a", "a"], [1, 2]) == ["a by 1", text]
        assert ask(url, tmp_path, ["a", "a"], [1, 2]) == ["a by 1", text]
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (fails(401, "no key"), UsageError, "OPENAI_API_KEY"),
        (fails(404, "no model"), UsageError, "because no model"),
        (fails(400, "unsupported_value", "temperature"), UsageError, "unsupported_value"),
        (fails(429, "insufficient_quota"), TritonrlError, "insufficient_quota"),
        ((200, {}, {"text": "hello"}), TritonrlError, "not an answer of an OpenAI-compatible server"),
        ((200, {}, b"<html>"), TritonrlError, "not an answer of an OpenAI-compatible server"),
    ],
)
def test_what_asking_again_does_not_mend_ends_the_command(
    answer: Answer, kind: type[Exception], words: str, tmp_path: Path
) -> None:
    """A key, a model, a parameter, an empty account or another protocol is told at once, after one request."""
    with serving(lambda *_: answer) as (url, asked):
        with pytest.raises(kind, match=words):
            ask(url, tmp_path, ["a"], [1])
        assert len(asked) == 1


def test_models_that_call_the_limit_otherwise_are_asked_so(tmp_path: Path) -> None:
    """Where `max_tokens` is not taken, `max_completion_tokens` is sent."""

    def picky(body: dict[str, Any], _: int) -> Answer:
        return fails(400, "unsupported_parameter", "max_tokens") if "max_tokens" in body else echo(body, 0)

    with serving(picky) as (url, asked):
        assert ask(url, tmp_path, ["a"], [1]) == ["a by 1"]
    assert asked[1]["max_completion_tokens"] == 9


def test_it_is_not_trained(tmp_path: Path) -> None:
    """Fine-tuning, and an adapter, are usage errors."""
    model = ApiModel("openai:m@http://127.0.0.1:9/v1", WorkStore(root=tmp_path))
    training = Training(
        epochs=1, learning_rate=1, batch_size=1, warmup_share=0, lora_rank=1, lora_alpha=1, lora_dropout=0, seed=0
    )
    with pytest.raises(UsageError, match="not trained"):
        model.finetune(None, [("a", "b")], training, tmp_path, lambda _: None)
    with pytest.raises(UsageError, match="not trained"):
        model.fits([("a", "b")])
    with pytest.raises(UsageError, match="takes none"):
        model.sample(tmp_path, ["a"], [1], SAMPLING, lambda _: None)


def test_names_are_a_model_and_an_address() -> None:
    """The last @ ends the model's name; without one it is OpenAI's; what is no address is refused."""
    assert parse_name("openai:org/m@v2@http://host:1/v1/") == ("org/m@v2", "http://host:1/v1")
    assert parse_name("openai:m") == ("m", "https://api.openai.com/v1")
    for name in ("openai:", "openai:m@host", "openai:@http://host", "openai:m@"):
        with pytest.raises(UsageError, match=r"openai:MODEL@URL"):
            parse_name(name)


def test_an_evaluation_asks_an_api_once(tmp_path: Path) -> None:
    """`tritonrl eval` scores what a server answers; asked for once more in another folder's place it resumes."""
    given = ["--suite", "core13:heldout", "--levels", "1", "--limit", "2", "--samples", "2", "--json"]
    with serving(lambda *_: says("```python\nx = 1\n```")) as (url, asked):
        command = ["eval", "--policy", f"openai:m@{url}", *given, "--out", str(tmp_path / "exam")]
        first = CliRunner().invoke(app, command)
        again = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.stderr
    assert json.loads(first.stdout)["rows"] == json.loads(again.stdout)["rows"]
    assert len(json.loads(first.stdout)["rows"]) == len(asked) == 4


@pytest.mark.slow
@pytest.mark.skipif(not (find_spec("fastapi") and find_spec("uvicorn")), reason="transformers serve needs fastapi")
def test_a_server_of_transformers_answers(tmp_path: Path) -> None:
    """`nano` behind transformers' own server writes a kernel's module, as it does when it is loaded here."""
    nano = Path(__file__).parents[3] / "harness" / "policy" / "nano"
    serve = ["-m", "transformers.cli.transformers", "serve", "--port", "8397", "--device", "cpu"]
    with subprocess.Popen([sys.executable, *serve], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for("http://127.0.0.1:8397/health")
            model = ApiModel(f"openai:{nano}@http://127.0.0.1:8397/v1", WorkStore(root=tmp_path), 1)
            prompt = user_message(render("l1-softmax-00c0ffee12345678").task)
            (found,) = model.sample(None, [prompt], [1], evolve(SAMPLING, max_new_tokens=40), lambda _: None)
        finally:
            server.terminate()
    assert "import torch" in found.text
    assert not found.finished


def _wait_for(url: str) -> None:
    for _ in range(600):
        with contextlib.suppress(httpx2.HTTPError):
            if httpx2.get(url).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError(f"{url}: not up")
