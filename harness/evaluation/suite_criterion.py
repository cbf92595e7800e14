"""What KernelBench itself calls correct, for results that are to be compared with published ones.

Its criterion, as published (Ouyang et al. 2025, arXiv 2502.10517, and `eval_kernel_against_ref` in its repository): the
declared shapes, the declared dtype, five draws of the inputs, parameters as the constructor leaves them, and
`torch.allclose` with atol = rtol = 1e-2 against the reference in its own precision. Nothing is asked of how the result
came about. Its repository has since narrowed float32 to 1e-4: so the figure that decides is kept beside the decision
(`excess`, the largest |error| / (1 + |expected|), which must not exceed the tolerance).

Three departures. Plans are recorded and executed as ever, so what cannot be recorded at all is not correct here either.
A parameter that has the reference's name has the reference's values, whatever the order of construction. And on the
interpreter declared shapes that are too large to run whole are replaced by the task's small ones; `sizes` says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial

import numpy as np
import torch
from attrs import evolve, frozen
from numpy.typing import NDArray

from ...core.candidate import Candidate, CompileReport, Failure, Recording, Variant
from ...core.outcome import Outcome
from ...core.plan import LaunchPlan, View
from ...core.recipe.extensions import AUDIT
from ...core.run import RunRequest, RunResult
from ...core.seeds import derive
from ...core.serialisation import fingerprint
from ...core.task import Profile, Task
from ...stages.compile_stage import find_recording
from ...stages.plan_validation import check_structure
from ..errors import TaskError, TooLargeError
from ..reference.device_comparison import find_excess_on_device
from ..reference.expected_run import ExpectedRun
from ..reference.reference import build_model, call_model, convert, draw_inputs, dtype_name, load_task, torch_dtype
from ..reference.sizes.declared_sizes import measure_peak
from ..reference.values import DrawnInputs
from ..study.pipeline import CellContext
from ..verification.context import BYTES_A_BYTE, VerifierContext
from ..verification.large_runs import LargeRun, asked_for, compute_large, parameters_asked_for
from ..verification.recordings import probe_compile, record_own_values
from ..verification.storages import fill_storages, from_bytes
from ..verification.verifier import Verifier

NUM_TRIALS = 5
TOLERANCE = 1e-2
_MOST_BYTES, _MOST_FLOPS = 1 << 20, 5e7
"""Declared sizes that the interpreter runs whole in a few seconds."""


@frozen(kw_only=True)
class SuiteVerdict:
    """What the suite's criterion says of a candidate; null where the task itself cannot be computed here."""

    correct: bool | None
    sizes: Profile
    excess: float | None = None
    """The largest |error| / (1 + |expected|) of all trials; null where values were not compared, or not finite."""
    message: str = ""
    seconds: float = 0.0


BySuite = Callable[[Task, str], SuiteVerdict]


def judge_by_suite(task: Task, source: str, context: VerifierContext) -> SuiteVerdict:
    """The suite's own word on a candidate, kept in the evidence store."""
    candidate = Candidate(task_id=task.task_id, source=source, purity="lenient")
    key = context.key(candidate, task, "suite")
    verdict = context.store.get(key, SuiteVerdict)
    if verdict is None:
        began = time.perf_counter()
        try:
            verdict = _judge(candidate, task, context)
        except TooLargeError as error:
            # there may be more memory the next time
            return SuiteVerdict(correct=None, sizes=Profile.DECLARED, message=str(error))
        except TaskError as error:
            verdict = SuiteVerdict(correct=None, sizes=Profile.DECLARED, message=str(error))
        verdict = evolve(verdict, seconds=time.perf_counter() - began)
        context.store.put(key, verdict)
    return verdict


def criterion_of(context: CellContext) -> BySuite:
    """Return the criterion by what the verifier of an exam has opened."""
    assert isinstance(context.judge, Verifier)
    return partial(judge_by_suite, context=context.judge.context)


def choose_sizes(task: Task, context: VerifierContext) -> Profile:
    """The declared sizes, or small ones where the interpreter cannot run those; the same for every candidate."""
    if context.cuda is not None:
        return Profile.DECLARED
    num_bytes, num_flops = measure_peak(task)
    return Profile.DECLARED if num_bytes <= _MOST_BYTES and num_flops <= _MOST_FLOPS else Profile.SMALL


def _judge(candidate: Candidate, task: Task, context: VerifierContext) -> SuiteVerdict:
    sizes = choose_sizes(task, context)
    if not candidate.source.strip():
        return SuiteVerdict(correct=False, sizes=sizes, message="no program was extracted")
    report = probe_compile(candidate, task, context, AUDIT.stop_early).evidence.compile
    assert report is not None
    recording = _find_plan(candidate, task, context, report, sizes)
    if isinstance(recording, Failure):
        return SuiteVerdict(correct=False, sizes=sizes, message=_sentence(recording))
    assert recording.plan is not None
    # a GPU holds one trial of large sizes at a time; a child of the interpreter costs more than its trials
    alone = [range(n, n + 1) for n in range(NUM_TRIALS)]
    groups = [range(NUM_TRIALS)] if context.cuda is None else alone
    worst = 0.0
    while groups:
        trials = groups.pop(0)
        if sizes is Profile.DECLARED and context.cuda is not None and not context.oracle.is_quick(task):
            excess = _run_large_trial(task, context, recording.plan, trials[0])
        else:
            needed = BYTES_A_BYTE * len(trials) * context.oracle.measure_bytes(task, sizes)
            with context.budget.asked(needed, task.task_id):
                excess = _run_trials(candidate, task, context, recording.plan, sizes, trials)
        if isinstance(excess, Failure) and excess.outcome is Outcome.TIMEOUT and len(trials) > 1:
            groups = alone  # the limit is one run's, and each of the trials has the right to it
            continue
        if isinstance(excess, Failure):
            return SuiteVerdict(correct=False, sizes=sizes, message=_sentence(excess))
        worst = max(worst, excess)
        if not worst <= TOLERANCE:
            break
    finite = worst if np.isfinite(worst) else None
    message = "" if worst <= TOLERANCE else "values that are not finite" if finite is None else f"excess {worst:.2g}"
    return SuiteVerdict(correct=worst <= TOLERANCE, sizes=sizes, excess=finite, message=message)


def _sentence(failure: Failure) -> str:
    return f"{failure.outcome}: {failure.message}".rstrip(": ")


def _find_plan(
    candidate: Candidate, task: Task, context: VerifierContext, report: CompileReport, sizes: Profile
) -> Recording | Failure:
    """The recording to run, or why there is none."""
    if report.failure is not None:
        return report.failure
    recording = find_recording(report, sizes, task.dtypes[0])
    if recording is None:
        # recording ended at sizes that the audit objects to and the suite may not
        report_of_all = probe_compile(candidate, task, context).evidence.compile
        recording = None if report_of_all is None else find_recording(report_of_all, sizes, task.dtypes[0])
    if recording is not None and sizes is Profile.DECLARED:
        recording = record_own_values(candidate, task, context, recording)
    if recording is None or (recording.plan is None and recording.failure is None):
        return Failure(outcome=Outcome.BROKEN_PROTOCOL, message=f"nothing was recorded at {sizes} sizes")
    if recording.failure is not None or recording.plan is None:
        return recording.failure or Failure(outcome=Outcome.BROKEN_PROTOCOL)
    failure = check_structure(recording.plan)
    if failure is None and len(recording.plan.arithmetic) != len(recording.plan.operators):
        names = ", ".join(sorted(set(recording.plan.arithmetic)))
        failure = Failure(outcome=Outcome.TORCH_ARITHMETIC, message=f"operators that no plan can hold: {names}")
    return failure or recording


def _run_trials(
    candidate: Candidate, task: Task, context: VerifierContext, plan: LaunchPlan, sizes: Profile, trials: Sequence[int]
) -> float | Failure:
    """The excess of some trials in one child, infinite where values are not finite, or why nothing was compared."""
    runs = [_run_reference(task, context, sizes, trial) for trial in trials]
    requests = []
    for trial, expected in zip(trials, runs, strict=True):
        storages = fill_storages(plan, expected, context.store.get_blob)
        if isinstance(storages, Failure):
            return storages
        seed = derive(context.oracle.seed, candidate.sha256, "suite layout", trial)
        requests.append(RunRequest(variant=Variant.ORIGINAL, plan=plan, storages=storages, seed=seed))
    context.get_ready()
    reply = context.runner.run(candidate.source, requests)
    if reply.failure is not None:
        return reply.failure
    worst = 0.0
    for result, expected in zip(reply.results, runs, strict=True):
        excess = result.failure or _find_excess(plan, result, expected)
        if isinstance(excess, Failure):
            return excess
        worst = max(worst, excess)
    return worst


def _run_large_trial(task: Task, context: VerifierContext, plan: LaunchPlan, trial: int) -> float | Failure:
    """The same of one trial whose inputs are never in the host's memory."""
    dtype, seed = task.dtypes[0], derive(context.oracle.seed, fingerprint(task), "suite inputs", trial)
    drawn = DrawnInputs(task=task, dtype=dtype, seed=seed)
    with asked_for(task, context), parameters_asked_for(task, context):
        model = build_model(task, load_task(task, Profile.DECLARED), context.oracle.init_seed(task))
        found = compute_large(LargeRun(task=task, drawn=drawn, model=model, dtype=torch_dtype(dtype)), plan, context)
        if isinstance(found, Failure):
            return found
        worst = 0.0
        for view, actual, wanted, kind in found[0]:
            misfit = _check_form(view, tuple(actual.shape), tuple(wanted.shape), kind)
            if misfit is not None:
                return misfit
            worst = max(worst, find_excess_on_device(actual, wanted))
        return worst


def _run_reference(task: Task, context: VerifierContext, sizes: Profile, trial: int) -> ExpectedRun:
    """Inputs of a trial, parameters as constructed, and what the reference makes of them in its own precision."""
    oracle = context.oracle
    # nobody may time on a GPU meanwhile
    turn = nullcontext() if context.cuda is None else context.cuda.executors[0].lock.shared()
    module = load_task(task, sizes)
    inputs = draw_inputs(task, module, derive(oracle.seed, fingerprint(task), "suite inputs", trial))
    model = build_model(task, module, oracle.init_seed(task))
    parameters = {name: value.detach().clone() for name, value in model.state_dict().items()}
    with turn:
        placed = [value.to(oracle.device) if isinstance(value, torch.Tensor) else value for value in inputs]
        outputs = call_model(task, convert(model, oracle.device), placed)
        expected = tuple(_to_array(output) for output in outputs)
    return ExpectedRun(
        inputs=tuple(value if isinstance(value, torch.Tensor) else None for value in inputs),
        parameters=parameters,
        expected=expected,
        dtypes=tuple(dtype_name(output) for output in outputs),
    )


def _to_array(tensor: torch.Tensor) -> NDArray[np.generic]:
    # NumPy has no bfloat16
    return (tensor.float() if tensor.is_floating_point() and tensor.itemsize < 4 else tensor).detach().cpu().numpy()


def _find_excess(plan: LaunchPlan, result: RunResult, expected: ExpectedRun) -> float | Failure:
    if not len(plan.outputs) == len(result.outputs) == len(expected.expected):
        message = f"returns {len(plan.outputs)} tensors, the reference {len(expected.expected)}"
        return Failure(outcome=Outcome.WRONG_SIGNATURE, message=message)
    worst = 0.0
    for view, data, wanted, dtype in zip(plan.outputs, result.outputs, expected.expected, expected.dtypes, strict=True):
        found = from_bytes(data, view)
        if found is None:
            return Failure(outcome=Outcome.BROKEN_PROTOCOL, message="a result's size is not what the plan says")
        misfit = _check_form(view, found.shape, wanted.shape, dtype)
        if misfit is not None:
            return misfit
        worst = max(worst, find_excess(found, wanted))
    return worst


def _check_form(view: View, found: tuple[int, ...], wanted: tuple[int, ...], dtype: str) -> Failure | None:
    if view.dtype == dtype and found == wanted:
        return None
    message = f"{view.dtype} {list(found)} where the reference returns {dtype} {list(wanted)}"
    return Failure(outcome=Outcome.WRONG_SIGNATURE, message=message)


def find_excess(found: NDArray[np.generic], wanted: NDArray[np.generic]) -> float:
    """The least t for which `torch.allclose` with atol = rtol = t holds; infinite where no t does."""
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        ratios = np.where(a == b, 0.0, np.abs(a - b) / (1.0 + np.abs(b)))
    if not ratios.size:
        return 0.0
    # NaN is close to nothing, and an infinity to itself alone
    return float(np.where(np.isfinite(ratios) & ~(np.isinf(b) & (a != b)), ratios, np.inf).max())
