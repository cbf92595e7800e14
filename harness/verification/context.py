"""The sandbox, the oracle, the evidence store and the GPUs that probes share, and evidence that is gathered once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from attrs import field, frozen

from ...core.candidate import Candidate, Variant
from ...core.plan import LaunchPlan
from ...core.serialisation import fingerprint
from ...core.task import Profile, Task
from ...stages.variant_inputs import VariantInputs
from ...stages.variants import describe
from ..gpu.backend import CudaBackend
from ..reference.oracle import Oracle
from ..sandbox.sandbox import Sandbox
from ..sandbox.wire import Depth, RecompileReply, RecordReply, RecordRequest
from .evidence_store import EvidenceStore, evidence_key
from .memory_budget import MemoryBudget

BYTES_A_BYTE = 10
"""Memory that a run takes at its peak for each byte that its reference does (`measure_peak`).

They are drawn, transformed and computed in float64, sent and received, and compared.
"""
_SOURCES_KEPT = 32
"""More than a process verifies at a time."""
_KERNELS_KEPT = 256
"""Of each; a task may have answers without end."""
T = TypeVar("T")


class CompiledCode:
    """Keeps what children have compiled of the last few sources or tasks, for the next children of the same one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[bytes, ...]] = OrderedDict()

    def get(self, key: str) -> tuple[bytes, ...]:
        """What has been compiled of a source or for a task."""
        with self._lock:
            return self._held.get(key, ())

    def add(self, key: str, compiled: tuple[bytes, ...]) -> None:
        """Keep what has been compiled beside what was known; what was longest not added to is dropped."""
        with self._lock:
            self._held[key] = (*self._held.pop(key, ()), *compiled)[-_KERNELS_KEPT:]
            while len(self._held) > _SOURCES_KEPT:
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
    compiled: CompiledCode = field(factory=CompiledCode)
    """By source, by children that ran its host code."""
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

    def record(self, source: str, requests: Sequence[RecordRequest]) -> RecordReply:
        """Record passes in the sandbox; code that nobody will load is not made, and none is made twice for a GPU."""
        if self.cuda is None:
            return self.sandbox.record(source, requests, Depth.CODE if self.keeps_code else Depth.LAYOUTS)
        reply = self.sandbox.record(source, requests, Depth.CODE, self.compiled.get(source))
        self.compiled.add(source, reply.compiled)
        return reply

    def recompile(self, source: str, task: Task, plan: LaunchPlan) -> RecompileReply:
        """Compile a plan's launches from the text alone; the same GPU IR is made into code once for all of a task."""
        depth = Depth.CODE if self.keeps_code else Depth.PTX
        reply = self.sandbox.recompile(source, plan, depth, self.recompiled.get(task.task_id))
        self.recompiled.add(task.task_id, reply.compiled)
        return reply

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
