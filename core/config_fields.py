"""Trees of records with checked fields, and tables that are merged into them: a mistake is a line that names the key.

A field also says whether its value is in the fingerprint: a number of threads is not, and a key that was added later is
only where it is not the default, so that what was computed before keeps its identity.
"""

from __future__ import annotations

import difflib
import math
import tomllib
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from typing import Any, Literal

from attrs import Attribute, evolve, field, fields, has


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one line that names the key."""


InFingerprint = bool | Literal["where it is set"]
WHERE_SET: dict[str, InFingerprint] = {"in_fingerprint": "where it is set"}


def integer(default: int, low: int, high: int | None = None, *, in_fingerprint: InFingerprint = True) -> Any:
    """A field for an integer in [low, high]; `in_fingerprint` says whether its value can change a result."""
    return field(default=default, validator=_check_number(int, low, high), metadata={"in_fingerprint": in_fingerprint})


def real(
    default: float,
    low: float,
    high: float = math.inf,
    *,
    open_low: bool = False,
    in_fingerprint: InFingerprint = True,
) -> Any:
    """A field for a finite number in [low, high], or in (low, high] where `open_low`."""
    return field(
        default=default,
        converter=_integer_as_float,
        validator=_check_number(float, low, high, open_low),
        metadata={"in_fingerprint": in_fingerprint},
    )


def boolean(default: bool) -> Any:
    """A field for a truth value, which was added later: it is in the fingerprint where it is not the default."""
    return field(default=default, validator=_check_switch, metadata=WHERE_SET)


def _check_switch(_: Any, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not bool:
        raise ConfigError(f"{attribute.name}: expected true or false, got {show_value(value)}")


def check_record(_: Any, attribute: Attribute[Any], value: object) -> None:
    """Raise ConfigError for what is not the record that is there by default, such as a dictionary of its keys."""
    kind: type = attribute.default.factory  # type: ignore[union-attr]
    if not isinstance(value, kind):
        raise ConfigError(f"{attribute.name}: expected a {kind.__name__}, got {show_value(value)}")


def check_choice(record: Any, attribute: Attribute[Any], value: object) -> None:
    """A validator: the value is one of the texts of the Literal that annotates the field."""
    allowed = typing.get_args(kinds_of(record.__class__)[attribute.name])
    if type(value) is not str or value not in allowed:
        hint = suggest(str(value), allowed)
        raise ConfigError(f"{attribute.name}: must be one of {', '.join(allowed)}, got {show_value(value)}{hint}")


def text(default: str) -> Any:
    """A field for one line of text; one that is empty by default is in the fingerprint only where it is set."""

    def check(_: Any, attribute: Attribute[Any], value: object) -> None:
        if type(value) is not str or (value or default) != value.strip() or not value.isprintable():
            raise ConfigError(f"{attribute.name}: expected one line of text, got {show_value(value)}")

    return field(default=default, validator=check, metadata={"in_fingerprint": True if default else "where it is set"})


def _integer_as_float(value: float) -> float:
    # an integer given for a number must have the same canonical JSON as that number
    return float(value) if type(value) is int and abs(value) < 2**53 else value


def _check_number(
    kind: type[int] | type[float], low: float, high: float | None, open_low: bool = False
) -> Callable[[Any, Attribute[Any], Any], None]:
    noun = "an integer" if kind is int else "a finite number"

    def check(_: Any, attribute: Attribute[Any], value: Any) -> None:
        if type(value) is not kind or not math.isfinite(value):
            raise ConfigError(f"{attribute.name}: expected {noun}, got {show_value(value)}")
        if value < low or (open_low and value == low):
            raise ConfigError(f"{attribute.name}: must be {'>' if open_low else '>='} {low:g}, got {value!r}")
        if high is not None and value > high:
            raise ConfigError(f"{attribute.name}: must be <= {high:g}, got {value!r}")

    return check


def show_value(value: object) -> str:
    """A value in TOML's spelling, cut so that the message stays one readable line."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@cache
def kinds_of(cls: Hashable) -> dict[str, Any]:
    """The types of a record's fields by their names."""
    # Hashable, not type: mypy holds that a bare `type` may not be
    return typing.get_type_hints(cls)


def identity(record: Any) -> dict[str, Any]:
    """Return the plain values of the keys of a configuration, or of a part of it, that can change a result.

    Dropped: keys that change none (`policy.threads`), and keys that were added later (`against`, `sft.level3_share`)
    while they have their default, under which results are what they were before. Kept although they often change
    nothing: the limits, because a candidate that runs out of them is rejected. Values that resolve on the machine
    ("auto", a folder as the policy's name) are kept as written; what fingerprints a cell adds what they resolved to.
    """
    plain: dict[str, Any] = {}
    for attribute in fields(type(record)):
        value = getattr(record, attribute.name)
        if has(type(value)):
            plain[attribute.name] = identity(value)
        elif attribute.metadata.get("in_fingerprint", True) is True or (
            attribute.metadata["in_fingerprint"] and value != attribute.default
        ):
            plain[attribute.name] = value
    return plain


def paths_of(cls: Any, path: str = "") -> list[str]:
    """Return every key's full path in a tree of records, in order."""
    found: list[str] = []
    for attribute in fields(cls):
        kind = kinds_of(cls)[attribute.name]
        name = f"{path}{attribute.name}"
        found.extend(paths_of(kind, f"{name}.") if has(kind) else [name])
    return found


def merge_record(base: Any, table: Mapping[str, Any], root: Any, path: str = "") -> Any:
    """Return a record with the keys that nested plain tables set; raises ConfigError.

    `path` leads to it from the class `root`, where a key that is unknown may belong.
    """
    kinds = kinds_of(base.__class__)
    changes: dict[str, Any] = {}
    for key, value in table.items():
        if key not in kinds:
            raise unknown_key(root, type(base), key, path)
        if has(kinds[key]):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{path}{key}: expected a table of keys, got {show_value(value)}")
            changes[key] = merge_record(getattr(base, key), value, root, f"{path}{key}.")
        else:
            changes[key] = value
    try:
        return evolve(base, **changes)
    except ConfigError as error:
        raise ConfigError(f"{path}{error}") from None


def suggest(name: str, known: Iterable[str], tell: Callable[[str], str] = str) -> str:
    """Return an error's hint: which known name may have been meant, in `tell`'s words, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {tell(close[0])}?)" if close else ""


def unknown_key(root: Any, cls: Any, key: str, path: str) -> ConfigError:
    """Return the error for a key that a record has not, with the one that may have been meant."""
    hint = suggest(key, kinds_of(cls), lambda name: f"{path}{name}")
    if not hint:
        leaves = {full.rsplit(".", 1)[-1]: full for full in reversed(paths_of(root))}
        hint = suggest(key.rsplit(".", 1)[-1], leaves, leaves.__getitem__)
    shown = key if key.strip() and key.isprintable() and len(key) <= 80 else show_value(key)
    return ConfigError(f"unknown key: {path}{shown}{hint}")


def read_value(written: str) -> Any:
    """Return a value from its text in TOML; a bare word is text."""
    try:
        table = tomllib.loads(f"value = {written}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return written
    return table["value"] if list(table) == ["value"] else written
