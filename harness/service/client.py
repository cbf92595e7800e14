"""A verifier that is elsewhere: the same calls, answered by servers of `tritonrl serve`.

With several servers an item goes to one that its content chooses, so that equal candidates meet the same one, and to
the next where that one cannot be reached. Asking twice is safe: a server verifies equal items once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2

from ...core.candidate import Candidate
from ...core.recipe.extensions import AUDIT, VerifierSpec
from ...core.serialisation import fingerprint, to_plain
from ...core.task import Task
from ...core.verdict import Verdict
from ..errors import TaskError, TritonrlError, UsageError
from ..http_client import PatientClient, describe
from ..side_by_side import cancelling_pool
from . import TOKEN_VARIABLE
from .messages import verdict_from_plain

_ITEMS_A_REQUEST = 8
_REQUESTS_AT_ONCE = 4
_PATIENCE_S = 600.0
_READ_TIMEOUT_S = 900.0


class RemoteVerifier:
    """Asks servers for verdicts; a `core.recipe.learner.Judge` without evidence, and a context manager.

    `url` is one server's, or several with commas between. The token is the environment's `TRITONRL_TOKEN` unless one
    is given. A server that is busy or restarts is asked again for `patience_s`; one that was never reached is given up
    after seconds.
    """

    def __init__(self, url: str, token: str | None = None, patience_s: float = _PATIENCE_S) -> None:
        self.urls = tuple(part.strip().rstrip("/") for part in url.split(",") if part.strip())
        for one in self.urls:
            if urlsplit(one).scheme not in ("http", "https") or not urlsplit(one).netloc:
                raise UsageError(f"{one}: not the URL of a server, such as http://127.0.0.1:8321")
        if not self.urls:
            raise UsageError("url: names no server")
        token = token if token is not None else os.environ.get(TOKEN_VARIABLE)
        self._client = PatientClient(token, _READ_TIMEOUT_S, patience_s, _has_tried)

    def __enter__(self) -> RemoteVerifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    @property
    def backend(self) -> str:
        """Where the first server runs plans; raises TritonrlError where it does not say."""
        try:
            backend = self._client.client.get(f"{self.urls[0]}/health").json()["backend"]
        except (httpx2.HTTPError, ValueError, KeyError) as error:
            raise TritonrlError(f"{self.urls[0]}/health: {error}") from None
        if not isinstance(backend, str):
            raise TritonrlError(f"{self.urls[0]}: no worker is up yet")
        return backend

    def ask(self, items: Sequence[Mapping[str, Any]], spec: VerifierSpec = AUDIT) -> list[dict[str, Any]]:
        """Return each item's reply as the server gives it (`messages`); raises UsageError or TritonrlError."""
        replies: list[dict[str, Any]] = [{}] * len(items)
        for indices, found in self._in_parts(items, spec):
            for index, reply in zip(indices, found, strict=True):
                replies[index] = reply
        return replies

    def verify_many(
        self,
        pairs: Sequence[tuple[Task, str]],
        spec: VerifierSpec,
        jobs: int = 1,
        on_done: Callable[[int, Verdict], None] | None = None,
        on_bad_task: Callable[[int, TaskError], None] | None = None,
    ) -> list[Verdict]:
        """As a verifier here; how many are verified at once is the server's choice."""
        verdicts: dict[int, Verdict] = {}
        items = [{"task": to_plain(task), "candidate": source} for task, source in pairs]
        for indices, found in self._in_parts(items, spec):
            for index, reply in zip(indices, found, strict=True):
                if "error" in reply:
                    if on_bad_task is None:
                        raise TaskError(reply["error"])
                    on_bad_task(index, TaskError(reply["error"]))
                    continue
                verdicts[index] = verdict_from_plain(reply)
                if on_done is not None:
                    on_done(index, verdicts[index])
        return [verdicts[index] for index in sorted(verdicts)]

    @contextmanager
    def verify_ahead(self, spec: VerifierSpec, jobs: int) -> Iterator[Callable[[Task, str], None]]:
        """Yield what does nothing: a server is asked for verdicts."""
        yield lambda *_: None

    def gather(self, task: Task, source: str, spec: VerifierSpec) -> Candidate:
        """Raise UsageError: evidence stays with the server."""
        raise UsageError("a verifier that is elsewhere gives verdicts and no evidence")

    def _in_parts(
        self, items: Sequence[Mapping[str, Any]], spec: VerifierSpec
    ) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
        by_server: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            chosen = int(fingerprint(item)[:8], 16) % len(self.urls) if len(self.urls) > 1 else 0
            by_server.setdefault(chosen, []).append(index)
        parts = [
            (chosen, indices[start : start + _ITEMS_A_REQUEST])
            for chosen, indices in by_server.items()
            for start in range(0, len(indices), _ITEMS_A_REQUEST)
        ]
        with cancelling_pool(min(len(parts), _REQUESTS_AT_ONCE * len(self.urls)), "ask") as pool:
            running = {
                pool.submit(self._request, chosen, [items[index] for index in indices], spec): indices
                for chosen, indices in parts
            }
            for future in as_completed(running):
                yield running[future], future.result()

    def _request(self, chosen: int, items: list[Mapping[str, Any]], spec: VerifierSpec) -> list[dict[str, Any]]:
        order = [*self.urls[chosen:], *self.urls[:chosen]]
        for number, url in enumerate(order):
            is_last = number == len(order) - 1
            try:
                # another server may answer at once, the last is waited for
                patience_s = self._client.patience_s if is_last else min(5.0, self._client.patience_s)
                return self._send(url, items, spec, patience_s)
            except UsageError:
                raise
            except TritonrlError:
                if is_last:
                    raise
        raise AssertionError("there is a last server")

    def _send(
        self, url: str, items: list[Mapping[str, Any]], spec: VerifierSpec, patience_s: float
    ) -> list[dict[str, Any]]:
        body = {"items": items, "spec": to_plain(spec)}
        response = self._client.post(f"{url}/v1/verify", body, patience_s)
        if response.status_code == 401:
            raise UsageError(f"{url}: a token is required, in the environment's {TOKEN_VARIABLE}")
        if response.status_code in (400, 404, 413, 415, 422):
            raise UsageError(f"{url}: {describe(response)}")
        if response.status_code != 200:
            raise TritonrlError(f"{url}: {describe(response)}")
        verdicts = response.json().get("verdicts")
        if not isinstance(verdicts, list) or len(verdicts) != len(items):
            raise TritonrlError(f"{url}: not the answer of a verifier")
        return verdicts


def _has_tried(response: httpx2.Response) -> bool:
    """Return whether a server gave up after attempts of its own."""
    return response.status_code == 500
