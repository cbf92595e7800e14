"""HTTP requests that are repeated where a server is busy, restarts or does not answer.

A request is repeated on a lost connection, on a timeout, and on the statuses that mean "later": 408, 429, 500, 502,
503, 504. The wait doubles from a quarter of a second to half a minute, with jitter, and is what `Retry-After` says
where a server says so. Whoever calls must send what may be sent twice.

A server that restarts is worth waiting for; an address where none was ever found is most likely wrong, and is given up
after `UNREACHED_S`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import tenacity

from .errors import TritonrlError

LATER = frozenset({408, 429, 500, 502, 503, 504})
UNREACHED_S = 8.0
_MAX_WAIT_S = 30.0


class _Later(Exception):
    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(f"{response.status_code} {describe(response)}")
        self.retry_after_s = _seconds(response.headers.get("retry-after"))


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else min(_MAX_WAIT_S, max(0.0, float(text)))
    except ValueError:  # a date
        return None


_BACKOFF = tenacity.wait_random_exponential(multiplier=0.25, max=_MAX_WAIT_S)


def _wait_s(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, _Later) and error.retry_after_s is not None:
        return error.retry_after_s
    return _BACKOFF(state)


class PatientClient:
    """Posts JSON to servers, again where they say "later".

    `read_timeout_s` bounds how long one request may take to be answered, `patience_s` all attempts of one. `is_final`
    names responses that are not worth repeating whatever their status.
    """

    def __init__(
        self,
        token: str | None,
        read_timeout_s: float,
        patience_s: float,
        is_final: Callable[[httpx2.Response], bool],
        max_connections: int | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = httpx2.Timeout(30.0, read=read_timeout_s, connect=UNREACHED_S, pool=None)
        limits = httpx2.Limits(max_connections=max_connections)
        self.client = httpx2.Client(headers=headers, timeout=timeout, limits=limits)
        self.patience_s = patience_s
        self._is_final = is_final
        self._reached: set[str] = set()

    def close(self) -> None:
        self.client.close()

    def post(self, url: str, body: Any, patience_s: float | None = None) -> httpx2.Response:
        """Post until a server answers with a status that does not mean "later"; returns that response.

        Raises TritonrlError where there was no answer within the patience, and for a URL that is none.
        """
        patience_s = self.patience_s if patience_s is None else patience_s

        def send() -> httpx2.Response:
            try:
                response = self.client.post(url, json=body)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                raise
            except httpx2.TransportError:
                self._reached.add(url)
                raise
            self._reached.add(url)
            if response.status_code in LATER and not self._is_final(response):
                raise _Later(response)
            return response

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((_Later, httpx2.TransportError)),
            wait=_wait_s,
            stop=lambda state: tenacity.stop_before_delay(self._wait_for(url, patience_s))(state),
            reraise=True,
        )
        try:
            return retrying(send)
        except (_Later, httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            waited_s = self._wait_for(url, patience_s)
            raise TritonrlError(f"{url}: no answer within {waited_s:g} s: {reason}") from None

    def _wait_for(self, url: str, patience_s: float) -> float:
        return patience_s if url in self._reached else min(UNREACHED_S, patience_s)


def describe(response: httpx2.Response) -> str:
    """Return what an error response says, in one line."""
    try:
        found = response.json()
        error = found.get("error", found) if isinstance(found, dict) else found
        text = error.get("message", error) if isinstance(error, dict) else error
    except ValueError:
        text = response.text
    return " ".join(str(text).split())[:300] or response.reason_phrase
