"""Data races: which meetings of two programs in memory are settled, and which are luck."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tritonrl.harness.sandbox.interpreter.races import DataRace, watching

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
                is_narrow=action == "atomic of a block",
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
                    case "atomic" | "atomic of a block":
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
        [(0, "atomic of a block", 0), (1, "atomic of a block", 0)],
        [(0, "atomic of a block", 0), (1, "atomic", 0)],
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


LANES = 8
Event = tuple[int, str]


def publishes(*events: Event, num_lanes: int = LANES) -> bool:
    """Whether program 1 may load what program 0 stored as a block, after these."""
    memory = torch.zeros(64, dtype=torch.uint8)

    def access(program: int, size: int, order: str = "") -> Any:
        return SimpleNamespace(
            program=(program, 0, 0),
            lanes=np.ones(size, dtype=bool),
            acquires="acq" in order,
            releases="rel" in order,
            is_narrow=False,
            find_elements=lambda start, shift: np.arange(size) if not order else np.array([15]),
            held_values=lambda: np.zeros(size),
            new_values=lambda: np.ones(size),
        )

    with watching([memory], 4) as watch:
        store = access(0, num_lanes)
        watch.store(store, watch.prepare_store(store))
        for program, what in events:
            if what == "barrier":
                watch.wait()
            else:
                watch.combine(access(program, 1, what))
        try:
            watch.load(access(1, num_lanes))
        except DataRace:
            return False
    return True


@pytest.mark.parametrize(
    ("events", "is_published"),
    [
        ([(0, "barrier"), (0, "acq_rel"), (1, "acq_rel")], True),
        ([(0, "barrier"), (0, "rel"), (1, "acq")], True),
        ([(0, "barrier"), (0, "none"), (0, "rel"), (1, "acq")], True),
        ([(0, "acq_rel"), (1, "acq_rel")], False),
        ([(0, "acq_rel"), (0, "barrier"), (1, "acq_rel")], False),
        ([(0, "barrier"), (0, "acq"), (1, "acq_rel")], False),
        ([(0, "barrier"), (0, "acq_rel"), (1, "rel")], False),
        ([(0, "barrier"), (0, "none"), (1, "none")], False),
        ([(0, "barrier"), (1, "acq_rel")], False),
    ],
)
def test_a_block_is_published_by_a_barrier_and_an_atomic_that_releases(events: list[Event], is_published: bool) -> None:
    """And read after one that acquires; one element is stored by the thread that performs the atomic."""
    assert publishes(*events) is is_published
    without_barrier = [event for event in events if event[1] != "barrier"]
    orders = {(program, order) for program, what in events for order in ("acq", "rel") if order in what}
    assert publishes(*without_barrier, num_lanes=1) is ({(0, "rel"), (1, "acq")} <= orders)


def loop_races(stores_before: bool, stores_within: bool, is_ahead: bool) -> bool:
    """Whether a program races that loads an element in a loop after it stored it, before the loop or in it."""
    memory = torch.zeros(64, dtype=torch.uint8)
    one: Any = SimpleNamespace(
        program=(0, 0, 0),
        lanes=np.ones(1, dtype=bool),
        find_elements=lambda start, shift: np.array([3]),
        held_values=lambda: np.zeros(1),
        new_values=lambda: np.ones(1),
    )
    with watching([memory], 4, ahead=[memory] if is_ahead else []) as watch:
        try:
            if stores_before:
                watch.store(one, watch.prepare_store(one))
            watch.begin_loop()
            if stores_within:
                watch.load(one)
                watch.store(one, watch.prepare_store(one))
            watch.load(one)
            watch.end_loop()
        except DataRace:
            return True
    return False


def test_a_pipelined_loop_must_not_load_what_it_has_stored() -> None:
    """What was stored before the loop it may."""
    assert loop_races(stores_before=False, stores_within=True, is_ahead=True)
    assert not loop_races(stores_before=True, stores_within=False, is_ahead=True)
    assert not loop_races(stores_before=True, stores_within=True, is_ahead=False)


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


Block = tuple[str, list[int]]


def lanes_race(*blocks: Block, shape: tuple[int, ...] = (), gives: list[float] | None = None) -> bool:
    """Whether lanes of a program race whose blocks access elements so, one after another.

    A block is what it does and the element of each lane. The last one has the `shape`, and stores what it `gives`.
    """
    memory, held = torch.zeros(64, dtype=torch.uint8), np.zeros(16)
    with watching([memory], 4) as watch:
        for number, (action, lanes) in enumerate(blocks):
            is_last = number == len(blocks) - 1
            elements = np.array(lanes)
            given = np.array(gives) if is_last and gives is not None else number + np.arange(1.0, elements.size + 1)
            access: Any = SimpleNamespace(
                program=(0, 0, 0),
                lanes=np.ones(shape if is_last and shape else len(lanes), dtype=bool),
                acquires=False,
                releases=False,
                is_narrow=False,
                find_elements=lambda start, shift, at=elements: at,
                held_values=lambda at=elements: held[at],
                new_values=lambda new=given: new,
            )
            try:
                match action:
                    case "load":
                        watch.load(access)
                    case "store":
                        prepared = watch.prepare_store(access)
                        held[elements] = given
                        watch.store(access, prepared)
                    case "atomic":
                        watch.combine(access)
                    case "barrier":
                        watch.wait()
                    case "collective":
                        watch.collect()
            except DataRace:
                return True
    return False


ALONG, BACK = [0, 1, 2, 3], [3, 2, 1, 0]


@pytest.mark.parametrize("first", ["load", "store", "atomic"])
@pytest.mark.parametrize("second", ["load", "store", "atomic"])
def test_lanes_of_a_program_meet_behind_a_barrier(first: str, second: str) -> None:
    """Whatever two lanes do with one element, but for two loads or two atomics; one lane is in order with itself."""
    assert lanes_race((first, ALONG), (second, BACK)) is (first != second or first == "store")
    assert not lanes_race((first, ALONG), ("barrier", []), (second, BACK))
    assert not lanes_race((first, ALONG), (second, ALONG))
    assert not lanes_race((first, ALONG), (second, [4, 5, 6, 7]))


@pytest.mark.parametrize("first", ["load", "store", "atomic"])
@pytest.mark.parametrize("second", ["load", "store", "atomic"])
def test_a_collective_waits_for_what_was_loaded(first: str, second: str) -> None:
    """And for nothing that was stored or changed."""
    assert lanes_race((first, ALONG), ("collective", []), (second, BACK)) is (
        first != "load" and (first != second or first == "store")
    )


def test_an_atomic_on_one_address_is_a_barrier() -> None:
    """One on several is not: each thread performs its own and waits for none."""
    assert not lanes_race(("load", ALONG), ("atomic", [9]), ("store", BACK))
    assert lanes_race(("load", ALONG), ("atomic", [9, 10]), ("store", BACK))


def test_lanes_of_other_shapes_are_others() -> None:
    """But for dimensions of one, and what other lanes have loaded before is not forgotten for the last one's sake."""
    assert lanes_race(("load", ALONG), ("store", ALONG), shape=(2, 2))
    assert not lanes_race(("load", ALONG), ("store", ALONG), shape=(4, 1))
    assert lanes_race(("load", BACK), ("load", ALONG), ("store", ALONG))
    assert lanes_race(("load", [0, 0, 0, 0]), ("store", ALONG))
    assert lanes_race(("load", [0]), ("store", ALONG))


def test_stores_that_change_nothing_meet_nobody() -> None:
    """Lanes that give an element equal values may be several."""
    assert lanes_race(("load", BACK), ("store", ALONG), gives=[0.0, 0.0, 0.0, 1.0])
    assert not lanes_race(("load", BACK), ("store", ALONG), gives=[0.0] * 4)
    assert lanes_race(("store", [5, 5]), gives=[1.0, 2.0])
    assert not lanes_race(("store", [5, 5]), gives=[2.0, 2.0])
