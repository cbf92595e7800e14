"""`stages.tolerance.compare` for tensors that are too large for the host: piece by piece, where they are.

Figures are taken in float64, of a few million elements at once. Elements that either side has infinite or NaN leave the
scale alone; a result with one that the other has not is refused in any case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from attrs import evolve

from ...core.candidate import Comparison
from ...stages.tolerance import LARGEST_FINITE, SMALLEST, TOLERANCES, ZERO_SCALE, bounded

_PIECE = 1 << 24
_Pair = tuple[torch.Tensor, torch.Tensor]


def compare_on_device(
    actual: torch.Tensor, expected: torch.Tensor, dtype: str, expected_dtype: str, largest_safe: float = math.inf
) -> Comparison:
    """Compare a result, of torch dtype `dtype`, with the reference's of the same shape or another."""
    found = Comparison(
        dtype=dtype,
        shape_matches=actual.shape == expected.shape,
        dtype_matches=dtype == expected_dtype,
        num_elements=expected.numel(),
        shape=tuple(expected.shape),
    )
    if not found.shape_matches:
        return found
    if dtype not in TOLERANCES or expected_dtype not in TOLERANCES:
        num_different = sum(int((a != b).sum()) for a, b in _pieces(actual, expected))
        return evolve(found, num_different=num_different)
    # sizes of the expected values first, since errors are measured in them
    unit, num_nonfinite = 0.0, 0
    for pair in _pieces(actual, expected):
        got, wanted, finite = _widen(pair, dtype, largest_safe)
        same = (torch.isnan(wanted) & torch.isnan(got)) | (torch.isinf(wanted) & (wanted == got))
        num_nonfinite += int((~(finite | same)).sum())
        unit = max(unit, float(torch.where(finite, wanted.abs(), 0.0).max()))
    count, squares = 0, 0.0
    for pair in _pieces(actual, expected):
        _, wanted, finite = _widen(pair, dtype, largest_safe)
        count += int(finite.sum())
        squares += float(((torch.where(finite, wanted, 0.0) / (unit or 1.0)) ** 2).sum())
    scale = math.sqrt(squares / max(1, count)) if unit else 1.0
    unit = unit or ZERO_SCALE
    errors, worst = 0.0, 0.0
    for pair in _pieces(actual, expected):
        got, wanted, finite = _widen(pair, dtype, largest_safe)
        difference = ((got / unit - wanted / unit).abs() - SMALLEST[dtype] / unit).clamp(min=0.0)
        difference = torch.where(finite, difference, 0.0)
        errors += float((difference**2).sum())
        worst = max(worst, float((difference / (torch.where(finite, wanted.abs(), 0.0) / unit + scale)).max()))
    return evolve(
        found,
        num_nonfinite=num_nonfinite,
        relative_error=bounded(math.sqrt(errors / max(1, count)) / scale),
        worst_excess=bounded(worst),
    )


def find_excess_on_device(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Find the least t for which `torch.allclose` with atol = rtol = t holds; infinite where no t does."""
    worst = 0.0
    for got, wanted in _pieces(actual, expected):
        a, b = got.double(), wanted.double()
        ratios = torch.where(a == b, 0.0, (a - b).abs() / (1.0 + b.abs()))
        is_sound = torch.isfinite(ratios) & ~(torch.isinf(b) & (a != b))
        worst = max(worst, float(torch.where(is_sound, ratios, math.inf).max()))
    return worst


def _pieces(actual: torch.Tensor, expected: torch.Tensor) -> Iterator[_Pair]:
    got, wanted = actual.reshape(-1), expected.reshape(-1)
    for start in range(0, got.numel(), _PIECE):
        yield got[start : start + _PIECE], wanted[start : start + _PIECE]


def _widen(pair: _Pair, dtype: str, largest_safe: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return both in float64, values beyond the dtype's range infinite, and where both are finite."""
    got, wanted = pair[0].double(), pair[1].double()
    limit, slack = LARGEST_FINITE[dtype], TOLERANCES[dtype].worst_excess
    sizes, infinite = wanted.abs() / limit, torch.copysign(torch.full_like(wanted, math.inf), wanted)
    is_at_end = (sizes >= min(1.0 - slack, largest_safe / limit)) & (sizes <= 1.0 + slack)
    is_infinite = torch.where(is_at_end, got == infinite, sizes > 1.0)
    wanted = torch.where(is_infinite, infinite, wanted)
    return got, wanted, torch.isfinite(wanted) & torch.isfinite(got)
