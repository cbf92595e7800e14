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

from ....core.candidate import Failure, Variant
from ....core.outcome import Outcome
from ....core.plan import LaunchPlan
from ....core.run import RunRequest, RunResult
from ....core.serialisation import from_plain, to_plain
from ..candidate_module import describe
from ..warm_up import CANDIDATE, make_plan
from .kernel_module import KernelModule
from .patch_table import SEMANTICS, WATCHING, install
from .plan_run import run_plan

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
            result = run_plan(_read_request(plain, blobs), kernels)
        results.append(_answer(result, len(outputs), time.perf_counter() - began))
        outputs += (*result.outputs, *result.written, *result.tainted)
    return {"results": results}, outputs


def _read_request(plain: dict[str, Any], blobs: list[bytes]) -> RunRequest:
    watched = plain["watched"]
    return RunRequest(
        variant=Variant(plain["variant"]),
        plan=from_plain(plain["plan"], LaunchPlan),
        storages={int(index): blobs[number] for index, number in plain["storages"].items()},
        num_programs=plain["num_programs"],
        seed=plain["seed"],
        reverse=plain["reverse"],
        programs=tuple(plain["programs"]),
        num_lanes=plain["num_lanes"],
        watched=None if watched is None else (watched[0], watched[1]),
    )


def _answer(result: RunResult, first: int, seconds: float) -> dict[str, Any]:
    """Return the result as plain data, its bytes by the numbers of blobs from `first` on."""
    middle = first + len(result.outputs)
    last = middle + len(result.written)
    return {
        "variant": result.variant.value,
        "outputs": list(range(first, middle)),
        "written": list(range(middle, last)),
        "tainted": list(range(last, last + len(result.tainted))),
        "sample": to_plain(result.sample),
        "mutated": list(result.mutated),
        "out_of_bounds": list(result.out_of_bounds),
        "failure": to_plain(result.failure),
        "seconds": seconds,
    }
