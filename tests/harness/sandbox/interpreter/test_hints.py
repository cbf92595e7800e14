"""Hints to the compiler: false ones are refused where compiled code relies on them, and right kernels may give them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.outcome import Outcome
from tritonrl.harness.sandbox.interpreter.hints import apply_hint, find_compiled
from tritonrl.harness.sandbox.sandbox import Sandbox

from .test_buffers import COPY, run, values

ROWS = "c = tl.arange(0, 2)\np = s_ptr + c[:, None] * tl.multiple_of(n, 4) + c[None, :]\n"
"""Two elements of each of two rows, which are five apart and said to be a multiple of four."""


@given(st.integers(0, 1000), st.sampled_from([2, 4, 8, 16, 64]), st.sampled_from([0, 1, 4]))
def test_a_true_hint_changes_nothing(first: int, size: int, step: int) -> None:
    """Lanes that rise, or stay the same, are what the hint says."""
    lanes = first + step * np.arange(64)
    assert np.array_equal(apply_hint(lanes, [size], step), lanes)
    tile = lanes[None, :] + 1000 * np.arange(8)[:, None]
    assert np.array_equal(apply_hint(tile, [1, size], step), tile)


@given(st.lists(st.integers(0, 1000), min_size=32, max_size=32), st.sampled_from([2, 4, 8, 16, 32]))
def test_a_hint_goes_by_the_first_of_each_group(found: list[int], size: int) -> None:
    """Whatever the lanes hold, and for groups of at most sixteen."""
    lanes = np.array(found)
    groups = apply_hint(lanes, [size], 1).reshape(-1, min(size, 16))
    assert np.array_equal(groups[:, 0], lanes[:: min(size, 16)])
    assert np.all(np.diff(groups, axis=1) == 1)


@given(st.integers(1, 200), st.integers(2, 8), st.sampled_from([1, 2, 4]))
def test_rows_that_wrap_around_are_never_taken_at_once(columns: int, rows: int, item_bytes: int) -> None:
    """A matrix whose rows are not aligned gives no thread several elements, and where they are none are torn apart."""
    start = 160
    at = (np.arange(start, start + 64) % columns).astype(np.int64)
    meant = apply_hint(at, [64], 1)
    row = columns * np.arange(rows)[:, None]
    base = 1 << 20
    everywhere = np.ones((rows, 64), dtype=bool)
    pointers, hinted = base + (row + at) * item_bytes, base + (row + meant) * item_bytes
    assert find_compiled(pointers, everywhere, hinted, everywhere, item_bytes) is None


@given(st.permutations(range(4)))
def test_a_permuted_group_is(order: list[int]) -> None:
    """Four elements in another order go by the first, where any is loaded and it is aligned."""
    at = (np.arange(16).reshape(4, 4)[:, order]).reshape(-1)
    pointers, hinted = 1024 + 4 * at, 1024 + 4 * apply_hint(at, [4], 1)
    lanes = np.ones(16, dtype=bool)
    found = find_compiled(pointers, lanes, hinted, lanes, 4)
    if order[0] == 0:
        assert (found is not None) is (order != [0, 1, 2, 3])
        assert found is None or np.array_equal(found[0], hinted)
    elif order[0] % 2:
        assert found is None
    assert find_compiled(pointers, ~lanes, hinted, ~lanes, 4) is None


@pytest.mark.parametrize(
    "body",
    [
        "h = tl.max_contiguous(tl.multiple_of(7 - at, 8), 8)\ntl.store(y_ptr + h, 1.0, mask=h < n)",
        "h = tl.max_contiguous((at & -4) | (-at & 3), 4)\ntl.store(s_ptr + at, at * 1.0)\ntl.debug_barrier()\n"
        "tl.store(y_ptr + at, tl.load(s_ptr + h), mask=at < n)",
        "h = tl.max_constancy((at < n).to(tl.int32), 8) > 0\ntl.store(y_ptr + at, 1.0, mask=h)",
        "m = tl.multiple_of(n, 16)\ntl.store(y_ptr + at, 1.0, mask=at < m)",
        "p = tl.multiple_of(y_ptr + 1, 16)\ntl.store(p - 1 + at, 1.0, mask=at < n)",
        "for i in range(1, 3):\n    i = tl.multiple_of(i, 2)\n    tl.store(y_ptr + at, i * 0.0 + 1, mask=at < i)",
        "for i in tl.static_range(1, 3):\n    i = tl.multiple_of(i, 2)\n" + COPY,
        ROWS + "v = tl.load(p)\ntl.store(y_ptr + at, 1.0 + tl.sum(v), mask=at < n)",
        ROWS + "for i in tl.static_range(2):\n    v = tl.load(p, mask=(c < 2 - i)[None, :], other=0.0)\n"
        "    tl.store(y_ptr + at, 1.0 + tl.sum(v), mask=at < n)",
    ],
    ids=["reversed", "permuted", "mask", "size", "pointer", "loop", "unrolled", "stride", "stride when unrolled"],
)
def test_a_false_hint_is_refused(sandbox: Sandbox, body: str) -> None:
    """By compiled code lanes would take what others should, or nothing that is aligned."""
    result = run(sandbox, body)
    assert result.failure is not None
    assert result.failure.outcome is Outcome.UNSUPPORTED
    assert "is not true" in result.failure.message


@pytest.mark.parametrize(
    "body",
    [
        "h = tl.max_contiguous(tl.multiple_of(at, 8), 8)\ntl.store(y_ptr + h, 1.0, mask=h < n)",
        "h = tl.max_contiguous(tl.multiple_of(at % n, 8), 8)\ntl.store(y_ptr + at, tl.load(x_ptr + h), mask=at < n)",
        "h = tl.max_contiguous(tl.multiple_of(tl.minimum(at, n - 1), 8), 8)\n"
        "for i in range(0, 1):\n    v = tl.load(x_ptr + h * 0)\ntl.store(y_ptr + at, v, mask=at < n)",
        "p = tl.multiple_of(y_ptr, 16)\ntl.store(p + at, 1.0, mask=at < n)",
        "h = tl.max_constancy(at // 4, 4)\ntl.store(y_ptr + at, tl.load(x_ptr + h), mask=at < n)",
        "for i in range(0, 4, 2):\n    i = tl.multiple_of(i, 2)\n" + COPY,
        ROWS + "v = tl.load(p, mask=(c < n - 4)[None, :], other=0.0)\n"
        "tl.store(y_ptr + at, 1.0 + tl.sum(v), mask=at < n)",
        ROWS + "for i in range(2):\n    v = tl.load(p, mask=(c < 2 - i)[None, :], other=0.0)\n"
        "    tl.store(y_ptr + at, 1.0 + tl.sum(v), mask=at < n)",
    ],
    ids=["offsets", "wrapped", "clamped", "pointer", "constant", "loop", "stride", "stride in a loop"],
)
def test_a_hint_that_holds_is_not(sandbox: Sandbox, body: str) -> None:
    """Nor one that is false of lanes which no thread can take together."""
    assert values(run(sandbox, body)) == [1.0] * 5
