"""The command `tritonrl serve`: a verifier that stays, for programs on this machine or on others."""

from __future__ import annotations

import contextlib
import os
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from ..command_line import Backend, ConfigFile, Preset, Settings, guarded, with_backend
from ..errors import UsageError
from . import TOKEN_VARIABLE


@guarded
def serve(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 = one that is free.")] = 8321,
    host: Annotated[str, typer.Option("--host", help="The address to listen on; any but loopback needs a token.")] = (
        "127.0.0.1"
    ),
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help=f"Holds the bearer token (default: ${TOKEN_VARIABLE}).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Candidates verified at once (default: CPU cores).")
    ] = None,
    max_waiting: Annotated[int, typer.Option("--max-waiting", min=1, help="Items; more are refused by 503.")] = 4096,
    max_of_client: Annotated[
        int, typer.Option("--max-of-client", min=1, help="Items of one address; more are refused by 429.")
    ] = 1024,
    backend: Backend = None,
    preset: Preset = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
) -> None:
    """Serve verdicts over HTTP until interrupted, so that many programs share one verifier.

    Who may send a task may run code as this user: a task's reference is trusted. Keep the token secret, and put TLS in
    front where the network is not yours. The seed is drawn at the start unless a setting names one.

    Example: tritonrl serve --port 8321

    Example: TRITONRL_TOKEN=secret tritonrl serve --host 0.0.0.0 --workers 32
    """
    from ..settings import load_config, read_text, require_driver, with_drawn_seed

    # what is wrong with the arguments is found before what takes longer is imported
    token = read_text(token_file).strip() if token_file is not None else os.environ.get(TOKEN_VARIABLE, "")
    if token_file is not None and not token:
        raise UsageError(f"--token-file {token_file}: it is empty")
    is_loopback = _is_loopback(host)
    if not token and not is_loopback:
        raise UsageError(f"--host {host}: not loopback, so a token is required: --token-file or ${TOKEN_VARIABLE}")
    config = load_config(preset, config_file, with_backend(settings, backend), with_drawn_seed())
    require_driver(config.verifier)
    try:
        import uvicorn

        from .app import build_app
    except ImportError as error:
        raise UsageError(f"serve: {error.name} is not installed (pip install 'tritonrl[serve]')") from None
    from ..verification.verifier import open_verifier
    from .dispatcher import Dispatcher, Limits

    num_workers = workers or len(os.sched_getaffinity(0))
    limits = Limits(num_waiting=max_waiting, num_of_client=max_of_client)
    with _listen(host, port) as listener, open_verifier(config) as verifier:
        dispatcher = Dispatcher(verifier.workers(), config, verifier.backend, num_workers, limits)
        app = build_app(dispatcher, token or None, is_loopback)
        address = f"[{host}]" if ":" in host else host
        print(f"http://{address}:{listener.getsockname()[1]}  {num_workers} workers", flush=True)
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=10, timeout_keep_alive=75)
        )
        # uvicorn raises the signal again by which it was ended, when it has answered what it had begun
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises UsageError where there can be none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: {error.strerror or error}") from None
