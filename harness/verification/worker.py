"""The workers that judge, and the process that forks them (`harness.sandbox.fork_server`).

A worker has a verifier of its own and one candidate at a time. The sandbox's zygotes, the executors on GPUs and the
file of evidence are shared: they belong to the process that asks (`workers`). Candidates' code runs in none of these,
so what workers and their owner send each other is trusted.
"""

from __future__ import annotations

import gc
import pickle
import signal
import socket
from collections.abc import Callable
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any

from ...core.task import Task
from ..errors import SandboxError
from ..gpu.lent_executors import BorrowedBackend
from ..lending import Borrower
from ..sandbox.fork_server import serve_forks
from ..sandbox.sandbox import Sandbox
from ..torch_start import import_torch
from .evidence_store import EvidenceStore
from .memory_budget import BorrowedBudget, Share
from .verifier import Verifier
from .workers import GPU_MEMORY, HOST_MEMORY, Broken, Question, WorkerOrder

_MAX_TASKS = 256


def main() -> None:
    """Import, then fork a worker for each request, whose descriptors are the sockets of what it borrows."""
    _warm_up()
    serve_forks(_be_worker)


def _warm_up() -> None:
    """Do what takes seconds when it is first done, so that workers start with it."""
    import_torch(is_own=True)
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch.set_num_threads(1)
    with FakeTensorMode():
        torch.nn.functional.linear(torch.empty(2, 2), torch.empty(2, 2))
    gc.collect()
    gc.freeze()


def _be_worker(connection: socket.socket, _: bytes, descriptors: list[int]) -> None:
    serve(Connection(connection.detach()), [socket.socket(fileno=descriptor) for descriptor in descriptors])


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
    import torch

    signal.setitimer(signal.ITIMER_REAL, question.limit_s)  # whose signal ends the process
    try:
        return verifier.verify(_read_task(question.task), question.source, question.spec)
    except SandboxError as error:
        return Broken(message=str(error))
    except torch.AcceleratorError:  # the GPU's context is lost to this process: let it end, and another be asked
        raise
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
