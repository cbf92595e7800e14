"""`tritonrl bench mutants`: how many mistakes each verifier finds.

Teachers of the corpus' first part (thirteen families) are mutated, each mutant differing from a kernel that is known to
be right in one place; the oracle of `mutation_oracle` proves which are wrong. Of those, the table gives the share that
is killed by one run, by the one-input verifier, by the five named variants and by the audit verifier: whether
multi-input testing generalises. A task is the unit of work, and each worker process has a sandbox of its own, so that
nothing is shared but the seed: the rows are the same for any number of workers.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ....core.candidate import Candidate
from ....core.config import Config
from ....core.corpus import FAMILIES, Split, examples, render
from ....core.outcome import Outcome
from ....core.recipe.extensions import AUDIT, VerifierSpec
from ....core.seeds import derive
from ....core.serialisation import to_plain
from ....core.task import Example
from ....core.verdict import Verdict
from ....stages.compile_stage import judge_compile
from ....stages.funnel import judge_full
from ....stages.syntax import judge_syntax
from ...datasets.export import FORMS, write_rows
from ...errors import UsageError
from ...sandbox.sandbox import Sandbox
from ...verification.verifier import Verifier
from .enumerate import Mutant, enumerate_mutants, sample_mutants
from .mutation_oracle import Battery, MutationOracle
from .score import Fate, Judge, KillRates, MutantRow, MutationScore, score_mutants

ONE_INPUT = VerifierSpec(stop_early=True)
FIVE = VerifierSpec(stop_early=True, multi_input=True)
_MUTANTS_A_TASK = 12
_DEATHS = frozenset(
    {
        Outcome.SYNTAX_ERROR,
        Outcome.IMPORT_FAILED,
        Outcome.INIT_FAILED,
        Outcome.FORWARD_FAILED,
        Outcome.COMPILE_FAILED,
        Outcome.OUT_OF_RESOURCES,
        Outcome.RUN_FAILED,
        Outcome.UNSUPPORTED,
        Outcome.TIMEOUT,
        Outcome.MEMORY_LIMIT,
        Outcome.OUTPUT_LIMIT,
        Outcome.CRASHED,
        Outcome.BROKEN_PROTOCOL,
    }
)


@frozen(kw_only=True)
class MutantsReport:
    """A run's rows and their score; tasks whose teacher the audit rejects have no rows."""

    seed: int
    seconds: float
    rejected_teachers: tuple[str, ...]
    rows: tuple[MutantRow, ...]
    score: MutationScore


@frozen(kw_only=True)
class TaskShare:
    """A task and how many of its mutants to judge."""

    task_id: str
    count: int


def measure_kill_rates(
    config: Config,
    count: int,
    seed: int,
    jobs: int,
    on_progress: Callable[[int, int], None],
    families: Sequence[str] | None = None,
) -> MutantsReport:
    """Judge `count` mutants, as many of each family; `on_progress(done, all)` is called after every task."""
    began = time.monotonic()
    shares = plan_tasks(count, seed, families)
    total = sum(share.count for share in shares)
    rows: dict[int, tuple[MutantRow, ...] | None] = {}

    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    pool = ProcessPoolExecutor(min(jobs, len(shares)), context, _open_workbench, (config, seed))
    try:
        running = {pool.submit(_judge_task, share): index for index, share in enumerate(shares)}
        for future in as_completed(running):
            rows[running[future]] = future.result()
            on_progress(sum(shares[done].count for done in rows), total)
    finally:
        # after an error or an interrupt, what has not begun is dropped
        pool.shutdown(wait=True, cancel_futures=True)
    ordered = tuple(row for index in range(len(shares)) for row in rows[index] or ())
    return MutantsReport(
        seed=seed,
        seconds=time.monotonic() - began,
        rejected_teachers=tuple(share.task_id for index, share in enumerate(shares) if rows[index] is None),
        rows=ordered,
        score=score_mutants(ordered),
    )


def plan_tasks(count: int, seed: int, families: Sequence[str] | None = None) -> list[TaskShare]:
    """Choose the tasks and how many mutants of each: families alike, a dozen mutants a task."""
    wanted = [(level, name) for level, names in FAMILIES.items() for name in names]
    if families is not None:
        wanted = [(level, name) for level, name in wanted if name in families]
    streams: dict[str, Iterator[Example]] = {
        name: examples(Split.TRAIN, level, derive(seed, "mutants", name), [name]) for level, name in wanted
    }
    shares = []
    for index, (_, name) in enumerate(wanted):
        own = count // len(wanted) + (index < count % len(wanted))
        num_tasks = -(-own // _MUTANTS_A_TASK)
        for place, example in enumerate(islice(streams[name], num_tasks)):
            part = own // num_tasks + (place < own % num_tasks)
            shares.append(TaskShare(task_id=example.task.task_id, count=part))
    return shares


class MutantBench:
    """A sandbox with the verifiers and the oracle that use it."""

    def __init__(self, config: Config, seed: int) -> None:
        import torch

        torch.set_num_threads(1)
        self.config, self.seed = config, seed
        self.sandbox = Sandbox(config.limits, config.verifier.target)
        self.sandbox.start()
        self.oracle = MutationOracle(seed, self.sandbox)

    def judge_task(self, share: TaskShare) -> tuple[MutantRow, ...] | None:
        """Judge one task's mutants; returns None where the audit rejects the teacher, and would reject any mutant."""
        example = render(share.task_id)
        # a verifier a task, so that evidence is dropped when it is of no more use; on the interpreter, as the oracle
        settings = evolve(self.config.verifier, backend="interpret", timing="none")
        verifier = Verifier(settings, self.config.timing, self.sandbox)
        if not verifier.verify(example.task, example.solution, AUDIT).correct:
            return None
        battery = self.oracle.prepare(example)
        seed = derive(self.seed, "mutants", share.task_id)
        mutants = sample_mutants(enumerate_mutants(example.solution), share.count, seed)
        return tuple(self._judge(verifier, example, mutant, battery) for mutant in mutants)

    def _judge(self, verifier: Verifier, example: Example, mutant: Mutant, battery: Battery) -> MutantRow:
        task = example.task
        verdict = verifier.verify(task, mutant.source, AUDIT)
        if verdict.outcome in _DEATHS:
            return _row(example, mutant, verdict, Fate.DEAD, verdict.outcome.code, ())
        finding = self.oracle.judge(mutant.source, battery)
        evidence = f"{finding.point}: {finding.detail}" if finding.point else finding.detail
        if finding.fate is Fate.DEAD:
            return _row(example, mutant, verdict, Fate.DEAD, evidence, ())
        killed = {
            Judge.ONE_RUN: not _passes_one_run(verifier, example, mutant),
            Judge.ONE_INPUT: not verifier.verify(task, mutant.source, ONE_INPUT).correct,
            Judge.FIVE: not verifier.verify(task, mutant.source, FIVE).correct,
            Judge.AUDIT: not verdict.correct,
        }
        return _row(
            example, mutant, verdict, finding.fate, evidence, tuple(judge for judge, dead in killed.items() if dead)
        )


def _passes_one_run(verifier: Verifier, example: Example, mutant: Mutant) -> bool:
    bare = Candidate(task_id=example.task.task_id, source=mutant.source)
    staged = verifier.gather(example.task, mutant.source, ONE_INPUT)
    if not (judge_syntax(bare).passed and judge_compile(staged).passed):
        return False
    # the run on the original inputs whatever the tiny run said
    candidate = verifier.gather(example.task, mutant.source, VerifierSpec(stop_early=False))
    return judge_full(candidate).passed


def _row(
    example: Example, mutant: Mutant, verdict: Verdict, fate: Fate, evidence: str, killed_by: tuple[Judge, ...]
) -> MutantRow:
    return MutantRow(
        task=example.task.task_id,
        family=example.task.family,
        kind=mutant.kind,
        change=mutant.change,
        line=mutant.line,
        before=mutant.before,
        after=mutant.after,
        fate=fate,
        evidence=evidence,
        killed_by=killed_by,
        stage=verdict.reached.value,
        outcome=verdict.outcome.code,
        source=mutant.source,
    )


_bench: list[MutantBench] = []


def _open_workbench(config: Config, seed: int) -> None:
    _bench.append(MutantBench(config, seed))
    # pool workers leave without running what `atexit` registered
    Finalize(None, _bench[0].sandbox.close, exitpriority=10)


def _judge_task(share: TaskShare) -> tuple[MutantRow, ...] | None:
    return _bench[0].judge_task(share)


def render_report(report: MutantsReport) -> list[str]:
    """Format the table, one line a group, the survivors after it."""
    score = report.score
    lines = [
        f"{score.num_candidates} mutants in {report.seconds:.0f} s: {score.overall.num_mutants} proven wrong, "
        f"{score.num_unproven} not proven (the audit rejects {score.num_rejected_unproven} of them), "
        f"{score.num_dead} do not run",
        "",
        f"{'killed by':18} {'mutants':>8}" + "".join(f" {judge.value:>22}" for judge in Judge),
        _line(score.overall),
        "",
        *map(_line, score.by_class),
        "",
        *map(_line, score.by_family),
    ]
    lines += ["", f"teachers that the audit rejects: {', '.join(report.rejected_teachers) or 'none'}"]
    if score.survivors:
        lines += ["", "accepted by the audit though wrong:"]
        lines += [f"  {row.task} line {row.line}, {row.kind}: {row.change} [{row.evidence}]" for row in score.survivors]
    return lines


def _line(group: KillRates) -> str:
    cells = "".join(
        f" {rate.estimate:8.1%} ({rate.low:5.1%}-{rate.high:6.1%})".rjust(23) for rate in group.rates.values()
    )
    return f"{group.group:18} {group.num_mutants:8}{cells}"


def to_summary(report: MutantsReport) -> dict[str, Any]:
    """Return the score as plain data, for `--json`; the rows are for a file."""
    plain = to_plain(report.score)
    for row in plain["survivors"]:
        del row["source"]
    return {
        "seed": report.seed,
        "seconds": report.seconds,
        "rejected_teachers": list(report.rejected_teachers),
        **plain,
    }


def check_rows(path: Path | None) -> None:
    """Make the folder of a file for `write_mutants`; raises UsageError where it could not be written."""
    if path is None:
        return
    if path.suffix not in FORMS:
        raise UsageError(f"--rows {path}: must end with {' or '.join(FORMS)}")
    if path.is_dir():
        raise UsageError(f"--rows {path}: is a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise UsageError(f"--rows {path}: {error.strerror}: {path.parent}") from None


def write_mutants(report: MutantsReport, path: Path) -> None:
    """Write every mutant with who killed it, in the form that the file's name ends with."""
    plain = [
        {**to_plain(evolve(row, killed_by=())), **{f"killed_by_{j.name.lower()}": j in row.killed_by for j in Judge}}
        for row in report.rows
    ]
    for row in plain:
        del row["killed_by"]
        if row["fate"] == Fate.DEAD.value:
            row.update({key: None for key in row if key.startswith("killed_by_")})
    write_rows(path, plain)
