"""The probe of each check, and the walk through the checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ....core.candidate import Candidate, CheckReport, Variant
from ....core.recipe.extensions import VerifierSpec
from ....core.task import Task
from ....stages.checks.setting import Setting
from ....stages.checks.table import CHECKS, Check, checks_of
from ..context import VerifierContext
from . import configurations, declared, first_calls
from .probes import gather_interpreted, gather_knock_out, gather_recompile, gather_second_call, gather_variants

_RUNS_TOGETHER = 2
Gather = Callable[[Candidate, Task, VerifierContext, VerifierSpec], CheckReport | None]

GATHER: dict[str, Gather] = {
    "variants": gather_variants,
    "declared": declared.gather,
    "knock_out": gather_knock_out,
    "configurations": configurations.gather,
    "first_calls": first_calls.gather,
    "second_call": gather_second_call,
    "interpreted": gather_interpreted,
    "recompile": gather_recompile,
}
"""By the check's name; a check without a probe of its own is left to whoever adds its report."""


def probe_checks(
    candidate: Candidate,
    task: Task,
    context: VerifierContext,
    spec: VerifierSpec,
    setting: Setting,
    checks: Sequence[Check] = CHECKS,
    probes: Mapping[str, Gather] = GATHER,
) -> Candidate:
    """Attach the reports of the checks that `spec` asks for, up to the first that objects."""
    for check in checks_of(spec, checks):
        probe = probes.get(check.name)
        if probe is None or not check.applies(candidate, task, setting):
            continue
        gather = partial(probe, candidate, task, context, spec)
        # a shared report hangs on what the verifier wants of it, and its probe stores the parts
        if check.is_shared:
            report = gather()
        else:
            # a few runs on the ordinary inputs together
            needed = _RUNS_TOGETHER * context.needed_bytes(task, context.describe(Variant.ORIGINAL, task))
            with context.budget.asked(min(needed, context.budget.num_bytes), task.task_id):
                report = context.once(candidate, task, check.name, check.report, gather)
        if report is None:
            continue
        candidate = candidate.with_report(check.name, report)
        if check.judge(report) is not None:
            break
    return candidate
