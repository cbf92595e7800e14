"""The command line: parse, call the harness, render.

Imports of torch, triton, polars and rich happen inside the commands, so that `--help` stays fast. Exit codes: 0 done
(verified correct, complete), 1 candidate rejected or some cells failed, 2 usage, path or configuration, 3
infrastructure, drift or a mistake of ours, 130 interrupted. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from .harness.bench.commands import bench_app
from .harness.command_line import (
    ConfigFile,
    Display,
    Jobs,
    Json,
    Log,
    Out,
    Preset,
    Seeds,
    Settings,
    guarded,
    open_console,
    print_result,
    resumable,
)
from .harness.display import DisplayKind
from .harness.errors import UsageError
from .harness.evaluation.command import evaluate
from .harness.reinforcement.command import compare, rl
from .harness.report.command import report
from .harness.service.command import serve
from .harness.tasks.commands import tasks_app
from .harness.verify_command import verify

app = typer.Typer(
    name="tritonrl",
    help="Reinforcement learning for Triton kernels: verify them, train on the verdicts, run the ablation.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(tasks_app, name="tasks")
app.add_typer(bench_app, name="bench")
app.command("verify")(verify)
app.command("eval")(evaluate)
app.command("serve")(serve)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"tritonrl {version('tritonrl')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command()
@resumable
def ablate(
    grid: Annotated[
        str,
        typer.Option(
            "--grid",
            help="full, half, one-at-a-time, leave-one-out, controls, staging, noise, cells such as ms; or a list.",
        ),
    ] = "full",
    preset: Preset = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    seeds: Seeds = 1,
    executor: Annotated[str, typer.Option("--executor", help="local, ray or slurm.")] = "local",
    executor_options: Annotated[str, typer.Option("--executor-options", help="Further ones of sbatch.")] = "",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes that share the cells (default: one a GPU).")
    ] = None,
    adapter: Annotated[
        Path | None, typer.Option("--adapter", help="State that all cells start from, in place of supervised starts.")
    ] = None,
    out: Out = Path("results/ablation"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and what they will cost.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many cells.")] = None,
    display: Display = None,
    log: Log = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Train and evaluate the cells of the grid; the same command again resumes.

    Each seed has a supervised start of its own, which its cells share; with --adapter all start from that.

    Example: tritonrl ablate --grid full --preset quick --out results/quick
    """
    from .core.recipe.extensions import parse_cells
    from .core.serialisation import to_plain
    from .harness.settings import ExecutorKind, load_config, require_scheduler

    # what is wrong with the arguments is found before what takes longer is imported
    config = load_config(preset, config_file, [*(settings or []), *(["sft.num_pairs=0"] if adapter else [])])
    try:
        cells = parse_cells(grid)[:limit]
    except ValueError as error:
        raise UsageError(f"--grid {grid}: {error}") from None
    if executor not in set(ExecutorKind):
        raise UsageError(f"--executor {executor}: must be one of {', '.join(ExecutorKind)}")
    if executor_options and executor != ExecutorKind.SLURM:
        raise UsageError("--executor-options: they are sbatch's; use them with --executor slurm")
    if not dry_run:
        require_scheduler(ExecutorKind(executor))
    from .harness.plain_text import render_outcome, render_plan
    from .harness.study.runner.ablation import preview, run_ablation

    if dry_run:
        planned = preview(config, out, cells, seeds, ExecutorKind(executor))
        print_result(to_plain(planned), render_plan(planned), as_json)
        return
    outcome = run_ablation(
        config,
        out,
        cells,
        seeds,
        ExecutorKind(executor),
        executor_options,
        DisplayKind.NONE if as_json else display,
        jobs,
        workers,
        log or (),
        adapter,
    )
    for problem in outcome.problems:
        print(problem, file=sys.stderr)
    lines = [*render_outcome(outcome, out), f"tritonrl report {out}"]
    print_result({"out": str(out), **outcome.counts()}, lines, as_json)
    raise typer.Exit(1 if outcome.num_failed + outcome.num_unfinished else 0)


app.command("rl")(rl)
app.command("compare")(compare)
app.command("report")(report)


@app.command()
@guarded
def pack(
    results: Annotated[Path, typer.Argument(help="A results folder.")],
    to: Annotated[Path, typer.Option("--to", help="Folder for the parts; an earlier pack's there are replaced.")],
    part_mib: Annotated[int, typer.Option("--part-mib", min=1, help="Size of a part at most.")] = 15,
    with_starts: Annotated[
        bool, typer.Option("--with-starts", help="The starts of whole seeds too, so that cells can be added to them.")
    ] = False,
) -> None:
    """Pack what another machine needs to go on with a run: ended cells, and the starts of seeds that are not whole.

    Example: tritonrl pack results/paper --to parts
    """
    from .harness.study.archive import describe
    from .harness.study.archive import pack as pack_results
    from .harness.study.store import Results

    print(f"{to}: {describe(pack_results(Results(root=results), to, part_mib << 20, with_starts))}")


@app.command()
@guarded
def unpack(
    parts: Annotated[Path, typer.Argument(help="The folder with all parts of one pack, or a published one.")],
    out: Annotated[Path, typer.Option("--out", help="Results folder, new or begun; what is there stays.")],
) -> None:
    """Unpack a run; the command that began it goes on with it. Of a published run, whole seeds: more can be added.

    Example: tritonrl unpack parts --out results/paper
    """
    from .harness.study.archive import describe
    from .harness.study.archive import unpack as unpack_results
    from .harness.study.store import Results

    print(f"{out}: new are {describe(unpack_results(parts, Results(root=out)))}")


@app.command()
@resumable
def sft(
    data: Annotated[
        str | None,
        typer.Option("--data", help="Train on these: kernelbook:PARQUET|FOLDER|HUB_NAME, FILE.jsonl, FILE.parquet."),
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", help="Leave out what equals a task of this suite, or of: evaluation.")
    ] = None,
    preset: Preset = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    seeds: Seeds = 1,
    out: Out = Path("results/sft"),
    display: Display = None,
    log: Log = None,
    jobs: Jobs = None,
) -> None:
    """Supervised fine-tuning alone, with its evaluation; on teachers' pairs, or on those of a file.

    On several GPUs: accelerate launch --num_processes 4 -m tritonrl.cli sft ..., or torchrun in its place. Each
    process that fails exits as one alone would; the launcher's own exit code is 1.

    Example: tritonrl sft --preset quick --out results/sft

    Example: tritonrl sft --data kernelbook:kernelbook.parquet --against kernelbench:KernelBench --preset study
    """
    if data is not None:
        from .harness.datasets.pairs import find_pairs

        # before what takes longer is imported
        find_pairs(data)
    settings = [*(settings or []), *([] if data is None else [f"sft.data={data}"])]
    settings += [] if against is None else [f"against={against}"]
    from .harness.settings import load_config

    config = load_config(preset, config_file, settings)
    from .harness.plain_text import render_losses
    from .harness.policy.distributed_learner import rank_zero_runs
    from .harness.policy.training.distributed import is_launched
    from .harness.study.runner.ablation import run_ablation
    from .harness.study.store import Results
    from .harness.study.training_data import describe

    with rank_zero_runs(config.policy) as leads:
        if not leads:
            return
        # processes that were started together share each cell's work; there are no others to start
        workers = 1 if is_launched() else None
        outcome = run_ablation(config, out, (), seeds, display=display, jobs=jobs, workers=workers, log=log or ())
    results = Results(root=out)
    steps = results.read("training")
    for row in results.read("cells").iter_rows(named=True):
        where = row["message"] or (out / row["adapter"] if row["adapter"] else "the base model")
        print(f"{row['cell']} seed {row['seed']}: {row['status']}, {where}")
        if row["cell"] == "sft" and row["adapter"]:
            losses = steps.filter((steps["cell"] == "sft") & (steps["seed"] == row["seed"])).sort("step")["loss"]
            print(f"  {describe(json.loads((out / row['adapter']).with_name('data.json').read_text()))}")
            print(f"  {render_losses(losses.to_list())}")
    raise typer.Exit(1 if outcome.num_failed + outcome.num_unfinished else 0)


@app.command()
@guarded
def sample(
    task: Annotated[str, typer.Option("--task", help="TASK.py, or an id of the corpus.")],
    num: Annotated[int, typer.Option("--num", "-n", min=1, help="Completions.")] = 1,
    adapter: Annotated[Path | None, typer.Option("--adapter", help="A LoRA adapter's folder.")] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="nano, a Hugging Face name or folder, or openai:MODEL@URL.")
    ] = None,
    preset: Preset = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Let a policy write kernels for one task.

    Example: tritonrl sample --task l1-softmax-00c0ffee12345678 -n 3 --set rl.temperature=0.2
    """
    from .harness.settings import load_config, require_task

    require_task(task)
    config = load_config(preset, config_file, [*(settings or []), *([f"policy.name={policy}"] if policy else [])])
    from .harness.tasks.suites import find_task

    found = find_task(task)
    from .harness.policy.distributed_learner import sample_task

    for completion, source in sample_task(config, found, num, adapter):
        print_result({"task": task, "completion": completion, "candidate": source}, [completion, ""], as_json)


@app.command()
@guarded
def show(
    results: Annotated[Path, typer.Argument(help="A results folder.")],
    cell: Annotated[str, typer.Argument(help="A cell, such as msct, none, or sft for the shared start.")],
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    source: Annotated[str | None, typer.Option("--source", help="Print a candidate by the start of its hash.")] = None,
    as_json: Json = False,
) -> None:
    """One cell: curves, candidates, and why each failed.

    Example: tritonrl show results/quick msct
    """
    from .harness.settings import require_results

    require_results(results)
    from .harness.report.cell_view import cell_view, find_source, print_view
    from .harness.study.store import Results

    if source is not None:
        # byte for byte, so that its hash is the candidate's
        print(find_source(Results(root=results), source), end="")
        return
    view = cell_view(Results(root=results), cell, seed)
    if as_json:
        print_result(view, [], as_json)
    else:
        print_view(view, open_console())


@app.command()
@guarded
def doctor(
    preset: Preset = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="As in a container that grants no namespaces: what would be lost there.")
    ] = False,
    as_json: Json = False,
) -> None:
    """What this machine can do, and what will be slow or missing.

    Exit 1 where something is missing that the configuration needs.

    Example: tritonrl doctor
    """
    from .core.serialisation import to_plain
    from .harness.settings import load_config

    config = load_config(preset, config_file, settings or [])
    from .harness.doctor import Health, examine, is_able

    findings = examine(config, plain)
    marks = {Health.OK: "ok", Health.LIMITED: "--", Health.MISSING: "no"}
    lines = [f"{marks[finding.health]}  {finding.subject:32} {finding.detail}" for finding in findings]
    print_result(to_plain(findings), lines, as_json)
    raise typer.Exit(0 if is_able(findings) else 1)


def main() -> None:
    # torch reads it when it is imported: threads that spin at barriers make it several times slower on a busy machine
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    finally:
        gc.freeze()  # what torch keeps is not walked again on the way out, which takes a tenth of a short command


if __name__ == "__main__":
    main()
