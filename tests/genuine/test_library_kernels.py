"""Right kernels in the host styles of well-known libraries: norms, losses, attention, quantisation, recurrences.

They are written for this project, after how such libraries look and not from their text. `tritonrl bench false-rejects
--num 0 --folder tests/genuine/libraries` lists those that are refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tritonrl.core.config import Config
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.core.verdict import Verdict
from tritonrl.harness.bench.verifier.false_rejects import HEADER, written_kernels
from tritonrl.harness.verification.verifier import open_verifier

FOLDER = Path(__file__).parent / "libraries"
REFUSED = {
    "deepseek_weight_dequant": "by policy: it reads the process's default dtype, which the reference does not",
    "grouped_gemm_pointers": "by policy: a table of addresses",
}
"""Refused though right, and why."""
NAMES = sorted(path.stem for path in (FOLDER / "candidates").glob("*.py"))


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest) -> dict[str, Verdict]:
    """The audit verifier's verdicts on the kernels that this session has chosen, by name."""
    chosen = {item.name for item in request.session.items}
    kernels = written_kernels(FOLDER, [name for name in NAMES if f"test_library_kernel_is_accepted[{name}]" in chosen])
    with open_verifier(Config()) as verifier:
        found = verifier.verify_many([(kernel.task, kernel.source) for kernel in kernels], AUDIT, jobs=2)
    return {kernel.name: verdict for kernel, verdict in zip(kernels, found, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.xfail(strict=True, reason=REFUSED[name])] if name in REFUSED else [])
        for name in NAMES
    ],
)
def test_library_kernel_is_accepted(name: str, verdicts: dict[str, Verdict]) -> None:
    """The audit verifier accepts it."""
    verdict = verdicts[name]
    assert verdict.correct, f"{verdict.where}: {verdict.objection}"


def test_every_task_of_a_library_kernel_is_solved() -> None:
    """No task file is left over, and there are a hundred kernels in styles of their own."""
    sources = [(FOLDER / "candidates" / f"{name}.py").read_text(encoding="utf-8") for name in NAMES]
    named = {source.partition("\n")[0].removeprefix(HEADER) for source in sources}
    assert {path.stem for path in (FOLDER / "tasks").glob("*.py")} == named
    assert len({source.splitlines()[1] for source in sources}) == len(NAMES) >= 100
