"""`stages.tolerance.compare` for tensors that are too large for the host: piece by piece, where they are.

Figures are taken in float64, of a few million elements at once. Elements that either side has infinite or NaN leave the
scale alone; a result with one that the other has not is refused in any case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from attrs import evolve, frozen

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
    measured = _measure(actual, expected, dtype, largest_safe)
    errors, worst = 0.0, 0.0
    for pair in _pieces(actual, expected):
        difference, excess, _ = _differences(pair, dtype, largest_safe, measured)
        errors += float((difference**2).sum())
        worst = max(worst, float(excess.max()))
    return evolve(
        found,
        num_nonfinite=measured.num_nonfinite,
        relative_error=bounded(math.sqrt(errors / max(1, measured.num_finite)) / measured.scale),
        worst_excess=bounded(worst),
    )


def leave_out_lost(
    actual: torch.Tensor, expected: torch.Tensor, own: torch.Tensor, dtype: str, share: float, largest_safe: float
) -> torch.Tensor:
    """Return the expected values, but for what the reference itself misses in its own dtype: there the actual ones.

    So nobody is judged by an element that a rounding decides, as where an input lies on a threshold. `own` is the
    reference's result in its own dtype, and `share` that of the tolerance.
    """
    if actual.shape != expected.shape or own.shape != expected.shape:
        return expected
    is_exact = dtype not in TOLERANCES or not expected.is_floating_point()
    measured = _Measured() if is_exact else _measure(own, expected, dtype, largest_safe)
    kept: list[torch.Tensor] = []
    for (got, wanted), (ours, _) in zip(_pieces(actual, expected), _pieces(own, expected), strict=True):
        if is_exact:
            lost = ours != wanted
        else:
            _, excess, is_sound = _differences((ours, wanted), dtype, largest_safe, measured)
            lost = ~is_sound | (excess > share * TOLERANCES[dtype].worst_excess)
        kept.append(torch.where(lost, got.to(wanted.dtype), wanted))
    return torch.cat(kept).reshape(expected.shape) if kept else expected


def find_excess_on_device(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Find the least t for which `torch.allclose` with atol = rtol = t holds; infinite where no t does."""
    worst = 0.0
    for got, wanted in _pieces(actual, expected):
        a, b = got.double(), wanted.double()
        ratios = torch.where(a == b, 0.0, (a - b).abs() / (1.0 + b.abs()))
        is_sound = torch.isfinite(ratios) & ~(torch.isinf(b) & (a != b))
        worst = max(worst, float(torch.where(is_sound, ratios, math.inf).max()))
    return worst


@frozen(kw_only=True)
class _Measured:
    """The largest of the expected values and their root mean square in its units, which errors are measured in."""

    unit: float = 1.0
    scale: float = 1.0
    num_finite: int = 0
    num_nonfinite: int = 0


def _measure(actual: torch.Tensor, expected: torch.Tensor, dtype: str, largest_safe: float) -> _Measured:
    unit, num_nonfinite = 0.0, 0
    for pair in _pieces(actual, expected):
        got, wanted, finite = _widen(pair, dtype, largest_safe)
        num_nonfinite += int((~(finite | _are_same(got, wanted))).sum())
        unit = max(unit, float(torch.where(finite, wanted.abs(), 0.0).max()))
    count, squares = 0, 0.0
    for pair in _pieces(actual, expected):
        _, wanted, finite = _widen(pair, dtype, largest_safe)
        count += int(finite.sum())
        squares += float(((torch.where(finite, wanted, 0.0) / (unit or 1.0)) ** 2).sum())
    scale = math.sqrt(squares / max(1, count)) if unit else 1.0
    return _Measured(unit=unit or ZERO_SCALE, scale=scale, num_finite=count, num_nonfinite=num_nonfinite)


def _differences(
    pair: _Pair, dtype: str, largest_safe: float, measured: _Measured
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return differences in units, each as a multiple of its value and the scale, and where both are finite or alike.

    Elsewhere both are 0.
    """
    got, wanted, finite = _widen(pair, dtype, largest_safe)
    unit = measured.unit
    difference = ((got / unit - wanted / unit).abs() - SMALLEST[dtype] / unit).clamp(min=0.0)
    difference = torch.where(finite, difference, 0.0)
    excess = difference / (torch.where(finite, wanted.abs(), 0.0) / unit + measured.scale)
    return difference, excess, finite | _are_same(got, wanted)


def _are_same(got: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return (torch.isnan(wanted) & torch.isnan(got)) | (torch.isinf(wanted) & (wanted == got))


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
