"""Whether a task is worth training on: a right answer passes, and the cheap wrong ones do not.

The false rewards of other benchmarks came from tasks as often as from verifiers: references that return a constant,
results small enough for an absolute tolerance to accept zeros, activations that are the identity on positive inputs.
So zeros, ones, the mean of the result and each input itself are held against the oracle on all five training variants,
and another draw of each input must change the result by more than the tolerances admit: an input that matters less may
be left out unnoticed. The hidden variants are exempt: on faint inputs `tanh` is the identity, and it is right that a
kernel may say so.
"""

from __future__ import annotations

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from ...core.candidate import Comparison, Variant
from ...core.recipe.extensions import AUDIT
from ...core.task import Profile, Task
from ...stages.tolerance import accepts, compare
from ...stages.variant_inputs import VariantInputs
from ...stages.variants import TRAINING_VARIANTS, describe
from ..reference.expected_run import ExpectedRun
from ..reference.oracle import Oracle
from ..verification.verifier import Verifier


def validate_task(verifier: Verifier, task: Task, solution: str | None = None) -> tuple[str, ...]:
    """What is wrong with a task, one line each; empty where it is sound.

    With a solution, it must pass the audit verifier. Raises TaskError where the reference itself does not run.
    """
    problems = _find_weaknesses(verifier.context.oracle, task)
    if solution is not None:
        verdict = verifier.verify(task, solution, AUDIT)
        if not verdict.correct:
            why = f"{verdict.outcome} {verdict.objection}".rstrip()
            problems.append(f"the solution is rejected at {verdict.reached}: {why}")
    return tuple(problems)


def _find_weaknesses(oracle: Oracle, task: Task) -> list[str]:
    problems = []
    signature = oracle.signature(task)
    build = oracle.build(task, Profile.TINY, task.dtypes[0])
    for position, given in enumerate(build.inputs):
        if hasattr(given, "shape") and position not in signature.used_inputs:
            problems.append(f"the result does not depend on input {position}")
    oracle.operators(task)
    for variant in TRAINING_VARIANTS:
        expected = oracle.expected(task, describe(variant, task.dtypes))
        found = [*_find_cheats(expected), *_find_idle_inputs(oracle, task, variant, signature.used_inputs)]
        problems += [f"variant {variant}: {problem}" for problem in found]
    tiny = oracle.expected(task, describe(Variant.ORIGINAL, task.dtypes, Profile.TINY))
    if any(not np.isfinite(values).all() for values in tiny.expected if values.dtype.kind == "f"):
        problems.append("tiny sizes: the reference returns NaN or infinite elements")
    return problems


def _find_cheats(run: ExpectedRun) -> list[str]:
    problems = []
    for values in run.expected:
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            problems.append("the reference returns NaN or infinite elements")
        if values.size > 1 and (values == values.flat[0]).all():
            problems.append("the reference returns a constant")
    for name, comparisons in _imposters(run):
        if comparisons and all(map(accepts, comparisons)):
            problems.append(f"{name} would be accepted")
    return problems


def _find_idle_inputs(oracle: Oracle, task: Task, variant: Variant, positions: tuple[int, ...]) -> list[str]:
    """Inputs whose replacement by another draw gives a result that would be accepted for the first one's.

    A result of one number may come out alike by chance, so two pairs of draws must say so.
    """
    inputs = describe(variant, task.dtypes)
    again = evolve(inputs, stream=f"{inputs.stream} again")
    return [
        f"the result hardly depends on input {position}"
        for position in positions
        if _is_idle(oracle, task, inputs, position) and _is_idle(oracle, task, again, position)
    ]


def _is_idle(oracle: Oracle, task: Task, inputs: VariantInputs, position: int) -> bool:
    run = oracle.expected(task, inputs)
    changed = oracle.expected(task, evolve(inputs, fresh_input=position))
    pairs = zip(changed.expected, run.expected, run.dtypes, strict=True)
    return all(accepts(compare(other, values, dtype)) for other, values, dtype in pairs)


def _imposters(run: ExpectedRun) -> list[tuple[str, list[Comparison]]]:
    pairs = list(zip(run.expected, run.dtypes, strict=True))
    imposters = [
        ("zeros", [compare(np.zeros_like(values), values, dtype) for values, dtype in pairs]),
        ("ones", [compare(np.ones_like(values), values, dtype) for values, dtype in pairs]),
        ("the result's mean", [compare(_mean_like(values), values, dtype) for values, dtype in pairs]),
    ]
    for position, tensor in enumerate(run.inputs):
        if tensor is not None:
            given = tensor.double().numpy()
            imposters.append((f"input {position} itself", [compare(given, values, dtype) for values, dtype in pairs]))
    return imposters


def _mean_like(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """The mean in every place; where there is one place only, or no number, zeros, which are tried anyway."""
    if values.size < 2 or values.dtype.kind != "f" or not np.isfinite(values).all():
        return np.zeros_like(values)
    return np.full_like(values, values.mean())
