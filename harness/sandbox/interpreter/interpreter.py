"""In the interpreting child: set Triton's interpreter up, and answer requests to run plans.

The host code of the candidate does not run, not even to be imported: `kernel_module` makes the kernels from the
source's tree, and `plan_run` executes a plan's steps on CPU tensors.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch
import triton
from attrs import evolve

from ....core.candidate import Failure, Variant
from ....core.outcome import Outcome
from ....core.run import RunRequest, RunResult
from ....core.serialisation import from_plain, to_plain
from ..candidate_module import describe
from ..warm_up import CANDIDATE, make_plan
from . import accesses, hints
from .kernel_module import KernelModule
from .plan_run import run_plan
from .semantics import (
    arithmetic,
    blocks,
    control_flow,
    gpu_error,
    libdevice,
    patches,
    reductions,
    rounding,
)
from .semantics.patches import Patch
from .semantics.run_state import current_run

# Where several patches replace one attribute, the later one wraps the earlier: accesses are checked and watched around
# everything that reaches memory, and names of built-ins and types are remembered after all that changes either.
SEMANTICS: tuple[Patch, ...] = (
    *rounding.PATCHES,
    *arithmetic.PATCHES,
    *blocks.PATCHES,
    *control_flow.PATCHES,
    *reductions.PATCHES,
    *libdevice.PATCHES,
    *gpu_error.PATCHES,
    *patches.INDEX_PATCHES,
)
"""Compute what a compiled kernel computes."""

WATCHING: tuple[Patch, ...] = (
    *blocks.ORDER_PATCHES,
    *hints.PATCHES,
    *accesses.PATCHES,
    *patches.SPEED_PATCHES,
    *patches.WORK_PATCHES,
)
"""Confine accesses to the plan's buffers, and let what kernels may not rely on show."""


def install(patches: tuple[Patch, ...]) -> None:
    """Apply patches for the rest of this process; each once."""
    for patch in patches:
        patch.apply()


Answer = tuple[dict[str, Any], list[bytes]]


def prepare(scratch: str) -> Any:
    """Set this process up for interpreting, warm it, and return what a child performs."""
    assert triton.knobs.runtime.interpret  # its jit functions are the interpreter's, by TRITON_INTERPRET at import
    install(SEMANTICS)
    install(WATCHING)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # NumPy's, of overflow and division in the kernels' arithmetic
    np.random.default_rng(
        np.unique(np.zeros(1, dtype=np.int64))
    )  # before the forks, as NumPy imports at their first call
    perform({"source": CANDIDATE, "requests": [make_plan(CANDIDATE)]}, [bytes(64)], scratch)
    return perform


def perform(request: dict[str, Any], blobs: list[bytes], scratch: str) -> Answer:
    """Read the candidate's kernels and run each request in order."""
    kernels: KernelModule | None = None
    failure: Failure | None = None
    try:
        kernels = KernelModule(request["source"])
    except BaseException as error:
        failure = describe(error, Outcome.IMPORT_FAILED)
    results: list[dict[str, Any]] = []
    outputs: list[bytes] = []
    for plain in request["requests"]:
        began = time.perf_counter()
        if kernels is None:
            result = RunResult(variant=Variant(plain["variant"]), failure=failure)
        else:
            result = evolve(run_plan(_read_request(plain, blobs), kernels), work=current_run().work)
        results.append(_answer(result, len(outputs), time.perf_counter() - began))
        outputs += (*result.outputs, *result.written, *result.tainted)
    return {"results": results}, outputs


def _read_request(plain: dict[str, Any], blobs: list[bytes]) -> RunRequest:
    storages = {int(index): blobs[number] for index, number in plain["storages"].items()}
    return evolve(from_plain({**plain, "storages": {}}, RunRequest), storages=storages)


def _answer(result: RunResult, first: int, seconds: float) -> dict[str, Any]:
    """Return the result as plain data, its bytes by the numbers of blobs from `first` on."""
    numbers = iter(range(first, first + len(result.outputs) + len(result.written) + len(result.tainted)))
    held = {name: [next(numbers) for _ in getattr(result, name)] for name in ("outputs", "written", "tainted")}
    return {**to_plain(evolve(result, outputs=(), written=(), tainted=())), **held, "seconds": seconds}
