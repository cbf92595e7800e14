"""The doctor reports what it tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from tritonrl.core.config import merge
from tritonrl.harness import gpu_check
from tritonrl.harness.doctor import Health, examine
from tritonrl.harness.gpu_check import check_gpus


def test_doctor_examines_every_part(tmp_path: Path) -> None:
    """Software, hardware, each protection of the sandbox, the policy and the executors each have a finding."""
    findings = {finding.subject: finding for finding in examine(merge({"policy": {"name": str(tmp_path)}}))}
    assert {"torch", "triton", "GPU", "memory", "target", "policy", "executor slurm"} <= set(findings)
    assert findings["torch"].health is Health.OK
    assert any(subject.startswith("sandbox: ") for subject in findings)
    assert all(finding.detail for finding in findings.values())


def test_doctor_says_what_a_container_without_namespaces_loses(tmp_path: Path) -> None:
    """A protection that is missing has one line with what its loss means, and the others are said to hold."""
    found = examine(merge({"policy": {"name": str(tmp_path)}}), plain=True)
    lines = {finding.subject.removeprefix("sandbox: "): finding for finding in found if "sandbox: " in finding.subject}
    assert lines["process tree"].health is Health.LIMITED
    assert lines["process tree"].detail.startswith("lost: daemons are found as descendants")
    assert lines["memory"].health is Health.OK


def test_doctor_finds_weights(tmp_path: Path) -> None:
    """A policy's folder counts as present only when it holds weights."""
    config = merge({"policy": {"name": str(tmp_path)}})

    def policy() -> Health:
        return next(finding.health for finding in examine(config) if finding.subject == "policy")

    assert policy() is not Health.OK
    (tmp_path / "model.safetensors").write_bytes(b"0")
    assert policy() is Health.OK


def test_doctor_tries_each_gpu_of_the_target() -> None:
    """Where there are GPUs each has a self-test that passes, and where there is none nothing is claimed."""
    import torch

    checks = check_gpus(merge({}))
    assert bool(checks) == torch.cuda.is_available()
    assert [check.is_fine for check in checks if "self-test" in check.subject] == [True] * torch.cuda.device_count()


def test_doctor_does_not_run_plans_on_another_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that plans are not compiled for is named with what follows, and is nobody's fault."""
    import torch

    class Properties:
        major, minor = 7, 5

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties())
    monkeypatch.setattr(gpu_check, "_describe_driver", lambda: "made up")
    driver, other = check_gpus(merge({}))
    assert driver.detail == "made up"
    assert other.is_fine is None
    assert other.detail.startswith("sm_75")
