"""One run: a start, rounds of reinforcement learning, exams before and after, and the adapter that comes of it.

A run is a cell without a grid: its folder is one that `tritonrl report`, `show` and `pack` read, and the same command
goes on where one was ended, at the round and in it. The start is a given state, or the supervised start that the
configuration asks for. The exams lie beside the cell, and the adapter is exported as a folder that peft loads.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ...core.config import Config
from ...core.recipe.curriculum import start
from ...core.recipe.extensions import CellSpec
from ...core.serialisation import to_plain
from ..display import DisplayKind, Progress, choose_kind
from ..errors import UsageError
from ..metrics import open_progress
from ..policy.api_model import is_api_model
from ..policy.model.load import find_weights
from ..policy.model.states import BASE, copy_state
from ..study.cell import supervise
from ..study.grid import GridOutcome, run_grid
from ..study.learning import Sample
from ..study.pipeline import CellContext, Model, open_context, take_start
from ..study.provenance import recorded_invocation
from ..study.round import draw_round
from ..study.rows import SFT, Journal
from ..study.runner.ablation import require_free, write_config
from ..study.runner.local_workers import visible_devices
from ..study.store import Results, RunIdentity
from ..tasks.batch import default_jobs
from ..work import write_atomically
from .curves import LiveCurves, write_page
from .exams import END, START, Change, ExamPlan, compare, name_exam, take_exam


@frozen(kw_only=True)
class RunPlan:
    """What a run is asked for; `given` is the folder of the state that it starts from, `exams` what examines it.

    After `minutes` no round begins but the first: the run is complete with those that it has.
    """

    config: Config
    cell: CellSpec
    seed: int
    out: Path
    given: Path | None = None
    exams: ExamPlan | None = None
    minutes: float = math.inf


@frozen(kw_only=True)
class RunOutcome:
    """What became of a run; `changes` and `page` are there where it was completed."""

    outcome: GridOutcome
    message: str | None
    changes: tuple[Change, ...] = ()
    adapter: Path | None = None
    page: Path | None = None


class OpenRun:
    """A run's folder with what is opened when it is first needed: model and verifier."""

    def __init__(
        self, plan: RunPlan, display: DisplayKind | None, jobs: int | None, log: Sequence[str], stack: ExitStack
    ) -> None:
        if is_api_model(plan.config.policy.name):
            raise UsageError(f"policy.name: {plan.config.policy.name}: sampled by `eval` and `sample`, and not trained")
        self.plan, self.results, self.stack = plan, Results(root=plan.out), stack
        require_free(self.results, plan.config)
        self.given = take_start(self.results, plan.given)
        shown = LiveCurves() if choose_kind(display) is DisplayKind.RICH else None
        self.progress: Progress = open_progress(display, log, plan.out, shown=shown)
        stack.callback(self.progress.close)
        self.jobs = jobs or default_jobs()
        self._until = time.monotonic() + 60.0 * plan.minutes
        self._context: CellContext | None = None

    def context(self) -> CellContext:
        if self._context is None:
            opened = open_context(self.plan.config, self.results, self.progress, self.jobs)
            context = self.stack.enter_context(opened)
            self._context = evolve(context, examines=self.plan.exams is None, until=self._until)
        return self._context

    def start(self) -> Model:
        return self.given or supervise(self.context(), Journal(cell=SFT, seed=self.plan.seed))


def preview_rewards(
    plan: RunPlan, display: DisplayKind | None = None, jobs: int | None = None, log: Sequence[str] = ()
) -> tuple[GroupFigures, ...]:
    """Draw and judge the first round's samples, which the run then finds, and describe their groups; learn nothing."""
    with ExitStack() as stack:
        run = OpenRun(plan, display, jobs, log, stack)
        context = run.context()
        key = None if run.given is None else run.given.key
        run.results.claim(
            RunIdentity(
                config=plan.config, policy=context.learner.fingerprint, backend=context.judge.backend, start=key
            )
        )
        state = start(plan.config.curriculum, plan.cell.extensions.curriculum)
        journal = Journal(cell=str(plan.cell), seed=plan.seed)
        drawn = draw_round(context, journal, plan.cell, run.start(), state, 0)
        return describe_groups(drawn.groups)


def run_reinforcement(
    plan: RunPlan, display: DisplayKind | None = None, jobs: int | None = None, log: Sequence[str] = ()
) -> RunOutcome:
    """Run, or go on with, a plan; raises DriftError in the folder of another run."""
    with ExitStack() as stack:
        run = OpenRun(plan, display, jobs, log, stack)
        results, cell = run.results, str(plan.cell)
        write_config(plan.config, plan.out)
        if results.cell_status(cell, plan.seed) != "complete":
            command = shlex.join(["tritonrl", *sys.argv[1:]])
            stack.enter_context(recorded_invocation(results, command, 1, visible_devices()))
            run.start()
            _examine(run, START, run.start)
        results.plan([(SFT, plan.seed), (cell, plan.seed)])
        outcome = run_grid(results, plan.config, (plan.cell,), (plan.seed,), run.context, run.progress)
        if outcome.num_failed + outcome.num_unfinished:
            rows = results.read("cells")
            failed = rows.filter(rows["status"] == "failed")["message"].to_list()
            return RunOutcome(outcome=outcome, message=next(iter(failed), None))
        end = Model(key="end", folder=results.adapter_folder(cell, plan.seed))
        begun = Model(key="start", folder=results.adapter_folder(SFT, plan.seed))
        first, last = _examine(run, START, lambda: begun), _examine(run, END, lambda: end)
        changes = tuple(change for t in first for change in compare(first[t], last[t], t))
        adapter = None if end.folder is None else _export(plan.config, end.folder, plan.out / "adapter")
        facts = _facts(plan, results.read("rounds").height)
        page = write_page(results, cell, plan.seed, changes, facts)
        summary = json.dumps({**facts, "changes": to_plain(changes)}, indent=2, allow_nan=False)
        (plan.out / "rl.json").write_text(f"{summary}\n", encoding="utf-8")
        return RunOutcome(outcome=outcome, message=None, changes=changes, adapter=adapter, page=page)


def _examine(run: OpenRun, name: str, model: Any) -> dict[float, Any]:
    """The exam's tables by temperature; empty where none is asked for."""
    plan = run.plan.exams
    if plan is None:
        return {}
    return {
        temperature: take_exam(
            run.context,
            plan,
            temperature,
            model,
            run.plan.out / "exams" / name_exam(run.plan.seed, name, temperature),
            run.plan.config,
            run.progress,
        )
        for temperature in plan.temperatures
    }


def _export(config: Config, folder: Path, target: Path) -> Path:
    """Copy the run's last state to where people look for it, its configuration naming weights that peft finds."""
    copy_state(folder, target)
    path, base = target / "adapter_config.json", target / BASE
    # weights are a policy of their own
    if path.is_file():
        plain = json.loads(path.read_text())
        plain["base_model_name_or_path"] = str(base.resolve()) if base.exists() else find_weights(config.policy.name)[0]
        # a file of its own: the copy may be a link
        write_atomically(path, json.dumps(plain, indent=1, sort_keys=True).encode())
    return target


def _facts(plan: RunPlan, num_rounds: int) -> dict[str, Any]:
    config = plan.config
    return {
        "title": f"{config.rl.algorithm} on {config.suite}",
        "policy": config.policy.name,
        "algorithm": config.rl.algorithm,
        "cell": str(plan.cell),
        "seed": plan.seed,
        "rounds": num_rounds,
        "tasks_x_samples": f"{config.rl.tasks_per_round} x {config.rl.samples_per_task}",
        "learning_rate": config.rl.learning_rate,
        "temperature": config.rl.temperature,
    }


@frozen(kw_only=True)
class GroupFigures:
    """Groups by what their samples are, in a family or in all; `mean_reward` and `finished` are over samples."""

    group: str
    num_tasks: int
    all_wrong: float
    mixed: float
    all_right: float
    correct: float
    mean_reward: float
    finished: float
    distinct: float


def describe_groups(groups: Sequence[Sequence[Sample]]) -> tuple[GroupFigures, ...]:
    """Return the figures of all groups first, then those of each family, the one with most tasks first."""
    by_family: dict[str, list[Sequence[Sample]]] = {}
    for group in groups:
        by_family.setdefault(group[0].task.family, []).append(group)
    ordered = sorted(by_family.items(), key=lambda item: (-len(item[1]), item[0]))
    return (_describe("all", groups), *(_describe(name, own) for name, own in ordered))


def _describe(name: str, groups: Sequence[Sequence[Sample]]) -> GroupFigures:
    samples = [sample for group in groups for sample in group]
    right = [sum(sample.is_correct for sample in group) for group in groups]
    num, sizes = len(groups), [len(group) for group in groups]
    return GroupFigures(
        group=name,
        num_tasks=num,
        all_wrong=sum(count == 0 for count in right) / num,
        mixed=sum(0 < count < size for count, size in zip(right, sizes, strict=True)) / num,
        all_right=sum(count == size for count, size in zip(right, sizes, strict=True)) / num,
        correct=sum(right) / len(samples),
        mean_reward=sum(sample.reward for sample in samples) / len(samples),
        finished=sum(sample.completion.finished for sample in samples) / len(samples),
        distinct=sum(len({sample.source for sample in group}) for group in groups) / num,
    )


def render_groups(figures: Sequence[GroupFigures]) -> list[str]:
    """Return plain lines for a person."""
    width = max(len(row.group) for row in figures)
    lines = [
        f"{'tasks':{width}} {'num':>5} {'all wrong':>10} {'mixed':>7} {'all right':>10} {'correct':>8} {'reward':>7} "
        f"{'finished':>9} {'distinct':>9}"
    ]
    for row in figures:
        lines.append(
            f"{row.group:{width}} {row.num_tasks:5} {row.all_wrong:10.0%} {row.mixed:7.0%} {row.all_right:10.0%} "
            f"{row.correct:8.1%} {row.mean_reward:7.3f} {row.finished:9.0%} {row.distinct:9.1f}"
        )
    return lines
