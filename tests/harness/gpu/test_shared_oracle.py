"""The oracle of a GPU, here on a processor: the same values, few turns, and no more memory than is meant for a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from attrs import evolve
from tritonrl.core.candidate import Candidate, Comparison, Evidence, RunReport, Variant
from tritonrl.core.outcome import Outcome
from tritonrl.core.task import Profile, Task
from tritonrl.harness.gpu import shared_oracle
from tritonrl.harness.gpu.gpu_lock import GpuLock
from tritonrl.harness.gpu.shared_oracle import SharedOracle
from tritonrl.harness.reference.oracle import Oracle
from tritonrl.stages.checks.runs import RunsReport
from tritonrl.stages.funnel import judge_full
from tritonrl.stages.variants import describe

from ..kernels import LINEAR, NORM, POINTWISE

TASKS = (POINTWISE, LINEAR, NORM)
RIGHT = (Comparison(dtype="float32", shape_matches=True, dtype_matches=True, num_elements=4),)


class CountedLock(GpuLock):
    """A lock that count how often one was taken."""

    num_taken = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """A shared turn."""
        self.num_taken += 1
        with super().shared():
            yield


class SmallGpu(SharedOracle):
    """A GPU with no room for float64."""

    def _call_in(
        self, dtype: torch.dtype, task: Task, model: torch.nn.Module, inputs: list[Any]
    ) -> Sequence[torch.Tensor]:
        if dtype is torch.float64:
            raise torch.cuda.OutOfMemoryError("no room")
        return super()._call_in(dtype, task, model, inputs)


class CrowdedGpu(SharedOracle):
    """A GPU with no room for anything but float64."""

    def _call_in(
        self, dtype: torch.dtype, task: Task, model: torch.nn.Module, inputs: list[Any]
    ) -> Sequence[torch.Tensor]:
        if dtype is not torch.float64:
            raise torch.cuda.OutOfMemoryError("no room")
        return super()._call_in(dtype, task, model, inputs)


PROBABILITIES = evolve(
    POINTWISE,
    task_id="test-loss-of-probabilities",
    source=POINTWISE.source.replace(
        "2.0 * x * torch.sigmoid(x)", "nn.functional.binary_cross_entropy(x, 1.0 - x)"
    ).replace("torch.randn", "torch.rand"),
)


@pytest.fixture(autouse=True)
def _tiny_sizes_alone_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_oracle, "_FEW_ELEMENTS", 20)


def test_small_sizes_take_no_turn(tmp_path: Path) -> None:
    """What a processor is quick with is computed there, and what is larger is not."""
    turns = CountedLock("oracle", tmp_path)
    oracle = SharedOracle(3, turns, "cpu")
    oracle.expected(POINTWISE, describe(Variant.ORIGINAL, POINTWISE.dtypes, Profile.TINY))
    assert turns.num_taken == 0
    oracle.expected(POINTWISE, describe(Variant.ORIGINAL, POINTWISE.dtypes, Profile.SMALL))
    assert turns.num_taken == 1


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task_id)
def test_values_are_those_of_a_processor(task: Task, tmp_path: Path) -> None:
    """Inputs, parameters and results do not depend on where they are computed, but for rounding."""
    turns = CountedLock("oracle", tmp_path)
    inputs = describe(Variant.SCALED, task.dtypes, Profile.SMALL)
    here, there = Oracle(3).expected(task, inputs), SharedOracle(3, turns, "cpu").expected(task, inputs)
    for one, other in zip(here.expected, there.expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    assert all(torch.equal(here.parameters[name], there.parameters[name]) for name in here.parameters)


def test_a_processor_is_asked_first_whether_values_are_accepted(tmp_path: Path) -> None:
    """A loss of probabilities is not run on shifted ones: that is an assertion, which ends a GPU's context."""
    turns = CountedLock("oracle", tmp_path)
    oracle = SharedOracle(3, turns, "cpu")
    assert oracle.is_accepted(PROBABILITIES, describe(Variant.ORIGINAL, PROBABILITIES.dtypes, Profile.SMALL))
    taken = turns.num_taken
    assert taken
    assert not oracle.is_accepted(PROBABILITIES, describe(Variant.SHIFT_2, PROBABILITIES.dtypes, Profile.SMALL))
    assert turns.num_taken == taken


def test_what_is_known_takes_no_turn(tmp_path: Path) -> None:
    """One turn is taken for a result, and none for the same result again."""
    turns = CountedLock("oracle", tmp_path)
    oracle = SharedOracle(0, turns, "cpu")
    inputs = describe(Variant.ORIGINAL, LINEAR.dtypes, Profile.SMALL)
    first = oracle.expected(LINEAR, inputs)
    assert turns.num_taken == 1
    assert oracle.expected(LINEAR, inputs) is first
    assert turns.num_taken == 1


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_references_own_errors_are_found_in_a_turn(dtype: str, tmp_path: Path) -> None:
    """The reference runs in the variant's dtype where the oracle computes, or on a processor where there is no room."""
    inputs = describe(Variant.ORIGINAL if dtype == "float32" else Variant.PRECISION, POINTWISE.dtypes, Profile.SMALL)
    assert inputs.dtype == dtype
    here = Oracle(3).own_errors(POINTWISE, inputs)
    assert here
    for kind in (SharedOracle, CrowdedGpu):
        turns = CountedLock("oracle", tmp_path)
        oracle = kind(3, turns, "cpu")
        oracle.expected(POINTWISE, inputs)
        assert oracle.own_errors(POINTWISE, inputs) == here
        assert turns.num_taken == 2


def test_without_room_a_processor_computes(tmp_path: Path) -> None:
    """Results are those of float64 wherever they were computed."""
    inputs = describe(Variant.ORIGINAL, LINEAR.dtypes, Profile.SMALL)
    found = SmallGpu(0, GpuLock("oracle", tmp_path), "cpu").expected(LINEAR, inputs)
    np.testing.assert_array_equal(found.expected[0], Oracle(0).expected(LINEAR, inputs).expected[0])


def test_a_model_is_made_on_the_gpu_or_nowhere(tmp_path: Path) -> None:
    """Where there is none, whoever asks has a processor make it."""
    assert SharedOracle(3, GpuLock("oracle", tmp_path), "cuda:7").build_there(LINEAR, "float32") is None
    made = SharedOracle(3, GpuLock("oracle", tmp_path), "cpu").build_there(LINEAR, "float32")
    expected = Oracle(3).build_model(LINEAR, Profile.DECLARED, "float32", frozenset())
    assert made is not None
    for found, wanted in zip(made.state_dict().values(), expected.state_dict().values(), strict=True):
        assert torch.equal(found, wanted)


def test_beside_neighbours_a_run_takes_what_is_meant_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is held to a share of the GPU's memory, 4 GB at the least, and to none when the run is over."""
    shares: list[float] = []
    device = SimpleNamespace(total_memory=128 << 30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: device)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share, _: shares.append(share))
    oracle = SharedOracle(0, GpuLock("oracle", tmp_path), "cpu", has_neighbours=True)
    for num_bytes in (32 << 30, 1 << 20, 256 << 30):
        with contextlib.suppress(ArithmeticError), oracle.confined(num_bytes):
            raise ArithmeticError
    assert shares == [1 / 4, 1.0, 1 / 32, 1.0, 1.0, 1.0]
    oracle.expected(LINEAR, describe(Variant.ORIGINAL, LINEAR.dtypes, Profile.SMALL))
    assert shares[6:] == [1 / 32, 1.0]


def test_the_verdict_says_what_was_compared_in_float32() -> None:
    """The full stage names the variants that were judged by results of fewer digits."""
    report = RunReport(variant=Variant.ORIGINAL, seconds=0.0, failure=None, oracle_dtype="float32")
    wide = evolve(report, variant=Variant.SCALED, oracle_dtype="float64")
    right = [evolve(one, comparisons=RIGHT) for one in (report, wide)]
    result = judge_full(
        Candidate(task_id="t", source="", evidence=Evidence(reports=(("variants", RunsReport(runs=tuple(right))),)))
    )
    assert result.outcome is Outcome.PASSED
    assert result.message == "expected values in float32: variant original"
