"""Which tasks training may draw: none that equals one of a given suite up to names and constants.

The configuration's `against` names the suite; `evaluation` stands for the run's own held-out tasks. Equality is that of
docs/decisions/0007, so the promise is relative to its normal form. Of a suite of ours, which has no end, the first
`NUM_OF_OURS` tasks a level are compared. With `against = "evaluation"` and held-out tasks that are held out by their
sizes alone, all that computes the same is left out of training too: whole families of Level 1 may have nothing left.

Programs of our corpus are traced here. Those of a data set are traced in the sandbox, for nobody has read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from attrs import field, frozen

from ...core.config import Config, LimitsConfig
from ...core.corpus import SUITES
from ...core.graphs.normal_form import NORMAL_FORM
from ...core.serialisation import fingerprint
from ...core.task import Task
from ..datasets.kernelbook import Flaw
from ..datasets.pairs import Compare
from ..errors import TaskError, UsageError
from ..tasks.suites import identify_suite
from ..work import WorkStore, work_key
from .task_draws import evaluation_tasks

EVALUATION = "evaluation"
NUM_OF_OURS = 1000
_LIMITS = LimitsConfig(cpu_s=10, wall_s=30)
"""For one program: tracing takes a tenth of a second, and of thousands some never end."""


@frozen(kw_only=True)
class Admission:
    """Refuses tasks whose operation graph is one of `graphs`; `untraced` tasks of that suite could not be compared."""

    against: str
    graphs: frozenset[str]
    untraced: tuple[str, ...] = ()
    refused: list[str] = field(factory=list, eq=False)
    """The ids of tasks that were refused, as they came."""

    def admits(self, task: Task) -> bool:
        """Whether training may use this task of ours."""
        from ..reference.graph.operation_trace import fingerprint_task

        try:
            equals = fingerprint_task(task) in self.graphs
        except TaskError:
            equals = True
        if equals:
            self.refused.append(task.task_id)
        return not equals


@lru_cache(maxsize=4)
def identify_against(config: Config) -> str | None:
    """A fingerprint of the tasks that training is compared with and of how; null where it is not; raises UsageError."""
    if not config.against:
        return None
    if config.against == EVALUATION:
        return fingerprint([NORMAL_FORM, *(task.task_id for task in evaluation_tasks(config))])
    try:
        return fingerprint([NORMAL_FORM, identify_suite(config.against, num=_count(config.against), seed=config.seed)])
    except UsageError as error:
        raise UsageError(f"against = {config.against}: {error}; or {EVALUATION}") from None


def _count(suite: str) -> int | None:
    return NUM_OF_OURS if suite.partition(":")[0] in SUITES else None


def open_admission(config: Config, work: WorkStore, on_traced: Callable[[int], None] | None = None) -> Admission | None:
    """What the configuration refuses, traced once for a store; null where it refuses nothing."""
    identity = identify_against(config)
    if identity is None:
        return None

    def make(_: Path) -> dict[str, list[str]]:
        from ..tasks.decontamination import trace_suite, trace_tasks

        if config.against == EVALUATION:
            traced = trace_tasks(evaluation_tasks(config), on_done=on_traced)
        else:
            traced = trace_suite(
                config.against, num=_count(config.against), seed=config.seed, on_prepared=on_traced, on_traced=on_traced
            )
        return {
            "graphs": sorted({graph for _, graph in traced.hashes}),
            "untraced": [entry.name for entry in traced.untraced],
        }

    made = work.once("graphs", work_key("graphs", against=identity), make).value
    return Admission(against=config.against, graphs=frozenset(made["graphs"]), untraced=tuple(made["untraced"]))


@contextmanager
def comparing(admission: Admission | None, jobs: int) -> Iterator[Compare | None]:
    """How programs of a data set are compared, `jobs` at once; null where nothing is refused."""
    if admission is None:
        yield None
        return
    from ..sandbox.sandbox import Sandbox

    with Sandbox(_LIMITS) as sandbox, ThreadPoolExecutor(jobs) as pool:
        sandbox.start("trace")

        def look(program: str) -> Flaw | None:
            found = sandbox.trace(program)
            if not found.graph:
                return Flaw.NOT_COMPARED
            return Flaw.SHARED if found.graph in admission.graphs else None

        def compare(programs: Sequence[str]) -> list[Flaw | None]:
            return list(pool.map(look, programs))

        yield compare
