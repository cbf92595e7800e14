"""Fields of the configuration tree that check their values, each mistake one line that names the key.

A field also says whether its value is in the fingerprint: a number of threads is not, and a key that was added later is
only where it is not the default, so that what was computed before keeps its identity.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, Literal

from attrs import Attribute, field


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one line that names the key."""


InFingerprint = bool | Literal["where it is set"]


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
    return field(default=default, validator=_check_switch, metadata={"in_fingerprint": "where it is set"})


def _check_switch(_: Any, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not bool:
        raise ConfigError(f"{attribute.name}: expected true or false, got {show_value(value)}")


def check_choice(record: Any, attribute: Attribute[Any], value: object) -> None:
    """A validator: the value is one of the texts of the Literal that annotates the field."""
    allowed = typing.get_args(kinds_of(record.__class__)[attribute.name])
    if type(value) is not str or value not in allowed:
        raise ConfigError(f"{attribute.name}: must be one of {', '.join(allowed)}, got {show_value(value)}")


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
