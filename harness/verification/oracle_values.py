"""Single values on their way into a reference and out of it: described, transformed, widened, as arrays."""

from __future__ import annotations

import json
import types
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...core.run import InitArgument, TensorSpec
from ...core.task import Task
from ...stages.variants import VariantInputs
from ..errors import TaskError
from ..reference.reference import dtype_name, init_arguments, is_floating


def describe_input(task: Task, value: Any, dtype: str) -> TensorSpec | InitArgument:
    """What a candidate is told of an input: a tensor's shape and dtype, or a plain value."""
    if isinstance(value, torch.Tensor):
        return TensorSpec(shape=tuple(value.shape), dtype=dtype if is_floating(value) else dtype_name(value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TaskError(f"{task.task_id}: get_inputs() returns a {type(value).__name__}, which is no tensor or number")


def describe_init(task: Task, module: types.ModuleType) -> str:
    """The constructor's arguments as JSON; raises TaskError where they are no plain values."""
    args, kwargs = init_arguments(task, module)
    try:
        return json.dumps({"args": args, "kwargs": kwargs}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TaskError(f"{task.task_id}: get_init_inputs() must return plain numbers or text: {error}") from error


def transform(value: Any, spec: VariantInputs, dtype: torch.dtype) -> Any:
    """A drawn value as the variant has it, exact in the dtype."""
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_floating_point():
        return value.contiguous()
    changed = spec.transform(value.double().contiguous().numpy())
    return torch.from_numpy(np.ascontiguousarray(changed)).to(dtype)


def to_double(value: Any) -> Any:
    """A floating tensor in float64; anything else as it is."""
    return value.double() if is_floating(value) else value


def values_of(tensor: torch.Tensor) -> NDArray[np.generic]:
    """A tensor's values, floating ones in float64."""
    return (tensor.double() if tensor.is_floating_point() else tensor).detach().cpu().numpy()  # NumPy has no bfloat16
