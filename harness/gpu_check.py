"""Whether the backend for GPUs works here: a kernel with a known answer goes through the verifier on each of them.

It is recorded and compiled in the sandbox, run and timed by an executor and compared with the oracle, as any candidate
is, so that what passes is the toolchain, the driver and the timing protocol together.
"""

from __future__ import annotations

import time
from enum import StrEnum

from attrs import evolve, frozen

from ..core.config import Config
from ..core.outcome import Outcome
from ..core.recipe.extensions import VerifierSpec
from ..core.task import Constants, Task
from ..stages.funnel import fold
from ..stages.timing_stage import control_ratio_of
from .errors import TritonrlError
from .gpu.backend import CudaBackend
from .sandbox.sandbox import Sandbox
from .verification.evidence_store import EvidenceStore
from .verification.verifier import Verifier

_CALIBRATED = VerifierSpec(stop_early=True, calibrated=True)
_SIZE: Constants = (("N", 65536),)
_REFERENCE = """import torch
import torch.nn as nn

N = 65536


class Model(nn.Module):
    def forward(self, x):
        return x + x


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
"""
DOUBLE_SOLUTION = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, x + x, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
"""
"""A right candidate of `double_task`."""


class Health(StrEnum):
    OK = "ok"
    LIMITED = "limited"
    """Works, but slower or with less protection."""
    MISSING = "missing"


@frozen(kw_only=True)
class Finding:
    """One thing examined, and what it means; `is_needed`: whether the configuration cannot be run without it."""

    subject: str
    health: Health
    detail: str
    is_needed: bool = True


def check_gpus(config: Config) -> list[Finding]:
    """The driver, and whether a kernel goes through the whole verifier on each GPU; nothing where none is seen."""
    import torch

    if not torch.cuda.is_available():
        return []
    is_used = config.verifier.backend != "interpret" or config.verifier.timing == "measured"
    found = [Finding(subject="GPU driver", health=Health.OK, detail=_describe_driver(), is_needed=is_used)]
    for device in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(device)
        architecture = f"sm_{properties.major}{properties.minor}"
        if architecture != config.verifier.target:
            health = Health.LIMITED
            detail = f"{architecture}, and verifier.target is {config.verifier.target}: plans are interpreted"
        else:
            health, detail = _verify_on(config, device)
        found.append(Finding(subject=f"GPU {device}: self-test", health=health, detail=detail, is_needed=is_used))
    return found


def double_task() -> Task:
    """The task of the self-test: twice the input."""
    return Task(
        task_id="double",
        level=1,
        family="unary",
        description="Twice the input.",
        source=_REFERENCE,
        tiny=_SIZE,
        small=_SIZE,
        larger=_SIZE,
    )


def _verify_on(config: Config, device: int) -> tuple[Health, str]:
    """A right kernel's verdict and runtime, or what is in the way."""
    began = time.perf_counter()
    timing = evolve(config.timing, torch_compile="none")
    verifier_config = evolve(config.verifier, backend="cuda", timing="measured")
    try:
        with (
            Sandbox(config.limits, target=config.verifier.target) as sandbox,
            EvidenceStore() as store,
            CudaBackend(store.get_blob, [device], per_gpu=1) as cuda,
        ):
            verifier = Verifier(verifier_config, timing, sandbox, store, cuda)
            candidate = verifier.gather(double_task(), DOUBLE_SOLUTION, _CALIBRATED)
            verdict = fold(candidate, _CALIBRATED.stop_early, verifier.backend, timing.trim)
    except TritonrlError as error:
        return Health.MISSING, str(error)
    report = candidate.evidence.timing
    if verdict.outcome is not Outcome.PASSED or verdict.speedup is None or report is None:
        said = next((result for result in verdict.stages if not result.passed), verdict.stages[-1])
        return Health.MISSING, f"stage {said.stage}: {said.outcome}: {said.message}"
    ratio = control_ratio_of(report)
    detail = f"recorded, compiled, run and timed in {time.perf_counter() - began:.1f} s"
    return Health.OK, detail + (f"; A/A control {ratio:.3f}" if ratio else "")


def _describe_driver() -> str:
    from cuda.bindings import driver

    from .gpu.device.launcher import check

    version = int(check(driver.cuDriverGetVersion()))
    return f"CUDA {version // 1000}.{version % 1000 // 10}, through cuda.bindings as PyTorch brings it"
