"""Where a data set or a model is: files of this machine, or a name on the Hugging Face hub.

A hub's data set is downloaded by huggingface_hub, Parquet files alone, into its cache; what is there already is used
without a network. Its name is remembered, not its content: who identifies work takes the fingerprint of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import UsageError

_PATIENCE_S = 10.0
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def locate(place: str, option: str) -> Path:
    """The local file or folder of a data set, downloaded where `place` is a hub's `owner/name`; raises UsageError."""
    try:
        path = Path(place).expanduser()
        if place and path.exists():
            return path
    except (OSError, RuntimeError):  # a name too long for a file, or nobody's home
        path = Path(place)
    if not _HUB_NAME.fullmatch(place) or path.suffix in (".parquet", ".py"):
        raise UsageError(f"{option}: no such file or folder: {place[:200] or '(empty)'}")
    from huggingface_hub import snapshot_download

    with _naming_trouble(f"{option}: no file or folder {place}"):
        return Path(snapshot_download(place, repo_type="dataset", allow_patterns=["*.parquet", "**/*.parquet"]))


def require_model(name: str, what: str) -> None:
    """Raise UsageError, which begins with `what`, where a model's name on the hub leads nowhere.

    transformers would ask a hub that cannot be reached for a minute. A model that was downloaded before needs none.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache

    with _naming_trouble(what):
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            HfApi().model_info(name, timeout=_PATIENCE_S)


@contextmanager
def _naming_trouble(what: str) -> Iterator[None]:
    """Turn what huggingface_hub raises over a name into a UsageError that begins with `what`."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        yield
        return
    except LocalEntryNotFoundError:
        problem = "the hub cannot be reached from here, and it was not downloaded before"
    except HfHubHTTPError as error:
        problem = f"the hub refuses it ({error.response.status_code})"
    except HFValidationError:
        problem = "it is none"
    except (OSError, ValueError, httpx2.HTTPError) as error:  # no connection at all, depending on how it fails
        problem = f"the hub cannot be reached from here ({type(error).__name__})"
    raise UsageError(f"{what}, and as a name on the Hugging Face hub: {problem}")


def read_parquet(
    path: Path, columns: tuple[str, ...], option: str, optional: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Rows of a Parquet file, or of all Parquet files below a folder, with these columns alone; raises UsageError.

    Of the `optional` columns a file gives those that it has.
    """
    import polars as pl

    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{option}: no Parquet file in {path}")
    rows: list[dict[str, Any]] = []
    for file in files:
        try:
            schema = pl.read_parquet_schema(file)
            missing = [column for column in columns if column not in schema]
            if missing:
                raise UsageError(f"{option}: {file} has no column {', '.join(missing)}")
            rows += pl.read_parquet(file, columns=[*columns, *(c for c in optional if c in schema)]).to_dicts()
        except (pl.exceptions.PolarsError, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UsageError(f"{option}: {file} cannot be read as Parquet: {reason}") from None
    return rows
