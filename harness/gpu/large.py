"""A plan's run on inputs that its executor draws, with results that come by the piece: the judge's side."""

from __future__ import annotations

import torch

from ...core.candidate import Failure, Variant
from ...core.plan import LaunchPlan
from ...core.run import RunResult
from ...core.serialisation import from_plain, to_plain
from ..reference.device_draws import DrawnInputs
from ..sandbox.sandbox import read_run_result
from .backend import CudaBackend, place, try_twice
from .processes import Executor, Lost

_LIMITS = 4
"""A run on gigabytes may take so many times a run's limit: its inputs are drawn within it."""


def run_large(
    cuda: CudaBackend, plan: LaunchPlan, storages: dict[int, bytes], drawn: DrawnInputs, device: str
) -> tuple[RunResult, list[torch.Tensor]]:
    """Run a plan on inputs that its executor draws: its result without outputs, and these on `device`, as bytes.

    `storages` have the initial values of all buffers but inputs and temporaries.
    """
    blobs: list[bytes] = []
    header = {
        "kind": "run large",
        "plan": to_plain(plan),
        "storages": place(storages, blobs),
        "drawn": to_plain(drawn),
        "binaries": cuda.binaries([plan], blobs),
    }
    try:
        with cuda.executor() as executor:
            reply, _ = try_twice(executor, lambda: cuda.ask(executor, header, blobs, _LIMITS * cuda.limit_s))
            if reply["failure"] is not None:
                return RunResult(variant=Variant.DECLARED, failure=from_plain(reply["failure"], Failure)), []
            result = read_run_result(reply["result"], [])
            if result.out_of_bounds:  # the child has ended
                return result, []
            try:
                outputs = [_fetch(cuda, executor, number, size, device) for number, size in enumerate(reply["sizes"])]
            finally:
                cuda.ask(executor, {"kind": "let go"}, [])
            return result, outputs
    except Lost as lost:
        return RunResult(variant=Variant.DECLARED, failure=lost.failure), []


def _fetch(cuda: CudaBackend, executor: Executor, number: int, size: int, device: str) -> torch.Tensor:
    """An output's bytes, through the memory that both processes have."""
    found = torch.empty(size, dtype=torch.uint8, device=device)
    step = len(executor.window)
    for start in range(0, size, step):
        stop = min(size, start + step)
        cuda.ask(executor, {"kind": "fetch", "output": number, "start": start, "stop": stop}, [])
        found[start:stop].copy_(executor.window[: stop - start])
    return found
