"""Things of one process that others use in turns: executors on a GPU, a budget of memory.

The owner has a thread for each borrower, which does what that one asks, one thing after the other: a reply is a value
and sockets. What a borrower holds is kept in sessions, one for each kind of thing, which the owner closes when the
borrower is gone, however it went.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from .errors import SandboxError

_MAX_BYTES = 1 << 20
_MAX_SOCKETS = 4
Reply = tuple[Any, Sequence[int]]
"""A value, and descriptors of sockets."""


class Session(Protocol):
    """One borrower's part of something."""

    def answer(self, message: Any) -> Reply:
        """Do what is asked; it may wait for others."""

    def close(self) -> None:
        """Take back what the borrower holds, who is gone."""


@frozen(kw_only=True)
class _Failed:
    message: str


def lend(sessions: Mapping[str, Callable[[], Session]]) -> socket.socket:
    """Return a borrower's end of a connection, which a thread serves until it closes."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    threading.Thread(target=_serve, args=(ours, sessions), name="lend", daemon=True).start()
    return theirs


def _serve(connection: socket.socket, makers: Mapping[str, Callable[[], Session]]) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(connection)
        sessions: dict[str, Session] = {}
        while packet := _receive(connection):
            name, message = pickle.loads(packet)
            if name not in sessions:
                sessions[name] = stack.enter_context(contextlib.closing(makers[name]()))
            descriptors: Sequence[int] = ()
            try:
                value, descriptors = sessions[name].answer(message)
            except Exception as error:
                value = _Failed(message=f"{type(error).__name__}: {error}")
            try:
                socket.send_fds(connection, [pickle.dumps(value)], list(descriptors))
            except OSError:
                return


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_MAX_BYTES)
    except OSError:
        return b""


class Borrower:
    """The borrower's side; for one thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def ask(self, name: str, message: Any) -> tuple[Any, list[int]]:
        """Return the answer of this name's session; raises SandboxError where the owner failed or is gone."""
        try:
            self._connection.send(pickle.dumps((name, message)))
            packet, descriptors, _, _ = socket.recv_fds(self._connection, _MAX_BYTES, _MAX_SOCKETS)
        except OSError as error:
            raise SandboxError(f"the owner of {name} is gone: {error}") from error
        if not packet:
            raise SandboxError(f"the owner of {name} is gone")
        value = pickle.loads(packet)
        if isinstance(value, _Failed):
            raise SandboxError(value.message)
        return value, descriptors
