"""The commands under `tritonrl bench` for a GPU: its timings and verdicts, what ends its contexts, vLLM, an exam."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..command_line import Backend, BenchSeed, Jobs, Json, Preset, Settings, guarded, with_backend
from ..errors import UsageError
from ..plain_text import print_figures

if TYPE_CHECKING:
    from ...core.config import Config


def set_up(settings: list[str] | None, jobs: int | None, backend: str | None = None) -> tuple[Config, int]:
    """Return the configuration that a command's settings give, and how many candidates are verified at once."""
    from ..settings import load_config

    # what is wrong with the settings is found before what takes longer is imported
    config = load_config(settings=with_backend(settings, backend))
    from ..tasks.batch import default_jobs

    return config, jobs or default_jobs()


@guarded
def timing(
    num_kernels: Annotated[int, typer.Option("--num", "-n", min=2, help="Kernels to measure.")] = 30,
    visits: Annotated[int, typer.Option("--visits", min=2, help="Times that each kernel's turn comes.")] = 5,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Measurements at each visit.")] = 4,
    seed: BenchSeed = 0,
    jobs: Jobs = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Measure how far a GPU's timings can be trusted: the calibrated protocol beside three others.

    Needs a GPU. Exit 1 where the calibrated protocol misses one of its targets.

    Example: tritonrl bench timing --json
    """
    from .gpu.timing import measure_timing, render

    config, jobs = set_up(settings, jobs)
    show = partial(print, file=sys.stderr, flush=True)
    figures = measure_timing(config, num_kernels, visits, repeats, seed, jobs, show)
    print_figures(figures, as_json, render(figures))
    raise typer.Exit(1 if any(not target.is_met for target in figures.targets) else 0)


@guarded
def agreement(
    candidates: Annotated[int, typer.Option("--candidates", "-n", min=4, help="Right and wrong ones.")] = 500,
    seed: BenchSeed = 0,
    jobs: Jobs = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Compare the audits by the interpreter and by a GPU on the same candidates; each disagreement is listed.

    Needs a GPU. Exit 1 where fewer than 99.5% of the verdicts agree.

    Example: tritonrl bench agreement -n 500
    """
    from .gpu.agreement import LEAST_AGREEMENT, measure_agreement

    config, jobs = set_up(settings, jobs)
    figures = measure_agreement(config, candidates, seed, jobs)
    print_figures(figures, as_json)
    if figures.num_candidates < figures.num_asked or not figures.num_asked:
        raise KeyboardInterrupt
    raise typer.Exit(1 if figures.num_agreeing < LEAST_AGREEMENT * figures.num_candidates else 0)


@guarded
def gpu_crashes(
    candidates: Annotated[int, typer.Option("--num", "-n", min=1, help="Crashing candidates.")] = 200,
    jobs: Jobs = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Judge kernels that take a GPU's context down, one after the other: no other verdict may be lost.

    Needs a GPU. Exit 1 where a crashing candidate is accepted or a right one beside it refused.

    Example: tritonrl bench gpu-crashes -n 200
    """
    from .gpu.crashes import measure_crashes

    config, jobs = set_up(settings, jobs)
    figures = measure_crashes(config, candidates, jobs)
    print_figures(figures, as_json)
    raise typer.Exit(0 if figures.is_sound else 1)


@guarded
def engines(
    preset: Preset = "paper",
    suite: Annotated[str, typer.Option("--suite", help="Whose tasks are the prompts: core13 or full.")] = "core13",
    num_tasks: Annotated[int, typer.Option("--num", "-n", min=1, help="Prompts, half of each level.")] = 64,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Completions of each prompt.")] = 8,
    adapter: Annotated[Path | None, typer.Option("--adapter", help="Sample with this adapter.")] = None,
    seed: BenchSeed = 0,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Measure our sampler beside vLLM on one model and adapter: tokens a second, and equal texts.

    Needs a GPU and vLLM. Exit 1 where an engine does not heed the adapter.

    Example: tritonrl bench engines --set policy.name=smollm2 --adapter results/sft/adapter
    """
    from ...core.corpus import TAUGHT_SUITES
    from ..settings import load_config
    from .policy.engines import compare_engines

    if suite not in TAUGHT_SUITES:
        raise UsageError(f"--suite {suite}: must be one of {', '.join(TAUGHT_SUITES)}")
    config = load_config(preset=preset, settings=settings or [])
    figures = compare_engines(config, suite, num_tasks, samples, adapter, seed)
    print_figures(figures, as_json)
    raise typer.Exit(1 if any(one.heeds_adapter is False for one in figures.engines) else 0)


@guarded
def exam(
    num_tasks: Annotated[int, typer.Option("--num", "-n", min=1, help="Tasks, levels in turn.")] = 200,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Answers to each.")] = 10,
    suite: Annotated[str, typer.Option("--suite", help="Whose tasks are enlarged.")] = "field:heldout",
    most_gb: Annotated[float, typer.Option("--most-gb", min=0.001, help="Of the largest task's tensors.")] = 14,
    seed: BenchSeed = 0,
    jobs: Jobs = None,
    backend: Backend = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Measure what judging an exam at real sizes takes: time, memory, and what is refused for its size.

    Right answers are teachers, wrong ones are made of them; no model is needed. Exit 1 where a teacher is rejected or
    the kernel has killed a process.

    Example: tritonrl bench exam -n 200 --samples 10 --set verifier.backend=cuda
    """
    from ...core.corpus import TAUGHT_SUITES
    from .verifier.exam import measure_exam

    if suite.partition(":")[0] not in TAUGHT_SUITES:
        raise UsageError(f"--suite {suite}: must be of one of {', '.join(TAUGHT_SUITES)}, such as field:heldout")
    config, jobs = set_up(settings, jobs, backend)
    figures = measure_exam(config, num_tasks, samples, suite, seed, jobs, int(most_gb * 1e9))
    print_figures(figures, as_json)
    if figures.num_judged < figures.num_answers:
        raise KeyboardInterrupt
    raise typer.Exit(1 if figures.rejected_teachers or figures.num_killed else 0)
