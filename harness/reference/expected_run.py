"""What a task's reference has for one variant, and how it is built: the records that the oracle gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from attrs import frozen
from numpy.typing import NDArray

from ...core.run import InitArgument, TensorSpec
from ...stages.tolerance import IntegerRange
from .task_facts import count_bytes


@frozen(kw_only=True)
class ExpectedRun:
    """One variant's inputs (null where an input is a plain number), parameters and expected results.

    `inputs` hold values that are exact in the variant's dtype; `expected` are fp64 (integers for integer results)
    with the dtypes that the reference itself returns in `dtypes`. Beyond `largest_safe` a candidate's may be infinite.
    """

    inputs: tuple[torch.Tensor | None, ...]
    parameters: dict[str, torch.Tensor]
    expected: tuple[NDArray[np.generic], ...]
    dtypes: tuple[str, ...]
    share_of_tolerance: float = 1.0
    largest_safe: float = np.inf
    element_scales: tuple[NDArray[np.float64] | None, ...] = ()
    """For each result, the scales of its elements; empty where they have none."""
    judges_elements_alone: bool = False
    integer_ranges: tuple[IntegerRange | None, ...] = ()
    """For each result, the least and the largest that its integers may be; empty where they are what they are."""
    least_scales: tuple[float, ...] = ()
    """For each result, the scale below which errors are not measured; empty where its own scale is the measure."""
    find_own: Callable[[], Sequence[torch.Tensor]] | None = None
    """The reference's results in its own dtype, where it leaves out what it misses itself; empty where it has none."""

    @property
    def num_bytes(self) -> int:
        """Memory held."""
        return count_bytes((*self.inputs, *self.parameters.values())) + sum(array.nbytes for array in self.expected)


@frozen(kw_only=True)
class Build:
    """How the candidate must build and call its model in one profile and dtype."""

    init_json: str
    inputs: tuple[TensorSpec | InitArgument, ...]
