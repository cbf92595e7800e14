"""The same work as candidate and as its reference: both sides do it, on a GPU that is made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tritonrl.core.config import TimingConfig
from tritonrl.core.plan import LaunchPlan
from tritonrl.core.serialisation import from_plain, to_plain
from tritonrl.core.task import Profile
from tritonrl.harness.bench.gpu import same_work
from tritonrl.harness.gpu.executor import Executor
from tritonrl.harness.gpu.timing.protocol import Protocol, ReferenceSource, Timed, Trials
from tritonrl.harness.reference.reference import load_task

from ...gpu.pretend import pretend_gpu

PROTOCOL = Protocol.of(TimingConfig(trials=6, warmups=1, flush_mb=1, buffer_copies=3), True)


def time_here(
    plan: LaunchPlan, storages: dict[int, bytes], others: dict[int, bytes], source: ReferenceSource, protocol: Protocol
) -> tuple[Timed, list[bytes]]:
    """As an executor does, request by request; with what the plan returned on both values."""
    executor = Executor()
    header = {"plan": to_plain(plan), "source": to_plain(source), "protocol": to_plain(protocol)}
    for kind in ("receive timing", "prepare timing", "measure timing"):
        reply, _ = executor.answer({"kind": kind, "storages": {"0": 0}, "busy_until": 0.0, **header}, [storages[0]])
        assert reply["failure"] is None
        while reply.get("more"):
            reply, _ = executor.answer({"kind": kind}, [])
    reply, outputs = executor.answer({"kind": "finish timing", "others": {"0": 0}}, [others[0]])
    return from_plain(reply["timed"], Timed), outputs


@pytest.mark.parametrize("work", same_work._WORKS)
def test_both_sides_do_the_same(monkeypatch: pytest.MonkeyPatch, work: str) -> None:
    """What the plan returns is what the reference computes of the same values, and both are timed."""
    plan, task = same_work.describe(work, 300)
    values = [np.random.default_rng(seed).standard_normal(300, dtype=np.float32) for seed in (5, 6)]
    first, others = ({0: one.tobytes()} for one in values)
    with pretend_gpu(monkeypatch):
        source = ReferenceSource(task=task, dtype="float32", seed=0)
        timed, outputs = time_here(plan, first, others, source, PROTOCOL)
    assert timed.trials is not None
    assert set(timed.trials.us) == {"candidate", "control", "reference"}
    model: Any = load_task(task, Profile.DECLARED).Model()
    for given, output in zip(values, outputs, strict=True):
        expected = model(torch.from_numpy(given)).numpy()
        assert np.array_equal(np.frombuffer(output, dtype=np.float32), expected)


def test_a_speedup_is_the_references_time_over_the_candidates() -> None:
    """Medians of the measurements; a GPU without room gives none."""
    us = iter([(4.0, 8.0), None, (5.0, 9.0), (2.0, 2.0)] * 100)

    class Given:
        def time(self, *_: Any) -> Timed:
            found = next(us)
            return Timed(trials=found and Trials(us={"candidate": (found[0],), "reference": (found[1],)}))

    class Full:
        def time(self, *_: Any) -> Timed:
            return Timed()

    given: Any = Given()
    found = same_work.compare(given, PROTOCOL, 4, 0.1)
    assert [one.work for one in found] == [work for work in same_work._WORKS for _ in same_work._SIZES]
    assert all((one.us, one.speedup) == (4.0, 1.8) for one in found)
    full: Any = Full()
    assert same_work.compare(full, PROTOCOL, 2, 0.1) == []
