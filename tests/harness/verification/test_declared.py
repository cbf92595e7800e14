"""Sampled runs at the declared sizes, in real sandboxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from tritonrl.core.candidate import Candidate, Failure, RunReport, Variant
from tritonrl.core.outcome import Outcome
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.core.run import RunReply, RunRequest
from tritonrl.core.task import Task
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification.checks import samples
from tritonrl.harness.verification.checks.configurations import sample_declared
from tritonrl.harness.verification.checks.declared import gather
from tritonrl.harness.verification.evidence_store import EvidenceStore
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.stages.checks.declared_run import FIRST_PROGRAMS, MORE_PROGRAMS
from tritonrl.stages.funnel import find_runs
from tritonrl.stages.judge_run import judge_run

from ..kernels import LINEAR, POINTWISE, linear, pointwise


def declared_report(verifier: Verifier, task: Task, source: str) -> RunReport | None:
    """What the audit found at the declared sizes, after everything else was accepted."""
    candidate: Candidate = verifier.gather(task, source, AUDIT)
    assert {Variant.ORIGINAL, Variant.REMAINDER} <= {report.variant for report in find_runs(candidate)}
    return next((report for report in find_runs(candidate) if report.variant is Variant.DECLARED), None)


def failure_of(report: RunReport | None) -> Failure:
    """Why the report is not right."""
    assert report is not None
    failure = judge_run(report)
    assert failure is not None
    return failure


@pytest.mark.parametrize(
    ("task", "source"), [(POINTWISE, pointwise()), (LINEAR, linear())], ids=["pointwise", "linear"]
)
def test_right_kernels_pass(verifier: Verifier, task: Task, source: str) -> None:
    """A right kernel's sample is compared, and covers the result."""
    report = declared_report(verifier, task, source)
    assert report is not None
    assert judge_run(report) is None
    assert report.comparisons[0].num_elements > 0


GRID = "triton.cdiv(n, 128)"


def test_a_grid_that_stops_growing_is_refused(verifier: Verifier) -> None:
    """A grid that covers small sizes only leaves the declared result unwritten."""
    source = pointwise()
    assert GRID in source
    failure = failure_of(declared_report(verifier, POINTWISE, source.replace(GRID, f"min({GRID}, 64)")))
    assert failure.outcome is Outcome.OUTPUT_NOT_WRITTEN


class SlowBeyond:
    """A sandbox in which more than the first programs do not end in time."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.num_programs: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def run(self, source: str, requests: Sequence[RunRequest], patience: int = 1) -> RunReply:
        """The sandbox's reply, or that it took too long."""
        (request,) = requests
        assert request.num_programs is not None
        self.num_programs.append(request.num_programs)
        if request.num_programs > FIRST_PROGRAMS:
            return RunReply(failure=Failure(outcome=Outcome.TIMEOUT))
        return self._sandbox.run(source, requests, patience)


@pytest.mark.parametrize(
    ("end", "outcome"), [("", Outcome.OUTPUT_NOT_WRITTEN), ("# while", Outcome.TIMEOUT)], ids=["plain", "may wait"]
)
def test_an_objection_stands_where_more_programs_take_too_long(verifier: Verifier, end: str, outcome: Outcome) -> None:
    """Unless programs may wait for one another, so that the first ones alone say little."""
    source = pointwise().replace(GRID, f"min({GRID}, 64)") + end
    candidate = verifier.gather(POINTWISE, source, AUDIT)
    sandbox: Any = SlowBeyond(verifier.context.sandbox)
    report = sample_declared(candidate, POINTWISE, evolve(verifier.context, sandbox=sandbox))
    assert failure_of(report).outcome is outcome
    assert sandbox.num_programs == [FIRST_PROGRAMS, MORE_PROGRAMS]


class AnotherClock:
    """A sandbox on a machine that takes so many times the seconds."""

    def __init__(self, sandbox: Sandbox, factor: float) -> None:
        self._sandbox, self._factor = sandbox, factor
        self.seen: list[tuple[RunRequest, list[int]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def run(self, source: str, requests: Sequence[RunRequest], patience: int = 1) -> RunReply:
        """The sandbox's reply, later."""
        reply = self._sandbox.run(source, requests, patience)
        self.seen += [(requests[0], [result.work for result in reply.results])]
        results = tuple(evolve(result, seconds=result.seconds * self._factor) for result in reply.results)
        return evolve(reply, results=results, seconds=reply.seconds * self._factor)


@pytest.mark.parametrize("body", ["x", "tl.gather(x, tl.arange(0, BLOCK), 0)"], ids=["scanned", "not scanned"])
def test_what_is_run_does_not_depend_on_the_clock(verifier: Verifier, body: str) -> None:
    """How many programs run follows from the work that they do, which is the same each time."""
    candidate = verifier.gather(POINTWISE, pointwise(f"2.0 * {body} * tl.sigmoid(x)"), AUDIT)
    seen = []
    for factor in (1e-3, 1e3):
        clock: Any = AnotherClock(verifier.context.sandbox, factor)
        with EvidenceStore() as store:
            found = gather(candidate, POINTWISE, evolve(verifier.context, sandbox=clock, store=store), AUDIT)
        assert found is not None
        seen.append((clock.seen, [(run.failure, run.comparisons) for run in found.runs]))
    assert seen[0] == seen[1]
    assert all(sum(work) > 0 for _, work in clock.seen)
    assert (max(request.num_programs for request, _ in clock.seen) > FIRST_PROGRAMS) == ("gather" in body)


def test_a_kernel_that_is_wrong_at_large_sizes_is_refused(verifier: Verifier) -> None:
    """A kernel whose arithmetic depends on the size is compared with the oracle at that size."""
    source = pointwise("tl.where(n > 100000, x, 2.0 * x * tl.sigmoid(x))")
    assert failure_of(declared_report(verifier, POINTWISE, source)).outcome is Outcome.WRONG_VALUES


def test_sizes_beyond_the_oracles_reach_are_left_out(verifier: Verifier) -> None:
    """A task of gigabytes is verified without its declared sizes."""
    huge = evolve(POINTWISE, task_id="test-huge", source=POINTWISE.source.replace("ROWS = 1024", "ROWS = 1048576"))
    assert declared_report(verifier, huge, pointwise()) is None


OWN_NAMES = """linear = nn.Linear(num_inputs, num_outputs)
        self.own_weight, self.own_bias = nn.Parameter(linear.weight), nn.Parameter(linear.bias)"""


@pytest.mark.parametrize("has_own", [False, True], ids=["the reference's", "its own"])
def test_weights_beyond_the_declared_sizes_do_not_count_against_a_kernel(verifier: Verifier, has_own: bool) -> None:
    """A weight of 33 MB that is declared, and of 67 MB beyond: a layer's, or a parameter with another name."""
    sizes = LINEAR.source.replace("INPUTS = 512", "INPUTS = 2900").replace("OUTPUTS = 256", "OUTPUTS = 2900")
    source = linear()
    if has_own:
        source = source.replace("self.linear = nn.Linear(num_inputs, num_outputs)", OWN_NAMES)
        source = source.replace("self.linear.", "self.own_")
    candidate = verifier.gather(evolve(LINEAR, task_id="test-large-linear", source=sizes), source, AUDIT)
    reports = {report.variant: report for report in find_runs(candidate)}
    assert judge_run(reports[Variant.BEYOND]) is None


def declared_failure(verifier: Verifier, source: str, variant: Variant = Variant.DECLARED) -> Failure:
    """Why the audit refuses a pointwise kernel in one of the sampled variants, the last that it looked at."""
    candidate = verifier.gather(POINTWISE, source, AUDIT)
    assert list(find_runs(candidate))[-1].variant is variant
    return failure_of(list(find_runs(candidate))[-1])


IDLE = """@triton.jit
def idle(out_ptr):
    tl.store(out_ptr, 1.0)


class ModelNew"""


def with_second_launch(source: str) -> str:
    """The source with a launch beside the one that matters."""
    source = source.replace("class ModelNew", IDLE)
    return source.replace(
        "        return out", "        idle[(1,)](torch.empty(1, device=x.device))\n        return out"
    )


SKIPPED = "tl.where(n > 100000, x, 2.0 * x * tl.sigmoid(x))"


@pytest.mark.parametrize("is_right", [True, False], ids=["right", "wrong"])
def test_every_launch_is_sampled(verifier: Verifier, is_right: bool) -> None:
    """A second launch does not keep the first from being compared, where not all programs can run."""
    source = with_second_launch(pointwise() if is_right else pointwise(SKIPPED))
    if is_right:
        assert judge_run(declared_report(verifier, POINTWISE, source) or pytest.fail("no report")) is None
    else:
        assert declared_failure(verifier, source).outcome is Outcome.WRONG_VALUES


def test_an_atomic_on_another_buffer_hides_nothing(verifier: Verifier) -> None:
    """Elements that no atomic touched are compared."""
    source = pointwise(SKIPPED).replace("out_ptr, n, BLOCK: tl", "out_ptr, n, count_ptr, BLOCK: tl")
    source = source.replace("    x = tl.load", "    tl.atomic_add(count_ptr, 1.0)\n    x = tl.load")
    source = source.replace("(x, out, n, BLOCK", "(x, out, n, torch.zeros(1, device=x.device), BLOCK")
    assert declared_failure(verifier, source).outcome is Outcome.WRONG_VALUES


def test_a_grid_of_millions_is_sampled(verifier: Verifier) -> None:
    """Programs that do not run cost nothing, so that no grid is too large."""
    source = pointwise().replace(f"({GRID},)", f"({GRID}, 1000 if n > 100000 else 1)")
    source = source.replace("mask = offsets < n", "mask = (offsets < n) & (n < 100000)")
    assert declared_failure(verifier, source).outcome is Outcome.OUTPUT_NOT_WRITTEN


def test_what_the_interpreter_has_not_is_refused(verifier: Verifier) -> None:
    """Language that only the declared sizes use cannot be looked at."""
    assembly = 'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)'
    source = pointwise("y").replace("    tl.store", "    y = 2.0 * x * tl.sigmoid(x)\n    tl.store")
    source = source.replace("    tl.store", f"    if n > 100000:\n        y = {assembly}\n    tl.store")
    assert declared_failure(verifier, source).outcome is Outcome.UNSUPPORTED


def test_results_rounded_to_half_at_large_sizes_are_refused(verifier: Verifier) -> None:
    """The declared sizes are held to the tolerance of the others: a tenth of float32's where nothing is multiplied."""
    value = "2.0 * x * tl.sigmoid(x)"
    source = pointwise(f"tl.where(n > 100000, ({value}).to(tl.float16).to(tl.float32), {value})")
    assert declared_failure(verifier, source).outcome is Outcome.WRONG_VALUES


def test_a_mask_left_out_at_multiples_of_the_block_is_refused(verifier: Verifier) -> None:
    """Beyond the declared sizes nothing is a multiple of a block."""
    source = pointwise().replace("mask = offsets < n", "mask = (offsets < n) | (n >= 1024 * 2048)")
    assert declared_failure(verifier, source, Variant.BEYOND).outcome is Outcome.OUT_OF_BOUNDS


def test_the_second_dtype_is_looked_at(verifier: Verifier) -> None:
    """A kernel that is wrong for many halves is compared at the declared sizes in that dtype."""
    wrong = "tl.where((n > 100000) & (x_ptr.dtype.element_ty == tl.float16), x, 2.0 * x * tl.sigmoid(x))"
    assert declared_failure(verifier, pointwise(wrong), Variant.DECLARED_PRECISION).outcome is Outcome.WRONG_VALUES


def test_memory_that_nobody_uses_hides_nothing(verifier: Verifier) -> None:
    """Whether the sizes are within reach is the task's doing alone."""
    source = pointwise(SKIPPED).replace(
        "        n = x.numel()\n",
        "        n = x.numel()\n        spare = n > 100000 and torch.empty(100_000_000, device=x.device)\n",
    )
    assert declared_failure(verifier, source).outcome is Outcome.WRONG_VALUES


@pytest.mark.parametrize(("spare", "is_right"), [("n", True), ("100 * n", False)])
def test_a_plan_may_keep_what_the_reference_keeps(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch, spare: str, is_right: bool
) -> None:
    """Beyond what any plan may have, what the reference's operators return is no objection, and more is."""
    monkeypatch.setattr(samples, "_FREE_PLAN_BYTES", 1)
    source = pointwise().replace(
        "        n = x.numel()\n",
        f"        n = x.numel()\n        spare = torch.zeros({spare}, device=x.device)\n",
    )
    assert "spare" in source
    report = declared_report(verifier, POINTWISE, source)
    if is_right:
        assert report is not None
        assert judge_run(report) is None
    else:
        assert failure_of(report).outcome is Outcome.UNSUPPORTED


def test_a_window_below_the_declared_sizes_is_met(verifier: Verifier) -> None:
    """A kernel that does nothing at sizes which are neither run whole nor declared is refused at a drawn one."""
    source = pointwise().replace("mask = offsets < n", "mask = (offsets < n) & ((n < 3000) | (n > 500000))")
    assert "500000" in source
    assert declared_failure(verifier, source, Variant.BETWEEN).outcome is Outcome.OUTPUT_NOT_WRITTEN


@pytest.mark.parametrize("wrong", ["0.0 * x", "tl.where(mask, x, 0.0)"])
def test_one_program_in_a_hundred_is_found(verifier: Verifier, wrong: str) -> None:
    """A scan points to the few programs that are wrong, and these are run by themselves."""
    source = pointwise(f"tl.where(tl.program_id(0) % 101 == 100, {wrong}, 2.0 * x * tl.sigmoid(x))")
    assert declared_failure(verifier, source).outcome is Outcome.WRONG_VALUES


@pytest.mark.parametrize("is_right", [True, False], ids=["right", "wrong"])
def test_what_too_many_programs_add_up_to_is_looked_at(verifier: Verifier, is_right: bool) -> None:
    """Two programs add to each element by atomics; where one adds too little once sizes are large, sums tell."""
    task = evolve(POINTWISE, task_id="test-sums", dtypes=("float32",))
    share = "0.5" if is_right else "tl.where((n > 100000) & (tl.program_id(1) == 1), 0.1, 0.5)"
    source = pointwise(f"2.0 * x * tl.sigmoid(x) * {share}").replace("tl.store(", "tl.atomic_add(")
    source = source.replace("torch.empty_like", "torch.zeros_like").replace(f"({GRID},)", f"({GRID}, 2)")
    report = declared_report(verifier, task, source)
    assert report is not None
    if is_right:
        assert judge_run(report) is None
    else:
        assert failure_of(report).outcome is Outcome.WRONG_VALUES


ROWS_OF_BLOCKS = """out = torch.empty_like(x)
        m, n = x.shape
        kernel[(m, triton.cdiv(n, 120))](x, out, n, BLOCK=120, WIDTH=128)
        return out"""
"""Of the declared rows 18 blocks each: more programs than are ever run one by one."""


def in_blocks(start: str) -> str:
    """A pointwise candidate with a program for each block of a row, which begins at `start`."""
    source = pointwise(forward=ROWS_OF_BLOCKS).replace(
        "BLOCK: tl.constexpr", "BLOCK: tl.constexpr, WIDTH: tl.constexpr"
    )
    source = source.replace(
        "    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    mask = offsets < n\n",
        f"""    columns = {start} + tl.arange(0, WIDTH)
    mask = columns < n
    offsets = tl.program_id(0) * n + columns
""",
    )
    assert "columns = tl" in source
    return source


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ("tl.program_id(2)", "all of them would not write"),
        ("tl.program_id(1) // 2", "all of them would not write"),
        ("tl.program_id(1) % 9", "all programs together do not write"),
        ("tl.program_id(1) % 16", "all programs together do not write"),
    ],
)
def test_programs_that_write_the_same_are_refused(verifier: Verifier, start: str, reason: str) -> None:
    """Along an axis that makes no difference, two by two, or again and again: some of the result is left unwritten."""
    start = f"tl.where(n < 2000, tl.program_id(1), {start}) * BLOCK"
    failure = failure_of(declared_report(verifier, POINTWISE, in_blocks(start)))
    assert failure.outcome is Outcome.OUTPUT_NOT_WRITTEN
    assert reason in str(failure.message)


def test_blocks_that_overlap_are_no_objection(verifier: Verifier) -> None:
    """A last block that ends where the row does writes again what the ones before it wrote, and the same."""
    source = in_blocks("tl.minimum(tl.program_id(1) * BLOCK, tl.maximum(n - WIDTH, 0))")
    report = declared_report(verifier, POINTWISE, source)
    assert report is not None
    assert judge_run(report) is None
