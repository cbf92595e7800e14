"""Drawn errors of approximate functions: one unit at the most, none where the result is exact."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.sandbox.interpreter.semantics.gpu_error import _nudge

from .test_conversions import interpret

INEXACT = {
    "exp": "tl.exp(x)",
    "exp2": "tl.exp2(x)",
    "log": "tl.log(x)",
    "sin": "tl.sin(x)",
    "sqrt": "tl.sqrt(x)",
    "rsqrt": "tl.rsqrt(x)",
    "quotient": "1.0 / x",
    "fused": "x * x - libdevice.mul_rn(x, x)",
    "fused on the right": "x - x * x",
    "TF32": "tl.sum(tl.dot(x[:, None] + tl.zeros((16, 16), tl.float32), tl.zeros((16, 16), tl.float32) + 0.0625), 1)",
}
EXACT = {
    "exp of 0": ("tl.exp(x - x)", 1.0),
    "log of 1": ("tl.log(x / x)", 0.0),
    "exp2 of a whole number": ("tl.exp2(x * 0 + 5.0)", 32.0),
    "root of a square": ("tl.sqrt(x * 0 + 9.0)", 3.0),
    "reciprocal root of a power of four": ("tl.rsqrt(x * 0 + 16.0)", 0.25),
    "quotient without a rest": ("(x * 0 + 6.0) / 3.0", 2.0),
    "quotient rounded as it should be": ("tl.div_rn(x * 0 + 1.0, x * 0 + 3.0)", 0.3333333432674408),
    "root rounded as it should be": ("tl.sqrt_rn(x * 0 + 2.0)", 1.4142135381698608),
    "exp of minus infinity": ('tl.exp(x * 0 - float("inf"))', 0.0),
    "IEEE": (
        "tl.sum(tl.dot(x[:, None] + tl.zeros((16, 16), tl.float32), tl.zeros((16, 16), tl.float32) + 0.0625, "
        "input_precision='ieee'), 1) / x",
        16.0,
    ),
}
VALUES = tuple(1.1 + 0.07 * at for at in range(16))


@cache
def _results() -> tuple[list[list[float]], list[list[float]]]:
    asked = [("", body, VALUES, (1, 4)) for body in [*INEXACT.values(), *(body for body, _ in EXACT.values())]]
    plain, drawn = (
        [[float(value) for value in values] for values in interpret(asked, seed=seed)] for seed in (None, 7)
    )
    return plain, drawn


@pytest.mark.parametrize("name", INEXACT)
def test_a_drawn_error_is_small_and_there(name: str) -> None:
    """Some of sixteen numbers are others, and none by much."""
    plain, drawn = (found[list(INEXACT).index(name)] for found in _results())
    assert plain != drawn
    limit = 1e-3 if name == "TF32" else 2.5e-7
    assert drawn == pytest.approx(plain, rel=limit, abs=5e-7)


@pytest.mark.parametrize("name", EXACT)
def test_what_is_exact_stays_exact(name: str) -> None:
    """As right kernels may expect."""
    _, drawn = _results()
    found = drawn[len(INEXACT) + list(EXACT).index(name)]
    assert found == pytest.approx([EXACT[name][1]] * 16, rel=2.5e-7 if name == "IEEE" else 0, abs=0)


@given(st.floats(width=32, allow_nan=False))
def test_a_number_moves_by_one_unit_at_the_most(value: float) -> None:
    """Infinity and the smallest stay where they are."""
    start = np.array([value], np.float32)
    found = _nudge(start, np.array([True]))
    assert abs(int(found.view(np.int32)[0]) - int(start.view(np.int32)[0])) <= 1
    assert np.isfinite(found[0]) or not np.isfinite(start[0]) or abs(value) > 3.4e38
    assert (_nudge(start, np.array([False])) == start).all()
