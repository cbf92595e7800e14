"""The configuration of a command: a preset, a file over it, single keys over both.

The defaults of `core.config` are the study's values; a preset is a TOML file shipped with the package.
"""

from __future__ import annotations

import importlib.util
import secrets
import shutil
from collections.abc import Sequence
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from ..core.config_fields import suggest
from ..core.task import NAMED, OUR_SUITES, TASK_ID
from .errors import UsageError

if TYPE_CHECKING:
    from ..core.config import Config, VerifierConfig

NEEDS_GPU = (
    "verifier.timing: measured needs a GPU of the target's architecture; "
    "use --set verifier.timing=simulated (estimates, never called speedups) or =none"
)


class ExecutorKind(StrEnum):
    """Where the cells of a grid run."""

    LOCAL = "local"
    RAY = "ray"
    SLURM = "slurm"


def require_scheduler(executor: ExecutorKind) -> None:
    """Raise UsageError where this machine cannot hand cells to the executor."""
    if executor is ExecutorKind.SLURM and (shutil.which("sbatch") is None or shutil.which("squeue") is None):
        raise UsageError("--executor slurm: no `sbatch` and `squeue` on this machine")
    if executor is ExecutorKind.RAY and importlib.util.find_spec("ray") is None:
        raise UsageError("--executor ray: Ray is not installed (pip install ray)")


def require_results(root: Path) -> None:
    """Raise UsageError where a folder holds nothing of a run; no table is read for that."""
    if not (root / "run.json").exists():
        if (root / "exams.parquet").exists():
            raise UsageError(f"{root}: exams of `tritonrl rl`, which `tritonrl compare {root}` compares")
        raise UsageError(f"{root}: no results here (run `tritonrl ablate --out {root}` first)")


def require_task(name: str) -> None:
    """Raise UsageError for what is no file's name and no id that the corpus can have; the corpus is not read for it."""
    if name.endswith(".py") or is_regular(Path(name)):
        read_text(Path(name))
    elif TASK_ID.fullmatch(NAMED.get(name, name)) is None:
        raise UsageError(f"--task {name}: neither a file nor an id of the corpus")


def require_suite(name: str) -> None:
    """Raise UsageError where there is no suite of that name; what a folder of one holds is not looked at."""
    kind, _, place = name.partition(":")
    if name not in OUR_SUITES and (kind != "kernelbench" or not place):
        known = [*OUR_SUITES, "kernelbench:FOLDER or PARQUET"]
        raise UsageError(f"--suite {name}: no such suite{suggest(name, known)}; there are {', '.join(known)}")


def require_driver(config: VerifierConfig) -> None:
    """Raise UsageError for what takes a GPU, where the machine has no GPU's driver; torch is not imported for that."""
    if (config.backend != "cuda" and config.timing != "measured") or Path("/dev/kfd").exists():
        return
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        is_backend = config.backend == "cuda"
        raise UsageError("verifier.backend: cuda cannot be used: no GPU is seen" if is_backend else NEEDS_GPU) from None


def preset_names() -> tuple[str, ...]:
    folder = files("tritonrl.harness").joinpath("presets")
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_config(
    preset: str | None = None, file: Path | None = None, settings: Sequence[str] = (), base: Config | None = None
) -> Config:
    """Load defaults, then the preset, then the file, then `KEY=VALUE` settings such as "verifier.timing=measured".

    The keys are those of `--set` (`core/config.py`). Raises UsageError, and ConfigError, which is a ValueError, for a
    key or a value that there is none of.
    """
    from ..core.config import Config, parse_toml, with_overrides

    config = base if base is not None else Config()
    if preset is not None:
        if preset not in preset_names():
            names = preset_names()
            raise UsageError(f"--preset {preset}: no such preset{suggest(preset, names)}; there are {', '.join(names)}")
        config = parse_toml(files("tritonrl.harness").joinpath(f"presets/{preset}.toml").read_text(), config)
    if file is not None:
        config = parse_toml(read_text(file), config, str(file))
    pairs = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator:
            raise UsageError(f"--set {setting}: expected KEY=VALUE, for example rl.rounds=3")
        pairs[key.strip()] = value.strip()
    return with_overrides(config, pairs) if pairs else config


def with_drawn_seed() -> Config:
    """Return the defaults with a verifier's seed that nobody could know, for what is verified once.

    A number that every reader of JSON keeps exactly. A grid keeps the seed that it is configured with: it resumes, and
    its cells compare, by verdicts that stay the same.
    """
    from ..core.config import Config

    config = Config()
    return evolve(config, verifier=evolve(config.verifier, seed=secrets.randbits(53)))


def read_text(path: Path) -> str:
    """Read the text of a file that a user named, without a byte order mark; raises UsageError where there is none."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"{path}: {reason}") from None


def is_regular(path: Path) -> bool:
    """Return whether a file is there: a pipe would be waited for, and some texts are no name of any file."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_lines(path: Path) -> list[str]:
    """Read the lines of a JSONL file that a user named; raises UsageError where there is none.

    Only line feeds end one: a string of JSON may hold, as they are, other characters that end lines of text.
    """
    return read_text(path).split("\n")


def to_toml(config: Config) -> str:
    """Format every key of a configuration as TOML that `load_config` reads back."""
    from ..core.serialisation import to_plain

    plain = to_plain(config)
    lines = [f"{key} = {_toml_value(value)}" for key, value in plain.items() if not isinstance(value, dict)]
    for section, table in plain.items():
        if isinstance(table, dict):
            lines += ["", f"[{section}]", *[f"{key} = {_toml_value(value)}" for key, value in table.items()]]
    return "\n".join([*lines, ""])


def _toml_value(value: object) -> str:
    import json

    if isinstance(value, str):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)
