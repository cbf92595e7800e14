"""The HTTP side of the server: who may ask, how much at once, and in which words it refuses.

`POST /v1/verify` verifies (`messages`); `GET /health` says how the workers are. Where there is a token every request
to `/v1` must bring it, since a task is a program that the verifier trusts: who may send one may run code as this user.
On a loopback address the Host header must name one too, so that a page in a browser cannot ask by another name.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from .dispatcher import Dispatcher, Refused
from .messages import MAX_BODY_BYTES, read_request

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]", "::1")
_RETRY_AFTER_S = "2"


def build_app(dispatcher: Dispatcher, token: str | None, is_loopback: bool) -> Starlette:
    """Return the application that serves what a dispatcher does; without a token it asks for none."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with dispatcher:
            yield

    async def verify(request: Request) -> JSONResponse:
        _require_token(request, token)
        try:
            items, spec = read_request(await _read_json(request))
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        client = request.client.host if request.client else ""
        try:
            replies = await dispatcher.verify(items, spec, client)
        except Refused as refusal:
            headers = {} if refusal.status == 413 else {"Retry-After": _RETRY_AFTER_S}
            raise HTTPException(refusal.status, str(refusal), headers) from None
        failures = [reply["failure"] for reply in replies if "failure" in reply]
        if failures:
            raise HTTPException(500, failures[0])
        return JSONResponse({"verdicts": replies})

    async def health(_: Request) -> JSONResponse:
        status = "broken" if dispatcher.is_broken else "ok" if dispatcher.pool.num_up else "starting"
        plain = {
            "status": status,
            "workers": dispatcher.num_workers,
            "workers_up": dispatcher.pool.num_up,
            "restarts": dispatcher.pool.num_ended,
            "waiting": dispatcher.num_waiting,
            "verified": dispatcher.num_verified,
            "backend": dispatcher.backend,
        }
        return JSONResponse(plain, status_code=200 if status == "ok" else 503)

    async def refuse(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)

    hosts = [Middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK_NAMES))] if is_loopback else []
    routes = [Route("/v1/verify", verify, methods=["POST"]), Route("/health", health)]
    return Starlette(routes=routes, middleware=hosts, lifespan=lifespan, exception_handlers={HTTPException: refuse})


def _require_token(request: Request, token: str | None) -> None:
    if token is None:
        return
    given = request.headers.get("authorization", "")
    if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise HTTPException(401, "a bearer token is required", {"WWW-Authenticate": "Bearer"})


async def _read_json(request: Request) -> Any:
    """Return the body; raises HTTPException for one that is too large, and ValueError for what is no JSON."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "the body must be application/json")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"a body of more than {MAX_BODY_BYTES >> 20} MB")
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
