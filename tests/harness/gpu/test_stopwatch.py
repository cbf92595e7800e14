"""Whose turn it is in a measurement, what a trial of several replays is, and what the driver says of clocks."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import ClockReading
from tritonrl.core.config import TimingConfig
from tritonrl.harness.gpu.device.graphs import Graph
from tritonrl.harness.gpu.timing.protocol import Protocol, Trials
from tritonrl.harness.gpu.timing.stopwatch import (
    Lane,
    Stopwatch,
    Subject,
    average_groups,
    draw_passes,
    name_throttles,
    parse_smi,
    read_clocks,
)

from .pretend import pretend_gpu


def lanes_of(number: int) -> tuple[Lane, ...]:
    return tuple(Lane(work=Graph(None, lambda: None)) for _ in range(number))


@given(st.lists(st.integers(1, 8), min_size=1, max_size=3), st.integers(1, 3), st.integers(0, 60))
def test_lanes_are_dealt_out_and_no_graph_is_queued_twice(
    num_lanes: list[int], num_sharing: int, num_rounds: int
) -> None:
    """Each subject has one turn a round, of its own lanes; in a pass a lane comes once, where there are enough."""
    groups = [lanes_of(count) for count in num_lanes]
    subjects = [*groups, *groups[:1] * (num_sharing - 1)]
    passes = draw_passes(subjects, num_rounds)
    turns = [turn for one in passes for turn in one]
    assert len(turns) == num_rounds * len(subjects)
    for first in range(0, len(turns), len(subjects)):
        assert sorted(which for which, _ in turns[first : first + len(subjects)]) == list(range(len(subjects)))
    assert all(lane in subjects[which] for which, lane in turns)
    length = min([num_lanes[0] // num_sharing, *num_lanes[1:]])
    assert all(len(one) == max(1, length) * len(subjects) for one in passes[:-1])
    if num_lanes[0] >= num_sharing:
        assert all(len({lane for _, lane in one}) == len(one) for one in passes)


@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 20))
def test_subjects_that_share_lanes_have_the_same_ones(num_each: int, num_sharing: int, num_times: int) -> None:
    """Each has every lane once, whenever all parts have gone round."""
    subjects = [lanes_of(num_each * num_sharing)] * num_sharing
    turns = [turn for one in draw_passes(subjects, num_each * num_sharing * num_times) for turn in one]
    for which in range(num_sharing):
        own = [lane for number, lane in turns if number == which]
        assert [own.count(lane) for lane in subjects[0]] == [num_times] * len(subjects[0])


def test_lanes_that_are_left_over_come_up_as_well() -> None:
    """Where there are more than a pass takes, others are left out each time."""
    passes = draw_passes([lanes_of(3), lanes_of(20)], 300)
    counts = Counter(lane for one in passes for which, lane in one if which == 1)
    assert len(counts) == 20
    assert max(counts.values()) < 40


def test_what_is_no_graph_may_be_queued_again() -> None:
    """Python launches it each time, so that a pass is as long as it may be."""
    launched = (Lane(work=lambda: None),)
    assert [len(one) for one in draw_passes([launched, launched], 50)] == [80, 20]


def test_who_comes_first_has_no_period() -> None:
    """In long sequences each of two comes first about half of the time, in even and in odd rounds alike."""
    subjects = [lanes_of(2)] * 2
    turns = [turn for one in draw_passes(subjects, 2000) for turn in one]
    firsts = [which for which, _ in turns[::2]]
    for own in (firsts[0::2], firsts[1::2]):
        assert 400 < sum(own) < 600
    assert draw_passes(subjects, 2000) == draw_passes(subjects, 2000)


def measure_with(monkeypatch: pytest.MonkeyPatch, least_spin: float) -> tuple[Trials, list[int], list[str]]:
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
        timing = TimingConfig(trials=6, replays=1, warmups=0, flush_mb=0, attempts=3)
        found = Stopwatch().measure([Subject(name="a", lanes=lanes)], Protocol.of(timing, True))
    return found, spins, done


def test_a_late_pass_is_repeated_with_a_longer_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is then kept for the passes after it, and nothing of the late one counts."""
    found, spins, _ = measure_with(monkeypatch, 2e6)
    assert found.num_late == 0
    assert found.num_attempts == 1
    assert len(found.us["a"]) == 6
    assert spins == [600_000, 2_400_000, 2_400_000]  # three lanes, so two passes


def test_what_stays_late_is_not_repeated_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pass is tried as often as it may be; each later one once; every replay of them counts as late."""
    found, spins, _ = measure_with(monkeypatch, float("inf"))
    assert found.num_late == len(found.us["a"]) == 6
    assert spins == [600_000, 2_400_000, 9_600_000, 9_600_000]


def test_what_surrounds_a_replay_is_warm_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that a pass puts on the stream was there before."""
    _, spins, done = measure_with(monkeypatch, 0.0)
    assert done[:9] == ["before", "work", "after"] * 3
    assert spins == [600_000, 600_000]


def test_only_the_work_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is flushed just before it: nothing else runs between, which could read what the work needs."""
    found, _, done = measure_with(monkeypatch, 0.0)
    order = ["before", "flush", "event", "work", "event", "after"]
    assert done[-len(order) * len(found.us["a"]) :] == order * len(found.us["a"])


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=12), st.integers(1, 5))
def test_a_trial_is_the_mean_of_its_replays(means: list[float], size: int) -> None:
    """Groups of equal replays give these replays, in order; the mean of all is kept."""
    replays = [value for value in means for _ in range(size)]
    assert average_groups(replays, size) == pytest.approx(means)
    spread = [value + offset for value in means for offset in range(size)]
    assert sum(average_groups(spread, size)) / len(means) == pytest.approx(sum(spread) / len(spread))


def test_a_line_of_nvidia_smi_is_a_reading() -> None:
    """Clocks, temperature and what holds the clocks down are read from the query's line."""
    expected = ClockReading(
        sm_mhz=1755, max_sm_mhz=1980, memory_mhz=3201, temperature_c=61, throttled_by=("power cap", "thermal slowdown")
    )
    assert parse_smi("1755, 1980, 3201, 61, 0x0000000000000024\n") == expected


@given(st.text(max_size=60))
def test_any_other_line_is_no_reading(line: str) -> None:
    """A line with a field missing or unsupported is None, never an exception."""
    found = parse_smi(line)
    assert found is None or line.count(",") >= 4
    assert parse_smi("[N/A], 1980, 3201, 61, 0x0") is None


@given(st.integers(0, 2**16))
def test_idle_clocks_are_not_held_down(reasons: int) -> None:
    """Idleness, clocks that were asked for and the display's are not among the names; every other bit has one."""
    harmless = 0x1 | 0x2 | 0x100
    assert name_throttles(reasons) == name_throttles(reasons & ~harmless)
    assert len(name_throttles(reasons)) == (reasons & 0xEC).bit_count()


def test_a_gpu_that_is_not_there_has_no_reading() -> None:
    """Where neither library nor tool knows the GPU, a timing does without."""
    assert read_clocks("GPU-00000000-0000-0000-0000-000000000000") is None
