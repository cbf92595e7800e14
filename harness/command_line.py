"""What the commands share: their common options, how they print, and how errors become exit codes."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn, ParamSpec

import typer

from ..core.config import ConfigError
from .display import DisplayKind
from .errors import TritonrlError

P = ParamSpec("P")

Preset = Annotated[str | None, typer.Option("--preset", help="Settings shipped with the package: quick, study.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file over the preset.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One key, such as rl.rounds=3.")]
Out = Annotated[Path, typer.Option("--out", help="Results folder; the same command again resumes it.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0 to N-1 of every cell.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Candidates verified at once (default: processors).")]
Display = Annotated[DisplayKind | None, typer.Option("--display", help="How progress is shown on stderr.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
Backend = Annotated[str | None, typer.Option("--backend", help="Where plans run: auto, interpret or cuda.")]


def _fail(message: str, code: int) -> NoReturn:
    print(f"tritonrl: {message}", file=sys.stderr)
    raise typer.Exit(code)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors that a command may end with into one line on stderr and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except TritonrlError as error:
            _fail(str(error), error.exit_code)
        except ConfigError as error:
            _fail(str(error), 2)
        except KeyboardInterrupt:
            _fail("interrupted; run the same command again to resume", 130)

    return run


def print_result(value: Any, lines: list[str], as_json: bool) -> None:
    """Print a result on stdout: as one line of JSON, or as lines for a person."""
    print(json.dumps(value, allow_nan=False) if as_json else "\n".join(lines), flush=True)
