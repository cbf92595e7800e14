"""Device time of recorded pieces of work: how runtimes are measured on a GPU.

Naive timing, events around launches from Python, measures Python for kernels of a few microseconds. Here work is
captured in a CUDA graph and replayed between two events. What is compared is measured in turns, in one sequence of
trials, so that a drift of the clocks meets all alike; whose turn it is first is drawn, since a device has habits of
period two. The L2 cache is flushed before every replay, since what a kernel reads is not in the cache when a model
calls it. A graph that is launched while an earlier launch of it waits is up to 0.5 us quicker or slower (two H200
differ), so trials are queued in sittings, in each of which a graph is timed once. A spinning kernel holds the stream
back while launches are queued; a replay at whose end the device had already caught up with the queue is counted as
late, and a sitting with late ones is repeated with a longer spin. What is short depends on the stream as well, so its
sittings are cut up and put on several in turns; the first replays after a spin are up to 0.2 us quicker, and are not
timed where a sitting has enough parts. A measurement is repeated whose control differs from what it repeats.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from attrs import frozen

from ...core.statistics.intervals import trimmed_mean
from .graphs import is_graph
from .protocol import Protocol
from .streams import Streams

_SPIN_CYCLES, _SPIN_GROWTH, _MOST_SPIN_CYCLES = 600_000, 4, 40_000_000
_SHORT_US = 60.0
_SHORT_PLACES = 2
_MOST_LOOKS, _PATIENCE_S = 8, 0.02
_LEAST_TRIALS = 5
_MOST_TURNS, _LEAD_IN = 40, 4
"""Of a short sitting's part: those that are timed, and those before them that are not."""
_RISE_S = 0.02
"""An idle GPU takes so long to raise its clocks."""
_RISE_AFTER_S = 0.01


def nothing() -> None:
    """What is done beside work that needs nothing beside it."""


@frozen(kw_only=True)
class Lane:
    """One capture of some work: `work` is timed, while `before` and `after` are put on the stream beside it."""

    work: Callable[[], None]
    before: Callable[[], None] = nothing
    after: Callable[[], None] = nothing


@frozen(kw_only=True)
class Subject:
    """Something to time, captured once or several times."""

    name: str
    lanes: tuple[Lane, ...]


@frozen(kw_only=True)
class Measurement:
    """Microseconds by subject, and how many replays were late; `num_attempts` measurements were made."""

    us: dict[str, list[float]]
    num_late: int = 0
    num_attempts: int = 1


def time_once(work: Callable[[], object]) -> float:
    """Microseconds between events around one run, put on the stream by Python, with nothing else done about it."""
    new_event: Any = torch.cuda.Event
    start, end = new_event(enable_timing=True), new_event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * float(start.elapsed_time(end))


def is_short(work: Callable[[], None]) -> bool:
    """Whether the work takes so little time that it shows where it lies.

    Others may use the GPU meanwhile, so it is run several times, and the quickest run counts.
    """
    work()
    until = time.monotonic() + _PATIENCE_S
    for _ in range(_MOST_LOOKS):
        if time_once(work) < _SHORT_US:
            return True
        if time.monotonic() > until:
            break
    return False


def count_places(placements: int, short: bool) -> int:
    """The least number of places in memory: one is worth up to 3% of 5 us (H200), and nothing of what is long."""
    return placements * (_SHORT_PLACES if short else 1)


class Stopwatch:
    """Measures on the current device; holds the memory whose writing flushes the cache."""

    def __init__(self) -> None:
        self._flush = torch.empty(0, dtype=torch.int8, device="cuda")
        self.streams = Streams()
        self._last_used = 0.0
        self._events: list[tuple[Any, Any]] = []
        """Start and end of a replay, for as many as there were in a sitting; used again in each."""

    def measure(
        self, subjects: Sequence[Subject], protocol: Protocol, control: tuple[str, str] | None = None
    ) -> Measurement:
        """The subjects in turns, as the protocol says; `control` names two that are the same."""
        if self._flush.numel() != protocol.flush_mb << 20:
            self._flush = torch.empty(protocol.flush_mb << 20, dtype=torch.int8, device="cuda")
        self._raise_clocks()
        lanes = dict.fromkeys(lane for subject in subjects for lane in subject.lanes)
        self._take_turns(lanes, is_cold=False)  # a graph's first replay is slower
        firsts = [subject.lanes[0] for subject in subjects]
        round_s = max(1e-6, 1e-6 * time_once(lambda: self._take_turns(firsts)))
        is_short = min(time_once(lane.work) for lane in firsts) < protocol.short_us
        num_replays = protocol.replays if is_short else 1
        affordable = int(protocol.budget_s / (round_s * num_replays))
        num_trials = min(protocol.trials, max(_LEAST_TRIALS, affordable))
        for _ in range(min(protocol.warmups, affordable)):
            self._take_turns(firsts)
        found = Measurement(us={})
        for attempt in range(protocol.attempts):
            us, num_late = self._replay(subjects, num_trials * num_replays, protocol.attempts, is_short)
            trials = {name: average_groups(replays, num_replays) for name, replays in us.items()}
            found = Measurement(us=trials, num_late=num_late, num_attempts=attempt + 1)
            if control is None or _agree(trials, control, protocol):
                break
        self._last_used = time.monotonic()
        return found

    def note_busy(self, until: float) -> None:
        """Others kept the device busy until then, on the monotonic clock."""
        self._last_used = max(self._last_used, until)

    def _raise_clocks(self) -> None:
        """Keep the device busy for a moment, unless it was just now."""
        if time.monotonic() - self._last_used < _RISE_AFTER_S:
            return
        until = time.monotonic() + _RISE_S
        while time.monotonic() < until:
            for _ in range(8):
                self._clear_cache()
            torch.cuda.synchronize()

    def _clear_cache(self) -> None:
        if self._flush.numel():
            self._flush.zero_()

    def _take_turns(self, lanes: Iterable[Lane], is_cold: bool = True) -> None:
        for lane in lanes:
            lane.before()
            if is_cold:
                self._clear_cache()
            lane.work()
            lane.after()

    def _replay(
        self, subjects: Sequence[Subject], num_rounds: int, attempts: int, is_short: bool
    ) -> tuple[dict[str, list[float]], int]:
        """Microseconds of each replay, a round of all subjects at a time, and how many replays stayed late.

        Where a sitting stays late however often it is repeated, later ones would as well, and are not.
        """
        us: dict[str, list[float]] = {subject.name: [] for subject in subjects}
        spin_cycles, num_late = _SPIN_CYCLES, 0
        torch.cuda.synchronize()
        # what Python launches may allocate, and each stream keeps memory of its own
        on_streams = is_short and all(is_graph(lane.work) for subject in subjects for lane in subject.lanes)
        for whole in draw_sittings([subject.lanes for subject in subjects], num_rounds):
            for lead_in, sitting in cut_up(whole) if on_streams else [((), whole)]:
                lanes = [lane for _, lane in sitting]
                with self.streams.take_next() if on_streams else nullcontext():
                    taken, late = self._sit(lanes, spin_cycles, lead_in)
                    for _ in range(attempts - 1):
                        if not late or num_late:
                            break
                        spin_cycles = min(_SPIN_GROWTH * spin_cycles, _MOST_SPIN_CYCLES)
                        taken, late = self._sit(lanes, spin_cycles, lead_in)
                num_late += late
                for (which, _), replay_us in zip(sitting, taken, strict=True):
                    us[subjects[which].name].append(replay_us)
        return us, num_late

    def _sit(self, lanes: Sequence[Lane], spin_cycles: int, lead_in: Sequence[Lane]) -> tuple[list[float], int]:
        """Microseconds of each lane's replay, one after the other, and how many were late; `lead_in` is not timed."""
        new_event: Any = torch.cuda.Event
        while len(self._events) < len(lanes):
            self._events.append((new_event(enable_timing=True), new_event(enable_timing=True)))
        pairs = self._events[: len(lanes)]
        num_late = 0
        torch.cuda._sleep(spin_cycles)  # type: ignore[no-untyped-call]
        self._take_turns(lead_in)
        for lane, (start, end) in zip(lanes, pairs, strict=True):
            lane.before()
            self._clear_cache()
            start.record()
            lane.work()
            end.record()
            num_late += start.query()
            lane.after()
        torch.cuda.synchronize()
        return [1e3 * start.elapsed_time(end) for start, end in pairs], num_late


_Turn = tuple[int, Lane]
"""Whose turn it is, by number, and the lane."""


def draw_sittings(subjects: Sequence[Sequence[Lane]], num_rounds: int) -> list[list[_Turn]]:
    """So many rounds, in which every subject comes up once, in a drawn order; by subject's number and lane.

    No lane that is a graph comes up twice in a sitting. Subjects with the same lanes deal them out among themselves,
    all before any comes up again, and each takes those that it had least often.
    """
    groups: dict[tuple[Lane, ...], int] = {}
    group_of = tuple(groups.setdefault(tuple(lanes), len(groups)) for lanes in subjects)
    are_graphs = tuple(tuple(is_graph(lane.work) for lane in lanes) for lanes in groups)
    drawn = _draw_sittings(group_of, are_graphs, num_rounds)
    return [[(which, subjects[which][place]) for which, place in sitting] for sitting in drawn]


@lru_cache(maxsize=256)
def _draw_sittings(
    group_of: tuple[int, ...], are_graphs: tuple[tuple[bool, ...], ...], num_rounds: int
) -> list[list[tuple[int, int]]]:
    """The same by subject's number and place, from the group of lanes of each subject and what is a graph in each.

    It takes longer than some kernels' trials, while others wait for the GPU, and few forms come again and again.
    """
    rng = random.Random(num_rounds)
    decks: list[list[int]] = [[] for _ in are_graphs]
    num_taken = [[0] * len(are_graphs[group]) for group in group_of]
    sittings: list[list[tuple[int, int]]] = [[]]
    queued: set[tuple[int, int]] = set()
    for _ in range(num_rounds):
        for which in rng.sample(range(len(group_of)), len(group_of)):
            group = group_of[which]
            deck, number = decks[group], len(are_graphs[group])
            if not deck:
                deck += rng.sample(range(number), number)
            place = min(deck, key=num_taken[which].__getitem__)
            deck.remove(place)
            num_taken[which][place] += 1
            if (group, place) in queued:
                sittings.append([])
                queued.clear()
            if are_graphs[group][place]:
                queued.add((group, place))
            sittings[-1].append((which, place))
    return sittings


def cut_up(sitting: Sequence[_Turn]) -> list[tuple[Sequence[Lane], Sequence[_Turn]]]:
    """The sitting in parts of about the same length, none too long, each with lanes of another part to begin with.

    What is in one part cannot begin it as well: no graph is queued twice. So where all is one part nothing begins it.
    """
    number = max(1, math.ceil(len(sitting) / _MOST_TURNS))
    cuts = [at * len(sitting) // number for at in range(number + 1)]
    parts = [sitting[first:last] for first, last in pairwise(cuts)]
    if number < 2:
        return [((), part) for part in parts]
    return [([lane for _, lane in parts[at - 1][-_LEAD_IN:]], part) for at, part in enumerate(parts)]


def average_groups(values: Sequence[float], size: int) -> list[float]:
    """The means of successive groups of `size` values."""
    return [sum(values[first : first + size]) / size for first in range(0, len(values), size)]


def _agree(us: dict[str, list[float]], control: tuple[str, str], protocol: Protocol) -> bool:
    first, second = (trimmed_mean(us[name], protocol.trim) for name in control)
    return abs(first / second - 1.0) <= protocol.control_tolerance if second > 0.0 else False
