"""Settings of hypothesis for all tests, and one sandbox for all that ask for the default limits.

Examples of hypothesis have no deadline, as how long one takes is the machine's doing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from hypothesis import settings
from tritonrl.core.config import LimitsConfig
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification import verifier

settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")


class SharedSandbox:
    """Stands where a verifier opens its sandbox; starting one takes four processor seconds."""

    def __init__(self) -> None:
        self.opened: Sandbox | None = None
        self._owner = os.getpid()

    def get(self) -> Sandbox:
        """The sandbox with the default limits, opened when it is first asked for."""
        if self.opened is None:
            self.opened = Sandbox()
        return self.opened

    def open(self, limits: LimitsConfig, target: str = "sm_90") -> AbstractContextManager[Any]:
        """It, where that is what is asked for, in this process: it stays open."""
        if limits == LimitsConfig() and target == "sm_90" and os.getpid() == self._owner:
            return nullcontext(self.get())
        return Sandbox(limits, target=target)


@pytest.fixture(scope="session", autouse=True)
def shared_sandbox() -> Iterator[SharedSandbox]:
    """For this session and for every verifier that is opened in it."""
    shared = SharedSandbox()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(verifier, "Sandbox", shared.open)
        yield shared
    if shared.opened is not None:
        shared.opened.close()


@pytest.fixture(scope="session")
def sandbox(shared_sandbox: SharedSandbox) -> Sandbox:
    """The sandbox that all share."""
    return shared_sandbox.get()
