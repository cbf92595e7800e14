"""What the benches of the GPU backend verify, as far as it shows without a GPU."""

from __future__ import annotations

import pytest
import torch
from tritonrl.cli import app
from tritonrl.core.candidate import Candidate
from tritonrl.core.config import TimingConfig, VerifierConfig
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.core.verdict import StageResult, Verdict
from tritonrl.harness.bench.gpu.agreement import compare_verdicts
from tritonrl.harness.bench.gpu.crashes import CRASHES, draw_sources
from tritonrl.harness.bench.verifier.mix import Kind, Labelled
from tritonrl.harness.bench.watching import RunningCount
from tritonrl.harness.doctor import double_task
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification.recordings import probe_compile
from tritonrl.harness.verification.verifier import Verifier, probe_syntax
from tritonrl.stages.compile_stage import judge_compile
from tritonrl.stages.syntax import judge_syntax
from typer.testing import CliRunner

TASK = double_task()


def verdict(outcome: Outcome, stage: Stage) -> Verdict:
    """A verdict that ends at a stage."""
    stages = list(Stage)
    done = stages[: stages.index(stage)] if outcome is not Outcome.PASSED else stages
    results = [StageResult(stage=each, outcome=Outcome.PASSED, seconds=0.0) for each in done]
    if outcome is not Outcome.PASSED:
        results.append(StageResult(stage=stage, outcome=outcome, seconds=0.0, message="why"))
    return Verdict(task_id="t", candidate="c" * 64, backend="interpret", stages=tuple(results))


def test_crashing_candidates_reach_the_gpu_and_their_neighbours_are_right(sandbox: Sandbox) -> None:
    """Every way to crash passes the AST and the compile stage, and what stands beside it passes the whole audit."""
    drawn = dict(draw_sources(len(CRASHES)))
    assert set(drawn) == {"is right", *CRASHES}
    verifier = Verifier(VerifierConfig(), TimingConfig(), sandbox)
    for name in CRASHES:
        candidate = Candidate(task_id=TASK.task_id, source=drawn[name])
        candidate = probe_compile(probe_syntax(candidate), TASK, verifier.context, True)
        assert judge_syntax(candidate).passed, name
        assert judge_compile(candidate).passed, (name, judge_compile(candidate))
    assert verifier.verify(TASK, drawn["is right"], AUDIT).outcome is Outcome.PASSED


def test_no_two_crashing_candidates_have_the_same_text() -> None:
    """Equal texts would be verified once."""
    sources = [source for _, source in draw_sources(12)]
    assert len(set(sources)) == len(sources) == 25


def test_agreement_is_about_acceptance_and_reasons_are_counted_apart() -> None:
    """Two refusals agree whatever their reasons; one acceptance against one refusal is listed."""
    mix = [Labelled(task=TASK, source=str(n), kind=Kind.WRONG, spoil="spoilt") for n in range(3)]
    accepted, wrong = verdict(Outcome.PASSED, Stage.TIMING), verdict(Outcome.WRONG_VALUES, Stage.FULL)
    early = verdict(Outcome.NOT_FINITE, Stage.TINY)
    executed = dict(enumerate([accepted, early, accepted]))
    figures = compare_verdicts(mix, dict(enumerate([accepted, wrong, wrong])), executed, 0, {})
    assert (figures.num_agreeing, figures.same_outcome) == (2, 1)
    assert figures.num_accepted == {"interpret": 1, "cuda": 2}
    (listed,) = figures.disagreements
    assert (listed.interpret, listed.cuda) == ("wrong_values@full: why", "passed@timing")
    assert figures.outcome_pairs == (("wrong_values@full / not_finite@tiny", 1),)


def test_agreement_that_is_cut_off_is_about_what_both_have_judged() -> None:
    """The others were asked for, and are no disagreements."""
    mix = [Labelled(task=TASK, source=str(n), kind=Kind.WRONG, spoil="spoilt") for n in range(3)]
    wrong = verdict(Outcome.WRONG_VALUES, Stage.FULL)
    figures = compare_verdicts(mix, {1: verdict(Outcome.PASSED, Stage.TIMING)}, {0: wrong, 1: wrong}, 0, {})
    assert (figures.num_asked, figures.num_candidates, figures.num_agreeing) == (3, 1, 0)
    assert [each.candidate for each in figures.disagreements] == [wrong.candidate[:12]]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("command", ["agreement", "gpu-crashes"])
def test_without_a_gpu_the_benches_say_so(command: str) -> None:
    """One line, exit 2."""
    result = CliRunner().invoke(app, ["bench", command])
    assert result.exit_code == 2
    assert result.stderr.strip().splitlines() == ["tritonrl: verifier.backend: cuda cannot be used: no GPU is seen"]


def test_a_bench_that_is_cut_off_has_said_how_many_it_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    """One verdict in 25 is worth a line, with what was rejected by then, and so is the last."""
    running = RunningCount(60, "rejected")
    for number in range(60):
        running.note(number == 30)
    said = ["25 of 60 verdicts, 0 rejected", "50 of 60 verdicts, 1 rejected", "60 of 60 verdicts, 1 rejected"]
    assert capsys.readouterr().err.splitlines() == said
