"""What matters to a reference, found out by running it at tiny sizes: inputs, plain numbers, the mode of its model."""

from __future__ import annotations

from typing import Any

import torch

from ...core.seeds import derive
from ...core.serialisation import fingerprint
from ...core.task import Profile, Task
from ..errors import TaskError
from .reference import build_model, call_model, convert, draw_inputs, equal_results, load_task, to_double


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
    """Other plain numbers for a reference's arguments, by position: those that it accepts at tiny sizes, one by one."""
    module = load_task(task, Profile.TINY)
    inputs = [to_double(value) for value in draw_inputs(task, module, seed)]
    found: list[tuple[int, Any]] = []
    for position, value in enumerate(inputs):
        proposed = _propose_number(position, value)
        if isinstance(value, torch.Tensor) or proposed == value:
            continue
        changed = [*inputs[:position], proposed, *inputs[position + 1 :]]
        try:
            results = call_model(task, convert(build_model(task, module, seed), torch.float64), changed)
        except TaskError:
            continue
        if all(bool(torch.isfinite(result).all()) for result in results):
            found.append((position, proposed))
            inputs = changed
    return tuple(found)


def _propose_number(position: int, value: object) -> object:
    """Another number in an argument's place; those of a symmetric pair get different magnitudes."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return value * (1.5 + 0.25 * position) or 0.5 if isinstance(value, float) else value
