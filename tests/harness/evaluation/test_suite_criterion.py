"""The suite's own criterion: right and wrong kernels in a real sandbox, and how it stands beside the audit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
import torch
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tritonrl.core.candidate import Failure
from tritonrl.core.outcome import Outcome
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.core.task import Profile, Task
from tritonrl.harness.evaluation import suite_criterion
from tritonrl.harness.evaluation.suite_criterion import TOLERANCE, choose_sizes, find_excess, judge_by_suite
from tritonrl.harness.tasks.suites import load_suite
from tritonrl.harness.verification.verifier import Verifier

from ..datasets.made_up import SMALL_PROBLEM, write_folder
from ..kernels import pointwise

TANH = "2.0 * tl.sigmoid(2.0 * x) - 1.0"
RIGHT = pointwise(f"{TANH} + 0.5")
CLOSE = pointwise(f"{TANH} + 0.505")
FAR = pointwise(f"{TANH} + 0.55")
FLOATS = st.floats(-100, 100, width=32) | st.sampled_from([float("inf"), float("-inf"), float("nan")])


@pytest.fixture(scope="module")
def verifier(default_verifier: Verifier) -> Verifier:
    """What suites are judged with by default."""
    return default_verifier


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """A problem whose declared sizes are run whole."""
    folder = write_folder(tmp_path_factory.mktemp("suite"), {"level1/1_Small.py": SMALL_PROBLEM})
    return load_suite(f"kernelbench:{folder}").tasks[0].task


def test_right_kernel_is_accepted_by_both(verifier: Verifier, task: Task) -> None:
    """A kernel that computes the reference is correct, at declared sizes, with an error that is that of rounding."""
    verdict = judge_by_suite(task, RIGHT, verifier.context)
    assert (verdict.correct, verdict.sizes, verdict.message) == (True, Profile.DECLARED, "")
    assert verdict.excess is not None
    assert verdict.excess < 1e-5
    assert verifier.verify(task, RIGHT, AUDIT).correct


def test_constant_off_by_a_little_is_accepted_by_the_suite_alone(verifier: Verifier, task: Task) -> None:
    """An error of 0.005 is within a tolerance of 0.01, and the audit refuses it: the two stand side by side."""
    verdict = judge_by_suite(task, CLOSE, verifier.context)
    assert verdict.correct
    assert verdict.excess is not None
    assert 0.005 / 2.5 <= verdict.excess <= 0.005 + 1e-6
    assert not verifier.verify(task, CLOSE, AUDIT).correct


def test_wrong_kernel_is_refused_with_its_excess(verifier: Verifier, task: Task) -> None:
    """An error beyond the tolerance is refused, and the message says by how much."""
    verdict = judge_by_suite(task, FAR, verifier.context)
    assert verdict.correct is False
    assert verdict.excess is not None
    assert verdict.excess > TOLERANCE
    assert verdict.message == f"excess {verdict.excess:.2g}"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "no program was extracted"),
        (pointwise(f"({TANH}) / (x - x)"), "not finite"),
        (pointwise(f"{TANH} + 0.5").replace("        return out", "        return out[:, :7]"), "where the reference"),
    ],
    ids=["empty", "not finite", "shape"],
)
def test_refusals_say_why(source: str, words: str, verifier: Verifier, task: Task) -> None:
    """What is no program, gives no number or another shape is refused in one line."""
    verdict = judge_by_suite(task, source, verifier.context)
    assert verdict.correct is False
    assert words in verdict.message
    assert verdict.message
    assert verdict.excess is None


def test_how_a_result_came_about_is_the_audits_question(verifier: Verifier, task: Task) -> None:
    """The suite accepts arithmetic without a kernel, as published; the audit refuses it."""
    source = pointwise(forward="return torch.tanh(x) + 0.5")
    assert judge_by_suite(task, source, verifier.context).correct
    assert not verifier.verify(task, source, AUDIT).correct


def test_verdict_is_kept(verifier: Verifier, task: Task) -> None:
    """Asking again gives the verdict that was found, its seconds included; another candidate has another."""
    first = judge_by_suite(task, RIGHT, verifier.context)
    assert judge_by_suite(task, RIGHT, verifier.context) == first
    assert judge_by_suite(task, FAR, verifier.context) != first


def test_declared_sizes_that_are_too_large_are_replaced(verifier: Verifier, task: Task) -> None:
    """On the interpreter a kernel is judged at small sizes where the declared ones would take long, and says so."""
    if verifier.context.cuda is not None:
        pytest.skip("a GPU runs the declared sizes")
    large = evolve(task, source=task.source.replace("batch_size = 16", "batch_size = 800"))
    assert (choose_sizes(task, verifier.context), choose_sizes(large, verifier.context)) == (
        Profile.DECLARED,
        Profile.SMALL,
    )
    verdict = judge_by_suite(large, RIGHT, verifier.context)
    assert (verdict.correct, verdict.sizes) == (True, Profile.SMALL)


@given(arrays.arrays(np.float32, 4, elements=FLOATS), arrays.arrays(np.float32, 4, elements=FLOATS))
def test_excess_decides_as_allclose_does(found: np.ndarray, wanted: np.ndarray) -> None:  # type: ignore[type-arg]
    """The excess is the tolerance at which `torch.allclose` turns, whatever is infinite or no number."""
    a, b = torch.from_numpy(found).double(), torch.from_numpy(wanted).double()
    excess = find_excess(found, wanted)
    if np.isfinite(excess):
        assert torch.allclose(a, b, rtol=excess * 1.001, atol=excess * 1.001)
    if excess > 0:
        below = min(excess, 1e6) * 0.999
        assert not torch.allclose(a, b, rtol=below, atol=below)


def test_excess_of_nothing_is_nothing() -> None:
    """Empty results agree, and equal infinities do."""
    infinite = np.array([np.inf, -np.inf])
    assert find_excess(np.empty(0), np.empty(0)) == 0.0
    assert find_excess(infinite, infinite) == 0.0
    assert find_excess(infinite, -infinite) == np.inf
    assert find_excess(np.array([True]), np.array([False])) == 1.0


def test_trials_that_run_out_of_time_together_have_it_alone(
    verifier: Verifier, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is one run's: five trials that exceed it in one are run one by one, and one that does so is refused."""
    asked: list[int] = []

    def run(*arguments: Sequence[int], slow: tuple[int, ...] = ()) -> float | Failure:
        trials = arguments[-1]
        asked.append(len(trials))
        is_late = len(trials) > 1 or trials[0] in slow
        return Failure(outcome=Outcome.TIMEOUT, message="still running") if is_late else 1e-6

    monkeypatch.setattr(suite_criterion, "_run_trials", run)
    assert judge_by_suite(task, f"{RIGHT}# one by one\n", verifier.context).correct
    assert asked == [5, 1, 1, 1, 1, 1]
    monkeypatch.setattr(suite_criterion, "_run_trials", partial(run, slow=(1,)))
    verdict = judge_by_suite(task, f"{RIGHT}# never\n", verifier.context)
    assert (verdict.correct, verdict.message) == (False, "ran out of time: still running")


def test_task_that_cannot_be_computed_is_no_verdict(verifier: Verifier, task: Task) -> None:
    """What is wrong with a task is said in the place of a verdict, and ends no exam."""
    other = evolve(
        task, task_id="other", source=f"{task.source}\n\ndef get_inputs():\n    return [torch.rand(dim, 1), 0]\n"
    )
    verdict = judge_by_suite(other, RIGHT, verifier.context)
    assert verdict.correct is None
    assert "other: running the reference failed" in verdict.message


def test_a_tensor_that_is_no_parameter_is_converted_with_the_model(verifier: Verifier, task: Task) -> None:
    """A state that the constructor draws and keeps beside its parameters, as recurrent models do, has their dtype."""
    init = "    def __init__(self):\n        super().__init__()\n        self.state = torch.randn(3, 1, 4)\n\n"
    source = task.source.replace("    def forward", f"{init}    def forward")
    source = source.replace("torch.tanh(x)", "nn.functional.linear(x[..., :4], self.state.to(x.device)[0])")
    recurrent = evolve(task, task_id="recurrent", source=source)
    assert verifier.context.oracle.signature(recurrent).used_inputs == (0,)
    assert judge_by_suite(recurrent, FAR, verifier.context).correct is False
