"""The server over HTTP: who may ask, how it refuses, and that its verdicts are those of a verifier here."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from attrs import evolve
from starlette.applications import Starlette
from starlette.testclient import TestClient
from tritonrl import Scorer
from tritonrl.cli import app as command_line
from tritonrl.core.config import Config
from tritonrl.core.recipe.extensions import AUDIT, Extensions, VerifierSpec
from tritonrl.core.serialisation import to_plain
from tritonrl.harness import http_client
from tritonrl.harness.errors import TaskError, TritonrlError, UsageError
from tritonrl.harness.service.app import build_app
from tritonrl.harness.service.client import RemoteVerifier
from tritonrl.harness.service.dispatcher import Dispatcher, Limits
from tritonrl.harness.verification.verifier import Verifier
from typer.testing import CliRunner

from ..kernels import ADD, add
from .stub_pool import StubPool

ITEM = {"task": "t", "candidate": "a"}


def build(token: str | None = None, num_of_client: int = 10) -> Starlette:
    """The application over a pool that is a stub."""
    limits = Limits(num_waiting=20, num_of_client=num_of_client)
    return build_app(Dispatcher(StubPool(), Config(), "stub", 1, limits), token, is_loopback=True)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"items": [ITEM]}, 200, ""),
        ({"items": [ITEM], "spec": to_plain(AUDIT)}, 200, ""),
        ({"items": [ITEM], "spec": {"hiden": True}}, 422, "unknown key: hiden"),
        ({"items": [{"task": "t"}]}, 422, "items.0: expected"),
        ({"items": [{"task": 7, "candidate": "a"}]}, 422, "items.0: the task must be"),
        ({"items": [{"task": "t", "candidate": None}]}, 422, "items.0: the candidate must be text"),
        ({"item": []}, 422, "expected"),
        ({"items": [], "more": 1}, 422, "unknown key: more"),
        ({"items": [ITEM] * 11}, 413, "at most 10"),
    ],
)
def test_requests_are_read_strictly(body: object, status: int, words: str) -> None:
    """What is no request is refused in one line that names the place; nothing is guessed."""
    with TestClient(build(), base_url="http://localhost") as client:
        response = client.post("/v1/verify", json=body)
    assert response.status_code == status
    assert words in response.json().get("error", "")


def test_a_body_of_another_type_is_refused() -> None:
    """A form that a page could send without asking is refused, and so is text that is no JSON."""
    with TestClient(build(), base_url="http://localhost") as client:
        assert client.post("/v1/verify", content="{}", headers={"Content-Type": "text/plain"}).status_code == 415
        assert client.post("/v1/verify", content="{", headers={"Content-Type": "application/json"}).status_code == 422
        assert client.get("/v1/verify").status_code == 405


def test_a_token_is_asked_for() -> None:
    """Without the token, or with another, nothing is verified; health needs none."""
    with TestClient(build("secret"), base_url="http://localhost") as client:
        for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "secret"}):
            assert client.post("/v1/verify", json={"items": [ITEM]}, headers=headers).status_code == 401
        right = {"Authorization": "Bearer secret"}
        assert client.post("/v1/verify", json={"items": [ITEM]}, headers=right).status_code == 200
        assert client.get("/health").json()["verified"] == 1


def test_another_name_for_loopback_is_refused() -> None:
    """A page whose name was made to lead here cannot ask."""
    with TestClient(build(), base_url="http://evil.example") as client:
        assert client.post("/v1/verify", json={"items": [ITEM]}).status_code == 400


def test_what_waits_elsewhere_than_on_loopback_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command refuses to listen on other addresses without one, before anything starts."""
    monkeypatch.delenv("TRITONRL_TOKEN", raising=False)
    result = CliRunner().invoke(command_line, ["serve", "--host", "0.0.0.0", "--port", "0"])
    assert result.exit_code == 2
    assert "a token is required" in result.stderr


@contextlib.contextmanager
def answering(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these answers in order, the last for ever, and keeps what it was asked."""
    asked: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            status, headers, body = answers[min(len(asked), len(answers)) - 1]
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


BUSY = (503, {"Retry-After": "0"}, b'{"error": "full"}')
DONE = (200, {}, b'{"verdicts": [{"error": "no task"}]}')


def test_a_busy_server_is_asked_again() -> None:
    """The same request is sent until it is taken on."""
    with answering(BUSY, (429, {"Retry-After": "0"}, b"{}"), DONE) as (url, asked), RemoteVerifier(url) as verifier:
        assert verifier.ask([ITEM]) == [{"error": "no task"}]
    assert len(asked) == 3
    assert len(set(asked)) == 1


def test_patience_ends() -> None:
    """A server that stays busy is an infrastructure error that repeats its words."""
    with (
        answering(BUSY) as (url, _),
        RemoteVerifier(url, patience_s=0.2) as verifier,
        pytest.raises(TritonrlError, match=r"no answer within 0.2 s: 503 full"),
    ):
        verifier.ask([ITEM])


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [(401, UsageError, "TRITONRL_TOKEN"), (422, UsageError, "why"), (500, TritonrlError, "why")],
)
def test_refusals_are_not_repeated(status: int, kind: type[Exception], words: str) -> None:
    """What is wrong with a request, or was tried by the server itself, is told at once."""
    with answering((status, {}, b'{"error": "why"}')) as (url, asked), RemoteVerifier(url) as verifier:
        with pytest.raises(kind, match=words):
            verifier.ask([ITEM])
        assert len(asked) == 1


def test_another_server_answers_for_one_that_is_gone() -> None:
    """Of several servers the next is asked where one cannot be reached."""
    with answering(DONE) as (url, asked), RemoteVerifier(f"http://127.0.0.1:9, {url}", patience_s=0.3) as verifier:
        assert [verifier.ask([{**ITEM, "candidate": text}]) for text in "abcd"] == [[{"error": "no task"}]] * 4
    assert len(asked) == 4


def test_an_address_where_no_server_was_found_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none ever answered the wait is short; one that answered and is gone is waited for."""
    monkeypatch.setattr(http_client, "UNREACHED_S", 0.2)
    with RemoteVerifier("http://127.0.0.1:9") as verifier, pytest.raises(TritonrlError, match=r"within 0.2 s"):
        verifier.ask([ITEM])
    with answering(DONE) as (url, _):
        verifier = RemoteVerifier(url, patience_s=0.5)
        assert verifier.ask([ITEM]) == [{"error": "no task"}]
    with verifier, pytest.raises(TritonrlError, match=r"within 0.5 s"):
        verifier.ask([ITEM])


@pytest.mark.parametrize("url", ["", "localhost:8321", "ftp://host"])
def test_a_url_that_is_none_is_a_usage_error(url: str) -> None:
    """It is refused before anything is sent."""
    with pytest.raises(UsageError):
        RemoteVerifier(url)


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """The address of a real server with one worker."""
    command = [sys.executable, "-m", "tritonrl.cli", "serve", "--port", "0", "--workers", "1"]
    settings = ["--set", "verifier.seed=0", "--backend", "interpret"]
    with subprocess.Popen([*command, *settings], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[0]
        server.terminate()
        assert server.wait(30) in (0, -15)


def test_verdicts_are_those_of_a_verifier_here(served: str, verifier: Verifier) -> None:
    """Verdicts from a server equal those of a verifier with the same seed, seconds aside; a bad task raises."""
    pairs = [(ADD, add()), (ADD, add("x - y")), (ADD, "no kernel"), (ADD, add())]
    spec = VerifierSpec.for_training(Extensions.parse("s"))
    with RemoteVerifier(served) as remote:
        found = remote.verify_many(pairs, spec)
        here = verifier.verify_many(pairs, spec)
        assert [(one.where, one.candidate, one.torch_operators, one.declared) for one in found] == [
            (one.where, one.candidate, one.torch_operators, one.declared) for one in here
        ]
        assert remote.backend == "interpret"
        broken = evolve(ADD, source="x = 1")
        with pytest.raises(TaskError, match="defines no Model"):
            remote.verify_many([(broken, add())], spec)


def test_a_scorer_and_the_command_ask_a_server(served: str, tmp_path: Path) -> None:
    """Rewards, exit codes and JSON are those of a verifier here; a task's file is sent as text."""
    with Scorer(url=served) as scorer:
        assert scorer.score_many([(ADD, f"```python\n{add()}```"), (ADD, "nothing")]) == [0.7, 0.0]
    (tmp_path / "task.py").write_text(ADD.source)
    (tmp_path / "kernel.py").write_text(add())
    given = ["verify", str(tmp_path / "kernel.py"), "--task", str(tmp_path / "task.py"), "--url", served]
    done = CliRunner().invoke(command_line, given)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("correct")
    assert "cached: " not in done.stdout
    (tmp_path / "batch.jsonl").write_text('{"task": "task.py", "candidate": "kernel.py"}\n')
    batch = ["verify", "--batch", str(tmp_path / "batch.jsonl"), "--url", served]
    again = CliRunner().invoke(command_line, [*batch, "--json"])
    assert again.exit_code == 0, again.stderr
    assert (json.loads(again.stdout)["line"], json.loads(again.stdout)["cached"]) == (1, True)
    assert "\n  cached: " in CliRunner().invoke(command_line, batch).stdout
    refused = CliRunner().invoke(command_line, [*given, "--backend", "cuda"])
    assert refused.exit_code == 2


def test_the_server_keeps_well(served: str) -> None:
    """Health tells the workers, and an id that is none is the item's error and no one else's."""
    with RemoteVerifier(served) as remote:
        replies = remote.ask([{"task": "l1-nothing", "candidate": "a"}, {"task": to_plain(ADD), "candidate": "a"}])
    assert "error" in replies[0]
    assert replies[1]["reached"] == "ast"
    assert httpx2.get(f"{served}/health").json()["status"] == "ok"
