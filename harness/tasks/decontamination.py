"""Which tasks of one suite are tasks of another, whatever their names and constants: docs/decisions/0007.

Tasks are compared by what their references compute (`harness.reference.operation_trace`), so that any two suites can be
compared, ours or foreign. A task whose reference cannot be traced is neither counted as shared nor passed over: it is
listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import evolve, frozen

from ...core.graphs.graph_hash import describe_graph, hash_graph
from ...core.task import Task
from ..datasets.kernelbench import Skipped
from ..errors import TaskError
from ..reference.graph.operation_trace import trace_graph
from ..side_by_side import map_kept, map_side_by_side
from .suites import declared_dtype, is_ours, load_suite, read_chosen


@frozen(kw_only=True)
class TracedTasks:
    """Tasks with the hashes of their graphs."""

    hashes: tuple[tuple[str, str], ...]
    """(task, hash) in the order of the tasks."""
    graphs: dict[str, str]
    """In words, by hash, as the first task that has it shows it."""
    untraced: tuple[Skipped, ...] = ()


@frozen(kw_only=True)
class Shared:
    """A task that equals some of the other suite's up to names and constants, and the graph that they have."""

    task: str
    others: tuple[str, ...]
    graph: str


def trace_tasks(tasks: Iterable[Task], *, on_done: Callable[[int], None] | None = None) -> TracedTasks:
    """The graphs of these tasks; `on_done` gets each count."""
    chosen = list(tasks)
    plains = [{"source": task.source, "dtype": task.dtypes[0]} for task in chosen]
    found = map_side_by_side(trace_program, plains, on_done)
    return _collect([task.task_id for task in chosen], found, ())


def trace_suite(
    name: str, *, num: int | None = None, seed: int = 0, on_traced: Callable[[int], None] | None = None
) -> TracedTasks:
    """The graphs of a suite's tasks, `num` a level as in `load_suite`; raises UsageError where there is none.

    Of a suite that is not ours no sizes are looked for, and its graphs are kept for the next time.
    """
    if is_ours(name):
        return trace_tasks((entry.task for entry in load_suite(name, num=num, seed=seed).tasks), on_done=on_traced)
    problems, skipped = read_chosen(name, num=num)
    found = map_kept(trace_program, [{"source": problem.code, "dtype": None} for problem in problems], on_traced)
    return _collect([problem.task_id for problem in problems], found, skipped)


def trace_program(plain: dict[str, Any]) -> dict[str, str]:
    """Return a program's graph by its hash and in words, or why it has none; without a dtype it is its inputs'.

    Tensors have no values, so nothing is computed whatever the declared sizes are.
    """
    task = Task(task_id="program", level=1, family="", description="", source=plain["source"])
    try:
        dtype = plain["dtype"] or declared_dtype(task)
        graph = trace_graph(evolve(task, dtypes=(dtype,)))
    except TaskError as error:
        return {"reason": str(error).removeprefix("program: ")}
    return {"hash": hash_graph(graph), "graph": describe_graph(graph)}


def _collect(names: Sequence[str], found: Sequence[dict[str, str]], skipped: Sequence[Skipped]) -> TracedTasks:
    hashes: list[tuple[str, str]] = []
    graphs: dict[str, str] = {}
    untraced = list(skipped)
    for name, traced in zip(names, found, strict=True):
        if "reason" in traced:
            untraced.append(Skipped(name=name, reason=traced["reason"]))
        else:
            hashes.append((name, traced["hash"]))
            graphs.setdefault(traced["hash"], traced["graph"])
    return TracedTasks(hashes=tuple(hashes), graphs=graphs, untraced=tuple(untraced))


def find_shared(first: TracedTasks, second: TracedTasks) -> tuple[Shared, ...]:
    """The tasks of the first that the second has too, each with its equals there."""
    equals: dict[str, list[str]] = {}
    for name, identity in second.hashes:
        equals.setdefault(identity, []).append(name)
    return tuple(
        Shared(task=name, others=tuple(equals[identity]), graph=first.graphs[identity])
        for name, identity in first.hashes
        if identity in equals
    )
