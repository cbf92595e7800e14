"""Which tasks of one suite are tasks of another, whatever their names and constants: docs/decisions/0007.

Tasks are compared by what their references compute (`harness.reference.operation_trace`), so that any two suites can be
compared, ours or foreign. A task whose reference cannot be traced is neither counted as shared nor passed over: it is
listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen

from ...core.graphs.graph_hash import describe_graph, hash_graph
from ...core.graphs.operation_graph import OperationGraph
from ...core.task import Task
from ..datasets.kernelbench import Skipped
from ..errors import TaskError
from ..reference.graph.operation_trace import trace_graph
from .suites import load_suite


@frozen(kw_only=True)
class TracedTasks:
    """Tasks with the hashes of their graphs."""

    hashes: tuple[tuple[str, str], ...]
    """(task, hash) in the order of the tasks."""
    graphs: dict[str, OperationGraph]
    """By hash, as the first task that has it shows it."""
    untraced: tuple[Skipped, ...] = ()


@frozen(kw_only=True)
class Shared:
    """A task that equals some of the other suite's up to names and constants, and the graph that they have."""

    task: str
    others: tuple[str, ...]
    graph: str


def trace_tasks(
    tasks: Iterable[Task], *, skipped: Sequence[Skipped] = (), on_done: Callable[[int], None] | None = None
) -> TracedTasks:
    """The graphs of these tasks, `skipped` being listed with what cannot be traced; `on_done` gets each count."""
    hashes: list[tuple[str, str]] = []
    graphs: dict[str, OperationGraph] = {}
    untraced = list(skipped)
    for done, task in enumerate(tasks, start=1):
        try:
            graph = trace_graph(task)
        except TaskError as error:
            untraced.append(Skipped(name=task.task_id, reason=str(error).removeprefix(f"{task.task_id}: ")))
        else:
            identity = hash_graph(graph)
            hashes.append((task.task_id, identity))
            graphs.setdefault(identity, graph)
        if on_done is not None:
            on_done(done)
    return TracedTasks(hashes=tuple(hashes), graphs=graphs, untraced=tuple(untraced))


def trace_suite(
    name: str,
    *,
    num: int | None = None,
    seed: int = 0,
    on_prepared: Callable[[int], None] | None = None,
    on_traced: Callable[[int], None] | None = None,
) -> TracedTasks:
    """The graphs of a suite's tasks, `num` a level as in `load_suite`; raises UsageError where there is none."""
    suite = load_suite(name, num=num, seed=seed, on_done=on_prepared)
    return trace_tasks((entry.task for entry in suite.tasks), skipped=suite.skipped, on_done=on_traced)


def find_shared(first: TracedTasks, second: TracedTasks) -> tuple[Shared, ...]:
    """The tasks of the first that the second has too, each with its equals there."""
    equals: dict[str, list[str]] = {}
    for name, identity in second.hashes:
        equals.setdefault(identity, []).append(name)
    return tuple(
        Shared(task=name, others=tuple(equals[identity]), graph=describe_graph(first.graphs[identity]))
        for name, identity in first.hashes
        if identity in equals
    )
