"""A fill as candidate and as its reference, on a GPU that is made up: both are timed, and do the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tritonrl.core.config import ClockConfig
from tritonrl.core.plan import LaunchPlan
from tritonrl.core.serialisation import from_plain, to_plain
from tritonrl.harness.benchmarks import same_work
from tritonrl.harness.cuda.executor import Executor
from tritonrl.harness.cuda.protocol import Protocol, ReferenceSource, Timed

from ..cuda.pretend import pretend_gpu

PROTOCOL = Protocol.of(ClockConfig(trials=6, warmups=1, flush_mb=1, placements=3), True)


class Direct:
    """Times in this process, and keeps what plans returned."""

    def __init__(self) -> None:
        self.returned: list[Any] = []

    def time(self, plan: LaunchPlan, storages: Any, others: Any, source: ReferenceSource, protocol: Protocol) -> Timed:
        """As an executor does, request by request."""
        executor = Executor()
        header = {"plan": to_plain(plan), "source": to_plain(source), "protocol": to_plain(protocol)}
        assert not storages
        assert not others
        for kind in ("receive timing", "prepare timing", "measure timing"):
            reply, _ = executor.answer({"kind": kind, "storages": {}, "busy_until": 0.0, **header}, [])
            assert reply["failure"] is None
            while reply.get("more"):
                reply, _ = executor.answer({"kind": kind}, [])
        reply, outputs = executor.answer({"kind": "finish timing", "others": {}}, [])
        self.returned += [np.frombuffer(output, dtype=np.float32) for output in outputs]
        return from_plain(reply["timed"], Timed)


def test_both_sides_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each size has its time and its speedup, and the candidate's side does fill."""
    monkeypatch.setattr(same_work, "_SIZES", (8, 3000))
    backend: Any = Direct()
    with pretend_gpu(monkeypatch):
        found = same_work.compare(backend, PROTOCOL, 2, 0.1)
    assert [one.num_elements for one in found] == [8, 3000]
    assert all(one.us > 0.0 and one.speedup > 0.0 for one in found)
    assert [one.size for one in backend.returned] == [8] * 4 + [3000] * 4
    assert all((one == 3.0).all() for one in backend.returned)


def test_what_cannot_be_timed_is_left_out() -> None:
    """A GPU without room, say."""

    class Full:
        def time(self, *_: Any) -> Timed:
            return Timed()

    backend: Any = Full()
    assert same_work.compare(backend, PROTOCOL, 2, 0.1) == []
