"""A driver that is none: graphs are names of nodes, so that what becomes of executables is seen without a device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Code(int):
    """An error as the driver gives it."""

    name = "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"


class Copied:
    """A copy of a graph, whose nodes can be changed."""

    def __init__(self, graph: str) -> None:
        self.nodes = [[name] for name in graph.split()]

    def __str__(self) -> str:
        return " ".join(name for (name,) in self.nodes)


class Driver:
    """Makes and updates executables, which are numbers, of graphs, which are names of nodes; "memset" is no kernel.

    Executables of what is in `never_updated` cannot be updated, what is in `never_made` cannot be made executable, and
    what is in `never_uploaded` cannot be had on the device.
    """

    def __init__(self) -> None:
        self.made: list[str] = []
        self.was: dict[int, list[str]] = {}
        self.uploaded: list[int] = []
        self.never_updated: set[str] = set()
        self.never_made: set[str] = set()
        self.never_uploaded: set[str] = set()
        self.copied: list[Copied] = []
        flags = SimpleNamespace(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH=1)
        flags.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8
        self.CUgraphInstantiate_flags = flags

    @property
    def now(self) -> dict[int, str]:
        """What each executable is of."""
        return {number: history[-1] for number, history in self.was.items()}

    def CUgraph(self, graph: str) -> str:
        return graph

    def cuGraphGetNodes(self, graph: Any, number: int = 0) -> tuple[int, list[Any], int]:
        nodes = graph.nodes if isinstance(graph, Copied) else graph.split()
        return 0, nodes[:number], len(nodes)

    def cuGraphNodeGetType(self, node: Any) -> tuple[int, int]:
        return 0, 2 if node in ("memset", ["memset"]) else 0

    def cuGraphClone(self, graph: str) -> tuple[int, Copied]:
        self.copied.append(Copied(graph))
        return 0, self.copied[-1]

    def cuGraphDestroy(self, graph: Copied) -> tuple[int]:
        self.copied.remove(graph)
        return (0,)

    def cuGraphKernelNodeGetParams(self, node: str) -> tuple[int, str]:
        return 0, f"{node}'s"

    def cuGraphKernelNodeSetParams(self, node: list[str], other: str) -> tuple[int]:
        node[:] = [other]
        return (0,)

    def cuGraphInstantiate(self, graph: Any, flags: int) -> tuple[int, int]:
        assert flags == 9
        if str(graph) in self.never_made:
            return Code(801), 0
        self.made.append(str(graph))
        self.was[len(self.made)] = [str(graph)]
        return 0, len(self.made)

    def cuGraphUpload(self, executable: int, stream: int) -> tuple[int]:
        if self.now[executable] in self.never_uploaded:
            return (Code(2),)
        self.uploaded.append(executable)
        return (0,)

    def cuGraphExecUpdate(self, executable: int, graph: str) -> tuple[int, None]:
        if self.now[executable] in self.never_updated or graph in self.never_made:
            return Code(910), None
        self.was[executable].append(graph)
        return 0, None

    def cuGraphExecDestroy(self, executable: int) -> tuple[int]:
        del self.was[executable]
        return (0,)
