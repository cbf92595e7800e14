"""Whose turn it is in a measurement, and what a trial of several replays is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.config import ClockConfig
from tritonrl.harness.gpu.device.graphs import Graph
from tritonrl.harness.gpu.timing.protocol import Protocol
from tritonrl.harness.gpu.timing.stopwatch import (
    Lane,
    Measurement,
    Stopwatch,
    Subject,
    average_groups,
    cut_up,
    draw_sittings,
)
from tritonrl.harness.gpu.timing.streams import Streams

from .pretend import pretend_gpu


def lanes_of(number: int) -> tuple[Lane, ...]:
    return tuple(Lane(work=Graph(None)) for _ in range(number))


@given(st.lists(st.integers(1, 8), min_size=1, max_size=3), st.integers(1, 3), st.integers(0, 60))
def test_lanes_are_dealt_out_and_no_graph_is_queued_twice(
    num_lanes: list[int], num_sharing: int, num_rounds: int
) -> None:
    """Each subject has one turn a round, of its own lanes; a sitting ends only before a lane that it has had."""
    groups = [lanes_of(count) for count in num_lanes]
    subjects = [*groups, *groups[:1] * (num_sharing - 1)]
    sittings = draw_sittings(subjects, num_rounds)
    turns = [turn for sitting in sittings for turn in sitting]
    assert len(turns) == num_rounds * len(subjects)
    for first in range(0, len(turns), len(subjects)):
        assert sorted(which for which, _ in turns[first : first + len(subjects)]) == list(range(len(subjects)))
    assert all(lane in subjects[which] for which, lane in turns)
    for sitting in sittings:
        lanes = [lane for _, lane in sitting]
        assert len(set(lanes)) == len(lanes)
    for sitting, later in pairwise(sittings):
        assert later[0][1] in {lane for _, lane in sitting}


@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 100))
def test_lanes_come_up_equally_often(num_lanes: int, num_sharing: int, num_rounds: int) -> None:
    """For those who share them together, and for each of two alone; of three each has some up to three times more."""
    subjects = [lanes_of(num_lanes)] * num_sharing
    turns = [turn for sitting in draw_sittings(subjects, num_rounds) for turn in sitting]
    shares = [([lane for _, lane in turns], 1)]
    for which in range(num_sharing):
        shares.append(([lane for number, lane in turns if number == which], 1 if num_sharing <= 2 else 3))
    for share, most in shares:
        counts = [share.count(lane) for lane in subjects[0]]
        assert max(counts) - min(counts) <= most


def test_what_is_no_graph_may_be_queued_again() -> None:
    """Python launches it each time, so that one sitting is enough."""
    launched = (Lane(work=lambda: None),)
    assert len(draw_sittings([launched, launched], 50)) == 1


def test_who_comes_first_has_no_period() -> None:
    """In long sequences each of two comes first about half of the time, in even and in odd rounds alike."""
    subjects = [lanes_of(2)] * 2
    turns = [turn for sitting in draw_sittings(subjects, 2000) for turn in sitting]
    firsts = [which for which, _ in turns[::2]]
    for own in (firsts[0::2], firsts[1::2]):
        assert 400 < sum(own) < 600
    assert draw_sittings(subjects, 2000) == draw_sittings(subjects, 2000)


def measure_with(monkeypatch: pytest.MonkeyPatch, least_spin: float) -> tuple[Measurement, list[int], list[str]]:
    """Six trials of three lanes on a device that catches up unless it spins so long; with spins and what was queued."""
    spins: list[int] = []
    done: list[str] = []

    class Work(Graph):
        def __init__(self) -> None:
            pass

        def __call__(self) -> None:
            done.append("work")

    with pretend_gpu(monkeypatch):

        class Event(torch.cuda.Event):  # type: ignore[misc]
            def record(self) -> None:
                done.append("event")
                super().record()

            def query(self) -> bool:
                return spins[-1] < least_spin

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "_sleep", spins.append)
        monkeypatch.setattr(Stopwatch, "_clear_cache", lambda _: done.append("flush"))
        monkeypatch.setattr(Stopwatch, "_raise_clocks", lambda _: None)
        before, after = (partial(done.append, name) for name in ("before", "after"))
        lanes = tuple(Lane(work=Work(), before=before, after=after) for _ in range(3))
        clock = ClockConfig(trials=6, replays=1, warmups=0, flush_mb=0, attempts=3)
        found = Stopwatch().measure([Subject(name="a", lanes=lanes)], Protocol.of(clock, True))
    return found, spins, done


def test_a_late_sitting_is_repeated_with_a_longer_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is then kept for the sittings after it, and nothing of the late one counts."""
    found, spins, _ = measure_with(monkeypatch, 2e6)
    assert found.num_late == 0
    assert found.num_attempts == 1
    assert len(found.us["a"]) == 6
    assert spins == [600_000, 2_400_000, 2_400_000]  # three lanes, so two sittings


def test_what_stays_late_is_not_repeated_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sitting is tried as often as it may be; each later one once; every replay of them counts as late."""
    found, spins, _ = measure_with(monkeypatch, float("inf"))
    assert found.num_late == len(found.us["a"]) == 6
    assert spins == [600_000, 2_400_000, 9_600_000, 9_600_000]


def test_what_surrounds_a_replay_is_warm_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that a sitting puts on the stream was there before."""
    _, spins, done = measure_with(monkeypatch, 0.0)
    assert done[:9] == ["before", "work", "after"] * 3
    assert spins == [600_000, 600_000]


def test_only_the_work_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is flushed just before it: nothing else runs between, which could read what the work needs."""
    found, _, done = measure_with(monkeypatch, 0.0)
    order = ["before", "flush", "event", "work", "event", "after"]
    assert done[-len(order) * len(found.us["a"]) :] == order * len(found.us["a"])


@given(st.integers(0, 500))
def test_a_sitting_is_cut_into_parts_that_begin_with_lanes_of_others(length: int) -> None:
    """All turns in their order, no part too long, and no lane twice in one; a short sitting is left whole."""
    sitting = list(enumerate(lanes_of(length)))
    parts = cut_up(sitting)
    assert [turn for _, part in parts for turn in part] == sitting
    assert all(len(part) <= 40 for _, part in parts)
    sizes = [len(part) for _, part in parts]
    assert not sizes or max(sizes) - min(sizes) <= 1
    for lead_in, part in parts:
        lanes = [*lead_in, *(lane for _, lane in part)]
        assert len(set(lanes)) == len(lanes)
        assert len(lead_in) == (4 if length > 40 else 0)


def measure_on_streams(
    monkeypatch: pytest.MonkeyPatch, us: float, are_captured: list[bool], least_spin: float = 0.0
) -> tuple[Measurement, list[str]]:
    """A trial of each lane, and what was done, in parentheses on a stream; it catches up unless it spins so long."""
    done: list[str] = []
    spins: list[int] = []

    class Work(Graph):
        def __init__(self) -> None:
            pass

        def __call__(self) -> None:
            done.append("work")

    @contextmanager
    def take_next(_: Streams) -> Iterator[None]:
        done.append("(")
        yield
        done.append(")")

    with pretend_gpu(monkeypatch):

        class Event(torch.cuda.Event):  # type: ignore[misc]
            def record(self) -> None:
                done.append("event")

            def query(self) -> bool:
                return spins[-1] < least_spin

            def elapsed_time(self, end: Event) -> float:
                return us / 1e3

        def spin(cycles: int) -> None:
            done.append("spin")
            spins.append(cycles)

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "_sleep", spin)
        monkeypatch.setattr(Streams, "take_next", take_next)
        monkeypatch.setattr(Stopwatch, "_clear_cache", lambda _: done.append("flush"))
        monkeypatch.setattr(Stopwatch, "_raise_clocks", lambda _: None)
        before, after, launch = (partial(done.append, name) for name in ("before", "after", "work"))
        lanes = tuple(Lane(work=Work() if each else launch, before=before, after=after) for each in are_captured)
        clock = ClockConfig(trials=len(lanes), replays=1, warmups=0, flush_mb=0, budget_s=600.0, attempts=2)
        found = Stopwatch().measure([Subject(name="a", lanes=lanes)], Protocol.of(clock, True))
    return found, done


UNTIMED, TIMED = ["before", "flush", "work", "after"], ["before", "flush", "event", "work", "event", "after"]


def test_what_is_short_is_timed_on_streams_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts whose first replays are not timed, and are blanked, flushed for and looked at like all others."""
    found, done = measure_on_streams(monkeypatch, 5.0, [True] * 100)
    assert len(found.us["a"]) == 100
    parts = [["(", "spin", *UNTIMED * 4, *TIMED * number, ")"] for number in (33, 33, 34)]
    assert done[done.index("(") :] == [step for part in parts for step in part]


def test_a_late_part_is_repeated_whole_on_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is not timed before it; the parts after it spin as long at once."""
    found, done = measure_on_streams(monkeypatch, 5.0, [True] * 82, 2e6)
    assert (found.num_late, len(found.us["a"])) == (0, 82)
    once = ["spin", *UNTIMED * 4, *TIMED * 27]
    assert done[done.index("(") :][: 2 * len(once) + 2] == ["(", *once, *once, ")"]
    assert done.count("spin") == 4


@pytest.mark.parametrize(
    ("us", "are_captured"), [(500.0, [True] * 100), (5.0, [False] * 100), (5.0, [True] * 99 + [False])]
)
def test_what_is_long_or_launched_by_python_stays_on_one_stream(
    monkeypatch: pytest.MonkeyPatch, us: float, are_captured: list[bool]
) -> None:
    """It does not depend on the stream, or would have memory of its own on each; all of its replays are timed."""
    _, done = measure_on_streams(monkeypatch, us, are_captured)
    assert "(" not in done
    assert done[-len(TIMED) * 100 :] == TIMED * 100


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=12), st.integers(1, 5))
def test_a_trial_is_the_mean_of_its_replays(means: list[float], size: int) -> None:
    """Groups of equal replays give these replays, in order; the mean of all is kept."""
    replays = [value for value in means for _ in range(size)]
    assert average_groups(replays, size) == pytest.approx(means)
    spread = [value + offset for value in means for offset in range(size)]
    assert sum(average_groups(spread, size)) / len(means) == pytest.approx(sum(spread) / len(spread))
