"""HTTP requests that are repeated where a server is busy, restarts or does not answer.

A request is repeated on a lost connection, on a timeout, and on the statuses that mean "later": 408, 429, 500, 502,
503, 504. The wait doubles from a quarter of a second to half a minute, with jitter, and is what `Retry-After` says
where a server says so. Whoever calls must send what may be sent twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import tenacity

from .errors import TritonrlError

LATER = frozenset({408, 429, 500, 502, 503, 504})
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


def post_json(
    client: httpx2.Client,
    url: str,
    body: Any,
    patience_s: float,
    is_final: Callable[[httpx2.Response], bool] = lambda _: False,
) -> httpx2.Response:
    """Post JSON until a server answers with a status that does not mean "later"; returns that response.

    `is_final` names responses that are not worth repeating whatever their status. Raises TritonrlError where there was
    no answer within `patience_s`, and for a URL that is none.
    """

    def send() -> httpx2.Response:
        response = client.post(url, json=body)
        if response.status_code in LATER and not is_final(response):
            raise _Later(response)
        return response

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((_Later, httpx2.TransportError)),
        wait=_wait_s,
        stop=tenacity.stop_after_delay(patience_s),
        reraise=True,
    )
    try:
        return retrying(send)
    except (_Later, httpx2.HTTPError, httpx2.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise TritonrlError(f"{url}: no answer within {patience_s:g} s: {reason}") from None


def describe(response: httpx2.Response) -> str:
    """Return what an error response says, in one line."""
    try:
        found = response.json()
        error = found.get("error", found) if isinstance(found, dict) else found
        text = error.get("message", error) if isinstance(error, dict) else error
    except ValueError:
        text = response.text
    return " ".join(str(text).split())[:300] or response.reason_phrase
