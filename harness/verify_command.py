"""`tritonrl verify`: one candidate or a batch, judged here or by a server.

What is wrong with the arguments is found before torch is imported, and the sandbox's processes start meanwhile.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .command_line import (
    Backend,
    ConfigFile,
    Jobs,
    Json,
    Preset,
    Settings,
    guarded,
    parse_extensions,
    print_result,
    with_backend,
)
from .errors import UsageError

if TYPE_CHECKING:
    from ..core.config import Config
    from ..core.recipe.extensions import Extensions
    from ..core.verdict import Verdict
    from .errors import TaskError
    from .sandbox.sandbox import Sandbox


@guarded
def verify(
    candidate: Annotated[Path | None, typer.Argument(help="A module that defines ModelNew.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="TASK.py, or an id of the corpus.")] = None,
    batch: Annotated[Path | None, typer.Option("--batch", help='{"task": ..., "candidate": ...} a line.')] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="Ask this server of `tritonrl serve`; several with commas between.")
    ] = None,
    backend: Backend = None,
    extensions: Annotated[
        str | None, typer.Option("--extensions", help="A cell's training verifier, such as msct (default: the audit).")
    ] = None,
    preset: Preset = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    jobs: Jobs = None,
    unordered: Annotated[
        bool,
        typer.Option("--unordered", help="Print a batch's verdicts as they are done, and not in its lines' order."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Verify candidates: is the kernel right, and how fast.

    A candidate is a module's source, in a batch also the path of one, in the batch's folder, that ends in .py.
    What is wrong with a line of a batch, or with its task, is an error on stderr (exit 2); the others are judged, and
    told with the numbers of their lines.

    Inputs are drawn anew each time, by a seed that is told with the verdict; --set verifier.seed=N repeats one.

    Example: tritonrl verify softmax.py --task l1-softmax-00c0ffee12345678 --json
    """
    if (candidate is None) == (batch is None) or (batch is None) != (task is not None):
        raise UsageError("give CANDIDATE.py with --task, or --batch FILE.jsonl")
    if unordered and batch is None:
        raise UsageError("--unordered is for --batch")
    if url is not None:
        if any((backend, preset, config_file, settings, jobs, unordered)):
            raise UsageError(
                "--url: the server has a configuration; leave out --backend, --preset, --config, "
                "--set, --jobs and --unordered"
            )
        raise typer.Exit(_ask_server(url, candidate, task, batch, extensions, as_json))
    from .settings import load_config, read_text, require_driver, require_task, with_drawn_seed

    # what is wrong with the arguments is found before what takes longer is imported
    config = load_config(preset, config_file, with_backend(settings, backend), with_drawn_seed())
    require_driver(config.verifier)
    own_extensions = None if extensions is None else parse_extensions(extensions)
    source = None if candidate is None else read_text(candidate)
    if task is not None:
        require_task(task)
    if batch is not None and not batch.exists():
        read_text(batch)
    from ..stages.syntax import inspect_source
    from .sandbox.sandbox import open_early

    # its processes import torch while this one does; what the text refuses needs none
    is_needed = source is None or inspect_source(source) is None
    with open_early(config.limits, config.verifier.target, config.verifier.seed, is_needed) as sandbox:
        code = _judge(config, own_extensions, (source, task), batch, jobs, unordered, as_json, sandbox)
    raise typer.Exit(code)


def _judge(
    config: Config,
    own_extensions: Extensions | None,
    single: tuple[str | None, str | None],
    batch: Path | None,
    jobs: int | None,
    unordered: bool,
    as_json: bool,
    sandbox: Sandbox,
) -> int:
    """Verify the batch, or the single source for its task, and print each verdict; returns the exit code."""
    from ..core.recipe.extensions import AUDIT, VerifierSpec
    from .errors import TaskError
    from .tasks.batch import default_jobs, in_order, read_batch, verdict_plain
    from .tasks.suites import find_task

    spec = AUDIT if own_extensions is None else VerifierSpec.for_training(own_extensions)
    bad: list[str] = []

    def note_bad(problem: object) -> None:
        bad.append(str(problem))
        print(f"tritonrl: {problem}", file=sys.stderr)

    places: list[dict[str, int]] = [{}]
    if batch is not None:
        lines = read_batch(batch, note_bad)
        places, pairs = [{"line": line} for line, *_ in lines], [(one, text) for _, one, text in lines]
    else:
        source, task = single
        assert source is not None
        assert task is not None
        pairs = [(find_task(task), source)]
    from .plain_text import render_verdict

    for name in dict.fromkeys(one.task_id for one, _ in pairs if not (one.tiny or one.small or one.larger)):
        print(
            f"tritonrl: {name}: no size can be varied, so a kernel for these sizes alone passes "
            "(sizes are integers that have a name at the module's top level)",
            file=sys.stderr,
        )

    def show(index: int, found: Verdict | TaskError) -> None:
        if isinstance(found, TaskError):
            note_bad(found)
        else:
            plain = verdict_plain(found, spec, config) | places[index]
            print_result(plain, render_verdict(plain), as_json)

    receive = show if unordered else in_order(show)
    from .torch_start import import_torch

    import_torch(is_own=True)
    from .verification.verifier import open_verifier

    with open_verifier(config, sandbox=sandbox) as verifier:
        on_bad_task = None if batch is None else receive
        verdicts = verifier.verify_many(pairs, spec, jobs or default_jobs(), receive, on_bad_task)
    return 2 if bad else 0 if all(verdict.correct for verdict in verdicts) else 1


def _ask_server(
    url: str, candidate: Path | None, task: str | None, batch: Path | None, extensions: str | None, as_json: bool
) -> int:
    """Print a server's verdicts in order; returns the exit code."""
    from ..core.recipe.extensions import AUDIT, VerifierSpec
    from .plain_text import render_verdict
    from .service.client import RemoteVerifier
    from .settings import read_text
    from .tasks.batch import read_entries

    spec = AUDIT if extensions is None else VerifierSpec.for_training(parse_extensions(extensions))
    bad: list[str] = []

    def note_bad(problem: str) -> None:
        bad.append(problem)
        print(f"tritonrl: {problem}", file=sys.stderr)

    items, places = [], list[tuple[str, dict[str, int]]]()
    if batch is not None:
        for number, name, source in read_entries(batch, note_bad):
            label = f"{batch}:{number}"
            try:
                items.append({"task": _task_of(name), "candidate": source})
                places.append((label, {"line": number}))
            except UsageError as error:
                note_bad(f"{label}: {error}")
    else:
        assert candidate is not None
        assert task is not None
        items, places = [{"task": _task_of(task), "candidate": read_text(candidate)}], [(task, {})]
    with RemoteVerifier(url) as verifier:
        replies = verifier.ask(items, spec)
    for (label, place), reply in zip(places, replies, strict=True):
        if "error" in reply:
            note_bad(f"{label}: {reply['error']}")
        else:
            plain = reply | place
            print_result(plain, render_verdict(plain), as_json)
    return 2 if bad else 0 if all(reply["correct"] for reply in replies) else 1


def _task_of(name: str) -> str | dict[str, str]:
    """Return an id as it is, and a file as a program with its name: the server does not read files."""
    from .settings import read_text

    path = Path(name)
    return {"name": path.stem, "source": read_text(path)} if name.endswith(".py") or path.is_file() else name
