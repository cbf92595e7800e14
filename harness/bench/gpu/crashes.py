"""Kernels that take a GPU's context down, one after the other: `tritonrl bench gpu-crashes`.

Every crashing candidate stands between two right ones, in turns through illegal addresses, loops without end, grids
that run for hours and memory that no card has. What must hold is that each gets a verdict that refuses it, each right
one is accepted all the same, and executors come back quickly. The audit's own refusals of such kernels are left out:
the verifier is the plainest of the grid, and the executor the only thing that stops them.
"""

from __future__ import annotations

import time
from collections import Counter

from attrs import evolve, frozen

from ....core.config import Config
from ....core.recipe.extensions import VerifierSpec
from ...doctor import DOUBLE_SOLUTION, double_task
from ...verification.verifier import open_verifier
from ..watching import RunningCount

_PLAIN = VerifierSpec(stop_early=True)
_WALL_S = 5
_STORE = "tl.store"


@frozen(kw_only=True)
class _Deed:
    """What a candidate puts in the place of the kernel's body, the grid and the result's memory."""

    body: str = "pass"
    grid: str = "triton.cdiv(x.numel(), 1024)"
    out: str = "torch.empty_like(x)"


_RIGHT = _Deed()
CRASHES: dict[str, _Deed] = {
    "stores far away": _Deed(body="tl.store(out_ptr + 1000000000000 + offsets, x, mask=mask)"),
    "loads far away": _Deed(body="x += tl.load(x_ptr - 1000000000000 + offsets, mask=mask, other=0.0)"),
    "loops without end": _Deed(
        body="total = tl.sum(x * 0.0, axis=0)\n    while total < 1.0:\n        total = total * 0.5\n    x += total"
    ),
    "launches a grid that takes hours": _Deed(
        body="for _ in range(1000000):\n        x = x * 1.0001 + tl.sum(x, axis=0)", grid="2147483647"
    ),
    "needs more memory than there is": _Deed(out="torch.empty(1 << 38, device=x.device)[: x.numel()]"),
}
"""The ways to take a context down, drawn in turn."""


@frozen(kw_only=True)
class CrashFigures:
    """`outcomes` by what the candidate does; `accepted_crashes` and `refused_neighbours` must be empty.

    `restarts_s` are the seconds until each executor's successor was up.
    """

    num_crashes: int
    num_neighbours: int
    outcomes: tuple[tuple[str, int], ...]
    accepted_crashes: tuple[str, ...]
    refused_neighbours: tuple[str, ...]
    restarts_s: tuple[float, ...]
    seconds: float

    @property
    def is_sound(self) -> bool:
        """Whether no verdict was lost."""
        return not self.accepted_crashes and not self.refused_neighbours


def draw_sources(num_crashes: int) -> list[tuple[str, str]]:
    """(what it does, source) of crashing candidates, a right one before each and after the last; all texts differ."""
    drawn = []
    for number in range(num_crashes):
        name = list(CRASHES)[number % len(CRASHES)]
        drawn += [("is right", _write(2 * number, _RIGHT)), (name, _write(2 * number + 1, CRASHES[name]))]
    return [*drawn, ("is right", _write(2 * num_crashes, _RIGHT))]


def _write(number: int, deed: _Deed) -> str:
    source = DOUBLE_SOLUTION.replace(_STORE, f"{deed.body}\n    {_STORE}")
    source = source.replace(_RIGHT.grid, deed.grid).replace(_RIGHT.out, deed.out)
    return f"# {number}\n{source}"


def measure_crashes(config: Config, num_crashes: int, jobs: int) -> CrashFigures:
    """Verify `num_crashes` crashing candidates and their neighbours; raises UsageError where there is no GPU."""
    task, drawn = double_task(), draw_sources(num_crashes)
    chosen = evolve(
        config,
        verifier=evolve(config.verifier, backend="cuda", timing="none"),
        limits=evolve(config.limits, wall_s=min(_WALL_S, config.limits.wall_s)),
    )
    began = time.perf_counter()
    with open_verifier(chosen) as verifier:
        pairs = [(task, source) for _, source in drawn]
        count = RunningCount(len(pairs), "accepted")
        verdicts = verifier.verify_many(pairs, _PLAIN, jobs, lambda _, verdict: count.note(verdict.correct))
        cuda = verifier.context.cuda
        restarts_s = [seconds for executor in cuda.executors for seconds in executor.restarts_s] if cuda else []
    found = list(zip(drawn, verdicts, strict=True))
    right = [verdict for (name, _), verdict in found if name == "is right"]
    return CrashFigures(
        num_crashes=num_crashes,
        num_neighbours=len(right),
        outcomes=tuple(sorted(Counter(f"{name}: {verdict.where}" for (name, _), verdict in found).items())),
        accepted_crashes=tuple(name for (name, _), verdict in found if name != "is right" and verdict.correct),
        refused_neighbours=tuple(verdict.where for verdict in right if not verdict.correct),
        restarts_s=tuple(restarts_s),
        seconds=time.perf_counter() - began,
    )
