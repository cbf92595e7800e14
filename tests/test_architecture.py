"""Dependencies point one way, and the pure packages stay pure."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("core", "stages", "harness", "cli")
PURE_IMPORTS = {"attrs", "cattrs", "numpy", "scipy", "markdown_it"}
SOURCES = [path for layer in LAYERS[:3] for path in sorted((ROOT / layer).rglob("*.py"))] + [ROOT / "cli.py"]


def imported_modules(path: Path) -> Iterator[str]:
    """Absolute names of all modules that a file imports anywhere, those of the package starting with "tritonrl"."""
    package = ("tritonrl", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1])
            yield from ([f"{base}.{node.module}"] if node.module else [f"{base}.{alias.name}" for alias in node.names])


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    """A module imports its own layer and those below, never one above."""
    layer = LAYERS.index(path.relative_to(ROOT).parts[0].removesuffix(".py"))
    for name in imported_modules(path):
        parts = name.split(".")
        if parts[0] == "tritonrl" and len(parts) > 1 and parts[1] in LAYERS:
            assert LAYERS.index(parts[1]) <= layer, f"{path.name} imports {name}"


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if path.relative_to(ROOT).parts[0] in ("core", "stages")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_pure_packages_import_little(path: Path) -> None:
    """core and stages use the standard library, attrs, cattrs, numpy, scipy and the Markdown parser alone."""
    allowed = PURE_IMPORTS | sys.stdlib_module_names | {"tritonrl"}
    assert {name.split(".")[0] for name in imported_modules(path)} <= allowed


def test_the_layers_hold_files() -> None:
    """The rules above are about something."""
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == {"core", "stages", "harness", "cli.py"}
    assert len(SOURCES) > 30


@pytest.mark.parametrize("module", ["tritonrl.core.config", "tritonrl.core.statistics.factorial", "tritonrl.cli"])
def test_heavy_modules_are_not_imported(module: str) -> None:
    """Importing the command line or the core loads neither torch nor triton nor transformers, nor scipy."""
    heavy = {"torch", "triton", "transformers", "peft", "scipy"}
    code = f"import sys, {module}; print(sorted({heavy!r} & set(sys.modules)))"
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
