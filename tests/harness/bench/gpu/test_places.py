"""What `tritonrl bench places` compares, and what it makes of that."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.config import ClockConfig
from tritonrl.core.plan import Buffer, BufferKind, Copy, LaunchPlan, View
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.bench.gpu_commands import places
from tritonrl.harness.bench.gpu.places import KINDS, PlacesFigures, examine, render, summarise
from tritonrl.harness.cuda import graphs
from tritonrl.harness.cuda.executor import Executor
from tritonrl.harness.cuda.memory import DeviceBuffers
from tritonrl.harness.cuda.pages import Pages
from tritonrl.harness.cuda.protocol import Protocol

from ...cuda.pretend import pretend_gpu

PROTOCOL = Protocol.of(ClockConfig(trials=5, warmups=1, replays=1, flush_mb=1), True)
PLAN = LaunchPlan(
    buffers=tuple(
        Buffer(kind=kind, name=name, dtype="float32", num_elements=64)
        for kind, name in ((BufferKind.INPUT, "0"), (BufferKind.TEMPORARY, ""))
    ),
    kernels=(),
    steps=(
        Copy(
            source=View(buffer=0, offset=0, shape=(64,), stride=(1,), dtype="float32"),
            target=View(buffer=1, offset=0, shape=(64,), stride=(1,), dtype="float32"),
        ),
    ),
    outputs=(View(buffer=1, offset=0, shape=(64,), stride=(1,), dtype="float32"),),
)
NUM_VARIANTS, GAP = 3, 4


def passes_of(kind: str, deviations: list[float], drifts: list[float]) -> list[dict[str, float]]:
    """Times of 10 us of all variants but one kind's, which deviate; in each pass all drift."""
    return [
        {
            f"{each}: {number}": 10.0 + drift + (deviation if each == kind else 0.0)
            for each in KINDS
            for number, deviation in enumerate(deviations)
        }
        for drift in drifts
    ]


@given(st.sampled_from(KINDS), st.floats(0.01, 1.0), st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=5))
def test_the_kind_that_matters_is_found_whatever_drifts(kind: str, size: float, drifts: list[float]) -> None:
    """Its variants spread, no other kind's do, and what all have in common is no chance."""
    spreads = summarise("k", passes_of(kind, [-size, 0.0, size], drifts))
    assert spreads.by_kind[kind] == pytest.approx(size / spreads.us, rel=1e-6)
    assert all(spreads.by_kind[each] == pytest.approx(0.0, abs=1e-9) for each in KINDS if each != kind)
    assert spreads.chance == pytest.approx(0.0, abs=1e-9)


def test_what_differs_from_pass_to_pass_is_chance() -> None:
    """One variant that is 1 us longer in one of two passes."""
    passes = passes_of("data", [0.0, 0.0], [0.0, 0.0])
    passes[1]["data: 0"] += 1.0
    spreads = summarise("k", passes)
    assert spreads.chance > 0.0
    assert spreads.by_kind["data"] > spreads.by_kind["graph"]


def test_variants_differ_in_one_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many of each kind; each copy of the code is loaded for itself, and far ones with the gap between."""
    copies: list[list[DeviceBuffers]] = []
    with pretend_gpu(monkeypatch):
        monkeypatch.setattr(places, "capture", graphs.capture)

        def make_copy() -> Callable[[DeviceBuffers], Callable[[], None]]:
            used: list[DeviceBuffers] = []
            copies.append(used)

            def prepare(buffers: DeviceBuffers) -> Callable[[], None]:
                used.append(buffers)
                return Executor().prepare(PLAN, buffers, {})

            return prepare

        values = {0: torch.arange(64, dtype=torch.float32).view(torch.uint8)}
        spreads = examine("copy", PLAN, values, make_copy, PROTOCOL, NUM_VARIANTS, GAP, Pages())
    assert spreads is not None
    assert set(spreads.by_kind) == set(KINDS)
    assert len(copies) == 1 + NUM_VARIANTS + NUM_VARIANTS * (GAP + 1)
    first = copies[0][0]
    # the first copy has the first buffers, those of "nothing" and "capture", and each variant's own
    assert Counter(id(buffers) for buffers in copies[0])[id(first)] == 2 + NUM_VARIANTS
    assert len({id(buffers) for buffers in copies[0]}) == 1 + NUM_VARIANTS
    assert all(buffers is first for used in copies[1:] for buffers in used)


def test_figures_are_shown() -> None:
    """A line a kernel, and the kernels that could not be measured."""
    spreads = summarise("softmax (N 64)", passes_of("graph", [-0.1, 0.1], [0.0, 0.1]))
    figures = PlacesFigures(device="gpu", seed=0, num_variants=2, gap=4, kernels=(spreads,), unusable=("other: no",))
    text = "\n".join(render(figures))
    assert "softmax (N 64)" in text
    assert "not measured: other: no" in text
    assert json.loads(json.dumps(to_plain(figures), allow_nan=False))["kernels"][0]["kernel"] == "softmax (N 64)"
