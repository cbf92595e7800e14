"""Which of the values that sampled variants ask for are fair to a task: small sizes, which are soon computed, show it.

A reference that is not well within the tolerance on them itself judges nobody by them, nor one that does not say which
of several equal values it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from attrs import evolve

from ...core.candidate import Variant
from ...core.seeds import derive
from ...core.serialisation import fingerprint
from ...core.task import Profile, Task
from ...stages.arrangements import Arrangement
from ...stages.operator_traits import OperatorTraits
from ...stages.variant_inputs import IntegerChange, VariantInputs

_FARTHER_OUT = 1.5
"""How much farther out the largest of a million values lies than that of a small row."""


class Reference(Protocol):
    """What is asked of the oracle."""

    seed: int

    def traits(self, task: Task) -> OperatorTraits:
        """What the reference's operators say."""
        ...

    def resolves_ties(self, task: Task) -> bool:
        """Whether PyTorch says which of several equal values a result stands for."""

    def is_accepted(self, task: Task, inputs: VariantInputs) -> bool:
        """Whether the reference runs on these inputs."""

    def is_exact(self, task: Task, inputs: VariantInputs) -> bool:
        """Whether it is well within the tolerance there."""

    def changeable_integers(self, task: Task, change: IntegerChange) -> tuple[int, ...]:
        """Positions of integers and masks that may be changed so."""
        ...


def choose_fair(oracle: Reference, task: Task, spec: VariantInputs) -> VariantInputs:
    """Return the inputs without what is not fair to the task."""
    if spec.profile is Profile.BEYOND and spec.row_scale != 1.0:
        spec = _choose_rows(oracle, task, spec)
    if spec.profile is Profile.BETWEEN and spec.step and not _has_fair_ties(oracle, task, spec):
        spec = evolve(spec, step=0.0)
    if spec.variant is Variant.ARRANGED:
        has_ties = oracle.resolves_ties(task)
        spec = evolve(spec, has_tied_arrangements=has_ties)
        spec = evolve(spec, arrangements=tuple(_find_arrangements(oracle, task, spec)))
    if spec.variant in (Variant.BEYOND, Variant.ARRANGED) and spec.integers:
        beside = _beside(spec, integers=spec.integers)
        if not (oracle.changeable_integers(task, spec.integers) and oracle.is_exact(task, beside)):
            spec = evolve(spec, integers="")
    return spec


def _find_arrangements(oracle: Reference, task: Task, spec: VariantInputs) -> Iterator[Arrangement]:
    """Yield the fair ones, the first by the seed; none for products, whose rounding large values magnify."""
    traits = oracle.traits(task)
    if traits.multiplies_many or traits.num_products:
        return
    first = derive(oracle.seed, fingerprint(task), "arrangements") % max(1, len(spec.arrangements))
    for kind in (*spec.arrangements[first:], *spec.arrangements[:first]):
        changes = {"arrangements": (kind,), "has_tied_arrangements": spec.has_tied_arrangements}
        beside = _beside(spec, scale=_FARTHER_OUT, **changes)
        if oracle.is_accepted(task, beside) and oracle.is_exact(task, beside):
            yield kind


def _choose_rows(oracle: Reference, task: Task, spec: VariantInputs) -> VariantInputs:
    """Return the inputs with what rows may be; none for products of many."""
    if oracle.traits(task).multiplies_many:
        return evolve(spec, row_scale=1.0)
    stable = evolve(spec, row_scale=spec.stable_scale, has_peaks=True)
    for proposal in (stable, spec) if oracle.traits(task).subtracts_maximum else (spec,):
        beside = _beside(spec, row_scale=_FARTHER_OUT * proposal.row_scale, has_peaks=proposal.has_peaks)
        if oracle.is_accepted(task, beside) and oracle.is_exact(task, beside):
            return proposal
    return evolve(spec, row_scale=1.0)


def _has_fair_ties(oracle: Reference, task: Task, spec: VariantInputs) -> bool:
    """Return whether the result says positions of extremes, and which of several."""
    is_asked = oracle.traits(task).orders_inputs and oracle.resolves_ties(task)
    return is_asked and oracle.is_exact(task, _beside(spec, step=spec.step))


def _beside(spec: VariantInputs, **changes: Any) -> VariantInputs:
    """Return inputs at small sizes with these changes alone."""
    return VariantInputs(variant=Variant.ORIGINAL, profile=Profile.SMALL, dtype=spec.dtype, **changes)
