"""What an exception in an executor says of the plan that it ran."""

from __future__ import annotations

import torch

from ...core.candidate import Failure
from ...core.outcome import Outcome
from .device.launcher import CannotLaunch, DriverError, is_of_memory
from .device.memory import ViewOutside
from .timing.references import ReferenceFailed

_OF_ADDRESSES = (
    "ILLEGAL_ADDRESS",
    "illegal memory access",
    "LAUNCH_FAILED",
    "unspecified launch failure",
    "MISALIGNED",
    "misaligned",
    "ADDRESS_SPACE",
    "address space",
)
"""What the driver and PyTorch say of a kernel that went where it has nothing to do."""


class Fatal(Exception):
    """The context is lost; the process must end after this answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failure_of(error: Exception) -> Failure:
    """The outcome of the plan in whose run the error came; raises Fatal where the context is lost with it."""
    if isinstance(error, Fatal):
        raise error
    text = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
    is_of_addresses = any(name in text for name in _OF_ADDRESSES)
    if is_of_addresses or _is_lost():
        outcome = Outcome.OUT_OF_BOUNDS if is_of_addresses else Outcome.CRASHED
        raise Fatal(Failure(outcome=outcome, message=text)) from error
    if isinstance(error, ReferenceFailed):
        return Failure(outcome=Outcome.UNSUPPORTED, message=text)
    if isinstance(error, (CannotLaunch, ViewOutside)):
        return Failure(outcome=Outcome.UNSUPPORTED, message=text or "a view lies outside its buffer")
    if is_of_memory(error):
        return Failure(outcome=Outcome.MEMORY_LIMIT, message=text)
    if isinstance(error, DriverError) and "OUT_OF_RESOURCES" in text:
        return Failure(outcome=Outcome.OUT_OF_RESOURCES, message=text)
    return Failure(outcome=Outcome.RUN_FAILED, message=text)


def _is_lost() -> bool:
    """Whether the context has met an error that stays, so that whatever comes next fails by it too."""
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False
