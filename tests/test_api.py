"""The public names: what they are, that importing them is cheap, and that their page is current."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tritonrl

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_is_current() -> None:
    """`docs/api.md` is what the docstrings say now."""
    spec = importlib.util.spec_from_file_location("api", ROOT / ".ci" / "api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.write_page() == (ROOT / "docs" / "api.md").read_text(), "run: python .ci/api.py > docs/api.md"


@pytest.mark.parametrize("name", tritonrl.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """Each is found, and is told by `dir`; what is described has a docstring."""
    found = getattr(tritonrl, name)
    assert name in dir(tritonrl)
    assert found.__doc__


def test_an_installation_has_every_package_and_its_data() -> None:
    """Setuptools is told of each folder with modules, and of each file that lies beside modules."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    roots = told["package-dir"]

    def place(package: str) -> Path:
        top, *below = package.split(".")
        return ROOT / roots[top] / "/".join(below)

    files = {path for top in ("core", "stages", "harness") for path in (ROOT / top).rglob("*.*") if path.is_file()}
    modules = {path for path in files if path.suffix == ".py"}
    assert {place(package) for package in told["packages"]} == {ROOT, *(path.parent for path in modules)}
    globs = [(place(package), glob) for package, all_globs in told["package-data"].items() for glob in all_globs]
    data = {path for folder, glob in globs for path in folder.glob(glob)}
    assert {path for path in files - modules if "__pycache__" not in path.parts} <= data


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that is none is refused as any module refuses it."""
    with pytest.raises(AttributeError, match="no attribute 'Scorers'"):
        tritonrl.Scorers  # noqa: B018


def test_importing_the_package_is_cheap() -> None:
    """The package, its version and its records are had without torch, and without what else takes seconds."""
    heavy = "{'torch', 'triton', 'polars', 'transformers', 'numpy', 'typer'}"
    code = f"import sys, tritonrl; tritonrl.__version__, tritonrl.Verdict; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
