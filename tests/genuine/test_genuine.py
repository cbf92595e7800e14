"""Kernels that people write in other styles than the corpus has: none may be rejected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tritonrl.core.config import Config
from tritonrl.core.extensions import AUDIT
from tritonrl.harness.bench_genuine import HEADER, GenuineKernel, written_kernels
from tritonrl.harness.phases import open_verifier
from tritonrl.harness.verifier import Verifier

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in (FOLDER / "candidates").glob("*.py"))


@pytest.fixture(scope="module")
def kernels() -> dict[str, GenuineKernel]:
    """The candidates with their tasks."""
    return {kernel.name: kernel for kernel in written_kernels(FOLDER)}


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    """The verifier with its default configuration."""
    with open_verifier(Config()) as opened:
        yield opened


@pytest.mark.parametrize("name", NAMES)
def test_genuine_kernel_is_accepted(name: str, kernels: dict[str, GenuineKernel], verifier: Verifier) -> None:
    """The audit verifier accepts it."""
    kernel = kernels[name]
    verdict = verifier.verify(kernel.task, kernel.source, AUDIT)
    failed = next((result for result in verdict.stages if not result.passed), None)
    assert verdict.correct, f"{verdict.reached}: {verdict.outcome}: {failed.message if failed else ''}"


def test_every_task_is_solved_by_a_candidate() -> None:
    """No task file is left over, and there are as many styles as were promised."""
    sources = [(FOLDER / "candidates" / f"{name}.py").read_text(encoding="utf-8") for name in NAMES]
    named = {source.partition("\n")[0].removeprefix(HEADER) for source in sources}
    assert {path.stem for path in (FOLDER / "tasks").glob("*.py")} == named
    assert len({source.splitlines()[1] for source in sources}) == len(NAMES) >= 44
