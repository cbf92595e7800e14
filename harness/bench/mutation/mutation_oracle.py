"""An exhaustive oracle for mutants: which of them are wrong, found without any of the verifiers under test.

It asks the same of a mutant as the contract does, at far more points than a verifier can afford: ten sets of sizes
(one element, a few, remainders of every block, exact multiples, several blocks and loop steps a program), every dtype
of the contract, and twelve distributions of values, under seeds of its own. A point counts where the teacher itself is
right there with room to spare; a mutant is proven wrong where it differs from the fp64 reference by more than
`MARGIN` times the tolerance, writes outside its buffers, or changes an input. What crashes is no proof: such a mutant
is trivially dead. One that no point proves wrong may be right, and counts neither for nor against a verifier.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from ....core.candidate import Comparison, Variant
from ....core.outcome import Outcome
from ....core.run import RunRequest, RunResult
from ....core.seeds import derive
from ....core.task import Constants, Example, Profile, Task
from ....stages.tolerance import TOLERANCES, compare
from ....stages.variant_inputs import VariantInputs
from ...errors import TaskError
from ...reference.expected_run import ExpectedRun
from ...reference.oracle import Oracle
from ...sandbox.sandbox import Sandbox
from ...sandbox.wire import RecordRequest
from ...verification.runs import find_seeded_parameters
from ...verification.storages import fill_storages, from_bytes
from .score import Fate

MARGIN = 2.0
"""A proof needs an error of this many tolerances; the teacher's must stay under one over as many."""
_WIDE_ELEMENTS = 24_000
_MOST_SECONDS = 4.0


@frozen(kw_only=True)
class PointInputs(VariantInputs):
    """Inputs of one point; `values` names its transform."""

    values: str = "plain"

    def transform(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the point's values, from freshly drawn floating-point ones of the same shape."""
        return TRANSFORMS[self.values](values)


def _every(values: NDArray[np.float64], step: int, chosen: float, rest: float) -> NDArray[np.float64]:
    flat = np.full(values.size, rest)
    flat[step // 2 :: step] = chosen
    return flat.reshape(values.shape)


def _round(values: NDArray[np.float64]) -> NDArray[np.float64]:
    mantissa, exponent = np.frexp(values)
    rounded: NDArray[np.float64] = np.ldexp(np.rint(mantissa * 8.0) / 8.0, exponent)
    return rounded


PLAIN, NEGATIVE = "plain", "times -1"
TRANSFORMS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    PLAIN: lambda values: values,
    NEGATIVE: lambda values: -values,
    "times 2": lambda values: values * 2.0,
    "times 30": lambda values: values * 30.0,
    "times 0.01": lambda values: values * 0.01,
    "times 0.001": lambda values: values * 0.001,
    "plus 5": lambda values: values + 5.0,
    "minus 5": lambda values: values - 5.0,
    "minus 200": lambda values: values - 200.0,
    "every seventh times 20": lambda values: values * _every(values, 7, 20.0, 1.0),
    "two of three are 0": lambda values: values * _every(values, 3, 1.0, 0.0),
    "rounded to three digits in base 2": _round,
}
"""What is done to freshly drawn values."""


@frozen(kw_only=True)
class Point:
    """One set of sizes (as a task with those sizes at every profile), a dtype, and values."""

    label: str
    task: Task
    inputs: PointInputs


@frozen(kw_only=True)
class Finding:
    """A mutant's fate, and for a wrong one the point and what was seen there."""

    fate: Fate
    point: str = ""
    detail: str = ""
    seconds: float = 0.0
    """What the run took, as the child says."""


def choose_sizes(task: Task, seed: int) -> dict[str, Constants]:
    """Derive ten sets of sizes by name, derived from the task's own; the same for the same seed."""
    rng = random.Random(seed)
    small, larger = dict(task.small), dict(task.larger)
    last = list(small)[-1:]
    sets = {
        "small": {name: value + rng.randint(1, 2 + value // 8) for name, value in small.items()},
        "few": {name: rng.randint(2, 11) for name in small},
        "larger": {name: value + rng.randint(1, 2 + value // 8) for name, value in larger.items()},
        "one": dict.fromkeys(small, 1),
        "one or two": {name: rng.randint(1, 2) for name in small},
        "powers": {name: _power(value) for name, value in larger.items()},
        "after powers": {name: _power(value) + 1 for name, value in larger.items()},
        "before powers": {name: _power(value) - 1 for name, value in small.items()},
        "long": {name: rng.randint(2600, 3000) if name in last else rng.randint(3, 6) for name in small},
        "wide": _widen(larger, rng),
    }
    return {name: tuple(sizes.items()) for name, sizes in sets.items()}


def _power(value: int) -> int:
    return 1 << max(1, value.bit_length() - 1)


def _widen(sizes: dict[str, int], rng: random.Random) -> dict[str, int]:
    """Grow sizes together until the two largest span more than every block, and every strip of blocks."""
    wide = dict(sizes)
    while math.prod(sorted(wide.values())[-2:]) < _WIDE_ELEMENTS:
        wide = {name: int(size * 1.3) + rng.randint(1, 3) for name, size in wide.items()}
    return wide


_FIRST = (("small", PLAIN), ("few", PLAIN), ("larger", PLAIN))
_SECOND = (
    *(("small", values) for values in TRANSFORMS if values != PLAIN),
    ("one", PLAIN),
    ("one or two", PLAIN),
    ("powers", PLAIN),
    ("after powers", PLAIN),
    ("before powers", PLAIN),
    ("larger", NEGATIVE),
    ("long", PLAIN),
    ("wide", PLAIN),
)


@frozen(kw_only=True)
class Battery:
    """The points at which a task's teacher is right, the cheap ones first."""

    rounds: tuple[tuple[Point, ...], ...]
    parameters: tuple[str, ...]


class MutationOracle:
    """Judges mutants of teachers; holds no state that a verdict depends on."""

    def __init__(self, seed: int, sandbox: Sandbox) -> None:
        self.oracle = Oracle(derive(seed, "mutation oracle"))
        self.sandbox = sandbox

    def prepare(self, example: Example) -> Battery:
        """Choose the points at which a teacher is clearly right; raises TaskError where there are none."""
        task = example.task
        sizes = choose_sizes(task, derive(self.oracle.seed, task.task_id, "sizes"))
        sized = {name: evolve(task, tiny=own, small=own, larger=own) for name, own in sizes.items()}
        parameters = self.oracle.signature(task).parameters
        rounds = []
        for chosen in (_FIRST, _SECOND):
            points = [_point(sized[name], name, task.dtypes[0], values) for name, values in chosen]
            if chosen is _SECOND:
                points += [
                    _point(sized[name], name, dtype, PLAIN)
                    for dtype in task.dtypes[1:]
                    for name in ("small", "few", "larger", "long")
                ]
            whole = Battery(rounds=(tuple(points),), parameters=parameters)
            found = self._run(example.solution, points, whole)
            if not any(map(_is_sound, found)):  # one run may have taken the others down with it
                found = [pair for point in points for pair in self._run(example.solution, [point], whole)]
            sound = [point for point, seen in found if _is_sound((point, seen))]
            if not sound:
                raise TaskError(f"{task.task_id}: the teacher is right at no point of the mutation oracle")
            rounds.append(tuple(sound))
        return Battery(rounds=tuple(rounds), parameters=parameters)

    def judge(self, source: str, battery: Battery) -> Finding:
        """Judge a mutant; the search ends at the first proof."""
        crash: Finding | None = None
        for points in battery.rounds:
            for point, seen in self._run(source, points, battery):
                if seen.fate is Fate.WRONG:
                    return evolve(seen, point=point.label)
                if seen.fate is Fate.DEAD:
                    crash = crash or evolve(seen, point=point.label)
        return crash or Finding(fate=Fate.UNPROVEN)

    def _run(self, source: str, points: Sequence[Point], battery: Battery) -> list[tuple[Point, Finding]]:
        """Run the points, recorded in one child process and run in another."""
        sized = list(dict.fromkeys((point.task, point.inputs.dtype) for point in points))
        reply = self.sandbox.record(source, [self._request(task, dtype) for task, dtype in sized])
        if reply.failure is not None:
            return [(point, _dead(reply.failure.outcome)) for point in points]
        recordings = dict(zip(sized, reply.recordings, strict=True))
        found: list[tuple[Point, Finding]] = []
        ready: list[tuple[Point, RunRequest, ExpectedRun]] = []
        for point in points:
            recording = recordings[point.task, point.inputs.dtype]
            plan = recording.plan
            if plan is None or plan.arithmetic:
                found.append((point, _dead(recording.failure.outcome if recording.failure else Outcome.UNSUPPORTED)))
                continue
            seeded = find_seeded_parameters(plan, tuple(battery.parameters))
            expected = self.oracle.expected(point.task, point.inputs, seeded)
            storages = fill_storages(plan, expected, reply.blobs.get)
            if isinstance(storages, dict):
                ready.append((point, RunRequest(variant=Variant.ORIGINAL, plan=plan, storages=storages), expected))
            else:
                found.append((point, _dead(storages.outcome)))
        if not ready:
            return found
        ran = self.sandbox.run(source, [request for _, request, _ in ready])
        if ran.failure is not None:
            return found + [(point, _dead(ran.failure.outcome)) for point, _, _ in ready]
        for (point, request, expected), result in zip(ready, ran.results, strict=True):
            found.append((point, evolve(_look(request, expected, result), seconds=result.seconds)))
        return found

    def _request(self, task: Task, dtype: str) -> RecordRequest:
        build = self.oracle.build(task, Profile.SMALL, dtype)
        return RecordRequest(
            profile=Profile.SMALL,
            dtype=dtype,
            init_json=build.init_json,
            seed=self.oracle.init_seed(task),
            inputs=build.inputs,
        )


_RIGHT = Finding(fate=Fate.UNPROVEN, detail="right")
_UNCLEAR = Finding(fate=Fate.UNPROVEN, detail="unclear")


def _is_sound(pair: tuple[Point, Finding]) -> bool:
    """Return whether a teacher is right at a point, in a time that a hundred mutants can take too."""
    _, seen = pair
    return seen.detail == _RIGHT.detail and seen.seconds <= _MOST_SECONDS


def _point(task: Task, name: str, dtype: str, values: str) -> Point:
    inputs = PointInputs(
        variant=Variant.ORIGINAL, profile=Profile.SMALL, dtype=dtype, stream=f"mutation oracle, {values}", values=values
    )
    return Point(label=f"{name}, {dtype}, {values}", task=task, inputs=inputs)


def _dead(outcome: Outcome) -> Finding:
    return Finding(fate=Fate.DEAD, detail=outcome.code)


def _look(request: RunRequest, expected: ExpectedRun, result: RunResult) -> Finding:
    if result.failure is not None and result.failure.outcome is not Outcome.OUT_OF_BOUNDS:
        return _dead(result.failure.outcome)
    if result.failure is not None or result.out_of_bounds:
        return Finding(fate=Fate.WRONG, detail=Outcome.OUT_OF_BOUNDS.code)
    if result.mutated:
        return Finding(fate=Fate.WRONG, detail=Outcome.INPUT_MUTATED.code)
    views = request.plan.outputs
    if len(views) != len(expected.expected) or len(result.outputs) != len(views):
        return Finding(fate=Fate.WRONG, detail=Outcome.WRONG_SIGNATURE.code)
    is_right = True
    for view, data, wanted, dtype in zip(views, result.outputs, expected.expected, expected.dtypes, strict=True):
        actual = from_bytes(data, view)
        if actual is None:
            return _dead(Outcome.BROKEN_PROTOCOL)
        seen = compare(actual, wanted, view.dtype, dtype)
        excess = _excess(seen)
        if excess > MARGIN:
            return Finding(fate=Fate.WRONG, detail=f"{Outcome.WRONG_VALUES.code}, {excess:.3g} tolerances")
        is_right = is_right and excess < 1.0 / MARGIN
    return _RIGHT if is_right else _UNCLEAR


def _excess(seen: Comparison) -> float:
    """Return a result's error in tolerances."""
    if not (seen.shape_matches and seen.dtype_matches) or seen.num_nonfinite or seen.num_different:
        return float("inf")
    limits = TOLERANCES.get(seen.dtype)
    if limits is None:
        return 0.0
    return max(seen.relative_error / limits.relative_error, seen.worst_excess / limits.worst_excess)
