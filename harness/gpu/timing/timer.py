"""How an executor answers what is to be timed: a plan beside its reference, several plans, or a reference alone.

Timing a plan has parts, of which only the trials need the GPU alone; others may work during what comes before and after
them. What comes before is done in short pieces, so that the trials of others need not wait for all of it.

A kernel must not be able to tell a timed run from one that is judged, or be quick because it need not work: it runs on
values that no earlier run had; before each trial every temporary holds NaN again, so that no result is left to be
found; after each trial its results are compared with those of the first run, on the device; and after the last one the
same graph is replayed on yet other values. First and last results go to the judge, who has the oracle. Guard bands and
inputs are looked at once more at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from attrs import define, evolve, field
from triton.testing import do_bench

from ....core.candidate import ReferenceTiming, Variant
from ....core.plan import LaunchPlan
from ....core.run import RunResult
from ....core.statistics.intervals import trimmed_mean
from ...reference.reference import one_line
from ..device.graphs import PageFillers, Scratch, capture, capture_or_launch
from ..device.launcher import DriverError
from ..device.memory import DeviceBuffers, bytes_of
from .copies import MAX_COPIED_BYTES, BufferCopy, Prepare, Watcher, make_copies
from .protocol import Protocol, ReferenceRequest, ReferenceSource, Timed, Trials
from .references import Reference, References, forbid_tf32
from .stopwatch import Lane, Stopwatch, Subject, nothing, read_clocks, time_once

_SHORT_OF = 0.5
"""Share of the device's memory that is free, or might be."""
_DO_BENCH_WARMUP_MS, _DO_BENCH_MS = 10, 50
"""Half of its defaults, which are for one kernel at a time."""

_RANKING_WARMUPS, _RANKING_TRIALS = 3, 12
"""A tuner needs to know which is the quickest, and not how quick it is."""
_NEVER_CHOSEN = ("OUT_OF_RESOURCES", "INVALID_VALUE", "INVALID_CONFIGURATION")
"""Why the driver does not launch a configuration that needs more than there is."""


class Timer:
    """Times on the current device; `references` are those that were timed lately, or drawn."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._stopwatch = Stopwatch()
        self._scratch = Scratch()
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._device = properties.name
        self._uuid = f"GPU-{properties.uuid}"
        self._pending: _Pending | None = None
        self._prepared: Reference | None = None
        self._subjects: list[Subject] = []
        """Of the reference that was prepared last."""

    def clear(self) -> None:
        """Give back what memory can be given back."""
        self.drop_plan()
        self._drop_reference()
        self._references.clear()
        torch.cuda.empty_cache()  # before the scratch memory's new capture, which takes some
        self._scratch = Scratch()
        torch.cuda.empty_cache()

    def drop_plan(self) -> None:
        """What was made ready will not be measured."""
        self._pending = None

    def _drop_reference(self) -> None:
        """Let go of that which was prepared last."""
        self._subjects.clear()
        self._prepared = None

    def warm_up(self) -> None:
        """Load what the first timing would have to."""
        square = torch.ones(64, 64, device="cuda")

        def work() -> None:
            product = square @ square
            torch.linalg.vector_norm(torch.where(product.isnan(), square, product), dtype=torch.float64)

        capture(work, self._scratch)()
        PageFillers().add()
        torch.cuda.synchronize()
        read_clocks(self._uuid)

    def _make_room(self) -> None:
        """Give back what nobody uses before it is short: in the middle of a capture the allocator cannot."""
        free, total = torch.cuda.mem_get_info()
        if free < _SHORT_OF * total:
            torch.cuda.empty_cache()

    def prepare_plan(
        self,
        plan: LaunchPlan,
        given: Mapping[int, torch.Tensor],
        source: ReferenceSource | None,
        protocol: Protocol,
        prepare: Prepare,
    ) -> Iterator[None]:
        """Make ready to time a plan on the values `given`, piece by piece: all that others may work beside."""
        self._pending = None
        self._make_room()
        reference = self._references.get(source) if source is not None else None
        yield
        if not protocol.is_calibrated:
            buffers = DeviceBuffers(plan, given)
            perform = prepare(plan, buffers)
            perform()  # loads the code
            buffers.reset()
            if reference is not None:
                reference.run()
            once = [("candidate", perform), *([("reference", reference.run)] if reference is not None else [])]
            self._pending = _Pending(plan=plan, protocol=protocol, copies=[BufferCopy(buffers, perform)], once=once)
            return
        eager: list[Lane] = []
        if reference is not None:
            for lane in reference.eager(protocol.buffer_copies):
                eager.append(lane)
                yield
        copies: list[BufferCopy] = []
        for copy in make_copies(plan, given, prepare, self._scratch, protocol):
            copies.append(copy)
            yield
        copies[0].work()
        first = _result(copies[0].buffers)
        watcher = Watcher(copies, self._scratch)
        lanes = tuple(copy.watch(watcher) for copy in copies)
        subjects = [Subject(name="candidate", lanes=lanes), Subject(name="control", lanes=lanes)]
        if eager:
            subjects.append(Subject(name="reference", lanes=tuple(eager)))
        self._pending = _Pending(
            plan=plan, protocol=protocol, copies=copies, watcher=watcher, subjects=subjects, first=first
        )

    def measure_plan(self, busy_until: float) -> None:
        """Take the trials of the plan that was made ready; nobody else may use the GPU meanwhile.

        Until `busy_until`, on the monotonic clock, others were known to keep it busy.
        """
        pending = self._get_pending()
        if pending.once:
            us: dict[str, tuple[float, ...]] = {name: (time_once(work),) for name, work in pending.once}
            pending.trials = Trials(us=us, clocks=read_clocks(self._uuid))
            return
        self._stopwatch.note_busy(busy_until)
        found = self._stopwatch.measure(pending.subjects, pending.protocol, ("candidate", "control"))
        pending.trials = evolve(found, clocks=read_clocks(self._uuid))

    def finish_plan(self, others_of: Callable[[LaunchPlan], Mapping[int, torch.Tensor]]) -> Timed:
        """What was found, with the results of the runs that were timed and of a replay on other values."""
        pending = self._get_pending()
        self._pending = None
        one = pending.copies[0]
        first = pending.first or _result(one.buffers)
        mutated = {index for copy in pending.copies for index in copy.buffers.mutated()}
        out_of_bounds = {index for copy in pending.copies for index in copy.buffers.out_of_bounds()}
        first = evolve(first, mutated=tuple(sorted(mutated)), out_of_bounds=tuple(sorted(out_of_bounds)))
        one.buffers.give(others_of(pending.plan))
        one.work()
        deviations = pending.watcher.find_worst() if pending.watcher is not None else ()
        return Timed(trials=pending.trials, first=first, fresh=_result(one.buffers), deviations=deviations)

    def _get_pending(self) -> _Pending:
        if self._pending is None:
            raise ValueError("no plan was made ready")
        return self._pending

    def rank(
        self, prepare: Callable[[int], tuple[DeviceBuffers, Callable[[], None]] | None], number: int, protocol: Protocol
    ) -> list[float | None]:
        """Microseconds of so many pieces of work in turns, as a tuner wants them: few trials, captured once.

        What `prepare` has none of is None, and so is what cannot be launched. In turns are those that fit in memory
        together; the others come after them.
        """
        brief = evolve(protocol, warmups=_RANKING_WARMUPS, trials=_RANKING_TRIALS)
        us: list[float | None] = [None] * number
        waiting = list(range(number))
        while waiting:
            self._make_room()
            before = torch.cuda.memory_allocated()
            kept: list[object] = []
            subjects: list[Subject] = []
            while waiting and torch.cuda.memory_allocated() - before < MAX_COPIED_BYTES:
                at = waiting.pop(0)
                made = prepare(at)
                if made is None:
                    continue
                buffers, perform = made
                try:
                    perform()
                    torch.cuda.synchronize()
                except DriverError as error:
                    if not any(reason in str(error) for reason in _NEVER_CHOSEN):
                        raise
                    torch.cuda.synchronize()  # what was launched before that needs its code
                    continue
                work = capture_or_launch(perform, self._scratch)
                kept.append(made)
                lane = Lane(work=work, before=buffers.blank if buffers.has_temporaries else nothing)
                subjects.append(Subject(name=str(at), lanes=(lane,)))
            if subjects:
                for name, trials in self._stopwatch.measure(subjects, brief).us.items():
                    us[int(name)] = trimmed_mean(trials, protocol.trim)
        return us

    def prepare_reference(self, request: ReferenceRequest) -> list[str]:
        """Build and compile, so that measuring takes no longer than it must; what cannot be had, in words."""
        self._drop_reference()
        self._make_room()
        reference = self._references.get(request.source)
        notes = [] if reference.is_captured else ["the reference cannot be captured: Python launches it"]
        copies = request.protocol.buffer_copies
        self._subjects.append(Subject(name="eager", lanes=tuple(reference.eager(copies))))
        self._subjects.append(Subject(name="tf32", lanes=reference.tf32(copies)))
        if request.compiling != "none":
            try:
                self._subjects.append(Subject(name="compiled", lanes=reference.compiled(request.compiling, copies)))
            except Exception as error:
                notes.append(f"torch.compile: {one_line(error)}"[:300])
        forbid_tf32()
        self._prepared = reference
        return notes

    def measure_reference(self, request: ReferenceRequest, notes: list[str]) -> ReferenceTiming:
        """The figures of the reference that was prepared last."""
        if self._prepared is None:
            raise ValueError("no reference was prepared")
        is_captured = self._prepared.is_captured
        try:
            us = self._stopwatch.measure(self._subjects, request.protocol).us
        finally:
            self._drop_reference()
        return ReferenceTiming(
            device=self._device,
            eager_us=us["eager"],
            tf32_us=us["tf32"],
            compiled_us=us.get("compiled", ()),
            is_captured=is_captured,
            notes=tuple(notes),
            clocks=read_clocks(self._uuid),
        )

    def compare_protocols(
        self, plan: LaunchPlan, given: Mapping[int, torch.Tensor], protocol: Protocol, prepare: Prepare
    ) -> dict[str, Sequence[float]]:
        """One plan's trials by each way to time it (`harness.bench.gpu.timing`)."""
        self._make_room()
        buffers = DeviceBuffers(plan, given)
        perform = prepare(plan, buffers)
        perform()
        us: dict[str, Sequence[float]] = {"single": [time_once(perform)]}
        for _ in range(protocol.warmups):
            perform()
        us["events"] = [time_once(perform) for _ in range(protocol.trials)]
        times_ms: Any = do_bench(perform, warmup=_DO_BENCH_WARMUP_MS, rep=_DO_BENCH_MS, return_mode="all")
        us["do_bench"] = [1e3 * float(one) for one in times_ms]
        copies = list(make_copies(plan, given, prepare, self._scratch, protocol))
        copies[0].work()
        watcher = Watcher(copies, self._scratch)
        lanes = tuple(copy.watch(watcher) for copy in copies)
        found = self._stopwatch.measure([Subject(name=name, lanes=lanes) for name in ("a", "b")], protocol, ("a", "b"))
        return {**us, "calibrated": found.us["a"], "control": found.us["b"]}


@define(kw_only=True)
class _Pending:
    """A plan that is ready to be timed, and what was found so far."""

    plan: LaunchPlan
    protocol: Protocol
    copies: list[BufferCopy]
    watcher: Watcher | None = None
    subjects: list[Subject] = field(factory=list)
    once: list[tuple[str, Callable[[], object]]] = field(factory=list)
    """What the single protocol runs once."""
    first: RunResult | None = None
    trials: Trials | None = None


def _result(buffers: DeviceBuffers) -> RunResult:
    torch.cuda.synchronize()
    return RunResult(
        variant=Variant.TIMED,
        outputs=tuple(bytes_of(buffers.view(view)) for view in buffers.plan.outputs),
        mutated=buffers.mutated(),
        out_of_bounds=buffers.out_of_bounds(),
    )
