"""Which tests are slow, how many examples hypothesis draws (both from `selection`), and sandboxes that tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from typing import Any

import pytest
from hypothesis import settings
from tritonrl.core.config import LimitsConfig
from tritonrl.harness.sandbox import sandbox as sandbox_module
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification import verifier

from .selection import PROFILES, is_further

for profile, drawn in PROFILES.items():
    settings.register_profile(profile, drawn)
settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what repeats a behaviour, before `-m` chooses."""
    for item in items:
        if is_further(item.name):
            item.add_marker(pytest.mark.slow)


class SharedSandboxes:
    """Sandboxes that stay open, one for each set of protections; starting one takes four processor seconds.

    Limits are a job's and not a zygote's, so a sandbox with other limits has the zygotes of those that are there.
    """

    def __init__(self) -> None:
        self._opened: dict[tuple[str, ...], Sandbox] = {}
        self._owner = os.getpid()

    def get(self, limits: LimitsConfig | None = None, *, without: Sequence[str] = ()) -> Sandbox:
        """One with these limits (null: the default ones), opened when its protections are first asked for."""
        key = tuple(without)
        if key not in self._opened:
            self._opened[key] = Sandbox(without=key)
            self._opened[key]._find_server()  # so that copies share it
        found = copy(self._opened[key])
        found.limits = limits or LimitsConfig()
        return found

    def open(
        self, limits: LimitsConfig, target: str = "sm_90", seed: int = 0, is_needed: bool = True
    ) -> AbstractContextManager[Any]:
        """What stands where a verifier opens its sandbox: in this process, one that stays open."""
        if target == "sm_90" and os.getpid() == self._owner:
            return nullcontext(self.get(limits))
        return Sandbox(limits, target=target, seed=seed)

    def close(self) -> None:
        """End them all."""
        for sandbox in self._opened.values():
            sandbox.close()


@pytest.fixture(scope="session", autouse=True)
def sandboxes() -> Iterator[SharedSandboxes]:
    """For this session and for every verifier that is opened in it."""
    shared = SharedSandboxes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(verifier, "Sandbox", shared.open)
        patched.setattr(sandbox_module, "open_early", shared.open)
        yield shared
    shared.close()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is kept for a user's next time is kept for this session alone."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def sandbox(sandboxes: SharedSandboxes) -> Sandbox:
    """The sandbox with the default limits."""
    return sandboxes.get()
