"""Two probes of the audit that run a right candidate's plan otherwise: twice, and interpreted beside a GPU.

The second of two calls finds what the first one left in memory (`stages.second_call`). And a GPU shows values only: it
does not say that a kernel read what nobody wrote, that it left its tensors and came to no harm, that it asked for the
time, or that another GPU may leave something else to chance. The interpreter does, so the audit asks it too wherever
the plan ran on a GPU, and both backends refuse what either does.
"""

from __future__ import annotations

from attrs import evolve

from ...core.candidate import Candidate, Failure, RunReport, Variant
from ...core.task import Profile, Task
from ...stages.second_call import run_twice
from ...stages.variants import describe
from .probes import prepare_run, run_prepared
from .workbench import Workbench

_FEW_VALUES, _FEW_VALUES_SCALE = 1 / 64, 0.5
"""What differs between the two calls: too little for a kernel that knows its inputs by a few of them."""


def probe_second_call(candidate: Candidate, task: Task, bench: Workbench) -> Candidate:
    """Add the report of a second call, after one on slightly other values."""
    key = bench.key(candidate, task, f"full:{Variant.AGAIN}")
    report = bench.store.get(key, RunReport)
    if report is None:
        inputs = bench.describe(Variant.AGAIN, task)
        others = evolve(inputs, chosen_share=_FEW_VALUES, chosen_scale=_FEW_VALUES_SCALE)
        prepared, before = (prepare_run(candidate, task, bench, one) for one in (inputs, others))
        if isinstance(prepared, Failure) or isinstance(before, Failure):
            return candidate  # a run before this one had the same plan
        request, expected = prepared
        plan, copies = run_twice(request.plan)
        storages = {**request.storages, **{copy: before[0].storages[index] for index, copy in copies.items()}}
        (report,) = run_prepared(candidate, bench, [(evolve(request, plan=plan, storages=storages), expected)])
        bench.store.put(key, report)
    return candidate.with_evidence(full=(*candidate.evidence.full, report))


def probe_interpreted(candidate: Candidate, task: Task, bench: Workbench) -> Candidate:
    """Add the interpreter's reports on a plan that a GPU ran: tiny, small, by chance, and at sizes of no profile."""
    if bench.cuda is None:
        return candidate
    plain = evolve(bench, cuda=None)
    wanted = [describe(Variant.ORIGINAL, task.dtypes, profile) for profile in (Profile.TINY, Profile.SMALL)]
    wanted.append(describe(Variant.REVERSED, task.dtypes))
    if bench.oracle.remainder(task):
        wanted.append(describe(Variant.REMAINDER, task.dtypes))
    reports: list[RunReport] = []
    for inputs in wanted:
        key = plain.key(candidate, task, f"interpreted:{inputs.variant}:{inputs.profile}")
        report = plain.store.get(key, RunReport)
        if report is None:
            prepared = prepare_run(candidate, task, plain, inputs)
            if isinstance(prepared, Failure):
                report = RunReport(variant=inputs.variant, seconds=0.0, failure=prepared)
            else:
                (report,) = run_prepared(candidate, plain, [prepared])
            plain.store.put(key, report)
        reports.append(report)
    return candidate.with_evidence(interpreted=tuple(reports))
