"""A GPU that is none: what times plans runs on the processor, so that its logic is tested where there is no device.

Tensors that are asked for on "cuda" are the processor's, a capture is the work itself, and events read a clock. Times
mean nothing, of course, and nothing runs beside anything else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from tritonrl.harness.cuda import graphs, references, replicas, timer
from tritonrl.harness.cuda.graphs import Graph, Pages


class _OnProcessor(TorchFunctionMode):
    """Every tensor is the processor's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0].clone()
        if kwargs.get("device") == "cuda":
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


class _Event:
    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = time.perf_counter()

    def query(self) -> bool:
        return False

    def elapsed_time(self, end: _Event) -> float:
        return 1e3 * max(1e-6, end.at - self.at)


class _Graph(Graph):
    """The work itself."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def __call__(self) -> None:
        self._work()

    @property
    def num_nodes(self) -> int:
        """The work is one."""
        return 1

    def in_page(self, pages: Pages) -> Callable[[], None]:
        """The same."""
        return _Graph(self._work)


def _capture(work: Callable[[], object], scratch: object = None, is_first: bool = True) -> Graph:
    work()
    return _Graph(work)


@contextmanager
def pretend_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Have the modules of `harness.cuda` believe in a GPU; yields the names of what was waited for."""
    waits: list[str] = []
    fakes: dict[str, Any] = {
        "synchronize": lambda: waits.append("synchronize"),
        "mem_get_info": lambda: (1 << 40, 1 << 40),
        "memory_allocated": lambda: 0,
        "memory_reserved": lambda: 0,
        "empty_cache": lambda: None,
        "current_device": lambda: 0,
        "get_device_properties": lambda _: SimpleNamespace(name="made up", uuid="0", total_memory=1 << 32),
        "graph_pool_handle": lambda: None,
        "Event": _Event,
        "_sleep": lambda _: None,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    for module in (graphs, timer, references, replicas):
        monkeypatch.setattr(module, "capture", _capture)
        monkeypatch.setattr(module, "capture_or_launch", _capture)
    monkeypatch.setattr(timer, "read_clocks", lambda _: None)
    with _OnProcessor():
        yield waits
