"""The command line, in this process."""

from __future__ import annotations

from tritonrl.cli import app
from typer.testing import CliRunner, Result


def invoke(*arguments: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="tritonrl")
