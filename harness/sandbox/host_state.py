"""What a candidate's host code remembers between two calls of forward, as far as it is plain data.

Two passes over the same sizes that give the same plan may still count: a forward that is honest ten times and then
skips the work is not seen by any number of passes that one can afford. So what the module and the model hold is
compared after the first pass and after the second. A cache that the first pass fills is the same after both; a counter
is not, and no genuine forward needs one. Tensors' values, compiled kernels and objects of other modules are left out;
plain attributes of tensors and of the modules that the candidate has imported are not.
"""

from __future__ import annotations

import array
import collections
import itertools
import operator
import types
from collections.abc import Iterator
from typing import Any

import torch

Snapshot = dict[str, Any]
_PLAIN = (bool, int, float, str, bytes, type(None))
_MAX_DEPTH = 6
_MAX_ENTRIES = 20_000


def take_snapshot(module: types.ModuleType, model: torch.nn.Module) -> Snapshot:
    """Plain values by where they are held."""
    roots = itertools.chain(vars(module).items(), [("ModelNew()", model)])
    found = itertools.chain.from_iterable(_walk(value, name, module.__name__, 0, set()) for name, value in roots)
    return dict(itertools.islice(found, _MAX_ENTRIES))


def find_changes(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Where the two differ."""
    # a NaN equals itself here
    return tuple(
        name
        for name in dict.fromkeys([*before, *after])
        if name not in before or name not in after or repr(before[name]) != repr(after[name])
    )


def _walk(value: Any, path: str, own: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, _PLAIN):
        yield path, value
        return
    if type(value) is itertools.count:
        yield path, repr(value)
        return
    if depth >= _MAX_DEPTH or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (torch.Tensor, types.ModuleType)):
        attributes = getattr(value, "__dict__", {})
        yield from ((f"{path}.{name}", part) for name, part in list(attributes.items()) if isinstance(part, _PLAIN))
        return
    for name, part in _parts(value, own):
        yield from _walk(part, f"{path}.{name}", own, depth + 1, seen)


def _parts(value: Any, own: str) -> Iterator[tuple[str, Any]]:
    """What a container, or something that the candidate has defined, holds."""
    if isinstance(value, (list, tuple, collections.deque, bytearray, array.array)):
        yield "length", len(value)
        yield from ((str(index), item) for index, item in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield "length", len(value)
    elif isinstance(value, dict):
        yield "length", len(value)
        # keys by position: their text may be an address
        yield from ((f"{index}", item) for index, item in enumerate(value.values()))
    elif isinstance(value, types.FunctionType) and value.__module__ == own:
        yield "defaults", value.__defaults__
        yield "keyword_defaults", value.__kwdefaults__
        yield "attributes", vars(value)
        for index, cell in enumerate(value.__closure__ or ()):
            try:
                yield f"closure.{index}", cell.cell_contents
            except ValueError:  # the cell is empty
                continue
    elif isinstance(value, types.GeneratorType):
        if value.gi_frame is not None:
            yield "position", value.gi_frame.f_lasti
            yield "locals", dict(value.gi_frame.f_locals)
    elif type(value).__module__ == "builtins" and hasattr(value, "__length_hint__"):
        yield "left", operator.length_hint(value)
    elif isinstance(value, types.MethodType):
        yield "function", value.__func__
        yield "self", value.__self__
    elif isinstance(value, (staticmethod, classmethod)):
        yield "function", value.__func__
    elif isinstance(value, property):
        yield "get", value.fget
    elif isinstance(value, type):
        if value.__module__ == own:
            yield from ((name, part) for name, part in vars(value).items() if name != "__dict__")
    elif isinstance(value, torch.nn.Module) or type(value).__module__ == own:
        yield from getattr(value, "__dict__", {}).items()
        yield from ((name, getattr(value, name, None)) for name in _slots(type(value)))


def _slots(kind: type) -> tuple[str, ...]:
    slots = getattr(kind, "__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
