"""Import graph of a checkout, from its sources alone: which file imports which, and where that goes in a circle.

Every import statement counts, also one inside a function or under TYPE_CHECKING: an import that is put off is still a
dependency. Files are named by their path from the root, in a working tree or in a revision of git alike.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

PACKAGE = "tritonrl"
Graph = dict[str, set[str]]


def imported_names(path: str, source: str) -> Iterator[tuple[str, str]]:
    """Yields (module, name) of every import in a file, absolute; the name is empty for `import module`."""
    package = (PACKAGE, *path.split("/")[:-1])
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            yield from ((module, alias.name) for alias in node.names)


def import_graph(sources: Mapping[str, str]) -> Graph:
    """Returns the files of `sources` (path -> text) that each of them imports; a package is its `__init__.py`."""
    files = {_module_name(path): path for path in sources}
    graph: Graph = {path: set() for path in sources}
    for path, source in sources.items():
        for module, name in imported_names(path, source):
            found = files.get(f"{module}.{name}") or files.get(module)
            if found and found != path:
                graph[path].add(found)
    return graph


def _module_name(path: str) -> str:
    return ".".join((PACKAGE, *path.removesuffix(".py").removesuffix("__init__").strip("/").split("/"))).rstrip(".")


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Returns the strongly connected components of more than one node, sorted (Tarjan 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            component = [stack.pop()]
            while component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted(found)


def package_graph(graph: Graph) -> Graph:
    """Returns which folders import which. A folder and those inside it are one house: their ties are the files'."""
    packages: Graph = defaultdict(set)
    for path, imported in graph.items():
        here = path.rpartition("/")[0]
        for other in imported:
            there = other.rpartition("/")[0]
            if not f"{there}/".startswith(f"{here}/") and not f"{here}/".startswith(f"{there}/"):
                packages[here].add(there)
    return dict(packages)
