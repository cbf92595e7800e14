"""Device time of recorded pieces of work: how runtimes are measured on a GPU.

Naive timing, events around launches from Python, measures Python for kernels of a few microseconds. Here work is
captured in a CUDA graph and replayed between two events. What is compared is measured in turns, in one sequence of
trials, so that a drift of the clocks meets all alike; whose turn it is first is drawn, since a device has habits of
period two. The L2 cache is flushed before every replay, since what a kernel reads is not in the cache when a model
calls it. A graph that is launched while an earlier launch of it waits is up to 0.5 us quicker or slower (two H200
differ), so trials are queued in passes, in each of which a graph is timed once. A spinning kernel holds the stream
back while launches are queued; a replay at whose end the device had already caught up with the queue is counted as
late, and a pass with late ones is repeated with a longer spin. A measurement is repeated whose control differs from
what it repeats. The clocks beside it are those that the driver reports.
"""

from __future__ import annotations

import math
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import torch
from attrs import frozen

from ....core.candidate import ClockReading
from ....core.statistics.intervals import trimmed_mean
from ..device.graphs import is_graph
from .protocol import Protocol, Trials

_SPIN_CYCLES, _SPIN_GROWTH, _MOST_SPIN_CYCLES = 600_000, 4, 40_000_000
_SHORT_US = 60.0
_COPIES_FOR_A_LONG_ONE = 4
_MOST_LOOKS, _PATIENCE_S = 8, 0.02
_LEAST_TRIALS = 5
_LONGEST_PASS = 40
"""Rounds; the launches of more might not fit in the driver's queue."""
_RISE_S = 0.02
"""An idle GPU takes so long to raise its clocks."""
_RISE_AFTER_S = 0.01

# NVML's clocks event reasons; idleness and clocks that were asked for are none of them
_THROTTLES = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
_CLOCK_QUERY = "clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,clocks_event_reasons.active"
_CLOCK_QUERY_TIMEOUT_S = 5.0


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


def count_copies(buffer_copies: int, short: bool) -> int:
    """How often to capture work: a copy is worth up to 3% of 5 us (H200), and nothing of what is long."""
    return buffer_copies if short else min(buffer_copies, max(2, buffer_copies // _COPIES_FOR_A_LONG_ONE))


class Stopwatch:
    """Measures on the current device; holds the memory whose writing flushes the cache."""

    def __init__(self) -> None:
        self._flush = torch.empty(0, dtype=torch.int8, device="cuda")
        self._last_used = 0.0
        self._events: list[tuple[Any, Any]] = []
        """Start and end of a replay, for as many as there were in a pass; used again in each."""

    def measure(
        self, subjects: Sequence[Subject], protocol: Protocol, control: tuple[str, str] | None = None
    ) -> Trials:
        """The subjects in turns, as the protocol says; `control` names two that are the same. No clocks are read."""
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
        found = Trials(us={})
        for attempt in range(protocol.attempts):
            us, num_late = self._replay(subjects, num_trials * num_replays, protocol.attempts)
            trials = {name: average_groups(replays, num_replays) for name, replays in us.items()}
            found = Trials(us=trials, num_late=num_late, num_attempts=attempt + 1)
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
        self, subjects: Sequence[Subject], num_rounds: int, attempts: int
    ) -> tuple[dict[str, list[float]], int]:
        """Microseconds of each replay, a round of all subjects at a time, and how many replays stayed late.

        Where a pass stays late however often it is repeated, later ones would as well, and are not.
        """
        us: dict[str, list[float]] = {subject.name: [] for subject in subjects}
        spin_cycles, num_late = _SPIN_CYCLES, 0
        torch.cuda.synchronize()
        for turns in draw_passes([subject.lanes for subject in subjects], num_rounds):
            lanes = [lane for _, lane in turns]
            taken, late = self._take_pass(lanes, spin_cycles)
            for _ in range(attempts - 1):
                if not late or num_late:
                    break
                spin_cycles = min(_SPIN_GROWTH * spin_cycles, _MOST_SPIN_CYCLES)
                taken, late = self._take_pass(lanes, spin_cycles)
            num_late += late
            for (which, _), replay_us in zip(turns, taken, strict=True):
                us[subjects[which].name].append(replay_us)
        return us, num_late

    def _take_pass(self, lanes: Sequence[Lane], spin_cycles: int) -> tuple[list[float], int]:
        """Microseconds of each lane's replay, one after the other, and how many were late."""
        new_event: Any = torch.cuda.Event
        while len(self._events) < len(lanes):
            self._events.append((new_event(enable_timing=True), new_event(enable_timing=True)))
        pairs = self._events[: len(lanes)]
        num_late = 0
        torch.cuda._sleep(spin_cycles)  # type: ignore[no-untyped-call]
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


def draw_passes(subjects: Sequence[Sequence[Lane]], num_rounds: int) -> list[list[tuple[int, Lane]]]:
    """Deal out rounds, in each of which every subject comes up once in a drawn order, to passes that are queued whole.

    A turn is a subject's number and a lane. Subjects with the same lanes share them out, in a drawn order, and swap
    their parts from pass to pass, so that each has the same ones. In a pass no graph comes up twice, if there are as
    many as subjects that share them.
    """
    rng = random.Random(num_rounds)
    sharers: dict[tuple[Lane, ...], list[int]] = {}
    for which, lanes in enumerate(subjects):
        sharers.setdefault(tuple(lanes), []).append(which)
    limits = [len(lanes) // len(who) for lanes, who in sharers.items() if is_graph(lanes[0].work)]
    length = max(1, min([_LONGEST_PASS, *limits]))
    orders: list[list[Lane]] = [[] for _ in subjects]
    passes = []
    for number in range(math.ceil(num_rounds / length)):
        for lanes, who in sharers.items():
            if number % len(who) == 0:
                order = rng.sample(lanes, len(lanes))
                for part, which in enumerate(who):
                    orders[which] = order[part * length :] + order[: part * length]
            else:
                first, *rest = (orders[which] for which in who)
                for which, order in zip(who, [*rest, first], strict=True):
                    orders[which] = order
        turns: list[tuple[int, Lane]] = []
        for at in range(min(length, num_rounds - number * length)):
            for which in rng.sample(range(len(subjects)), len(subjects)):
                turns.append((which, orders[which][at % len(orders[which])]))
        passes.append(turns)
    return passes


def average_groups(values: Sequence[float], size: int) -> tuple[float, ...]:
    return tuple(sum(values[first : first + size]) / size for first in range(0, len(values), size))


def _agree(us: dict[str, tuple[float, ...]], control: tuple[str, str], protocol: Protocol) -> bool:
    first, second = (trimmed_mean(us[name], protocol.trim) for name in control)
    return abs(first / second - 1.0) <= protocol.control_tolerance if second > 0.0 else False


def read_clocks(uuid: str) -> ClockReading | None:
    """The reading of the GPU with this UUID ("GPU-..."), or None where neither `pynvml` nor `nvidia-smi` can tell.

    What holds clocks down is flagged and not judged; the reference, timed in turns with the candidate, is held down
    alike.
    """
    try:
        return _read_nvml(uuid)
    except Exception:  # not installed, no permission, an older driver: each library has errors of its own
        return _read_smi(uuid)


def name_throttles(reasons: int) -> tuple[str, ...]:
    """What of the driver's bits says that clocks are held down."""
    return tuple(name for bit, name in _THROTTLES.items() if reasons & bit)


def parse_smi(line: str) -> ClockReading | None:
    """The reading in a line of `nvidia-smi --format=csv,noheader,nounits`, or None where a field is missing."""
    parts = [part.strip() for part in line.split(",")]
    try:
        sm_mhz, max_sm_mhz, memory_mhz, temperature_c = (int(part) for part in parts[:4])
        reasons = int(parts[4], 16)
    except (ValueError, IndexError):
        return None
    return ClockReading(
        sm_mhz=sm_mhz,
        max_sm_mhz=max_sm_mhz,
        memory_mhz=memory_mhz,
        temperature_c=temperature_c,
        throttled_by=name_throttles(reasons),
    )


@cache
def _nvml(uuid: str) -> tuple[Any, Any]:
    import pynvml  # type: ignore[import-not-found,unused-ignore]

    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)


def _read_nvml(uuid: str) -> ClockReading:
    nvml, handle = _nvml(uuid)
    return ClockReading(
        sm_mhz=int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        max_sm_mhz=int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        memory_mhz=int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
        temperature_c=int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        throttled_by=name_throttles(int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))),
    )


def _read_smi(uuid: str) -> ClockReading | None:
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    arguments = [command, f"--query-gpu={_CLOCK_QUERY}", "--format=csv,noheader,nounits", f"--id={uuid}"]
    try:
        answer = subprocess.run(arguments, capture_output=True, text=True, timeout=_CLOCK_QUERY_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_smi(answer.stdout.partition("\n")[0])
