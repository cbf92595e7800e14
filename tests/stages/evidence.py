"""Hand-made evidence for the stages' tests."""

from __future__ import annotations

from hypothesis import strategies as st
from tritonrl.core.candidate import (
    Candidate,
    Comparison,
    CompileReport,
    Evidence,
    Failure,
    Recording,
    ReferenceSignature,
    RunReport,
    TimingReport,
    Variant,
)
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import Argument, ArgumentKind, Buffer, BufferKind, Kernel, Launch, LaunchPlan, View
from tritonrl.core.task import Profile
from tritonrl.stages.checks.runs import RunsReport

SOURCE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * 2, mask=offsets < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
        return out
"""

SIGNATURE = ReferenceSignature(shapes=((4,),), dtypes=("float32",), used_inputs=(0,))


def view(buffer: int, size: int = 4) -> View:
    """A vector over a whole buffer."""
    return View(buffer=buffer, offset=0, shape=(size,), stride=(1,), dtype="float32")


def buffer(kind: BufferKind, name: str = "", size: int = 4) -> Buffer:
    """A float32 buffer."""
    return Buffer(kind=kind, name=name, dtype="float32", num_elements=size)


def launch(source: int, target: int, kernel: int = 0, grid: int = 1) -> Launch:
    """A launch that reads one buffer and writes another."""
    views = [("x_ptr", source), ("out_ptr", target)]
    arguments = tuple(Argument(name=name, kind=ArgumentKind.VIEW, view=view(index)) for name, index in views)
    return Launch(kernel=kernel, grid=(grid, 1, 1), arguments=arguments)


KERNEL = Kernel(
    qualname="kernel", source_sha256="0" * 64, binary="1" * 64, num_warps=4, reads=("x_ptr",), writes=("out_ptr",)
)


def plan(*steps: object, output: int = 1, arithmetic: tuple[str, ...] = ()) -> LaunchPlan:
    """A plan over an input (0), and three temporaries (1, 2, 3)."""
    temporaries = [buffer(BufferKind.TEMPORARY)] * 3
    return LaunchPlan(
        buffers=(buffer(BufferKind.INPUT, "0"), *temporaries),
        kernels=(KERNEL,),
        steps=steps,  # type: ignore[arg-type]
        outputs=(view(output),),
        arithmetic=arithmetic,
        target="sm_90",
    )


GOOD_PLAN = plan(launch(0, 1))


def recording(profile: Profile, **changes: object) -> Recording:
    """A recording of the good plan, or of what `changes` says."""
    fields: dict[str, object] = {"profile": profile, "dtype": "float32", "plan": GOOD_PLAN, **changes}
    return Recording(**fields)  # type: ignore[arg-type]


def compile_report(*recordings: Recording, failure: Failure | None = None) -> CompileReport:
    """A report with these recordings, or good ones for every profile."""
    made = recordings or tuple(recording(profile) for profile in Profile)
    return CompileReport(recordings=made, reference=SIGNATURE, seconds=1.0, failure=failure)


def comparison(**changes: object) -> Comparison:
    """An exact comparison, but for the changes."""
    fields: dict[str, object] = {
        "dtype": "float32",
        "shape_matches": True,
        "dtype_matches": True,
        "num_elements": 4,
        **changes,
    }
    return Comparison(**fields)  # type: ignore[arg-type]


def run_report(variant: Variant = Variant.ORIGINAL, **changes: object) -> RunReport:
    """A right run, but for the changes."""
    fields: dict[str, object] = {"variant": variant, "seconds": 0.5, "comparisons": (comparison(),), **changes}
    return RunReport(**fields)  # type: ignore[arg-type]


def timing_report(**changes: object) -> TimingReport:
    """A simulated measurement with a ratio of 2, but for the changes."""
    fields: dict[str, object] = {
        "simulated": True,
        "calibrated": False,
        "candidate_us": (5.0,),
        "reference_us": (10.0,),
        "seconds": 0.1,
        **changes,
    }
    return TimingReport(**fields)  # type: ignore[arg-type]


def candidate(source: str = SOURCE, **evidence: object) -> Candidate:
    """A candidate whose evidence is complete and good, but for the changes; `runs` are those of the variants."""
    runs: object = evidence.pop("runs", (run_report(),))
    reports: object = evidence.pop("reports", {})
    fields: dict[str, object] = {
        "compile": compile_report(),
        "tiny": run_report(),
        "timing": timing_report(),
        "reports": tuple({"variants": RunsReport(runs=runs), **reports}.items()),  # type: ignore[arg-type, dict-item]
        **evidence,
    }
    return Candidate(task_id="task", source=source, evidence=Evidence(**fields))  # type: ignore[arg-type]


FAILURES = st.sampled_from([None, Failure(outcome=Outcome.TIMEOUT), Failure(outcome=Outcome.RUN_FAILED)])
COMPARISONS = st.builds(
    comparison,
    shape_matches=st.sampled_from([True, True, True, False]),
    num_nonfinite=st.sampled_from([0, 0, 0, 1]),
    relative_error=st.sampled_from([0.0, 1e-6, 0.5]),
)


@st.composite
def candidates(draw: st.DrawFn) -> Candidate:
    """Candidates with complete evidence, each part good or bad."""
    runs = st.builds(run_report, failure=FAILURES, comparisons=st.tuples(COMPARISONS))
    plans = st.sampled_from([GOOD_PLAN, GOOD_PLAN, GOOD_PLAN, plan(), plan(launch(0, 1), arithmetic=("aten.add",))])
    return candidate(
        source=draw(st.sampled_from([SOURCE, SOURCE, SOURCE, "x = (", "import os"])),
        compile=compile_report(recording(Profile.DECLARED, plan=draw(plans)), failure=draw(FAILURES)),
        tiny=draw(runs),
        runs=tuple(draw(st.lists(runs, min_size=1, max_size=5))),
        timing=draw(st.sampled_from([timing_report(), timing_report(simulated=False), timing_report(candidate_us=())])),
    )
