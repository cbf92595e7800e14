"""What matters to a reference, found out by running it at tiny sizes: inputs, plain numbers, the mode of its model."""

from __future__ import annotations

from typing import Any

import torch

from ...core.candidate import Variant
from ...core.seeds import derive
from ...core.serialisation import fingerprint
from ...core.task import Profile, Task
from ...stages.variant_inputs import IntegerChange, VariantInputs
from ..errors import TaskError
from .reference import build_model, call_model, convert, draw_inputs, equal_results, is_floating, load_task, to_double
from .values import Structure, is_integer, is_mask_tensor, is_symmetric, transform

_LEAST_ELEMENTS = 8
"""Fewer have two values by chance."""


def find_used_inputs(task: Task, seed: int, init_seed: int) -> tuple[int, ...]:
    """Positions of tensors whose replacement by fresh values changes the result at tiny sizes."""
    module = load_task(task, Profile.TINY)
    draws = [draw_inputs(task, module, derive(seed, fingerprint(task), "used", n)) for n in range(4)]
    model = convert(build_model(task, module, init_seed), torch.float64)
    base = [to_double(value) for value in draws[0]]
    reference = call_model(task, model, base)
    used: list[int] = []
    for position, value in enumerate(base):
        if not isinstance(value, torch.Tensor):
            continue
        for fresh in draws[1:]:
            changed = [*base[:position], to_double(fresh[position]), *base[position + 1 :]]
            if not equal_results(call_model(task, model, changed), reference):
                used.append(position)
                break
    return tuple(used)


def is_same_in_evaluation(task: Task, seed: int, init_seed: int) -> bool:
    """Whether the reference returns the same in evaluation mode as in training mode, and in a second call."""
    module = load_task(task, Profile.TINY)
    inputs = [to_double(value) for value in draw_inputs(task, module, derive(seed, fingerprint(task), "mode"))]
    model = convert(build_model(task, module, init_seed), torch.float64)
    trained = call_model(task, model, inputs)
    try:
        return equal_results(trained, call_model(task, model.eval(), inputs))
    except TaskError:
        return False


def find_numbers(task: Task, seed: int) -> tuple[tuple[int, Any], ...]:
    """Other plain numbers for a reference's arguments, by position: those that it accepts at tiny sizes, one by one.

    The first of a place's that gives finite results is taken, a negative one where it leaves their shapes as they are.
    """
    module = load_task(task, Profile.TINY)
    inputs = [to_double(value) for value in draw_inputs(task, module, seed)]

    def run(values: list[Any]) -> tuple[torch.Tensor, ...]:
        model = convert(build_model(task, module, seed), torch.float64)
        results = _try_call(task, model, values) or ()
        return results if all(bool(torch.isfinite(result).all()) for result in results) else ()

    found: list[tuple[int, Any]] = []
    for position, value in enumerate(inputs):
        for proposed in _propose_numbers(position, value):
            changed = [*inputs[:position], proposed, *inputs[position + 1 :]]
            results = run(changed)
            is_turned = not isinstance(proposed, bool) and proposed < 0 <= value
            if not results or (is_turned and [r.shape for r in results] != [r.shape for r in run(inputs)]):
                continue
            found.append((position, proposed))
            inputs = changed
            break
    return tuple(found)


def find_changeable_integers(
    task: Task, model: torch.nn.Module, inputs: list[Any], change: IntegerChange
) -> tuple[int, ...]:
    """Positions of integers that may be "negated" or "large": the result follows from them, as from any number.

    Not so an index or a label, which large ones show: PyTorch counts negative ones from the end, right kernels do not.
    Nor what the reference ignores beyond a range, as a count of bins does. And what it cannot be given zeros for, as a
    divisor, is a quantity that has the sign of the task's own draws. `model` is in float64, at tiny sizes.
    """
    positions = tuple(at for at, value in enumerate(inputs) if is_integer(value))

    def changed(how: IntegerChange) -> list[Any]:
        return _change(task, inputs, positions, how)

    def run(values: list[Any]) -> tuple[torch.Tensor, ...] | None:
        return _try_call(task, model, values)

    if not positions or run(changed("large")) is None:
        return ()
    if change == "negated":
        positions = tuple(at for at in positions if inputs[at].dtype.is_signed)
        zeroed = {at: [*inputs[:at], torch.zeros_like(inputs[at]), *inputs[at + 1 :]] for at in positions}
        positions = tuple(at for at in positions if run(zeroed[at]) is not None)
    once = changed(change)
    first = run(once)

    def matters(at: int) -> bool:
        new = once[at]
        lesser = torch.where(new == inputs[at], new, torch.where(new < 0, new + new // 3 - 1, new - new // 3))
        # the position of an extreme is another one among values in another order alone
        for others in (lesser, new.flatten().roll(1).view_as(new)):
            second = run([*once[:at], others, *once[at + 1 :]])
            if first is not None and second is not None and not equal_results(first, second):
                return True
        return False

    return tuple(at for at in positions if matters(at))


def find_acceptable(task: Task, model: torch.nn.Module, inputs: list[Any], change: IntegerChange) -> tuple[int, ...]:
    """Positions of masks that may be "mixed" or "emptied", or of integers that are changed where they are "repeated".

    All, where the reference accepts them so, or none.
    """
    is_wanted = is_integer if change == "repeated" else is_mask_tensor
    positions = tuple(at for at, value in enumerate(inputs) if is_wanted(value))
    changed = _change(task, inputs, positions, change)
    if change == "repeated":
        positions = tuple(at for at in positions if not torch.equal(changed[at], inputs[at]))
    return positions if positions and _try_call(task, model, changed) is not None else ()


def _change(task: Task, inputs: list[Any], positions: tuple[int, ...], change: IntegerChange) -> list[Any]:
    spec = VariantInputs(variant=Variant.ORIGINAL, profile=Profile.TINY, dtype=task.dtypes[0], integers=change)
    return [transform(value, spec, value.dtype) if at in positions else value for at, value in enumerate(inputs)]


def _try_call(task: Task, model: torch.nn.Module, values: list[Any]) -> tuple[torch.Tensor, ...] | None:
    """Return the model's results in float64; None where it refuses the values."""
    try:
        return call_model(task, model, [to_double(value) for value in values])
    except TaskError:
        return None


def _propose_numbers(position: int, value: object) -> tuple[Any, ...]:
    """Other numbers in an argument's place; those of a symmetric pair get different magnitudes."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (-1 - value, value + 1) if value > 0 else (value + 1,)
    return (value * (1.5 + 0.25 * position) or 0.5,) if isinstance(value, float) else ()


def find_structures(task: Task, seeds: tuple[int, int]) -> dict[int, tuple[Structure, ...]]:
    """What floating-point inputs have alike in two draws at small sizes, by position, where they have anything."""
    module = load_task(task, Profile.SMALL)
    draws = [draw_inputs(task, module, seed) for seed in seeds]
    pairs = [(at, one, other) for at, (one, other) in enumerate(zip(*draws, strict=False)) if is_floating(one)]
    found = {at: _find_common(one, other) for at, one, other in pairs if one.shape == other.shape}
    return {at: kinds for at, kinds in found.items() if kinds}


def _find_common(one: torch.Tensor, other: torch.Tensor) -> tuple[Structure, ...]:
    found: list[Structure] = []
    is_zero = one == 0
    if bool(is_zero.any()) and not bool(is_zero.all()) and torch.equal(is_zero, other == 0):
        found.append("zeros")
    if is_symmetric(one) and is_symmetric(other):
        found.append("symmetric")
    if one.numel() >= _LEAST_ELEMENTS:
        low, high = one.min(), one.max()
        pair = (bool(((each == low) | (each == high)).all()) for each in (one, other))
        if bool(low < high) and all(pair) and torch.equal(torch.stack(other.aminmax()), torch.stack((low, high))):
            found.append("two values")
    return tuple(found)
