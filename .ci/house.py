"""Measure how large the house is, in revisions of git or in the working tree: `python .ci/house.py [REVISION ...]`.

Lines are those of Python files, empty ones and comments included. What is measured twice is measured once with the
benchmarks and once without. The longest folder is the one with most modules directly in it, `__init__.py` not counted.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from import_graph import circles, import_graph, package_graph  # noqa: E402

PRODUCT = ("core/", "stages/", "harness/", "cli.py")
BENCHMARKS = (
    "harness/bench/",
    "harness/benchmarks/",
    "core/mutation/",
    "harness/policy/pretrain.py",
    "harness/policy/pairs.py",
)
CANDIDATES = ("tests/attacks/", "tests/genuine/")
"""Kernels that the tests judge; beside them lies one test each."""


def read_files(revision: str) -> dict[str, str]:
    """Returns the text of every Python file by its path; of the working tree, those that git does not ignore."""
    git = ["git", "-C", str(ROOT)]
    if revision:
        archive = subprocess.run([*git, "archive", revision], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            named = {info.name: files.extractfile(info) for info in files if info.name.endswith(".py")}
            return {name: file.read().decode() for name, file in named.items() if file}
    listed = [*git, "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    names = subprocess.run(listed, capture_output=True, check=True, text=True).stdout.splitlines()
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in names if (ROOT / name).exists()}


def count_lines(files: Mapping[str, str]) -> int:
    """Returns the lines of all files."""
    return sum(len(text.splitlines()) for text in files.values())


def largest_function(files: Mapping[str, str]) -> str:
    """Returns the lines of the longest function, decorators included, with its name and file."""
    lengths = [
        ((node.end_lineno or 0) - min([node.lineno, *(one.lineno for one in node.decorator_list)]) + 1, node.name, path)
        for path, text in files.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lines, name, path = max(lengths)
    return f"{lines} ({name}, {path})"


def measure(files: Mapping[str, str]) -> dict[str, str]:
    """Returns what is measured of a product's files, by its name."""
    graph = import_graph(files)
    importers = Counter(other for imported in graph.values() for other in imported)
    modules = [path for path in files if not path.endswith("__init__.py")]
    folder, longest = Counter(path.rpartition("/")[0] for path in modules).most_common(1)[0]
    packages = package_graph(graph)
    return {
        "lines of source": f"{count_lines(files):,}",
        "modules": str(len(modules)),
        "modules with one importer": str(sum(importers[path] == 1 for path in modules)),
        "imports between files": f"{sum(map(len, graph.values())):,}",
        "files in circles": str(sum(map(len, circles(graph)))),
        "packages in circles": str(sum(map(len, circles(packages)))),
        "longest folder": f"{longest} ({folder})",
        "modules of more than 400 lines": str(sum(len(files[path].splitlines()) > 400 for path in modules)),
        "largest function": largest_function(files),
    }


def report(revision: str) -> list[tuple[str, str, str]]:
    """Returns (what, with benchmarks, without them) of a revision, or of the working tree."""
    files = read_files(revision)
    product = {path: text for path, text in files.items() if path.startswith(PRODUCT)}
    core = {path: text for path, text in product.items() if not path.startswith(BENCHMARKS)}
    rows = [(name, value, measure(core)[name]) for name, value in measure(product).items()]
    tests = {path: text for path, text in files.items() if path.startswith("tests/")}
    judged = {path: text for path, text in tests.items() if path.startswith(CANDIDATES)}
    rows.append(("lines of tests", f"{count_lines(tests) - count_lines(judged):,}", ""))
    rows.append(("lines of attacks and right kernels", f"{count_lines(judged):,}", ""))
    return rows


if __name__ == "__main__":
    for revision in sys.argv[1:] or [""]:
        rows = [(revision or "working tree", "with benchmarks", "without"), *report(revision)]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        for name, everything, core in rows:
            print(f"{name:{widths[0]}}  {everything:{widths[1]}}  {core}".rstrip())
