"""The command `tritonrl eval`: an exam of a policy on a suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from attrs import evolve

from ..command_line import ConfigFile, Display, Jobs, Json, Log, Preset, Settings, print_result, resumable
from ..display import DisplayKind
from ..errors import UsageError
from .asked import Criterion, TaskSelection

if TYPE_CHECKING:
    from .finished import EvaluationResult

_MOST_PLACES = 100_000
"""More than any suite has; a mistyped range ends in an error and not in a full memory."""


@resumable
def evaluate(
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="nano, a Hugging Face name, a folder (model or adapter), or openai:MODEL@URL."),
    ] = None,
    adapter: Annotated[Path | None, typer.Option("--adapter", help="A LoRA adapter's folder.")] = None,
    suite: Annotated[
        str | None,
        typer.Option("--suite", help="core13:heldout, kernelbench:FOLDER, ... (default: the preset's held-out tasks)."),
    ] = None,
    levels: Annotated[str | None, typer.Option("--levels", help="Such as 1,2.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many tasks a level.")] = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", help="Places in the suite, from 0 on, such as 100-119,130.")
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", min=1, help="Samples a task.")] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="Of sampling; 0 is greedy.")] = None,
    turns: Annotated[
        int, typer.Option("--turns", min=1, help="Answers a sample; the next ones see why the audit refused.")
    ] = 1,
    criterion: Annotated[
        str, typer.Option("--criterion", help="Who judges a suite that is not ours: suite, audit or both.")
    ] = "both",
    out: Annotated[Path | None, typer.Option("--out", help="Keep the results here; the same command resumes.")] = None,
    read: Annotated[
        list[Path] | None,
        typer.Option("--read", help="Only print the finished exam of a folder; repeated, the parts of one as one."),
    ] = None,
    draw_only: Annotated[
        bool, typer.Option("--draw-only", help="End when all answers are drawn into --out, before they are judged.")
    ] = False,
    answers: Annotated[
        Path | None,
        typer.Option("--answers", help="Judge the answers in another exam's folder, drawn elsewhere; loads no model."),
    ] = None,
    preset: Preset = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    display: Display = None,
    log: Log = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Examine a policy on a suite: valid, compiled and correct rates, pass@k, why families fail, and what disagrees.

    A suite that is not ours is judged by its own criterion and by the audit verifier, side by side.

    Example: tritonrl eval --policy nano --suite core13:heldout --levels 1 --samples 10 --out results/exam

    Example: tritonrl eval --read results/part-0 --read results/part-1

    With --answers the folder tells policy and tasks; --suite says where a suite of files lies here, and --set and
    --config may change how the answers are judged.

    Example: tritonrl eval --answers drawn/exam --set verifier.backend=interpret --out results/exam
    """
    given: dict[str, object] = {"--policy": policy, "--adapter": adapter, "--levels": levels, "--limit": limit}
    given |= {"--tasks": tasks, "--samples": samples, "--temperature": temperature}
    given |= {"--draw-only": draw_only or None, "--preset": preset, "--turns": turns if turns > 1 else None}
    if read:
        judged = {"--suite": suite, "--out": out, "--config": config_file, "--set": settings or None}
        _refuse("--read takes no exam", given | {"--answers": answers} | judged)
        _print_finished(read, as_json)
        return
    from ..settings import load_config, require_suite

    # what is wrong with the arguments is found before torch is imported
    if suite is not None:
        require_suite(suite)
    if answers is not None:
        _refuse("--answers tells what was asked", given)
    policy, adapter = _split_adapter(policy, adapter)
    chosen = {"policy.name": policy, "evaluation.samples_per_task": samples, "evaluation.temperature": temperature}
    settings = [*(settings or []), *(f"{key}={value}" for key, value in chosen.items() if value is not None)]
    load_config(preset, config_file, settings)
    selection = _select_tasks(suite, levels, limit, tasks)
    if answers is None:
        _read_criterion(criterion, selection)
    if turns > 1 and (draw_only or criterion == "suite"):
        raise UsageError("--turns: it needs the audit's reasons: leave out --draw-only and --criterion suite")
    if draw_only and out is None:
        raise UsageError("--draw-only: say with --out where the answers are kept")
    from ..policy.distributed_learner import rank_zero_runs
    from .open import open_evaluation, open_sampled

    drawn = None if answers is None else open_sampled(answers)
    if drawn is not None:
        selection = drawn.questions if suite is None else evolve(drawn.questions, suite=suite)
    judges = _read_criterion(criterion, selection)
    config = load_config(preset, config_file, settings, None if drawn is None else drawn.config)
    shown = DisplayKind.NONE if as_json else display
    with rank_zero_runs(config.policy) as leads:
        if not leads:
            return
        with open_evaluation(config, selection, judges, adapter, out, shown, jobs, drawn, turns, log or ()) as exam:
            result = exam.draw() if draw_only else exam.run()
    about = {"suite": selection.suite, "out": None if out is None else str(out)}
    if isinstance(result, int):
        _print_drawn(result, about, as_json)
        return
    last = [] if out is None else [f"table: {out / 'evaluation.parquet'}"]
    _print(result, about, last, config.policy.max_new_tokens, as_json)


def _print_finished(folders: list[Path], as_json: bool) -> None:
    """Print the finished exam of a folder, or of several its parts as one; raises UsageError."""
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--read {folder}: no finished exam there")
    from .finished import read_limit, read_parts

    _print(read_parts(folders), {"read": [str(folder) for folder in folders]}, [], read_limit(folders[0]), as_json)


def _split_adapter(policy: str | None, adapter: Path | None) -> tuple[str | None, Path | None]:
    """Return policy and adapter, where `--policy` may name an adapter's folder; raises UsageError for two adapters."""
    if policy is None or not (Path(policy) / "adapter_config.json").exists():
        return policy, adapter
    if adapter is not None:
        raise UsageError(f"--policy {policy}: an adapter's folder, and --adapter names another")
    return None, Path(policy)


def _select_tasks(suite: str | None, levels: str | None, limit: int | None, tasks: str | None) -> TaskSelection:
    """Return the tasks that the options choose; raises UsageError."""
    if suite is None and (levels, limit, tasks) != (None, None, None):
        raise UsageError("--levels, --limit and --tasks choose from a suite: name one with --suite")
    return TaskSelection(
        suite=suite,
        levels=None if levels is None else tuple(_numbers("--levels", levels)),
        limit=limit,
        tasks=None if tasks is None else tuple(_numbers("--tasks", tasks)),
    )


def _read_criterion(name: str, selection: TaskSelection) -> Criterion:
    """Return who judges; raises UsageError for an unknown name, and where the suite has no criterion of its own."""
    if name not in set(Criterion):
        raise UsageError(f"--criterion {name}: must be one of {', '.join(Criterion)}")
    if name == Criterion.SUITE and not (selection.suite or "").startswith("kernelbench:"):
        raise UsageError(f"--criterion suite: {selection.suite or 'held-out tasks'}: judged by the audit alone")
    return Criterion(name)


def _print_drawn(num_answers: int, about: dict[str, Any], as_json: bool) -> None:
    """Print how many completions were drawn, and what judges them."""
    out = about["out"]
    lines = [
        f"{num_answers} answers drawn: {out}",
        f"the same command without --draw-only judges them, or, elsewhere, --answers {out}",
    ]
    print_result({**about, "num_answers": num_answers}, lines, as_json)


def _refuse(why: str, told: dict[str, object]) -> None:
    """Raise UsageError where one of these options is given."""
    given = [name for name, value in told.items() if value is not None]
    if given:
        raise UsageError(f"{why}: leave out {', '.join(given)}")


def _print(result: EvaluationResult, about: dict[str, Any], last: list[str], most_tokens: int, as_json: bool) -> None:
    """The result of an exam; `about` says in JSON whose it is."""
    from ...core.serialisation import to_plain
    from .finished import render_evaluation, summarise

    summary = summarise(result.frame)
    skipped = [(entry.name, entry.reason) for entry in result.skipped]
    plain = {
        **about,
        **to_plain(summary),
        **({"by_turn": list(result.by_turn)} if result.by_turn else {}),
        "skipped": [{"name": name, "reason": reason} for name, reason in skipped],
        "rows": result.frame.to_dicts(),
    }
    shares = ", ".join(f"{share:.1%} after {turn}" for turn, share in enumerate(result.by_turn, start=1))
    turns = [f"correct by turn (pass@1): {shares}"] if shares else []
    print_result(plain, [*render_evaluation(summary, skipped, most_tokens), *turns, *last], as_json)


def _numbers(option: str, text: str) -> list[int]:
    """The numbers of a text such as `0-19,25`; raises UsageError."""
    numbers: list[int] = []
    for part in text.split(","):
        first, separator, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not separator)):
            raise UsageError(f"{option} {text}: expected numbers and ranges, such as 0-19,25")
        if int(last or first) - int(first) not in range(_MOST_PLACES):
            raise UsageError(f"{option} {text}: {part.strip()} is an empty range, or one of more than {_MOST_PLACES}")
        numbers += range(int(first), int(last or first) + 1)
    return numbers
