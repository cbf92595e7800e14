"""The processes that judge: a nursery that has imported what they need, and the workers that it forks.

A worker has a verifier of its own and one candidate at a time. The sandbox's zygotes, the executors on GPUs and the
file of evidence are shared: they belong to the process that asks (`workers`). Candidates' code runs in none of these,
so what workers and their owner send each other is trusted. The nursery's end ends its workers, and its owner's end ends
the nursery.
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any

from ...core.task import Task
from ..errors import SandboxError
from ..gpu.lent_executors import BorrowedBackend
from ..lending import Borrower
from ..sandbox.confinement import syscalls
from ..sandbox.sandbox import Sandbox
from .evidence_store import EvidenceStore
from .memory_budget import BorrowedBudget, Share
from .verifier import Verifier
from .workers import GPU_MEMORY, HOST_MEMORY, MAX_SOCKETS, READY, Broken, Question, WorkerOrder

_MAX_TASKS = 256


def main() -> None:
    """Import, say so, and fork a worker for each request until the owner's end of the socket closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int, required=True)
    control = socket.socket(fileno=parser.parse_args().control)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _warm_up()
    control.send(READY)
    while True:
        try:
            packet, descriptors, _, _ = socket.recv_fds(control, 1, MAX_SOCKETS)
        except ConnectionError:
            return
        if not packet:
            return
        process = os.fork()
        if process == 0:
            os._exit(_be_worker(control, descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(str(process).encode())


def _warm_up() -> None:
    """Do what takes seconds when it is first done, so that workers start with it."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch.set_num_threads(1)
    with FakeTensorMode():
        torch.nn.functional.linear(torch.empty(2, 2), torch.empty(2, 2))
    gc.collect()
    gc.freeze()


def _be_worker(control: socket.socket, descriptors: list[int]) -> int:
    syscalls.control_process(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    control.close()
    connection, *sockets = descriptors
    try:
        serve(Connection(connection), [socket.socket(fileno=descriptor) for descriptor in sockets])
    except (EOFError, ConnectionError):
        return 0  # its owner has ended
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        return 1
    return 0


def serve(connection: Connection, sockets: list[socket.socket]) -> None:
    """Answer questions until the connection closes: by a verdict, an exception, or `Broken` and the end."""
    order: WorkerOrder = connection.recv()
    lent, *controls = sockets
    borrower = Borrower(lent)
    sandbox = Sandbox.borrow(order.loan, controls)
    with EvidenceStore(order.evidence) as store:
        cuda = None if order.executors is None else BorrowedBackend(store.get_blob, order.executors, borrower)
        host, gpu = (BorrowedBudget(order.budgets[name], borrower, name) for name in (HOST_MEMORY, GPU_MEMORY))
        share = Share(num_sharing=order.num_workers, budget=host, gpu_budget=gpu)
        verifier = Verifier(order.config, order.timing, sandbox, store, cuda, share)
        while True:
            question: Question = connection.recv()
            answer = _answer(verifier, question)
            connection.send_bytes(_pack(answer))
            if isinstance(answer, Broken):
                return


def _answer(verifier: Verifier, question: Question) -> Any:
    signal.setitimer(signal.ITIMER_REAL, question.limit_s)  # whose signal ends the process
    try:
        return verifier.verify(_read_task(question.task), question.source, question.spec)
    except SandboxError as error:
        return Broken(message=str(error))
    except Exception as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _pack(answer: Any) -> bytes:
    try:
        data = pickle.dumps(answer)
        pickle.loads(data)  # exceptions may be made in a way that pickle cannot repeat
    except Exception:
        data = pickle.dumps(RuntimeError(f"{type(answer).__name__}: {answer}"))
    return data


@lru_cache(maxsize=_MAX_TASKS)
def _read_task(data: bytes) -> Task:
    found: Task | Callable[[], Task] = pickle.loads(data)
    return found if isinstance(found, Task) else found()


if __name__ == "__main__":
    main()
