"""The command `tritonrl rl`."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..command_line import (
    ConfigFile,
    Display,
    Jobs,
    Json,
    Log,
    Out,
    Preset,
    Settings,
    guarded,
    parse_extensions,
    print_result,
    resumable,
)
from ..display import DisplayKind
from ..errors import UsageError

if TYPE_CHECKING:
    from ...core.config import Config, Goal
    from ...core.recipe.extensions import CellSpec
    from .exams import ExamPlan
    from .run import RunOutcome

CHEAP = "none+stop-early"
"""One input, no later stage after a failure, all or nothing: what a sample's verdict costs least with."""

CHEAP_TIMED = "t+stop-early"
"""The same with calibrated timing: one cold trial scatters by more than what launches differ by."""


@resumable
def rl(
    suite: Annotated[
        str | None, typer.Option("--suite", help="Train on SUITE:train, such as open:train (default: the preset's).")
    ] = None,
    adapter: Annotated[
        Path | None,
        typer.Option("--adapter", help="Start from this state (an adapter, or all weights) in place of an SFT."),
    ] = None,
    cell: Annotated[
        str | None,
        typer.Option(
            "--cell", help=f"What training verifies and rewards with (default: {CHEAP}; {CHEAP_TIMED} for speed)."
        ),
    ] = None,
    extensions: Annotated[
        str | None, typer.Option("--extensions", help="The cell by its extensions alone, such as ms, or none.")
    ] = None,
    eval_suite: Annotated[
        str | None,
        typer.Option("--eval-suite", help="Examine start and end by this, such as open:heldout, kernelbench:FOLDER."),
    ] = None,
    eval_limit: Annotated[int | None, typer.Option("--eval-limit", min=1, help="Exam tasks a level at most.")] = None,
    eval_samples: Annotated[
        int, typer.Option("--eval-samples", min=1, help="Samples an exam task: 10 for pass@10.")
    ] = 10,
    eval_temperatures: Annotated[
        str | None,
        typer.Option("--eval-temperatures", help="Such as 0.2,0.8 (default: evaluation.temperature,rl.temperature)."),
    ] = None,
    reward_only: Annotated[
        bool, typer.Option("--reward-only", help="Only say how the start's rewards are distributed; learn nothing.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of tasks, samples and updates.")] = 0,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", min=0.0, help="Begin no round after so many; then examine and export."),
    ] = None,
    preset: Preset = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    out: Out = Path("build/rl"),
    display: Display = None,
    log: Log = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Reinforcement learning alone: a start, rounds of sampling, verifying and learning, and exams before and after.

    rl.algorithm is best-of-n (fine-tuning on the best samples), or a policy gradient: rloo, grpo, dr-grpo. First look
    what the start earns: where nearly no task has right and wrong samples, there is nothing to learn from.

    Example: tritonrl rl --suite open:train --adapter sft/adapter --preset rl --reward-only --out results/rloo

    Example: tritonrl rl --suite open:train --adapter sft/adapter --preset rl --eval-suite open:heldout --eval-limit 100
    --out results/rloo

    The same command resumes. In --out: adapter (loads in peft, transformers and vLLM), rl.html with the curves,
    rl.json, exams, and tables that `tritonrl report`, `show` and `pack` read. --log jsonl keeps figures by round.
    Without --eval-suite start and end are evaluated on the preset's held-out tasks.

    Without --adapter the start is the configuration's SFT (sft.num_pairs=0: the policy as it is). On several GPUs:
    accelerate launch --num_processes 4 -m tritonrl.cli rl ...
    """
    from ..settings import load_config, require_suite

    # what is wrong with the arguments is found before what takes longer is imported
    if eval_suite is not None:
        require_suite(eval_suite)
    given = [*(settings or [])]
    if suite is not None:
        given.append(f"suite={_read_training_suite(suite)}")
    if adapter is not None:
        given.append("sft.num_pairs=0")
    config = load_config(preset, config_file, given)
    spec = read_cell(cell, extensions, config.reward.goal)
    from ...core.serialisation import to_plain
    from ..policy.distributed_learner import rank_zero_runs
    from .run import RunPlan, preview_rewards, render_groups, run_reinforcement

    exams = None if eval_suite is None else _plan_exams(config, eval_suite, eval_limit, eval_samples, eval_temperatures)
    until = math.inf if minutes is None else minutes
    plan = RunPlan(config=config, cell=spec, seed=seed, out=out, given=adapter, exams=exams, minutes=until)
    shown = DisplayKind.NONE if as_json else display
    with rank_zero_runs(config.policy) as leads:
        if not leads:
            return
        if reward_only:
            figures = preview_rewards(plan, shown, jobs, log or ())
            print_result(to_plain(figures), render_groups(figures), as_json)
            return
        found = run_reinforcement(plan, shown, jobs, log or ())
    _print_run(found, f"{spec} seed {seed}", out, as_json)
    raise typer.Exit(1 if found.outcome.num_failed + found.outcome.num_unfinished else 0)


def _print_run(found: RunOutcome, name: str, out: Path, as_json: bool) -> None:
    """Print what became of a run, what its exams changed, and where everything lies."""
    from ...core.serialisation import to_plain
    from .exams import render_changes

    lines = [] if found.message is None else [f"{name}: failed, {found.message}"]
    if found.changes:
        lines += render_changes(found.changes)
    lines += [f"{what}: {path}" for what, path in (("adapter", found.adapter), ("page", found.page)) if path]
    lines += [f"tritonrl report {out}"] if found.message is None else []
    paths = {"adapter": found.adapter and str(found.adapter), "page": found.page and str(found.page)}
    plain = {"out": str(out), **found.outcome.counts(), **paths, "changes": to_plain(found.changes)}
    print_result(plain, lines, as_json)


def _read_training_suite(name: str) -> str:
    """The suite whose training tasks are drawn; raises UsageError for another split."""
    suite, separator, split = name.partition(":")
    if separator and split != "train":
        raise UsageError(f"--suite {name}: training draws from a suite's training tasks, such as {suite}:train")
    return suite


def read_cell(cell: str | None, extensions: str | None, goal: Goal) -> CellSpec:
    """Return the cell that training is to verify and reward with; raises UsageError for what is none, or two."""
    from ...core.recipe.extensions import CellSpec

    if extensions is not None:
        if cell is not None:
            raise UsageError("--extensions: --cell says them too; leave out one")
        return CellSpec(extensions=parse_extensions(extensions))
    try:
        return CellSpec.parse(cell or (CHEAP_TIMED if goal == "speed" else CHEAP))
    except ValueError as error:
        raise UsageError(f"--cell {cell}: {error}") from None


def _plan_exams(config: Config, suite: str, limit: int | None, samples: int, temperatures: str | None) -> ExamPlan:
    from .exams import ExamPlan

    chosen: tuple[float, ...] = (config.evaluation.temperature, config.rl.temperature)
    if temperatures is not None:
        try:
            chosen = tuple(float(text) for text in temperatures.split(","))
        except ValueError:
            raise UsageError(f"--eval-temperatures {temperatures}: expected numbers, such as 0.2,0.8") from None
    return ExamPlan(suite=suite, limit=limit, samples=samples, temperatures=tuple(dict.fromkeys(chosen)))


@guarded
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of `tritonrl rl`, or one that --publish wrote.")],
    publish: Annotated[
        Path | None, typer.Option("--publish", help="Write the tables and the curves into this folder.")
    ] = None,
    excerpt: Annotated[
        Path | None, typer.Option("--excerpt", help="Write the gains into this document, between its marks.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare runs of `tritonrl rl`: what each algorithm gained over its start, and one over another.

    The runs were examined by the same tasks (--eval-suite). Runs of one algorithm with several seeds count
    together, and intervals are then over seeds and tasks. Told last are families that fell by more than chance.

    Example: tritonrl compare results/rloo-0 results/rloo-1 results/rloo-2 results/best-of-n-0

    Example: tritonrl compare results/rloo-0 results/rloo-1 --publish results/rl --excerpt README.md
    """
    for folder in runs:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no folder")
    from ...core.serialisation import to_plain
    from ..settings import read_text
    from .comparison import find_falls, find_gains, read_runs, render_gains, with_excerpt, write_comparison

    found = read_runs(runs)
    gains = find_gains(found)
    if publish is not None:
        write_comparison(found, publish)
    if excerpt is not None:
        link = os.path.relpath(publish or runs[0], excerpt.parent)
        excerpt.write_text(with_excerpt(read_text(excerpt), found, link), encoding="utf-8")
    lines = render_gains(gains)
    falls = find_falls(gains)
    lines += [f"fell: {fall.group}, {fall.algorithm}, T {fall.temperature:g}: {fall.points}" for fall in falls]
    print_result(to_plain(gains), lines, as_json)
