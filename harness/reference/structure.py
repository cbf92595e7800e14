"""What every draw of an input has alike: zeros in the same places, symmetry, two values and no other.

A right kernel may skip the blocks of a triangular matrix, read a symmetric one by columns, or take targets of 0 and 1
for truth values. So a variant's values keep what two draws at small sizes have alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from ...core.task import Profile, Task
from .reference import draw_inputs, is_floating, load_task

Structure = Literal["zeros", "symmetric", "two values"]
_LEAST_ELEMENTS = 8
"""Fewer have two values by chance."""


def find_structures(task: Task, seeds: tuple[int, int]) -> dict[int, tuple[Structure, ...]]:
    """Return what floating-point inputs have alike in two draws, by position; those without any are left out."""
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
    if all(_is_symmetric(each) for each in (one, other)):
        found.append("symmetric")
    values, others = ({*each.flatten().tolist()} for each in (one, other))
    if one.numel() >= _LEAST_ELEMENTS and len(values) == 2 and values == others:
        found.append("two values")
    return tuple(found)


def _is_symmetric(value: torch.Tensor) -> bool:
    return value.ndim > 1 and value.shape[-1] == value.shape[-2] > 1 and torch.equal(value, value.mT)


def restore(drawn: Sequence[Any], changed: Sequence[Any], structures: Mapping[int, Sequence[Structure]]) -> None:
    """Give changed inputs what those that were drawn have at their own sizes; in place, so that layouts stay."""
    for at, kinds in structures.items():
        before, after = drawn[at], changed[at]
        with contextlib.suppress(RuntimeError):  # several elements are one in memory
            if "two values" in kinds:
                after.copy_(before)
            if "zeros" in kinds:
                after.copy_(after.where(before != 0, 0.0))
            if "symmetric" in kinds and _is_symmetric(before):
                after.copy_(after.tril() + after.tril(-1).mT)
