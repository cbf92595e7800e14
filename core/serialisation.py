"""Records to JSON and back, strictly, and the fingerprint of a record.

cattrs coerces by default (2.9 to 2, "false" to True), which would turn a typo into an experiment, and a sandboxed
process's answer into whatever fits; so every primitive is checked here, and unknown keys are refused. Canonical JSON
(sorted keys, no spaces, no NaN) gives a record one text, and that text's SHA-256 is its identity.
"""

from __future__ import annotations

import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import cattrs
from cattrs.strategies import configure_tagged_union

from .outcome import Outcome
from .plan import Step

T = TypeVar("T")


def _strict_int(value: Any, _: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"expected an integer, got {value!r}")
    return value


def _strict_float(value: Any, _: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError(f"expected a finite number, got {value!r}")
    return float(value)


def _strict_bool(value: Any, _: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(f"expected true or false, got {value!r}")
    return value


def _strict_str(value: Any, _: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"expected text, got {value!r}")
    return value


def _is_primitive_union(kind: Any) -> bool:
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return False
    return all(part in (int, float, str, bool, type(None)) for part in typing.get_args(kind))


def _structure_primitive_union(value: Any, kind: Any) -> Any:
    allowed = typing.get_args(kind)
    if type(value) in allowed and not (type(value) is float and not math.isfinite(value)):
        return value
    if type(value) is int and float in allowed:
        return float(value)
    raise TypeError(f"expected {kind}, got {value!r}")


def _structure_outcome(value: Any, _: Any) -> Outcome:
    try:
        return Outcome.from_code(_strict_str(value, str))
    except KeyError:
        raise ValueError(f"{value!r} is no outcome") from None


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    converter.register_structure_hook(int, _strict_int)
    converter.register_structure_hook(float, _strict_float)
    converter.register_structure_hook(bool, _strict_bool)
    converter.register_structure_hook(str, _strict_str)
    converter.register_structure_hook(StrEnum, lambda value, kind: kind(_strict_str(value, str)))
    converter.register_unstructure_hook(StrEnum, lambda member: member.value)
    converter.register_structure_hook(Outcome, _structure_outcome)
    converter.register_unstructure_hook(Outcome, lambda outcome: outcome.code)
    converter.register_structure_hook_func(_is_primitive_union, _structure_primitive_union)
    configure_tagged_union(Step, converter, tag_name="step")
    return converter


_CONVERTER = _make_converter()


def to_plain(record: Any) -> Any:
    """Return a record as dicts, lists, strings, numbers, booleans and None."""
    return _CONVERTER.unstructure(record)


def from_plain(plain: Any, kind: type[T]) -> T:
    """Return the record of class `kind` that `plain` describes.

    Raises ValueError with one line that names the key, for an unknown key, a missing one, a wrong type or a value
    that the record's validators refuse.
    """
    try:
        return _CONVERTER.structure(plain, kind)
    except Exception as error:  # cattrs raises groups of many kinds; one line is made of the first
        raise ValueError(_first_message(error)) from error


def _first_message(error: BaseException, path: str = "") -> str:
    if isinstance(error, cattrs.errors.ForbiddenExtraKeysError):
        keys = ", ".join(f"{path}{key}" for key in sorted(error.extra_fields))
        return f"unknown key: {keys}"
    if isinstance(error, BaseExceptionGroup):
        inner = error.exceptions[0]
        for note in getattr(inner, "__notes__", ()):
            if isinstance(note, cattrs.AttributeValidationNote):
                return _first_message(inner, f"{path}{note.name}.")
            if isinstance(note, cattrs.IterableValidationNote):
                return _first_message(inner, f"{path}{note.index}.")
        return _first_message(inner, path)
    name = path.rstrip(".")
    if isinstance(error, KeyError):
        # cattrs' note has put the missing attribute's name on the path already
        return f"missing key: {name}" if path.endswith(f"{error.args[0]}.") else f"missing key: {path}{error.args[0]}"
    # attrs' validators raise with the attribute and value as further arguments; the first one is the sentence
    text = str(error.args[0]) if error.args else str(error)
    return f"{name}: {text}" if name else text


def canonical_json(record: Any) -> str:
    """Return the one JSON text of a record or plain value: sorted keys, no spaces; raises ValueError for NaN."""
    return json.dumps(to_plain(record), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def fingerprint(record: Any) -> str:
    """Return SHA-256 of the canonical JSON, as 64 hex digits."""
    return hashlib.sha256(canonical_json(record).encode()).hexdigest()


def differences(old: Any, new: Any, path: str = "") -> tuple[str, ...]:
    """Return the fields in which two plain values differ, as "path: old -> new" lines."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        lines: list[str] = []
        for key in sorted(set(old) | set(new)):
            name = f"{path}.{key}" if path else str(key)
            if key not in old:
                lines.append(f"{name}: (absent) -> {new[key]!r}")
            elif key not in new:
                lines.append(f"{name}: {old[key]!r} -> (absent)")
            else:
                lines.extend(differences(old[key], new[key], name))
        return tuple(lines)
    return () if old == new else (f"{path or 'value'}: {old!r} -> {new!r}",)


_TUPLE = "__tuple__"


def write_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Write a call's arguments as JSON that keeps tuples apart from lists; raises TypeError or ValueError for others.

    Programs ask `isinstance(size, tuple)` of what they are given.
    """
    return json.dumps({"args": _mark(list(args)), "kwargs": _mark(dict(kwargs))}, allow_nan=False)


def read_arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Read what `write_arguments` wrote."""
    found = json.loads(text, object_hook=lambda made: tuple(made[_TUPLE]) if made.keys() == {_TUPLE} else made)
    return found["args"], found["kwargs"]


def _mark(value: Any) -> Any:
    if isinstance(value, tuple):
        return {_TUPLE: [_mark(part) for part in value]}
    if isinstance(value, list):
        return [_mark(part) for part in value]
    return {name: _mark(part) for name, part in value.items()} if isinstance(value, dict) else value
