"""Data races: which meetings of two programs in memory are settled, and which are luck."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tritonrl.harness.sandbox.races import DataRace, watching

Step = tuple[int, str, int]


def happens(*steps: Step) -> bool:
    """Whether programs that load, store and do atomics on elements, one after another, race."""
    memory = torch.zeros(64, dtype=torch.uint8)
    with watching([memory], 4) as watch:
        for program, action, element in steps:
            access: Any = SimpleNamespace(
                program=(program, 0, 0),
                lanes=np.ones(1, dtype=bool),
                acquires=True,
                releases=True,
                find_elements=lambda start, shift, at=element: np.array([at]),
                held_values=lambda: np.zeros(1),
                new_values=lambda: np.ones(1),
            )
            try:
                match action:
                    case "load":
                        watch.load(access)
                    case "store":
                        watch.store(access, watch.prepare_store(access))
                    case "atomic":
                        watch.combine(access)
            except DataRace:
                return True
    return False


@pytest.mark.parametrize(
    "steps",
    [
        [(0, "load", 0), (0, "store", 0), (1, "load", 0), (1, "store", 0)],
        [(0, "store", 0), (1, "store", 0)],
        [(0, "load", 0), (1, "store", 0)],
        [(0, "store", 0), (1, "atomic", 0)],
        [(0, "store", 0), (1, "atomic", 1), (1, "load", 0)],
        [(0, "store", 0), (0, "atomic", 1), (1, "load", 0)],
        [(0, "atomic", 1), (0, "store", 0), (1, "atomic", 1), (1, "load", 0)],
    ],
)
def test_unsettled_meetings_are_races(steps: list[Step]) -> None:
    """A store that another program's access meets is a race unless both did an atomic in between."""
    assert happens(*steps)


@pytest.mark.parametrize(
    "steps",
    [
        [(0, "load", 0), (0, "store", 0), (0, "load", 0)],
        [(0, "load", 0), (1, "load", 0), (2, "load", 0)],
        [(0, "store", 0), (1, "store", 1), (1, "load", 1)],
        [(0, "atomic", 0), (1, "atomic", 0)],
        [(0, "store", 0), (0, "atomic", 9), (1, "store", 1), (1, "atomic", 9), (1, "load", 0)],
    ],
)
def test_settled_meetings_are_not(steps: list[Step]) -> None:
    """Programs may share what they only read, keep to their own elements, or agree by atomics."""
    assert not happens(*steps)


def test_each_launch_begins_anew() -> None:
    """What one launch has stored, the next may load: launches run one after another."""
    assert not happens((0, "store", 0))
    assert not happens((1, "load", 0))


def stores_collide(*stores: tuple[int, dict[int, float]]) -> bool:
    """Whether programs race that store these values to these elements, one after another."""
    memory, held = torch.zeros(64, dtype=torch.uint8), np.zeros(16)
    with watching([memory], 4) as watch:
        for program, values in stores:
            elements, given = np.array(list(values)), np.array(list(values.values()))
            access: Any = SimpleNamespace(
                program=(program, 0, 0),
                lanes=np.ones(len(values), dtype=bool),
                find_elements=lambda start, shift, at=elements: at,
                held_values=lambda at=elements: held[at],
                new_values=lambda new=given: new,
            )
            try:
                watch.store(access, watch.prepare_store(access))
            except DataRace:
                return True
            held[elements] = given
    return False


def test_blocks_that_overlap_may_store_equal_values() -> None:
    """What another program has stored must stay as it is; what nobody has may change beside it."""
    assert not stores_collide((0, {0: 1.0, 1: 2.0}), (1, {1: 2.0, 2: 3.0}))
    assert stores_collide((0, {0: 1.0, 1: 2.0}), (1, {1: 2.5, 2: 3.0}))
    assert stores_collide((0, {0: 1.0, 1: 2.0}), (1, {1: 2.0, 2: 3.0}), (2, {2: 3.0, 0: 4.0}))
