"""A GPU that is none: what times plans runs on the processor, so that its logic is tested where there is no device.

Tensors that are asked for on "cuda" are the processor's, a capture is what PyTorch did, and events read a clock. Times
mean nothing, of course, and nothing runs beside anything else. As on a GPU a capture holds addresses alone: to replay
one whose memory was freed is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attrs import define
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from tritonrl.harness.gpu.device import graphs
from tritonrl.harness.gpu.device.graphs import Graph, PageFillers
from tritonrl.harness.gpu.timing import copies, references, timer


class _OnProcessor(TorchFunctionMode):
    """Every tensor is the processor's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0].clone()
        if func is torch.Tensor.to:
            args = (args[0], *("cpu" if value == "cuda" else value for value in args[1:]))
        if str(kwargs.get("device")).startswith("cuda"):
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
        # a hundred times quicker than it is, so that replaying the work of a test is short
        return 10.0 * max(1e-6, end.at - self.at)


@define
class _Elsewhere:
    """A tensor whose memory is another's, who may free it."""

    storage: StorageWeakRef
    dtype: torch.dtype
    geometry: tuple[Any, ...]

    def get(self) -> torch.Tensor:
        storage = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
        assert storage is not None, "a graph is replayed whose memory was freed"
        return torch.empty(0, dtype=self.dtype).set_(storage, *self.geometry)


class _Tape(TorchDispatchMode):
    """What was done while this is active; what was allocated meanwhile is kept."""

    def __init__(self) -> None:
        super().__init__()
        self._own: dict[int, torch.UntypedStorage] = {}
        self._done: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {one.untyped_storage()._cdata for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)}
        found = func(*args, **(kwargs or {}))
        for one in tree_leaves(found):
            if isinstance(one, torch.Tensor) and one.untyped_storage()._cdata not in given:
                self._own[one.untyped_storage()._cdata] = one.untyped_storage()
        self._done.append((func, *(tree_map(self._let_go, each) for each in (args, kwargs or {}, found))))
        return found

    def _let_go(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.untyped_storage()._cdata in self._own:
            return value
        geometry = (value.storage_offset(), value.size(), value.stride())
        return _Elsewhere(StorageWeakRef(value.untyped_storage()), value.dtype, geometry)

    def replay(self) -> None:
        """The same once more, into the same memory."""
        for func, args, kwargs, found in self._done:
            args, kwargs = (
                tree_map(lambda one: one.get() if isinstance(one, _Elsewhere) else one, each) for each in (args, kwargs)
            )
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(found), tree_leaves(again), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class _Graph(Graph):
    """What PyTorch did, again."""

    def __init__(self, tape: _Tape, work: Callable[[], object]) -> None:
        super().__init__(tape, work)
        self._tape = tape

    def __call__(self) -> None:
        self._tape.replay()

    @property
    def raw(self) -> None:
        """The driver has none."""


def _capture(work: Callable[[], object], scratch: object = None, is_first: bool = True) -> Graph:
    with _Tape() as tape:
        work()
    return _Graph(tape, work)


@contextmanager
def pretend_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Have the modules of `harness.gpu` believe in a GPU; yields the names of what was waited for."""
    with _Tape():  # its first use imports what keeps the frames of that moment
        torch.zeros(1).add_(1.0)
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
    for module in (graphs, timer, references, copies):
        monkeypatch.setattr(module, "capture", _capture)
        monkeypatch.setattr(module, "capture_or_launch", _capture)
    monkeypatch.setattr(PageFillers, "add", lambda _: None)
    monkeypatch.setattr(timer, "read_clocks", lambda _: None)
    with _OnProcessor():
        yield waits
