"""A verifier for each module that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tritonrl.core.config import Config, TimingConfig, VerifierConfig
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification.context import VerifierContext
from tritonrl.harness.verification.verifier import Verifier, open_verifier


@pytest.fixture(scope="module")
def verifier(sandbox: Sandbox) -> Verifier:
    """A verifier with the default settings, on the interpreter, without a timing."""
    return Verifier(VerifierConfig(backend="interpret"), TimingConfig(), sandbox)


@pytest.fixture(scope="module")
def default_verifier(sandbox: Sandbox) -> Iterator[Verifier]:
    """A verifier as it is configured by default: on a GPU where there is one."""
    if torch.cuda.is_available():
        with open_verifier(Config()) as opened:
            yield opened
    else:
        yield Verifier(VerifierConfig(), TimingConfig(), sandbox)


@pytest.fixture(scope="module")
def context(verifier: Verifier) -> VerifierContext:
    """What the verifier's probes work with."""
    return verifier.context
