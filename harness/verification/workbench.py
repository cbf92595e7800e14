"""What probes work with: the sandbox, the oracle, the evidence store, and GPUs where there are any."""

from __future__ import annotations

import threading

from attrs import field, frozen

from ...core.candidate import Candidate, Variant
from ...core.serialisation import fingerprint
from ...core.task import Profile, Task
from ...stages.variants import VariantInputs, describe
from ..gpu.backend import CudaBackend
from ..sandbox.sandbox import Sandbox
from .evidence_store import EvidenceStore, evidence_key
from .oracle import Oracle


@frozen(kw_only=True)
class Workbench:
    """What probes work with: plans are recorded in the sandbox, and run on a GPU where `cuda` is given."""

    sandbox: Sandbox
    oracle: Oracle
    store: EvidenceStore
    cuda: CudaBackend | None = None
    is_timed_elsewhere: bool = False
    """Whether plans that are right here are then timed on a GPU, which needs their code."""
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

    @property
    def profile(self) -> Profile:
        """The sizes of the variants that have none of their own: a GPU runs the declared ones."""
        return Profile.SMALL if self.cuda is None else Profile.DECLARED

    def describe(self, variant: Variant, task: Task) -> VariantInputs:
        """A variant's inputs."""
        return describe(variant, task.dtypes, self.profile)

    def get_ready(self) -> None:
        """Start the sandbox's processes before the first use, so that no candidate's seconds include it."""
        if not self._started.is_set():
            self.sandbox.start()
            self._started.set()

    def key(self, candidate: Candidate, task: Task, probe: str) -> str:
        """Where the evidence of one probe is kept."""
        if probe.startswith("compile"):
            probe = f"{probe}:timed" if self.is_timed_elsewhere else probe
        elif candidate.purity != "strict":
            probe = f"{probe}:{candidate.purity}"
        return evidence_key(
            source_sha256=candidate.sha256,
            task_fingerprint=fingerprint(task),
            probe=probe,
            backend=self.backend,
            target=self.sandbox.target,
            seed=self.oracle.seed,
            limits=self.sandbox.limits,
        )
