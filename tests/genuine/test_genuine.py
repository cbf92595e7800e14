"""Kernels that people write in other styles than the corpus has: none may be rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
from tritonrl.core.config import Config
from tritonrl.core.corpus import is_corpus_id
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.core.verdict import Verdict
from tritonrl.harness.bench.verifier.false_rejects import HEADER, written_kernels
from tritonrl.harness.verification.verifier import open_verifier

from ..selection import KERNELS

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in (FOLDER / "candidates").glob("*.py"))


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest) -> dict[str, Verdict]:
    """The audit verifier's verdicts on the kernels that this session has chosen, by name."""
    chosen = {item.name for item in request.session.items}
    kernels = [one for one in written_kernels(FOLDER) if f"test_genuine_kernel_is_accepted[{one.name}]" in chosen]
    with open_verifier(Config()) as verifier:
        found = verifier.verify_many([(kernel.task, kernel.source) for kernel in kernels], AUDIT, jobs=2)
    return {kernel.name: verdict for kernel, verdict in zip(kernels, found, strict=True)}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in KERNELS else [pytest.mark.slow]) for name in NAMES]
)
def test_genuine_kernel_is_accepted(name: str, verdicts: dict[str, Verdict]) -> None:
    """The audit verifier accepts it."""
    verdict = verdicts[name]
    failed = next((result for result in verdict.stages if not result.passed), None)
    assert verdict.correct, f"{verdict.reached}: {verdict.outcome}: {failed.message if failed else ''}"


def test_every_task_is_solved_by_a_candidate() -> None:
    """No task file is left over, and there are as many styles as were promised."""
    sources = [(FOLDER / "candidates" / f"{name}.py").read_text(encoding="utf-8") for name in NAMES]
    named = {source.partition("\n")[0].removeprefix(HEADER) for source in sources}
    assert {path.stem for path in (FOLDER / "tasks").glob("*.py")} == {name for name in named if not is_corpus_id(name)}
    assert len({source.splitlines()[1] for source in sources}) == len(NAMES) >= 44
