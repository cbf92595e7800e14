"""Functions of many items in several processes, and results that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tritonrl.harness import side_by_side
from tritonrl.harness.side_by_side import map_kept, map_side_by_side
from tritonrl.harness.work import WorkStore

CALLS: list[Any] = []


def double(item: int) -> int:
    """Twice the item."""
    CALLS.append(item)
    return 2 * item


def test_values_come_in_order_from_as_many_processes_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are told in this thread, one after the other, and no work is done in this process."""
    monkeypatch.setattr(side_by_side, "_FEW", 2)
    monkeypatch.setattr(side_by_side.os, "sched_getaffinity", lambda _: {0, 1})
    CALLS.clear()
    counts: list[int] = []
    assert map_side_by_side(double, range(9), counts.append) == [0, 2, 4, 6, 8, 10, 12, 14, 16]
    assert counts == list(range(1, 10))
    assert CALLS == []


def test_what_is_kept_is_not_made_again(tmp_path: Path) -> None:
    """Each item is made once, whatever else is asked for beside it."""
    CALLS.clear()
    store, counts = WorkStore(root=tmp_path), list[int]()
    assert map_kept(double, [1, 2], store=store) == [2, 4]
    assert map_kept(double, [3, 2, 1], counts.append, store) == [6, 4, 2]
    assert CALLS == [1, 2, 3]
    assert counts == [3]
