"""Whether two programs were recorded alike: the same plans, whatever their kernels and parameters are called."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from ..core.candidate import Recording
from ..core.plan import ArgumentKind, Kernel, Launch, LaunchPlan


def are_alike(ours: Sequence[Recording], theirs: Sequence[Recording]) -> bool:
    """Whether each recording has a plan, and the other's is the same but for names; a plan is alike to itself too.

    Never where a launch is handed another function, as which one only its name says, nor where an autotuner chooses:
    the plans that it could have chosen are recorded later.
    """
    first, second = ([_without_names(recording) for recording in recordings] for recordings in (ours, theirs))
    return bool(first) and None not in first and first == second


def _without_names(recording: Recording) -> Recording | None:
    plan = recording.plan
    if (
        plan is None
        or recording.choices
        or any(argument.kind is ArgumentKind.FUNCTION for launch in plan.launches for argument in launch.arguments)
    ):
        return None
    return evolve(recording, plan=_nameless(plan))


def _nameless(plan: LaunchPlan) -> LaunchPlan:
    steps = tuple(
        evolve(step, arguments=tuple(evolve(argument, name="") for argument in step.arguments))
        if isinstance(step, Launch)
        else step
        for step in plan.steps
    )
    return evolve(plan, steps=steps, kernels=tuple(map(_nameless_kernel, plan.kernels)))


def _nameless_kernel(kernel: Kernel) -> Kernel:
    """The kernel with positions for its parameters' names, and without its code, in which names are written."""
    places = {name: str(place) for place, (name, _) in enumerate(kernel.signature)}
    return evolve(
        kernel,
        qualname="",
        source_sha256="",
        binary=None if kernel.binary is None else "",
        entry_point=None if kernel.entry_point is None else "",
        signature=tuple((places[name], kind) for name, kind in kernel.signature),
        reads=tuple(sorted(places.get(name, name) for name in kernel.reads)),
        writes=tuple(sorted(places.get(name, name) for name in kernel.writes)),
    )
