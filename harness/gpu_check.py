"""Whether the backend for GPUs works here: a kernel with a known answer goes through the verifier on each of them.

It is recorded and compiled in the sandbox, run and timed by an executor and compared with the oracle, as any candidate
is, so that what passes is the toolchain, the driver and the clock together.
"""

from __future__ import annotations

import time

from attrs import evolve, frozen

from ..core.config import Config
from ..core.extensions import VerifierSpec
from ..core.outcome import Outcome
from ..stages.funnel import fold
from ..stages.timing_stage import control_ratio_of
from .benchmarks.crashes import crash_task, draw_sources
from .cuda.backend import CudaBackend
from .errors import TritonrlError
from .sandbox.sandbox import Sandbox
from .verification.evidence_store import EvidenceStore
from .verification.verifier import Verifier

_CALIBRATED = VerifierSpec(stop_early=True, calibrated=True)


@frozen(kw_only=True)
class Check:
    """One thing examined; `is_fine` is null where the backend cannot be used, and that is nobody's fault."""

    subject: str
    is_fine: bool | None
    detail: str


def check_gpus(config: Config) -> list[Check]:
    """The driver, and each GPU; nothing where none is seen."""
    import torch

    if not torch.cuda.is_available():
        return []
    checks = [Check(subject="GPU driver", is_fine=True, detail=_describe_driver())]
    for device in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(device)
        architecture = f"sm_{properties.major}{properties.minor}"
        subject = f"GPU {device}: self-test"
        if architecture != config.verifier.target:
            detail = f"{architecture}, and verifier.target is {config.verifier.target}: plans are interpreted"
            checks.append(Check(subject=subject, is_fine=None, detail=detail))
        else:
            checks.append(_verify_on(config, device, subject))
    return checks


def _verify_on(config: Config, device: int, subject: str) -> Check:
    """A right kernel's verdict and runtime, or what is in the way."""
    began = time.perf_counter()
    clock = evolve(config.clock, torch_compile="none")
    verifier_config = evolve(config.verifier, backend="cuda", clock="measured")
    ((_, source),) = draw_sources(0)
    try:
        with (
            Sandbox(config.limits, target=config.verifier.target) as sandbox,
            EvidenceStore() as store,
            CudaBackend(store.get_blob, [device], per_gpu=1) as cuda,
        ):
            verifier = Verifier(verifier_config, clock, sandbox, store, cuda)
            candidate = verifier.gather(crash_task(), source, _CALIBRATED)
            verdict = fold(candidate, _CALIBRATED.stop_early, verifier.backend, clock.trim)
    except TritonrlError as error:
        return Check(subject=subject, is_fine=False, detail=str(error))
    report = candidate.evidence.timing
    if verdict.outcome is not Outcome.PASSED or verdict.speedup is None or report is None:
        said = next((result for result in verdict.stages if not result.passed), verdict.stages[-1])
        return Check(subject=subject, is_fine=False, detail=f"stage {said.stage}: {said.outcome}: {said.message}")
    ratio = control_ratio_of(report)
    detail = f"recorded, compiled, run and timed in {time.perf_counter() - began:.1f} s"
    return Check(subject=subject, is_fine=True, detail=detail + (f"; A/A control {ratio:.3f}" if ratio else ""))


def _describe_driver() -> str:
    from cuda.bindings import driver

    from .cuda.launcher import check

    version = int(check(driver.cuDriverGetVersion()))
    return f"CUDA {version // 1000}.{version % 1000 // 10}, through cuda.bindings as PyTorch brings it"
