"""The sandbox, the oracle, the evidence store and the GPUs that probes share, and evidence that is gathered once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from attrs import evolve, field, frozen

from ...core.candidate import Candidate, Failure, Recording, Variant
from ...core.plan import LaunchPlan
from ...core.serialisation import fingerprint
from ...core.task import Profile, Task
from ...stages.checks.recompile import give_code
from ...stages.variant_inputs import VariantInputs
from ...stages.variants import describe
from ..gpu.backend import CudaBackend
from ..reference.oracle import Oracle
from ..sandbox.sandbox import Sandbox
from ..sandbox.wire import Depth, Recompiled, RecompileRequest, RecordReply, RecordRequest
from .evidence_store import EvidenceStore, evidence_key
from .memory_budget import MemoryBudget

BYTES_A_BYTE = 10
"""Memory that a run takes at its peak for each byte that its reference does (`measure_peak`).

They are drawn, transformed and computed in float64, sent and received, and compared.
"""
_TASKS_KEPT = 32
"""More than a process verifies at a time."""
_KERNELS_KEPT = 256
"""Of each; a task may have answers without end."""
T = TypeVar("T")


class CompiledCode:
    """Keeps what children have compiled for the last few tasks, for the next children of the same one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[bytes, ...]] = OrderedDict()

    def get(self, key: str) -> tuple[bytes, ...]:
        """What has been compiled for a task."""
        with self._lock:
            return self._held.get(key, ())

    def add(self, key: str, compiled: tuple[bytes, ...]) -> None:
        """Keep what has been compiled beside what was known; what was longest not added to is dropped."""
        with self._lock:
            self._held[key] = (*self._held.pop(key, ()), *compiled)[-_KERNELS_KEPT:]
            while len(self._held) > _TASKS_KEPT:
                self._held.popitem(last=False)


@frozen(kw_only=True)
class VerifierContext:
    """Records plans in the sandbox, runs them on a GPU where `cuda` is given, and keeps what was found."""

    sandbox: Sandbox
    oracle: Oracle
    store: EvidenceStore
    cuda: CudaBackend | None = None
    is_timed_elsewhere: bool = False
    """Whether plans that are right here are then timed on a GPU, which needs their code."""
    cross_checks: bool = True
    """Whether the interpreter is asked, too, about what a GPU accepts."""
    budget: MemoryBudget = field(factory=MemoryBudget)
    """The host's memory for runs at large sizes."""
    gpu_budget: MemoryBudget = field(factory=MemoryBudget)
    """The GPU's."""
    recompiled: CompiledCode = field(factory=CompiledCode)
    """By task, by children that ran no host code, which is true of any source."""
    _started: threading.Event = field(factory=threading.Event)

    @property
    def backend(self) -> str:
        """Where plans run."""
        return "interpret" if self.cuda is None else "cuda"

    @property
    def runner(self) -> Sandbox | CudaBackend:
        """What runs plans."""
        return self.sandbox if self.cuda is None else self.cuda

    @property
    def keeps_code(self) -> bool:
        """Whether what was compiled is wanted after it is known that it compiles."""
        return self.cuda is not None or self.is_timed_elsewhere

    def profile_of(self, task: Task) -> Profile:
        """The sizes of the variants that have none of their own.

        A GPU runs the declared ones; where these are large, once, on the inputs of the variant "declared", and all
        others at the larger of those that every task has.
        """
        if self.cuda is None:
            return Profile.SMALL
        return Profile.DECLARED if self.oracle.is_quick(task) else Profile.LARGER

    def describe(self, variant: Variant, task: Task) -> VariantInputs:
        """A variant's inputs."""
        return describe(variant, task.dtypes, self.profile_of(task))

    def needed_bytes(self, task: Task, inputs: VariantInputs) -> float:
        """The host's memory that one run takes: its values on their way between oracle, executor and comparison."""
        return BYTES_A_BYTE * self.oracle.measure_bytes(task, inputs.profile)

    def record(self, candidate: Candidate, requests: Sequence[RecordRequest]) -> RecordReply:
        """Record passes in the sandbox; where kernels' code is wanted, a child that runs no host code makes it."""
        reply = self.sandbox.record(candidate.source, requests, Depth.LAYOUTS)
        plans = [(each.profile, plan) for each in reply.recordings for plan in (each.plan, each.first_plan)]
        asked = [
            RecompileRequest(plan=plan, is_specialised=profile is Profile.DECLARED)
            for profile, plan in plans
            if plan is not None and any(kernel.binary is not None for kernel in plan.kernels)
        ]
        if not asked or not self.keeps_code:
            return reply
        # answers to one task often come to the same GPU IR
        known = self.recompiled.get(candidate.task_id)
        found = self.sandbox.recompile(candidate.source, asked, Depth.CODE, known)
        self.recompiled.add(candidate.task_id, found.compiled)
        made = found.made or [Recompiled(failure=found.failure) for _ in asked]
        coded = {
            id(each.plan): one.failure or give_code(each.plan, one.kernels, one.gpu_ir)
            for each, one in zip(asked, made, strict=True)
        }
        return evolve(
            reply,
            recordings=tuple(_with_code(each, coded) for each in reply.recordings),
            blobs=reply.blobs | found.blobs,
            seconds=reply.seconds + found.seconds,
        )

    def get_ready(self) -> None:
        """Start the sandbox's processes before the first use, so that no candidate's seconds include it."""
        if not self._started.is_set():
            self.sandbox.start()
            self._started.set()

    def once(
        self,
        candidate: Candidate,
        task: Task,
        name: str,
        kind: type[T],
        gather: Callable[[], T | None],
        is_recorded: bool = False,
    ) -> T | None:
        """Returns the evidence of this name, which `gather` finds where the store has none; None is not stored.

        `is_recorded`: it is a recording, and no run of one (see `key`).
        """
        key = self.key(candidate, task, name, is_recorded)
        found = self.store.get(key, kind)
        if found is not None:
            return found
        found = gather()
        if found is None:
            return None
        self.store.put(key, found)
        return self.store.get(key, kind)  # another process may have been first: all are told the same

    def key(self, candidate: Candidate, task: Task, name: str, is_recorded: bool = False) -> str:
        """Returns the key of one piece of evidence.

        A recording is the same whatever the purity, and keeps its code where it will be timed; a run is the reverse.
        """
        if is_recorded:
            name = f"{name}:timed" if self.is_timed_elsewhere else name
        elif candidate.purity != "strict":
            name = f"{name}:{candidate.purity}"
        return self.key_of(candidate.sha256, task, name)

    def key_of(self, source_sha256: str, task: Task, name: str) -> str:
        """Returns the key of what a probe of this name finds out about a source, or about none."""
        return evidence_key(
            source_sha256=source_sha256,
            task_fingerprint=fingerprint(task),
            probe=name,
            backend=self.backend,
            target=self.sandbox.target,
            seed=self.oracle.seed,
            limits=self.sandbox.limits,
        )


def _with_code(recording: Recording, coded: Mapping[int, LaunchPlan | Failure]) -> Recording:
    """Return a recording whose plans have the code that was made for them, or why there is none."""
    found = [None if plan is None else coded.get(id(plan), plan) for plan in (recording.plan, recording.first_plan)]
    failure = next((each for each in found if isinstance(each, Failure)), None)
    if failure is not None:
        return evolve(recording, plan=None, first_plan=None, failure=failure)
    plan, first = (each if isinstance(each, LaunchPlan) else None for each in found)
    return evolve(recording, plan=plan, first_plan=first)
