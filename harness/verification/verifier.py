"""The verifier: a task, a source text and a specification in, a verdict out.

It walks the funnel: a probe gathers evidence, the pure stage decides, and a specification that stops early ends at the
first failure while an exhaustive one attempts every probe whatever failed before. A verdict depends on source, task,
seed, target and backend alone, never on what else is verified or in which order; what was found out once is read from
the evidence store. A bad candidate is a verdict; a bad task is a `TaskError`; a broken sandbox is a `SandboxError`.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache
from pathlib import Path

import torch
from attrs import evolve

from ...core.candidate import Candidate
from ...core.config import Config, TimingConfig, VerifierConfig
from ...core.outcome import Stage
from ...core.recipe.extensions import VerifierSpec
from ...core.serialisation import fingerprint
from ...core.task import Task
from ...core.verdict import Verdict
from ...stages.funnel import FUNNEL, fold
from ...stages.roofline import GPUS
from ...stages.syntax import judge_syntax
from ..errors import TaskError, TooLargeError, UsageError
from ..gpu.backend import CudaBackend, choose_number
from ..gpu.shared_oracle import SharedOracle
from ..reference.oracle import Oracle
from ..reference.task_facts import MAX_CACHED_BYTES
from ..sandbox.sandbox import Sandbox
from ..settings import NEEDS_GPU
from .checks.probes import probe_checks
from .context import VerifierContext
from .evidence_store import EvidenceStore
from .memory_budget import MemoryBudget, Share, choose_gpu_bytes
from .recordings import probe_compile
from .runs import probe_tiny
from .timing import probe_measured, probe_simulated
from .workers import GPU_MEMORY, HOST_MEMORY, WorkerPool

Probe = Callable[[Candidate], Candidate]
_LEAST_KEPT_BYTES = 64 << 20
_VERDICTS_A_RETURN = 16
"""After so many, freed memory goes back to the machine."""


def choose_backend(config: VerifierConfig) -> str:
    """The backend to use here; raises UsageError for one that this machine cannot offer.

    "auto" is the GPU where there is one of the target's architecture, and the interpreter elsewhere.
    """
    backend, problem = "interpret", "no GPU is seen"
    if config.backend != "interpret" and torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        backend = "cuda" if config.target == f"sm_{major}{minor}" else "interpret"
        problem = f"the GPU is sm_{major}{minor}, and verifier.target is {config.target}"
    if config.backend == "cuda" and backend != "cuda":
        raise UsageError(f"verifier.backend: cuda cannot be used: {problem}")
    return backend


@contextmanager
def open_verifier(
    config: Config, evidence: Path | None = None, num_sharing: int = 1, sandbox: Sandbox | None = None
) -> Iterator[Verifier]:
    """A verifier with its sandbox, its evidence store (in memory, or in a file) and its GPUs.

    `num_sharing` processes with a verifier share each GPU. A `sandbox` that is given stays the caller's.
    """
    with ExitStack() as stack:
        sandbox = sandbox or stack.enter_context(
            Sandbox(config.limits, target=config.verifier.target, seed=config.verifier.seed)
        )
        store = stack.enter_context(EvidenceStore(evidence))
        cuda = None
        if _needs_gpu(config.verifier):
            devices, limit_s = range(torch.cuda.device_count()), config.limits.wall_s
            number = choose_number(devices, num_sharing)
            cuda = stack.enter_context(CudaBackend(store.get_blob, devices, limit_s, number))
        yield stack.enter_context(closing(Verifier(config.verifier, config.timing, sandbox, store, cuda)))


def _needs_gpu(config: VerifierConfig) -> bool:
    """Whether plans are to run on a GPU, or to be timed on one that is there."""
    wanted = config.backend == "interpret" and config.timing == "measured"
    return choose_backend(evolve(config, backend="auto") if wanted else config) == "cuda"


def probe_syntax(candidate: Candidate) -> Candidate:
    """Time the reading of the text; the decision itself is a pure function of the source."""
    return candidate.with_evidence(ast_seconds=_seconds_to_inspect(candidate.source))


@lru_cache(maxsize=256)
def _seconds_to_inspect(source: str) -> float:
    # the stage remembers its decision, so that the text is read once for time and decision together
    began = time.perf_counter()
    judge_syntax(Candidate(task_id="", source=source))
    return time.perf_counter() - began


def return_memory() -> None:
    """Return freed memory to the machine, where the C library can.

    glibc keeps what a thread has freed for that thread's next request. A verdict passes tens of megabytes through
    several threads, so without this a judge of four threads holds twice what it uses, and grows for hours.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Verifier:
    """Judges candidates; safe to use from several threads.

    Without a store, evidence is kept in memory for the verifier's lifetime. Plans run where there are executors for
    GPUs, unless the configuration says "interpret": then they are interpreted all the same, and what is right is timed
    on a GPU, whose timed runs are judged. Interpreting takes processors, of which there are more than GPUs. So many
    candidates at once take worker processes (`workers`), which `close` ends; each of these has a `share` of what
    is one verifier's.
    """

    def __init__(
        self,
        config: VerifierConfig,
        timing: TimingConfig,
        sandbox: Sandbox,
        store: EvidenceStore | None = None,
        cuda: CudaBackend | None = None,
        share: Share | None = None,
    ) -> None:
        if config.timing == "measured" and cuda is None:
            raise UsageError(NEEDS_GPU)
        self.config = config
        self.timing = timing
        if timing.gpu not in GPUS:
            raise UsageError(f"timing.gpu: must be one of {', '.join(sorted(GPUS))}, got {timing.gpu!r}")
        if sandbox.target != config.target:
            raise UsageError(f"verifier.target: the sandbox compiles for {sandbox.target}, not {config.target}")
        store = store or EvidenceStore()
        kept_bytes = config.oracle_cache_mb << 20 or (None if share is None else MAX_CACHED_BYTES)
        if kept_bytes is not None and share is not None:
            kept_bytes = max(_LEAST_KEPT_BYTES, kept_bytes // share.num_sharing)
        self.budget = MemoryBudget(config.memory_mb << 20) if share is None else share.budget
        self.gpu_context: VerifierContext | None = None
        """Where plans are timed."""
        if cuda is not None:
            first = cuda.executors[0]
            device = f"cuda:{first.device}"
            shared = SharedOracle(config.seed, first.lock, device, kept_bytes, has_neighbours=share is not None)
            self.gpu_context = VerifierContext(
                sandbox=sandbox,
                oracle=shared,
                store=store,
                cuda=cuda,
                cross_checks=config.cross_check_interpreter,
                budget=self.budget,
                gpu_budget=MemoryBudget(choose_gpu_bytes(first.device)) if share is None else share.gpu_budget,
            )
        if self.gpu_context is not None and config.backend != "interpret":
            self.context = self.gpu_context
        else:
            is_timed = self.gpu_context is not None and config.timing == "measured"
            oracle = Oracle(config.seed, kept_bytes or MAX_CACHED_BYTES)
            self.context = VerifierContext(
                sandbox=sandbox,
                oracle=oracle,
                store=store,
                is_timed_elsewhere=is_timed,
                cross_checks=config.cross_check_interpreter,
                budget=self.budget,
            )
        self.backend = self.context.backend
        self._numbers = itertools.count(1)
        self._pool: WorkerPool | None = None
        self._pool_lock = threading.Lock()

    def get_ready(self, jobs: int = 1) -> None:
        """Start what takes seconds before the first candidate: the sandbox's processes, and workers for many jobs."""
        self.context.get_ready()
        if jobs > 1:
            self.workers().start(jobs)

    def close(self) -> None:
        """End the worker processes; sandbox and store stay their owner's."""
        with self._pool_lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def verify(self, task: Task, source: str, spec: VerifierSpec) -> Verdict:
        """The verdict on one source text."""
        try:
            candidate = self.gather(task, source, spec)
        except torch.cuda.OutOfMemoryError as error:  # of the judge's own work, which is no candidate's fault
            raise TooLargeError(f"{task.task_id}: the GPU's memory does not suffice") from error
        if next(self._numbers) % _VERDICTS_A_RETURN == 0:
            return_memory()
        return fold(candidate, spec.stop_early, self.backend, self.timing.trim)

    def gather(self, task: Task, source: str, spec: VerifierSpec) -> Candidate:
        """Gather all evidence that `spec` asks for; with `stop_early` it ends where the funnel does."""
        candidate = Candidate(task_id=task.task_id, source=source, purity=self.config.purity)
        probes = self._probes(task, spec)
        for stage, judge in FUNNEL:
            probe = probes.get(stage)
            if probe is None:
                continue
            candidate = probe(candidate)
            if spec.stop_early and not judge(candidate).passed:
                break
        return candidate

    def _probes(self, task: Task, spec: VerifierSpec) -> dict[Stage, Probe]:
        context, timing = self.context, self.timing
        probes: dict[Stage, Probe] = {
            Stage.AST: probe_syntax,
            Stage.COMPILE: lambda candidate: probe_compile(candidate, task, context, spec.stop_early),
            Stage.TINY: lambda candidate: probe_tiny(candidate, task, context),
            Stage.FULL: lambda candidate: probe_checks(candidate, task, context, spec),
        }
        if not spec.timed:
            return probes
        if self.config.timing == "simulated":
            gpu = GPUS[timing.gpu]
            probes[Stage.TIMING] = lambda found: probe_simulated(found, task, context, timing, gpu, spec.calibrated)
        elif self.config.timing == "measured" and self.gpu_context is not None:
            gpu_context = self.gpu_context
            probes[Stage.TIMING] = lambda found: probe_measured(found, task, gpu_context, timing, spec.calibrated)
        return probes

    def verify_many(
        self,
        pairs: Sequence[tuple[Task, str]],
        spec: VerifierSpec,
        jobs: int = 1,
        on_done: Callable[[int, Verdict], None] | None = None,
        on_bad_task: Callable[[int, TaskError], None] | None = None,
    ) -> list[Verdict]:
        """Verdicts in the order of `pairs`; equal pairs are verified once.

        `on_done(index, verdict)` is called in this thread as verdicts arrive, once for each pair. So is `on_bad_task`
        where a reference fails, and the pair has no verdict; without it the error is raised.
        """
        indices: dict[tuple[str, str], list[int]] = {}
        for index, (task, source) in enumerate(pairs):
            indices.setdefault((fingerprint(task), source), []).append(index)
        groups = list(indices.values())
        verdicts: dict[int, Verdict] = {}
        firsts = [pairs[group[0]] for group in groups]
        is_shared = jobs > 1 and len(groups) > 1
        answers = self.workers().verify(firsts, spec, jobs) if is_shared else self._verify_each(firsts, spec)
        with closing(answers):
            for number, answer in answers:
                for index in groups[number]:
                    if isinstance(answer, Verdict):
                        verdicts[index] = answer
                        if on_done is not None:
                            on_done(index, answer)
                    elif on_bad_task is not None:
                        on_bad_task(index, answer)
                    else:
                        raise answer
        return [verdicts[index] for index in range(len(pairs)) if index in verdicts]

    @contextmanager
    def verify_ahead(self, spec: VerifierSpec, jobs: int) -> Iterator[Callable[[Task, str], None]]:
        """Yield what has candidates verified by workers meanwhile: `verify_many` finds their evidence."""
        with self.workers().verify_ahead(spec, jobs) as put:
            yield put

    def _verify_each(
        self, pairs: Sequence[tuple[Task, str]], spec: VerifierSpec
    ) -> Generator[tuple[int, Verdict | TaskError]]:
        for number, (task, source) in enumerate(pairs):
            try:
                yield number, self.verify(task, source, spec)
            except TaskError as error:
                yield number, error

    def workers(self) -> WorkerPool:
        """Return the pool of worker processes, which start when they are needed."""
        with self._pool_lock:
            if self._pool is None:
                context = self.gpu_context or self.context
                self._pool = WorkerPool(
                    self.config,
                    self.timing,
                    context.sandbox,
                    context.store.path,
                    context.cuda,
                    {HOST_MEMORY: context.budget, GPU_MEMORY: context.gpu_budget},
                )
                weakref.finalize(self, self._pool.close)
            return self._pool
