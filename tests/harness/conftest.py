"""One verifier for each module of tests that asks for one: starting a sandbox takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tritonrl.core.config import ClockConfig, VerifierConfig
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.harness.verification.workbench import Workbench


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    """A verifier with the default settings, on the interpreter, without a clock."""
    with Sandbox() as sandbox:
        yield Verifier(VerifierConfig(backend="interpret"), ClockConfig(), sandbox)


@pytest.fixture(scope="module")
def bench(verifier: Verifier) -> Workbench:
    """What the verifier's probes work with."""
    return verifier.bench
