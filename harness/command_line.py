"""Shares options, printing and exit codes between the commands."""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec

import typer

from ..core.config_fields import ConfigError
from .display import DisplayKind
from .errors import TritonrlError, UsageError

if TYPE_CHECKING:
    from ..core.recipe.extensions import Extensions

P = ParamSpec("P")

Preset = Annotated[
    str | None,
    typer.Option(
        "--preset", help="Settings shipped with the package: quick, study, paper, full, field, rl, speed or ablation."
    ),
]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file over the preset.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One key, such as rl.rounds=3.")]
Out = Annotated[Path, typer.Option("--out", help="Results folder; the same command again resumes it.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0 to N-1 of every cell.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Candidates verified at once (default: CPU cores).")]
Display = Annotated[DisplayKind | None, typer.Option("--display", help="How progress is shown on stderr.")]
Log = Annotated[
    list[str] | None, typer.Option("--log", help="Live metrics to jsonl, tensorboard, wandb or trackio; repeatable.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
BenchSeed = Annotated[int, typer.Option("--seed", min=0, help="Which tasks and mistakes are drawn.")]
Backend = Annotated[str | None, typer.Option("--backend", help="Where plans run: auto, interpret or cuda.")]


def _fail(message: str, code: int) -> NoReturn:
    # of several processes each says why it ends, often the same
    rank = os.environ.get("RANK", "0") if os.environ.get("WORLD_SIZE", "1") != "1" else "0"
    print(f"tritonrl: {'' if rank == '0' else f'process {rank}: '}{message}", file=sys.stderr)
    raise typer.Exit(code)


def resumable(command: Callable[P, None]) -> Callable[P, None]:
    """Guard a command as `guarded` does, one that goes on where it was interrupted."""
    return guarded(command, "interrupted; run the same command again to resume")


def guarded(command: Callable[P, None], when_interrupted: str = "interrupted") -> Callable[P, None]:
    """Turn whatever a command ends with into one line on stderr and an exit code of the contract.

    Exit 1 is a statement about candidates or cells, so no error may share it: a path of the user that cannot be used
    is exit 2, and a mistake of ours is exit 3, with its traceback in a file that the line names.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except TritonrlError as error:
            _fail(str(error), error.exit_code)
        except ConfigError as error:
            _fail(str(error), 2)
        except KeyboardInterrupt:
            _fail(when_interrupted, 130)
        except BrokenPipeError:
            # the reader of stdout has left, as `head` does: end like a program that SIGPIPE killed, without a word
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            if isinstance(error, OSError) and _is_about(error, kwargs.values()):
                _fail(f"{error.filename}: {error.strerror}", 2)
            _fail(_unexpected(error), 3)

    return run


def _is_about(error: OSError, arguments: Iterable[object]) -> bool:
    """Return whether a file could not be used because of a path among the arguments.

    That is the path, one inside it, its parent, or what a file is written as before it gets its name, beside it.
    """
    if not isinstance(error.filename, str) or error.strerror is None:
        return False
    failed = Path(error.filename).absolute()
    named = [argument.absolute() for argument in arguments if isinstance(argument, Path)]
    return any(
        failed == path
        or path in failed.parents
        or failed in path.parents
        or (failed.parent == path.parent and failed.name.startswith(f".{path.name}."))
        for path in named
    )


def _unexpected(error: Exception) -> str:
    with tempfile.NamedTemporaryFile("w", prefix="tritonrl-error-", suffix=".txt", delete=False) as log:
        log.write("".join(traceback.format_exception(error)))
    message = " ".join(f"{type(error).__name__}: {error}".split())
    return f"unexpected {message[:300]} (traceback: {log.name})"


def parse_extensions(text: str) -> Extensions:
    """Read the extensions of one cell, as `--extensions` gives them; raises UsageError for what is none."""
    from ..core.recipe.extensions import Extensions

    try:
        return Extensions.parse(text)
    except ValueError as error:
        raise UsageError(f"--extensions {text}: {error}") from None


def with_backend(settings: list[str] | None, backend: str | None) -> list[str]:
    """Return the settings of `--set`, and that of `--backend` where it is given."""
    return [*(settings or []), *([f"verifier.backend={backend}"] if backend else [])]


def print_result(value: Any, lines: list[str], as_json: bool) -> None:
    """Print a result on stdout: as one line of JSON, or as lines for a person."""
    print(json.dumps(value, allow_nan=False) if as_json else "\n".join(lines), flush=True)


def open_console() -> Any:
    """Open a rich console on stdout, as wide as the terminal or the environment's COLUMNS, else 80."""
    from rich.console import Console

    class Piped(Console):
        """Leaves it to `guarded` to end a command whose reader has left; rich would end it with exit 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Piped(highlight=False)
