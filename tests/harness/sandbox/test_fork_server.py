"""A process that forks: its children have the descriptors that they are given, and its last words are an error's."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tritonrl.harness.errors import SandboxError
from tritonrl.harness.sandbox.fork_server import ForkServer

CHILD = """
import os, sys
from tritonrl.harness.sandbox.fork_server import serve_forks

def be_child(connection, request, descriptors):
    if request == b"bad":
        raise ValueError("a mistake\\nin two lines")
    os.write(descriptors[0], request)
    connection.sendall(b"done")
    connection.recv(1)

serve_forks(be_child)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForkServer]:
    """A server whose children write their request into a pipe."""
    (tmp_path / "made_up_child.py").write_text(CHILD)
    found = ForkServer("made_up_child", {"PYTHONPATH": str(tmp_path)}, "a server", is_logged=True)
    yield found
    found.close()


def hear(ours: socket.socket) -> bytes:
    """What a child says before it ends, or next."""
    ours.settimeout(20.0)
    return ours.recv(4)


def test_a_child_has_its_request_and_what_came_with_it(server: ForkServer) -> None:
    """Each on a socket of its own, in a process of its own."""
    reading, writing = os.pipe()
    children = [server.spawn(request, [writing]) for request in (b"a", b"b")]
    assert len({child for child, _ in children}) == 2
    assert [hear(ours) for _, ours in children] == [b"done", b"done"]
    assert sorted(os.read(reading, 1) for _ in children) == [b"a", b"b"]
    for _, ours in children:
        ours.close()


def test_a_mistake_is_told_in_one_line(server: ForkServer) -> None:
    """A child that fails closes its socket, and what it said is the error of whoever missed it."""
    _, ours = server.spawn(b"bad", [])
    assert hear(ours) == b""
    with pytest.raises(SandboxError, match="a server ended: ValueError: a mistake in two lines"):
        server.expect(False)


def test_a_server_that_does_not_start_says_why() -> None:
    """Its last line is the error's."""
    server = ForkServer("no_such_module", {}, "a server", is_logged=True)
    with pytest.raises(SandboxError, match=r"a server ended: .*No module named no_such_module"):
        server.spawn(b"a", [])
    server.close()
