"""What this machine can do, and what will be slow or missing: found by trying, not by reading version numbers."""

from __future__ import annotations

import os
import shutil
from enum import StrEnum
from pathlib import Path

from attrs import frozen

from ..core.config import Config
from .errors import TritonrlError
from .study.store import package_versions


class Health(StrEnum):
    OK = "ok"
    LIMITED = "limited"
    """Works, but slower or with less protection."""
    MISSING = "missing"


@frozen(kw_only=True)
class Finding:
    """One thing examined, and what it means."""

    subject: str
    health: Health
    detail: str


def examine(config: Config, plain: bool = False) -> list[Finding]:
    """Everything worth knowing before a run; `plain`: with the sandbox as where no namespaces are granted."""
    return [*_software(), *_hardware(), *_sandbox(config, plain), *_gpus(config), *_policy(config), *_executors()]


def _software() -> list[Finding]:
    found = []
    for package, number in package_versions().items():
        health = Health.OK if number else Health.MISSING
        found.append(Finding(subject=package, health=health, detail=number or "not installed"))
    return found


def _hardware() -> list[Finding]:
    processors = len(os.sched_getaffinity(0))
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = [
        Finding(
            subject="processors",
            health=Health.OK if processors >= 2 else Health.LIMITED,
            detail=f"{processors}: as many candidates are verified at once",
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
    from .sandbox.confinement import NAMESPACES
    from .sandbox.sandbox import Sandbox

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


def _gpus(config: Config) -> list[Finding]:
    """Each GPU with its driver, and whether a kernel goes through the whole verifier on it."""
    from .gpu_check import check_gpus

    marks = {True: Health.OK, False: Health.MISSING, None: Health.LIMITED}
    return [
        Finding(subject=check.subject, health=marks[check.is_fine], detail=check.detail) for check in check_gpus(config)
    ]


def _policy(config: Config) -> list[Finding]:
    from .policy.load import NANO_FOLDER

    folder = NANO_FOLDER if config.policy.name == "nano" else Path(config.policy.name)
    if folder.is_dir() and list(folder.glob("*.safetensors")):
        size_mb = sum(path.stat().st_size for path in folder.glob("*.safetensors")) / 2**20
        return [
            Finding(subject="policy", health=Health.OK, detail=f"{config.policy.name}: {size_mb:.0f} MB of weights")
        ]
    if config.policy.name == "nano":
        return [Finding(subject="policy", health=Health.MISSING, detail="the embedded weights are not in the package")]
    detail = f"{config.policy.name}: not a folder here, so it is fetched from Hugging Face when first used"
    return [Finding(subject="policy", health=Health.LIMITED, detail=detail)]


def _executors() -> list[Finding]:
    from importlib.util import find_spec

    slurm, ray = shutil.which("sbatch") is not None, find_spec("ray") is not None
    return [
        Finding(subject="executor local", health=Health.OK, detail="this process"),
        Finding(
            subject="executor slurm",
            health=Health.OK if slurm else Health.MISSING,
            detail="sbatch found" if slurm else "no sbatch here",
        ),
        Finding(
            subject="executor ray",
            health=Health.OK if ray else Health.MISSING,
            detail="installed" if ray else "not installed (pip install ray)",
        ),
    ]
