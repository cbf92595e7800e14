"""The commands under `tritonrl bench`: what the project claims about its verifier, measured again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..command_line import Backend, BenchSeed, Jobs, Json, Settings, guarded, print_result
from ..errors import UsageError
from ..plain_text import print_figures
from . import gpu_commands
from .gpu_commands import set_up

bench_app = typer.Typer(help="Measure what is claimed of the verifier.", no_args_is_help=True, rich_markup_mode=None)
_Policy = Annotated[str | None, typer.Option("--policy", help="nano, or a model's name or folder.")]
_Random = Annotated[
    str | None,
    typer.Option("--random", help="Random weights instead: smollm2-135m, qwen2.5-coder-7b or a config.json."),
]
_Threads = Annotated[int, typer.Option("--threads", min=0, help="CPU cores; 0 = as torch likes.")]


@bench_app.command("verify")
@guarded
def bench_verify(
    num_tasks: Annotated[int, typer.Option("--num", "-n", min=1, help="Tasks a level, ten candidates each.")] = 8,
    verifiers: Annotated[
        list[str] | None, typer.Option("--verifier", help="Only staged, exhaustive or audit; repeatable.")
    ] = None,
    seed: BenchSeed = 0,
    jobs: Jobs = None,
    backend: Backend = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Measure the verifier's speed on a fixed mix: 40% AST failures, 20% compile failures, 20% wrong, 20% right.

    Prints candidates a second, seconds by stage, and what the staged funnel saves over the exhaustive one. Exit 1
    where the mix is not what it should be.

    Example: tritonrl bench verify --json
    """
    config, jobs = set_up(settings, jobs, backend)
    from .verifier.verify import VERIFIERS, measure_verifiers, render

    unknown = set(verifiers or []) - set(VERIFIERS)
    if unknown:
        raise UsageError(f"--verifier {sorted(unknown)[0]}: must be one of {', '.join(VERIFIERS)}")
    figures = measure_verifiers(config, num_tasks, seed, jobs, verifiers or ())
    print_figures(figures, as_json, render(figures))
    raise typer.Exit(1 if any(one.unexpected for one in figures.passes) else 0)


@bench_app.command("fuzz")
@guarded
def bench_fuzz(
    completions: Annotated[
        int, typer.Option("--completions", "-n", min=1, help="Through extraction and AST stage.")
    ] = 1500,
    funnel: Annotated[int, typer.Option("--funnel", min=0, help="How many of them through every stage.")] = 40,
    lines: Annotated[int, typer.Option("--lines", min=0, help="Lines of batches, and as many messages.")] = 2000,
    seed: BenchSeed = 0,
    jobs: Jobs = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Feed the verifier random and spoilt completions, lines and messages: nothing may crash or hang it.

    Exit 1 where something did; a completion is found again by its seed and number.

    Example: tritonrl bench fuzz --completions 10000 --funnel 500
    """
    config, jobs = set_up(settings, jobs)
    from .verifier.fuzz import fuzz_verifier

    figures = fuzz_verifier(config, completions, funnel, seed, jobs, lines)
    print_figures(figures, as_json)
    raise typer.Exit(1 if figures.findings else 0)


@bench_app.command("mutants")
@guarded
def bench_mutants(
    count: Annotated[int, typer.Option("--num", "-n", min=1, help="Mutants, as many of each family.")] = 2600,
    seed: BenchSeed = 0,
    rows: Annotated[Path | None, typer.Option("--rows", help="Write every mutant here (.parquet or .jsonl).")] = None,
    jobs: Jobs = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Count the mistakes that one input, five variants and the audit find among mutants that an oracle proves wrong.

    Exit 1 where the audit rejects a teacher, whose mutants then tell nothing.

    Example: tritonrl bench mutants --rows mutants.parquet
    """
    from .mutation.mutants import check_rows, measure_kill_rates, render_report, to_summary, write_mutants

    def show(num_done: int, num_all: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{num_done} of {num_all} mutants", end="", file=sys.stderr, flush=True)

    check_rows(rows)
    config, jobs = set_up(settings, jobs)
    report = measure_kill_rates(config, count, seed, jobs, show)
    if rows is not None:
        write_mutants(report, rows)
    print_result(to_summary(report), render_report(report), as_json)
    raise typer.Exit(1 if report.rejected_teachers else 0)


@bench_app.command("false-rejects")
@guarded
def bench_false_rejects(
    number: Annotated[int, typer.Option("--num", "-n", min=0, help="Kernels of the corpus.")] = 640,
    suite: Annotated[str, typer.Option("--suite", help="Whose kernels, such as full or field.")] = "full",
    seed: BenchSeed = 0,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Kernels written by hand too, as in tests/genuine.")
    ] = None,
    jobs: Jobs = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Measure how many right kernels the audit verifier rejects: none may be.

    Exit 1 where one is.

    Example: tritonrl bench false-rejects -n 640 --folder tests/genuine
    """
    from ...core.corpus import TAUGHT_SUITES
    from .verifier.false_rejects import measure_false_rejects

    if suite not in TAUGHT_SUITES:
        raise UsageError(f"--suite {suite}: must be one of {', '.join(TAUGHT_SUITES)}")
    config, jobs = set_up(settings, jobs)
    figures = measure_false_rejects(config, number, seed, jobs, folder, suite)
    print_figures(figures, as_json)
    if figures.num_kernels < figures.num_asked:
        raise KeyboardInterrupt
    raise typer.Exit(1 if figures.rejections else 0)


@bench_app.command("attacks")
@guarded
def bench_attacks(
    folder: Annotated[Path, typer.Argument(help="Attacks, each with its header, as in tests/attacks.")],
    tasks: Annotated[
        list[Path] | None,
        typer.Option(help="A folder of the tasks that headers name, beside FOLDER/tasks and the corpus; repeatable."),
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", "-n", min=1, help="Times over, each with a seed drawn anew.")] = 1,
    names: Annotated[
        list[str] | None, typer.Option("--attack", help="Only this one, such as values/identity.py; repeatable.")
    ] = None,
    backend: Backend = None,
    jobs: Jobs = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Judge kernels that cheat by the audit verifier: none may be accepted, whatever it draws.

    Exit 1 where one is, but for those whose headers say so.

    Example: tritonrl bench attacks tests/attacks --rounds 10

    Example: tritonrl bench attacks tests/attacks/contract --tasks tests/genuine/tasks
    """
    config, jobs = set_up(settings, jobs, backend)
    from .verifier.attacks import TASKS, judge_attacks, read_attacks, read_tasks

    attacks = read_attacks(folder)
    unknown = set(names or []) - {attack.name for attack in attacks}
    if unknown:
        raise UsageError(f"--attack {sorted(unknown)[0]}: no such file in {folder}")
    chosen = [attack for attack in attacks if not names or attack.name in names]
    figures = judge_attacks(
        config,
        chosen,
        read_tasks(chosen, [folder / TASKS, *(tasks or [])]),
        rounds,
        jobs,
        lambda seed, found: print(f"seed {seed}: {len(found)} surprises", file=sys.stderr, flush=True),
    )
    print_figures(figures, as_json)
    raise typer.Exit(1 if figures.num_accepted else 0)


@bench_app.command("soak")
@guarded
def bench_soak(
    candidates: Annotated[int, typer.Option("--candidates", "-n", min=50, help="How many, a third hostile.")] = 5000,
    seed: BenchSeed = 0,
    jobs: Jobs = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Verify thousands of candidates, a third of them hostile: memory stays flat, and nothing is left behind.

    Each round's count goes to stderr. Exit 1 where something is left after a round.

    Example: tritonrl bench soak -n 5000
    """
    from .verifier.soak import Census, soak_verifier

    def show(census: Census) -> None:
        left = census.zombies + census.strays + census.leftovers
        memory = f"judge {census.judge_mb:.0f} MB, zygotes {census.zygotes_mb:.0f} MB"
        print(f"{census.num_candidates}: {memory}, {left} left behind", file=sys.stderr, flush=True)

    config, jobs = set_up(settings, jobs)
    figures = soak_verifier(config, candidates, seed, jobs, show)
    print_figures(figures, as_json)
    raise typer.Exit(1 if figures.unclean_rounds else 0)


@bench_app.command("load")
@guarded
def bench_load(
    requests: Annotated[int, typer.Option("--requests", "-n", min=1, help="One candidate each.")] = 10_000,
    clients: Annotated[int, typer.Option("--clients", min=1, max=10_000, help="Each has one request under way.")] = 64,
    candidates: Annotated[int, typer.Option("--candidates", min=1, help="How many of them differ.")] = 100,
    kills: Annotated[int, typer.Option("--kills", min=0, help="Workers killed without warning.")] = 5,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Of the server (default: CPU cores).")] = None,
    seed: BenchSeed = 0,
    as_json: Json = False,
) -> None:
    """Load a server of `tritonrl serve` while its workers are killed: nothing lost, nothing verified twice.

    Exit 1 where something was.

    Example: tritonrl bench load --requests 10000 --clients 64 --kills 5
    """
    from ..tasks.batch import default_jobs
    from .verifier.load import measure_load

    if candidates > requests:
        raise UsageError(f"--candidates {candidates}: must be at most --requests {requests}")
    figures = measure_load(requests, clients, candidates, kills, workers or default_jobs(), seed)
    print_figures(figures, as_json)
    raise typer.Exit(0 if figures.is_sound else 1)


@bench_app.command("sample")
@guarded
def bench_sample(
    policy: _Policy = None,
    random: _Random = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Completions at once.")] = 256,
    prompt_tokens: Annotated[int, typer.Option("--in", min=1, help="Tokens of a prompt.")] = 300,
    new_tokens: Annotated[int, typer.Option("--out", min=4, help="Tokens of a completion.")] = 400,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Timed calls of ours after a first one.")] = 3,
    threads: _Threads = 0,
    with_generate: Annotated[bool, typer.Option(help="Measure transformers' generate too.")] = True,
    seed: BenchSeed = 0,
    as_json: Json = False,
) -> None:
    """Measure tokens a second of the sampler, of transformers' generate, and of what memory bandwidth allows.

    Exit 1 where our greedy tokens are not transformers', ties apart.

    Example: tritonrl bench sample --random smollm2-135m --json
    """
    from .policy.sampling import measure_sampling

    if policy and random:
        raise UsageError("--policy and --random exclude each other")
    figures = measure_sampling(policy, random, batch, prompt_tokens, new_tokens, repeats, seed, threads, with_generate)
    print_figures(figures, as_json)
    raise typer.Exit(0 if figures.greedy.is_equal else 1)


@bench_app.command("train")
@guarded
def bench_train(
    policy: _Policy = None,
    random: _Random = None,
    quantization: Annotated[str, typer.Option("--quantization", help="none or 8bit (bitsandbytes).")] = "none",
    suite: Annotated[str, typer.Option("--suite", help="Whose pairs: core13 or full.")] = "core13",
    batch: Annotated[int, typer.Option("--batch", min=1, help="Pairs a step, of each process.")] = 8,
    steps: Annotated[int, typer.Option("--steps", min=2, help="Steps, those that are not counted included.")] = 60,
    warmup: Annotated[int, typer.Option("--warmup", min=1, help="First steps that are not counted.")] = 30,
    compilation: Annotated[str, typer.Option("--compile", help="Layers compiled: auto, on or off.")] = "auto",
    capture: Annotated[str, typer.Option("--capture", help="Steps as captured graphs: auto, on or off.")] = "auto",
    memory_gb: Annotated[
        float | None, typer.Option("--memory-gb", min=0.1, help="Use no more of the GPU than one of this size has.")
    ] = None,
    processes: Annotated[
        str | None, typer.Option("--processes", help="Scaling over so many processes, such as 2,4; one a GPU.")
    ] = None,
    threads: _Threads = 0,
    with_plain: Annotated[bool, typer.Option(help="Measure a plain loop over transformers and peft too.")] = True,
    seed: BenchSeed = 0,
    as_json: Json = False,
) -> None:
    """Measure tokens a second and memory of fine-tuning, beside a plain loop, and by several processes.

    Example: tritonrl bench train --random smollm2-135m --processes 2,4 --json
    """
    from .policy.training import Workload, measure_training

    _check_training(policy, random, quantization, suite, compilation, capture)
    if warmup >= steps:
        raise UsageError(f"--warmup {warmup}: must be less than --steps {steps}")
    numbers = [part.strip() for part in processes.split(",")] if processes else []
    if not all(number.isdecimal() and int(number) for number in numbers):
        raise UsageError(f"--processes {processes}: expected numbers, such as 2,4")
    workload = Workload(
        policy=f"random:{random}" if random else policy or "nano",
        quantization=quantization,
        suite=suite,
        batch=batch,
        steps=steps,
        warmup=warmup,
        seed=seed,
        threads=threads,
        compile=compilation,  # type: ignore[arg-type]
        capture=capture,  # type: ignore[arg-type]
        memory_gb=memory_gb,
        with_plain=with_plain,
    )
    figures = measure_training(workload, [int(number) for number in numbers])
    print_figures(figures, as_json)


def _check_training(
    policy: str | None, random: str | None, quantization: str, suite: str, compilation: str, capture: str
) -> None:
    """Raise UsageError for an option of `bench train` that has none of its values."""
    if policy and random:
        raise UsageError("--policy and --random exclude each other")
    for option, value, allowed in (
        ("--quantization", quantization, ("none", "8bit")),
        ("--suite", suite, ("core13", "full")),
        ("--compile", compilation, ("auto", "on", "off")),
        ("--capture", capture, ("auto", "on", "off")),
    ):
        if value not in allowed:
            raise UsageError(f"{option} {value}: must be one of {', '.join(allowed)}")


for _command in (
    gpu_commands.timing,
    gpu_commands.agreement,
    gpu_commands.gpu_crashes,
    gpu_commands.engines,
    gpu_commands.exam,
):
    bench_app.command()(_command)
