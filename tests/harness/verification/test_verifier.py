"""The verifier on real sandboxes: right kernels pass, wrong ones and cheats fail where and why they should."""

from __future__ import annotations

import pytest
from attrs import evolve
from tritonrl.core.candidate import Variant
from tritonrl.core.config import TimingConfig, VerifierConfig
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.recipe.extensions import AUDIT, VerifierSpec
from tritonrl.core.task import Task
from tritonrl.core.verdict import Verdict
from tritonrl.harness.errors import TaskError, UsageError
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.tasks.validation import validate_task
from tritonrl.harness.verification.evidence_store import EvidenceStore
from tritonrl.harness.verification.verifier import Verifier, choose_backend
from tritonrl.stages.funnel import find_runs

from ..kernels import ADD, LINEAR, NORM, POINTWISE, add, linear, norm, pointwise

BASELINE = VerifierSpec()
MULTI = VerifierSpec(multi_input=True, stop_early=True)
STAGED = VerifierSpec(stop_early=True)
EXHAUSTIVE = VerifierSpec(multi_input=True)
CONFIG = VerifierConfig(timing="simulated")


@pytest.fixture(scope="module")
def verifier(sandbox: Sandbox) -> Verifier:
    """A verifier with the simulated timing."""
    return Verifier(CONFIG, TimingConfig(), sandbox)


def failed_variants(verifier: Verifier, task: Task, source: str) -> set[Variant]:
    """The variants of the audit that a source fails on its own."""
    compiled = verifier.gather(task, source, MULTI)
    return {
        report.variant
        for report in find_runs(compiled)
        if report.failure is not None or not all(c.relative_error < 1e-2 for c in report.comparisons)
    }


@pytest.mark.parametrize(
    ("task", "source"),
    [(POINTWISE, pointwise()), (LINEAR, linear()), (NORM, norm()), (ADD, add())],
    ids=["pointwise", "linear", "norm", "add"],
)
@pytest.mark.parametrize("spec", [AUDIT, BASELINE], ids=["audit", "baseline"])
def test_right_kernels_are_correct(verifier: Verifier, task: Task, source: str, spec: VerifierSpec) -> None:
    """A right kernel passes all stages of the strictest and of the plainest verifier, with an estimated speedup."""
    verdict = verifier.verify(task, source, spec)
    assert verdict.correct, [(r.outcome, r.message) for r in verdict.stages]
    assert [result.outcome for result in verdict.stages] == [Outcome.PASSED] * 5
    assert verdict.speedup is None
    assert verdict.estimated_speedup is not None
    assert 0.05 < verdict.estimated_speedup < 50


CHEATS = {
    "identity": (POINTWISE, pointwise("x"), Stage.TINY, Outcome.WRONG_VALUES),
    "zeros": (POINTWISE, pointwise("x * 0.0"), Stage.TINY, Outcome.WRONG_VALUES),
    "torch does the work": (
        POINTWISE,
        pointwise(
            forward="out = 2.0 * x * torch.sigmoid(x)\n        kernel[(1,)](x, x, 0, BLOCK=128)\n        return out"
        ),
        Stage.COMPILE,
        Outcome.TORCH_ARITHMETIC,
    ),
    "fallback after an exception": (
        POINTWISE,
        pointwise(
            forward="try:\n            kernel[(1,)](x, x, x.missing, BLOCK=128)\n"
            "        except Exception:\n            return torch.nn.functional.silu(x) * 2"
        ),
        Stage.COMPILE,
        Outcome.TORCH_ARITHMETIC,
    ),
    "returns its input": (
        POINTWISE,
        pointwise(forward="out = torch.empty_like(x)\n        kernel[(1,)](x, out, 0, BLOCK=128)\n        return x"),
        Stage.COMPILE,
        Outcome.OUTPUT_NOT_WRITTEN,
    ),
    "never launches": (
        POINTWISE,
        pointwise(
            forward="if x is None:\n            kernel[(1,)](x, x, 0, BLOCK=128)\n        return torch.empty_like(x)"
        ),
        Stage.COMPILE,
        Outcome.NO_LAUNCH,
    ),
    "writes nothing where it should": (
        POINTWISE,
        pointwise(forward="out = torch.empty_like(x)\n        kernel[(1,)](x, out, 1, BLOCK=128)\n        return out"),
        Stage.TINY,
        Outcome.NOT_FINITE,
    ),
    "ignores an input": (ADD, add("x + x"), Stage.COMPILE, Outcome.INPUT_UNUSED),
    "uses an input to no effect": (ADD, add("x + y * 0.0"), Stage.TINY, Outcome.WRONG_VALUES),
    "mutates an input": (
        ADD,
        add(forward="tl.store(x_ptr + offsets, x * 2.0, mask=mask)"),
        Stage.COMPILE,
        Outcome.INPUT_MUTATED,
    ),
    "sums other lanes than zeros": (
        NORM,
        norm().replace("mask=mask, other=0.0)", "mask=mask, other=1.0)"),
        Stage.TINY,
        Outcome.WRONG_VALUES,
    ),
    "sums what lies beyond the end": (
        ADD,
        add("x + y + 0.0 * tl.sum(tl.load(x_ptr + offsets))"),
        Stage.TINY,
        Outcome.OUT_OF_BOUNDS,
    ),
    "writes what it reads beyond the end": (
        ADD,
        add("x + y").replace(", mask=mask)", ")"),
        Stage.TINY,
        Outcome.OUT_OF_BOUNDS,
    ),
    "doubles the result in place beyond the end": (
        ADD,
        add(forward="tl.store(out_ptr + offsets, tl.load(out_ptr + offsets) * 1.0)"),
        Stage.TINY,
        Outcome.OUT_OF_BOUNDS,
    ),
    "omits what is invisible at initialisation": (NORM, norm(scale=""), Stage.TINY, Outcome.WRONG_VALUES),
    "omits the bias": (LINEAR, linear(bias=""), Stage.TINY, Outcome.WRONG_VALUES),
    "another shape": (
        POINTWISE,
        pointwise().replace("return out", "return out.view(-1)"),
        Stage.COMPILE,
        Outcome.WRONG_SIGNATURE,
    ),
    "does not compile": (
        POINTWISE,
        pointwise().replace("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK - 1)"),
        Stage.COMPILE,
        Outcome.COMPILE_FAILED,
    ),
}


@pytest.mark.parametrize("name", CHEATS)
def test_wrong_kernels_and_cheats_are_refused(verifier: Verifier, name: str) -> None:
    """Each is refused at its stage with its outcome, by the audit; and the plainest verifier agrees on these."""
    task, source, stage, outcome = CHEATS[name]
    verdict = verifier.verify(task, source, AUDIT)
    assert (verdict.reached, verdict.outcome) == (stage, outcome), verdict.stages
    assert not verifier.verify(task, source, BASELINE).correct


def test_a_renamed_parameter_cannot_be_left_out(verifier: Verifier) -> None:
    """A norm that adds a parameter of its own, to be judged by seeded values, must still apply weight and bias."""
    source = norm(scale=" * tl.load(w_ptr + columns, mask=mask)").replace(
        "self.norm = nn.LayerNorm(size)",
        "self.scale = nn.Parameter(torch.ones(size))\n        self.zero = nn.Parameter(torch.zeros(size))",
    )
    source = source.replace("self.norm.weight, self.norm.bias", "self.scale, self.zero")
    assert verifier.verify(NORM, source, BASELINE).outcome is Outcome.WRONG_VALUES


def test_a_hard_coded_size_fails_the_larger_variant_alone(verifier: Verifier) -> None:
    """A kernel that covers the small sizes only is right for the baseline, and wrong for multi-input testing."""
    source = norm().replace("BLOCK=triton.next_power_of_2(n)", "BLOCK=64 if n < 100 else triton.next_power_of_2(n)")
    assert verifier.verify(NORM, source, BASELINE).correct
    assert failed_variants(verifier, NORM, source) == {Variant.LARGER}
    assert "larger" in verifier.verify(NORM, source, MULTI).stages[3].message


def source_with_another_kernel_at_large_sizes(body: str) -> str:
    """An addition whose host code launches a kernel that computes `body` at the declared sizes alone."""
    other = add(body)
    other = other[other.index("@triton.jit") : other.index("class ModelNew")].replace("def kernel", "def other")
    source = add().replace("class ModelNew", f"{other}class ModelNew")
    return source.replace("kernel[(", "(other if n > 10000 else kernel)[(")


def test_a_kernel_that_only_the_declared_sizes_launch_is_sampled(verifier: Verifier) -> None:
    """A choice by size is no offence; what is chosen must be right, for every verifier."""
    for spec in (AUDIT, BASELINE):
        assert verifier.verify(ADD, source_with_another_kernel_at_large_sizes("x + y"), spec).correct
        verdict = verifier.verify(ADD, source_with_another_kernel_at_large_sizes("x - y"), spec)
        assert (verdict.compiled, verdict.outcome) == (True, Outcome.WRONG_VALUES), verdict.stages


def test_two_launches_at_the_declared_sizes_alone_are_looked_at(verifier: Verifier) -> None:
    """What only the declared sizes launch is sampled there for every verifier, also where it is launched twice."""
    lines = source_with_another_kernel_at_large_sizes("x - y").splitlines()
    launch = next(line for line in lines if "(other if" in line)
    source = "\n".join(f"{line}\n{line}" if line == launch else line for line in lines)
    for spec in (AUDIT, BASELINE):
        verdict = verifier.verify(ADD, source, spec)
        assert (verdict.compiled, verdict.outcome) == (True, Outcome.WRONG_VALUES), verdict.stages


def test_another_dtype_is_part_of_the_contract(verifier: Verifier) -> None:
    """A kernel whose host code insists on float32 fails the precision variant alone."""
    source = pointwise(
        forward="assert x.dtype == torch.float32\n        out = torch.empty_like(x)\n"
        "        kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)\n        return out"
    )
    assert verifier.verify(POINTWISE, source, BASELINE).correct
    assert failed_variants(verifier, POINTWISE, source) == {Variant.PRECISION}


def test_a_branch_on_the_sign_fails_hidden_inputs_only(verifier: Verifier) -> None:
    """A kernel that is right for inputs as large as the training variants' is unmasked by the hidden ones."""
    source = add("tl.where(tl.sum(tl.where(mask, tl.abs(x), 0.0)) < 3.0, 0.0, x + y)")
    assert verifier.verify(ADD, source, MULTI).correct
    verdict = verifier.verify(ADD, source, AUDIT)
    assert verdict.reached is Stage.FULL
    assert "scale_1e-2" in verdict.stages[3].message


def test_the_exhaustive_form_attempts_everything(verifier: Verifier) -> None:
    """After a failure the baseline goes on, and says the same of the candidate as the staged form does."""
    task, source, stage, outcome = CHEATS["identity"]
    exhaustive, staged = verifier.verify(task, source, BASELINE), verifier.verify(task, source, STAGED)
    assert all(result.attempted for result in exhaustive.stages)
    assert exhaustive.stages[3].seconds > 0
    assert [result.attempted for result in staged.stages] == [True, True, True, False, False]
    assert (exhaustive.reached, exhaustive.outcome) == (staged.reached, staged.outcome) == (stage, outcome)


@pytest.mark.parametrize(
    "source",
    [
        "def f(:",
        "import os\n" + add().replace("x.numel()", "x.nothing"),
        add().replace("x.numel()", "x.nothing"),
        CHEATS["torch does the work"][1].replace("def forward(self, x)", "def forward(self, x, y)"),
    ],
    ids=["no program", "forbidden import", "forward fails", "torch arithmetic"],
)
def test_the_exhaustive_form_pays_for_attempts_that_cannot_succeed(sandbox: Sandbox, source: str) -> None:
    """Without a plan its tiny and full runs start from the source again; the staged form has no such attempt."""
    first, second, third = (Verifier(CONFIG, TimingConfig(), sandbox) for _ in range(3))
    exhaustive, staged = first.verify(ADD, source, EXHAUSTIVE), second.verify(ADD, source, STAGED)
    assert all(result.attempted and not result.passed for result in exhaustive.stages[2:4])
    assert all(result.seconds > 0.0 for result in exhaustive.stages[1:4])
    assert [(r.attempted, r.seconds) for r in staged.stages[2:4]] == [(False, 0.0)] * 2
    assert (exhaustive.reached, exhaustive.outcome) == (staged.reached, staged.outcome)
    again = third.verify(ADD, source, EXHAUSTIVE)
    assert [(r.outcome, r.message) for r in again.stages] == [(r.outcome, r.message) for r in exhaustive.stages]


def test_text_that_is_no_program_is_attempted_only_by_the_exhaustive_form(verifier: Verifier) -> None:
    """A syntax error ends the staged form at once; the exhaustive one tries to import it and fails again."""
    staged, exhaustive = (verifier.verify(ADD, "def f(:", spec) for spec in (STAGED, BASELINE))
    assert staged.outcome is exhaustive.outcome is Outcome.SYNTAX_ERROR
    assert staged.stages[1].outcome is Outcome.NOT_RUN
    assert exhaustive.stages[1].outcome is Outcome.IMPORT_FAILED


def test_equal_pairs_are_verified_once_and_answers_are_in_order(verifier: Verifier) -> None:
    """A batch on two threads answers in the order asked, the same object for equal pairs, each reported once."""
    wrong = add("x - y")
    pairs = [(ADD, add()), (ADD, wrong), (ADD, add()), (ADD, wrong)]
    done: list[int] = []
    verdicts = verifier.verify_many(pairs, AUDIT, jobs=2, on_done=lambda index, _: done.append(index))
    assert [verdict.correct for verdict in verdicts] == [True, False, True, False]
    assert verdicts[0] is verdicts[2]
    assert sorted(done) == [0, 1, 2, 3]


def test_a_verdict_is_the_same_from_the_store_and_in_another_order(sandbox: Sandbox, verifier: Verifier) -> None:
    """A fresh verifier with the store of another one, or none, gives equal verdicts, seconds aside."""

    def without_seconds(verdict: Verdict) -> Verdict:
        return evolve(verdict, stages=tuple(evolve(result, seconds=0.0) for result in verdict.stages))

    first = verifier.verify(ADD, add(), AUDIT)
    again = Verifier(CONFIG, TimingConfig(), sandbox, verifier.context.store).verify(ADD, add(), AUDIT)
    assert [r.seconds for r in again.stages[1:4]] == [r.seconds for r in first.stages[1:4]]
    fresh = Verifier(CONFIG, TimingConfig(), sandbox, EvidenceStore())
    fresh.verify(ADD, add("x - y"), BASELINE)
    assert without_seconds(fresh.verify(ADD, add(), AUDIT)) == without_seconds(first) == without_seconds(again)


def test_noise_is_common_to_specifications_but_not_to_protocols(verifier: Verifier) -> None:
    """Two cells with the same timing protocol see the same estimate; single and calibrated ones differ."""
    single = [verifier.verify(ADD, add(), spec).estimated_speedup for spec in (BASELINE, STAGED, MULTI)]
    assert len(set(single)) == 1
    assert verifier.verify(ADD, add(), AUDIT).estimated_speedup not in single


def test_what_this_version_cannot_do_is_a_usage_error(sandbox: Sandbox) -> None:
    """Asking for a measured timing, an unknown GPU or another target is refused by name."""
    for config, timing, key in [
        (VerifierConfig(timing="measured"), TimingConfig(), "verifier.timing"),
        (VerifierConfig(), TimingConfig(gpu="abacus"), "timing.gpu"),
        (VerifierConfig(target="sm_80"), TimingConfig(), "verifier.target"),
    ]:
        with pytest.raises(UsageError, match=key):
            Verifier(config, timing, sandbox)


def test_a_gpu_that_is_not_there_is_a_usage_error() -> None:
    """The backend "cuda" is refused by name where no GPU has the target's architecture; "auto" does without."""
    assert choose_backend(VerifierConfig(target="sm_75")) == "interpret"
    with pytest.raises(UsageError, match=r"verifier\.backend"):
        choose_backend(VerifierConfig(backend="cuda", target="sm_75"))


@pytest.mark.parametrize(
    ("task", "source"), [(POINTWISE, pointwise()), (LINEAR, linear()), (NORM, norm()), (ADD, add())]
)
def test_sound_tasks_validate(verifier: Verifier, task: Task, source: str) -> None:
    """On sound tasks the solution passes, and zeros, ones and the inputs fail."""
    assert validate_task(verifier, task, source) == ()


def test_unsound_tasks_are_found_out(verifier: Verifier) -> None:
    """Constant results, identities, ignored inputs and wrong solutions are each named."""

    def problems(expression: str, solution: str | None = None) -> str:
        task = evolve(ADD, task_id="unsound", source=ADD.source.replace("x + y", expression))
        return "; ".join(validate_task(verifier, task, solution))

    assert "input 0 itself would be accepted" in problems("x + 1e-6 * y")
    assert "zeros would be accepted" in problems("torch.relu(x.abs() + y.abs()) * 0")
    assert "does not depend on input 1" in problems("x * 2")
    assert "constant" in problems("torch.ones_like(x + y)")
    assert "solution is rejected" in problems("x - y", add())


def test_a_broken_task_is_a_task_error(verifier: Verifier) -> None:
    """A reference that does not run says so; no verdict is drawn."""
    for source in ("def f(:", "x = 1", ADD.source.replace("x + y", "x @ y @ nothing")):
        with pytest.raises(TaskError, match=ADD.task_id):
            verifier.verify(evolve(ADD, source=source, tiny=(), small=(), larger=()), add(), AUDIT)


def test_a_broken_task_ends_a_batch(verifier: Verifier) -> None:
    """On several threads too, a task that cannot be used raises instead of counting against candidates."""
    broken = evolve(ADD, task_id="broken", source="x = 1", tiny=(), small=(), larger=())
    with pytest.raises(TaskError, match="broken"):
        verifier.verify_many([(ADD, add()), (broken, add()), (ADD, add("x - y"))], AUDIT, jobs=2)
