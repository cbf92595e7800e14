"""Jobs of a sandbox: what a child is asked for, what it may use, and how it ended."""

from __future__ import annotations

import secrets
import signal
from typing import Any

from attrs import frozen

from ...core.candidate import Failure
from ...core.config import LimitsConfig
from ...core.outcome import Outcome
from . import wire
from .zygote import CONFINED, MAX_ANSWER_BYTES

_NEARLY = 0.9
"""The kernel counts a process' seconds by its ticks where it limits them, and precisely where it tells them."""
Answer = tuple[dict[str, Any], list[bytes]]


@frozen(kw_only=True)
class Died:
    """How a child ended without a usable answer."""

    failure: Failure
    is_killed: bool = False
    """Whether by a signal that its zygote has not sent."""


@frozen(kw_only=True)
class Job:
    """What a child is asked for, in which zygote, and what it may use."""

    mode: str
    header: dict[str, Any]
    blobs: list[bytes]
    limits: LimitsConfig


def read_end(status: dict[str, Any], answer: bytes, token: bytes, limits: LimitsConfig) -> Answer | Died:
    """Return a child's answer, or how it died; raises ValueError where it ended before it was confined."""
    reason, code = status["killed_for"], int(status["exit"])
    if reason == "judge":
        raise ValueError("the job was given up")
    if not answer.startswith(CONFINED) and not reason:
        raise ValueError(f"a child ended before it was confined (status {code})")
    deaths = {
        "wall": (Outcome.TIMEOUT, f"still running after {limits.wall_s} s"),
        "memory": (Outcome.MEMORY_LIMIT, f"more than {limits.memory_mb} MB"),
        "processes": (Outcome.PROCESS_LIMIT, f"{limits.processes} processes or threads"),
        "disk": (Outcome.OUTPUT_LIMIT, f"files of more than {limits.file_mb} MB"),
        "output": (Outcome.OUTPUT_LIMIT, f"printed more than {limits.output_mb} MB"),
        "answer": (Outcome.OUTPUT_LIMIT, f"results of more than {MAX_ANSWER_BYTES >> 20} MB"),
    }
    if reason:
        outcome, message = deaths[reason]
        return Died(failure=Failure(outcome=outcome, message=message))
    if code in (-signal.SIGKILL, -signal.SIGXCPU) and float(status["cpu_s"]) > _NEARLY * limits.cpu_s:
        return Died(failure=Failure(outcome=Outcome.TIMEOUT, message=f"used {limits.cpu_s} s of CPU time"))
    if code == -signal.SIGSYS:
        return Died(failure=Failure(outcome=Outcome.FORBIDDEN_CALL, message="ended by SIGSYS"))
    body = answer[len(CONFINED) :]
    if code != 0 or not body:
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        failure = Failure(outcome=Outcome.CRASHED, message=f"ended {how} before it answered")
        return Died(failure=failure, is_killed=code == -signal.SIGKILL)
    if not secrets.compare_digest(body[: len(token)], token):
        return Died(failure=describe_broken(ValueError("the answer does not carry its token")))
    try:
        return wire.decode(body[len(token) :])
    except wire.FrameError as error:
        return Died(failure=describe_broken(error))


def describe_broken(error: Exception) -> Failure:
    """Return the failure of a child whose answer cannot be read."""
    return Failure(outcome=Outcome.BROKEN_PROTOCOL, message=str(error).splitlines()[0][:300] if str(error) else "")
