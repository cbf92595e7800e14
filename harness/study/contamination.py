"""Which tasks training may draw: none that equals one of a given suite up to names and constants.

The configuration's `against` names the suite; `evaluation` stands for the run's own held-out tasks. Equality is that of
docs/decisions/0007, so the promise is relative to its normal form. Of a suite of ours, which has no end, the first
`NUM_OF_OURS` tasks a level are compared. With `against = "evaluation"` and held-out tasks that are held out by their
sizes alone, all that computes the same is left out of training too: whole families of Level 1 may have nothing left.

Programs of our corpus are traced here. Those of a data set are traced in the sandbox, for nobody has read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ...core.config import Config, LimitsConfig
from ...core.corpus import SUITES
from ...core.graphs.normal_form import NORMAL_FORM
from ...core.serialisation import fingerprint
from ...core.task import Task
from ..datasets.pairs import Compare, Flaw
from ..display import Progress
from ..errors import TaskError, UsageError
from ..tasks.suites import identify_suite
from ..work import WorkStore, work_key
from .task_draws import evaluation_tasks

EVALUATION = "evaluation"
NUM_OF_OURS = 1000
_LIMITS = LimitsConfig(cpu_s=10, wall_s=30)
"""For one program: tracing takes a tenth of a second, and of thousands some never end."""


@frozen(kw_only=True)
class Refusal:
    """A task that training may not have, and the graph for which; a null graph could not be had."""

    task: str
    family: str
    graph: str | None


@frozen(kw_only=True)
class Admission:
    """Refuses tasks whose operation graph is one of `graphs`; `untraced` tasks of that suite could not be compared."""

    against: str
    graphs: frozenset[str]
    untraced: tuple[str, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(factory=dict)
    """The suite's tasks by graph."""
    refused: list[Refusal] = field(factory=list, eq=False)
    """What was refused, as it came."""

    def admits(self, task: Task) -> bool:
        """Whether training may use this task of ours."""
        from ..reference.graph.operation_trace import fingerprint_task

        graph: str | None = None
        try:
            graph = fingerprint_task(task)
            equals = graph in self.graphs
        except TaskError:
            equals = True
        if equals:
            self.refused.append(Refusal(task=task.task_id, family=task.family, graph=graph))
        return not equals

    def count_removed(self, first: int = 0) -> list[dict[str, Any]]:
        """What was refused, from one place on, and why: by family and the suite's task that it equals, the most first.

        Plain data.
        """
        counts = Counter((refusal.family, self._name(refusal.graph)) for refusal in self.refused[first:])
        return [{"family": family, "equals": name, "number": number} for (family, name), number in counts.most_common()]

    def _name(self, graph: str | None) -> str:
        if graph is None:
            return "not traced"
        names = self.names.get(graph, ())
        return "a task of the suite" if not names else names[0] + (f" and {len(names) - 1} more" if names[1:] else "")


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


def open_admission(config: Config, work: WorkStore, progress: Progress | None = None) -> Admission | None:
    """What the configuration refuses, traced once for a store; null where it refuses nothing."""
    identity = identify_against(config)
    if identity is None:
        return None

    def make(_: Path) -> dict[str, Any]:
        from ..tasks.decontamination import trace_suite, trace_tasks

        on_traced = None if progress is None else progress.advance
        if progress is not None:
            progress.phase(f"graphs of {config.against}, which training must not have", 0)
        if config.against == EVALUATION:
            traced = trace_tasks(evaluation_tasks(config), on_done=on_traced)
        else:
            traced = trace_suite(config.against, num=_count(config.against), seed=config.seed, on_traced=on_traced)
        names: dict[str, list[str]] = {}
        for task, graph in traced.hashes:
            names.setdefault(graph, []).append(task)
        return {"names": names, "untraced": [entry.name for entry in traced.untraced]}

    made = work.once("graphs", work_key("graphs", against=identity, named=True), make).value
    names = {graph: tuple(tasks) for graph, tasks in made["names"].items()}
    return Admission(against=config.against, graphs=frozenset(names), untraced=tuple(made["untraced"]), names=names)


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
            if found.graph not in admission.graphs:
                return None
            admission.refused.append(Refusal(task="", family="pairs from files", graph=found.graph))
            return Flaw.SHARED

        def compare(programs: Sequence[str]) -> list[Flaw | None]:
            return list(pool.map(look, programs))

        yield compare
