"""Dependencies point one way, nothing goes in a circle, and the pure packages stay pure."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from .import_graph import circles, import_graph, imported_names, package_graph

ROOT = Path(__file__).resolve().parents[1]

LAYERS = ("core", "stages", "harness", "cli")
"""Lowest first: a layer imports itself and those below."""
FLOORS = (
    (
        "errors",
        "work",
        "lending",
        "side_by_side",
        "tables",
        "settings",
        "display",
        "command_line",
        "legacy",
        "http_client",
        "metrics",
        "torch_start",
    ),
    ("datasets", "reference"),
    ("sandbox",),
    ("gpu",),
    ("verification", "policy"),
    ("tasks",),
    ("study",),
    ("evaluation", "analysis", "plain_text", "service"),
    ("report",),
    ("bench", "adapters", "doctor", "reinforcement", "verify_command"),
)
"""What harness holds, lowest first: nothing imports what is on a floor above its own."""
OTHER_NAMES = {"cuda": "gpu", "exam": "evaluation", "benchmarks": "bench", "phases": "study"}
"""Packages that stand for one on a floor."""
BENCHMARKS = ("harness/bench/", "harness/benchmarks/")
"""Imported by one another and by the command line alone."""
PURE_LAYERS = ("core", "stages")
PURE_IMPORTS = frozenset({"attrs", "cattrs", "numpy", "scipy", "markdown_it"}) | sys.stdlib_module_names | {"tritonrl"}


def read_sources() -> dict[str, str]:
    """Returns the text of every file of the product by its path from the root."""
    paths = [path for layer in LAYERS[:3] for path in sorted((ROOT / layer).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in [*paths, ROOT / "cli.py"]}


def layer_of(path: str) -> int:
    """Returns the number of a file's layer."""
    return LAYERS.index(path.partition("/")[0].removesuffix(".py"))


def floor_of(path: str) -> int | None:
    """Returns the number of a file's floor in harness: none for a package that has no place, -1 outside of harness."""
    layer, _, rest = path.partition("/")
    name = rest.partition("/")[0].removesuffix(".py")
    if layer != "harness" or name == "__init__":
        return -1
    floors = {name: number for number, names in enumerate(FLOORS) for name in names}
    return floors.get(OTHER_NAMES.get(name, name))


def broken_by(path: str, other: str) -> Iterator[str]:
    """Yields the rules of layers, floors and benchmarks that are broken where a file imports another."""
    if layer_of(other) > layer_of(path):
        yield "layers"
    floor, below = floor_of(path), floor_of(other)
    if layer_of(other) == layer_of(path) and floor is not None and below is not None and below > floor:
        yield "floors of harness"
    if other.startswith(BENCHMARKS) and not path.startswith((*BENCHMARKS, "cli.py")):
        yield "a benchmark in the product"


def violations(sources: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each import of `sources` (path -> text) that breaks a rule, and for each circle."""
    graph = import_graph(sources)
    yield from (f"no floor: {path}" for path in sources if floor_of(path) is None)
    for path, imported in graph.items():
        for other in sorted(imported):
            yield from (f"{rule}: {path} imports {other}" for rule in broken_by(path, other))
    for path, source in sources.items():
        if path.split("/")[0] in PURE_LAYERS:
            packages = {module.partition(".")[0] for module, _ in imported_names(path, source)}
            yield from (f"pure: {path} imports {name}" for name in sorted(packages - PURE_IMPORTS))
    yield from (f"circle of files: {' '.join(circle)}" for circle in circles(graph))
    yield from (f"circle of packages: {' '.join(circle)}" for circle in circles(package_graph(graph)))


def test_the_architecture_holds() -> None:
    """Layers, floors, benchmarks, purity and circles: every violation is listed at once."""
    sources = read_sources()
    assert {path.partition("/")[0] for path in sources} == {"core", "stages", "harness", "cli.py"}
    assert len(sources) > 100
    found = list(violations(sources))
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("sources", "rule"),
    [
        ({"core/a.py": "from ..stages import b", "stages/b.py": ""}, "layers"),
        ({"core/a.py": "def late():\n    from ..harness.work import b", "harness/work.py": ""}, "layers"),
        ({"harness/errors.py": "from .study.cell import a", "harness/study/cell.py": ""}, "floors of harness"),
        ({"harness/attic.py": ""}, "no floor"),
        ({"harness/doctor.py": "from .bench import a", "harness/bench/a.py": ""}, "a benchmark in the product"),
        ({"core/a.py": "import torch.nn"}, "pure"),
        ({"core/a.py": "from . import b", "core/b.py": "def late():\n    from .a import c"}, "circle of files"),
        (
            {
                "core/a/x.py": "from ..b import x",
                "core/b/x.py": "",
                "core/b/y.py": "from tritonrl.core.a.y import z",
                "core/a/y.py": "",
            },
            "circle of packages",
        ),
    ],
)
def test_each_rule_finds_what_breaks_it(sources: dict[str, str], rule: str) -> None:
    """Two or three files that break one rule are listed under that rule, and under no other."""
    assert {line.partition(":")[0] for line in violations(sources)} == {rule}


@pytest.mark.parametrize("module", ["tritonrl.core.config", "tritonrl.cli"])
def test_heavy_modules_are_not_imported(module: str) -> None:
    """Importing the command line or the core loads neither torch nor triton nor transformers."""
    code = f"import sys, {module}; print(sorted({{'torch', 'triton', 'transformers', 'peft'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_does_not_import_torch() -> None:
    """`tritonrl --help` prints its commands with torch out of reach."""
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['triton'] = None; sys.argv = ['tritonrl', '--help']\n"
        "from tritonrl.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ablate" in done.stdout
