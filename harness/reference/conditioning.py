"""How exact each single element of a result has to be, by how the reference answers to noise.

One scale for a whole tensor lets anything pass beside values a million times larger. An element's own scale says more:
its value, and how much it moves where inputs and parameters move in their last digits, each by its own share, and what
operators return on the way by an eighth of that: a sum may cancel what a function without slope has returned. A right
kernel's rounding moves an element by no more than that, as sums that cancel and functions near a zero have it; what it
sets to zero, leaves out or lets cancel moves the element by all of its value. So an element is compared within the
tolerance of its value and its movement together (mixed forward and backward error, Higham, "Accuracy and Stability of
Numerical Algorithms", 1.5). Where the reference in its own dtype is not well within that, or misses the scale of the
whole tensor, as the cosine of 1e18 does, nobody is asked to be.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from attrs import frozen
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from ...core.task import Task
from ...stages.tolerance import IntegerRange, find_scale
from ..errors import TaskError
from .products import ConvolutionsInParts
from .reference import call_model, convert
from .values import values_of

_NUM_DRAWS = 3
_STEP = 2.0**-20
_STEP_BETWEEN = _STEP / 8
"""Of what operators return. The last of them would else double each scale."""
_EXACT = frozenset(
    getattr(torch.ops.aten, name) for name in ("_to_copy", "cat", "ceil", "clone", "floor", "round", "sign", "trunc")
)
_FROM_ONE = frozenset(
    getattr(torch.ops.aten, name + place) for name in ("celu", "elu", "selu", "tanh") for place in ("", "_")
)
_NEAR_ONE = 4.0
"""A number whose last digit is what a few roundings of numbers near one come to."""
_SHARE_OF_REFERENCE = 3e-5
"""The largest error of the reference itself, of an element's scale: far below any tolerance."""


@frozen(kw_only=True)
class Conditioning:
    """How each result answers to noise: scales of floating elements, ranges of integers; null where it has none."""

    element_scales: tuple[NDArray[np.float64] | None, ...]
    integer_ranges: tuple[IntegerRange | None, ...]

    @property
    def num_bytes(self) -> int:
        """Memory held."""
        arrays = [*self.element_scales, *(each for pair in self.integer_ranges if pair is not None for each in pair)]
        return sum(array.nbytes for array in arrays if array is not None)


def find_conditioning(
    task: Task,
    model: torch.nn.Module,
    inputs: list[Any],
    expected: Sequence[NDArray[np.generic]],
    dtype: torch.dtype,
    seed: int,
) -> Conditioning | None:
    """Run a reference in its own dtype, and on moved inputs and parameters in float64; None where it cannot be.

    Inputs hold values that are exact in `dtype`, and `expected` are the float64 results for them.
    """
    try:
        own = call_model(task, convert(copy.deepcopy(model), dtype), inputs)
        moved = [_call_moved(task, copy.deepcopy(model), inputs, seed + number) for number in range(_NUM_DRAWS)]
    except (RuntimeError, TaskError):  # not every operator exists for every dtype on a CPU, nor copies every model
        return None
    columns = [
        (wanted, [values_of(each[at]) for each in moved], values_of(own[at])) for at, wanted in enumerate(expected)
    ]
    return Conditioning(
        element_scales=tuple(find_element_scales(*column) for column in columns),
        integer_ranges=tuple(find_range(*column) for column in columns),
    )


def _call_moved(task: Task, model: torch.nn.Module, inputs: list[Any], seed: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    convert(model, torch.float64)
    with torch.no_grad():
        for value in model.state_dict().values():
            if value.is_floating_point():
                value.copy_(move(value, generator))
    with ConvolutionsInParts(), _MovedResults(generator):
        return call_model(task, model, [move(value, generator) for value in inputs])


class _MovedResults(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Moves what operators round: nothing viewed, written in place, made of no tensor, copied or made whole."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        is_made = not any(isinstance(each, torch.Tensor) for each in tree_leaves((args, kwargs)))
        is_view = any(each.alias_info is not None for each in func._schema.returns)
        if is_made or is_view or func.overloadpacket in _EXACT:
            return found

        def move_in_dtype(value: torch.Tensor) -> torch.Tensor:
            moved: torch.Tensor = move(value, self.generator, _STEP_BETWEEN).to(value.dtype)
            return moved

        return tree_map_only(torch.Tensor, move_in_dtype, found)


class SubtractingFromOne(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds a reference's float32 results of tanh and ELU as their usual formulas do.

    Both return about their argument near zero. PyTorch keeps its digits there; `2 sigmoid(2 x) - 1` and `exp(x) - 1`,
    as right kernels have them, do not.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func.overloadpacket in _FROM_ONE and found.dtype is torch.float32:
            found.add_(_NEAR_ONE).sub_(_NEAR_ONE)
        return found


def move(value: Any, generator: torch.Generator, step: float = _STEP) -> Any:
    """Return a floating tensor in float64, each element moved up or down by about a step; the rest as it is."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    draw = torch.rand(value.shape, generator=generator, dtype=torch.float64) - 0.5
    return value.double() * (1.0 + step * (torch.sign(draw) + 2.0 * draw))


def find_element_scales(
    expected: NDArray[np.generic], moved: Sequence[NDArray[np.generic]], own: NDArray[np.generic]
) -> NDArray[np.float64] | None:
    """Return each element's scale, infinite where it is not to be judged by itself; None for integers.

    `moved` are the results on moved inputs, and `own` is that of the reference in its own dtype; all of one shape.
    """
    if expected.dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        wanted = expected.astype(np.float64)
        square = sum(((each.astype(np.float64) - wanted) / _STEP) ** 2 for each in moved) / max(1, len(moved))
        scale = np.abs(wanted) + np.sqrt(square)
        # what is zero and stays so has lost no value: its error is one of the others' size
        scale = np.where(scale == 0.0, find_scale(expected), scale)
        # whatever its own scale, it is compared with the tensor's too
        reached = np.minimum(scale, np.maximum(np.abs(wanted), find_scale(expected)))
        is_exact = np.abs(own.astype(np.float64) - wanted) <= _SHARE_OF_REFERENCE * reached
        found: NDArray[np.float64] = np.where(np.isfinite(scale) & is_exact, scale, np.inf)
    return found


def find_range(
    expected: NDArray[np.generic], moved: Sequence[NDArray[np.generic]], own: NDArray[np.generic]
) -> IntegerRange | None:
    """Return the least and the largest value of each integer, as the last digits of the inputs decide at a tie."""
    if expected.dtype.kind == "f":
        return None
    low = high = expected
    for each in (*moved, own):
        low, high = np.minimum(low, each), np.maximum(high, each)
    return low, high
