"""Formats numbers of an analysis as text, rounded for a person."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum

NOTHING = "-"
"""Shown where nothing was measured."""


class Form(StrEnum):
    """How a number is written."""

    PERCENT = "percent"
    """A share in whole percent, without the sign."""
    POINTS = "points"
    """A difference of shares in points, with its sign and one decimal place."""
    SIZE = "size"
    """The same where it has no direction."""
    FINE_PERCENT = "fine percent"
    """A share in percent with two decimal places."""
    RATIO = "ratio"
    TENTHS = "tenths"
    FACTOR = "factor"
    """The number whose natural logarithm the analysis holds."""
    COUNT = "count"
    SECONDS = "seconds"
    HOURS = "hours"
    P_VALUE = "p_value"
    SHORT = "short"
    LOSS = "loss"


def _points(share: float) -> str:
    text = f"{share * 100:+.1f}"
    return "+0.0" if text == "-0.0" else text


def _seconds(value: float) -> str:
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def _factor(logarithm: float) -> str:
    # an interval from two runs may reach beyond any number
    factor = math.exp(min(logarithm, 50.0))
    return f"{factor:.2f}" if factor < 1000 else f"{factor:.0e}"


def _p_value(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}" if value < 0.0995 else f"{value:.2f}"


_WRITE: dict[Form, Callable[[float], str]] = {
    Form.PERCENT: lambda value: f"{value * 100:.0f}",
    Form.POINTS: _points,
    Form.SIZE: lambda value: f"{value * 100:.1f}",
    Form.FINE_PERCENT: lambda value: f"{value * 100:.2f}",
    Form.RATIO: lambda value: f"{value:.2f}",
    Form.TENTHS: lambda value: f"{value:.1f}",
    Form.FACTOR: _factor,
    Form.COUNT: lambda value: f"{value:,.0f}",
    Form.SECONDS: _seconds,
    Form.HOURS: lambda value: f"{value:.2f}",
    Form.P_VALUE: _p_value,
    Form.SHORT: lambda value: f"{value:.2f}",
    Form.LOSS: lambda value: f"{value:.3f}",
}


def written(value: float | None, form: Form) -> str:
    """Return a number in that form, or a dash where there is none."""
    return NOTHING if value is None else _WRITE[form](value)
