"""Compare what a candidate's host code remembers between two calls of forward, as far as it is plain data.

A forward that is honest ten times and then skips the work is not seen by any number of passes that one can afford. So
what the module and the model hold is compared after the first pass and after the second: a cache that the first pass
fills is the same after both, a counter is not, and no genuine forward needs one. What something is counts beside what
it holds (an object's class, a function's code, where the same object was met before), so that no call can hand the
next one to another class or function, or step along a chain of equal objects. Tensors' values and what objects of
other modules hold are left out; tensors' sizes, and plain attributes of tensors and of imported modules, are not; nor
is what any call can count in: random generators, iterators, the filters of warnings. Below the walk's depth an object
must be the very same.
"""

from __future__ import annotations

import abc
import array
import collections
import collections.abc
import functools
import hashlib
import itertools
import operator
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from attrs import define, field, frozen
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime.jit import KernelInterface

Snapshot = dict[str, Any]
_PLAIN = (bool, int, float, str, bytes, type(None))
_WRITTEN = (torch.dtype, torch.device, complex, range, slice, type(Ellipsis))
_MADE_ONCE = (KernelInterface, types.BuiltinFunctionType, types.MethodDescriptorType, types.CodeType)
_IMMUTABLE = 1 << 8
"""CPython's Py_TPFLAGS_IMMUTABLETYPE: nobody can set an attribute of such a class."""
_MAX_DEPTH = 12
_MAX_ENTRIES = 20_000


@functools.cache
def _is_plain(kind: type) -> bool:
    """Return whether values of a class are plain."""
    return issubclass(kind, _PLAIN)


@frozen(eq=False)
class _Identity:
    """Something that is compared by being the same, and that lives as long as the snapshot."""

    of: object


def take_snapshot(module: types.ModuleType, model: torch.nn.Module) -> Snapshot:
    """Return plain values, and identities of objects, by where they are held."""
    walk = _Walk(module.__name__)
    for name, holder, key in _COUNTS:
        count = vars(holder).get(key)
        if type(count) is int:
            walk.found[name] = count
        else:
            walk.visit(count, name, 0)
    for path, value in itertools.chain(vars(module).items(), [("ModelNew()", model)], _of_the_process()):
        walk.visit(value, path, 0)
    return walk.found


def _of_the_process() -> Iterator[tuple[str, Any]]:
    """Yield what a call could leave in Python and PyTorch for the next one to read."""
    yield "warnings.filters", len(warnings.filters)
    yield "torch.default_generator", torch.default_generator
    yield "abc.get_cache_token()", abc.get_cache_token()


def _find_counts() -> tuple[tuple[str, Any, str], ...]:
    """Return where PyTorch and Triton keep a number that is no constant, in a public module or in a class of one."""
    holders: list[tuple[str, Any]] = [
        (name, module)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ("torch", "triton") and "._" not in name and isinstance(module, types.ModuleType)
    ]
    for name, module in list(holders):
        classes = [value for value in list(vars(module).values()) if issubclass(type(value), type)]
        holders += [
            (f"{name}.{kind.__name__}", kind)
            for kind in classes
            if kind.__module__ == name and not kind.__flags__ & _IMMUTABLE
        ]
    return tuple(
        (f"{name}.{key}", holder, key)
        for name, holder in holders
        for key, value in list(vars(holder).items())
        if type(value) is itertools.count or (type(value) is int and not key.isupper() and not key.startswith("__"))
    )


_COUNTS = _find_counts()


def find_changes(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Return where the two differ."""
    return tuple(
        name
        for name in dict.fromkeys([*before, *after])
        if name not in before or name not in after or not _is_same(before[name], after[name])
    )


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, _Identity) and isinstance(other, _Identity):
        return one.of is other.of
    # 1 is True and 0.0 is -0.0, but not here; a NaN is a NaN
    return one is other or repr(one) == repr(other)


@define
class _Walk:
    """Finds what is held, from several roots; nothing that it has met goes away meanwhile, so that addresses tell."""

    own: str
    found: Snapshot = field(factory=dict)
    seen: dict[int, tuple[str, object]] = field(factory=dict)
    """Where an object was first met, and the object."""

    def visit(self, value: Any, path: str, depth: int) -> None:
        """Note a value and what it holds."""
        found = self.found
        if isinstance(value, _PLAIN):
            found[path] = value
        elif isinstance(value, _MADE_ONCE) or (type(value) is type and value.__flags__ & _IMMUTABLE):
            found[path] = _Identity(value)
        elif isinstance(value, _WRITTEN):
            found[path] = repr(value)
        elif type.__instancecheck__(torch.Generator, value):  # its own class's check is written in Python
            with torch._C.DisableTorchFunction(), _disable_current_modes():
                state = value.get_state().numpy().tobytes()
                found[path] = (value.initial_seed(), hashlib.sha256(state).hexdigest())
        elif isinstance(value, torch.Tensor):
            if not self._is_known(value, path):
                found[f"{path}.is"] = repr((value.dtype, value.shape, value.stride(), value.storage_offset()))
                self._note_attributes(value, path)
        elif isinstance(value, types.ModuleType):
            self._note_attributes(value, path)
        else:
            found[f"{path}.is"] = _Identity(value if isinstance(value, type) else type(value))
            if id(value) not in self.seen and depth >= _MAX_DEPTH:
                found[f"{path}.below"] = _Identity(value)
            elif not self._is_known(value, path):
                for name, part in _parts(value, self.own):
                    if len(found) >= _MAX_ENTRIES:
                        return
                    if _is_plain(type(part)):  # type: ignore[arg-type]
                        found[f"{path}.{name}"] = part
                    else:
                        self.visit(part, f"{path}.{name}", depth + 1)

    def _is_known(self, value: object, path: str) -> bool:
        """Note where an object was first met; returns whether it was met before."""
        first = self.seen.setdefault(id(value), (path, value))[0]
        if first is path:
            return False
        self.found[f"{path}.first met"] = first
        return True

    def _note_attributes(self, value: Any, path: str) -> None:
        # modules have thousands, nearly none of them plain
        attributes = getattr(value, "__dict__", {})
        plain = itertools.compress(attributes.items(), map(_is_plain, map(type, attributes.values())))
        self.found.update({f"{path}.{name}": part for name, part in list(plain)})


def _parts(value: Any, own: str) -> Iterator[tuple[str, Any]]:
    """Return what a container, or something that the candidate has defined, holds."""
    if isinstance(value, (list, tuple, collections.deque, bytearray, array.array)):
        yield "length", len(value)
        yield from ((str(index), item) for index, item in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield "length", len(value)
        yield "items", " ".join(sorted(repr(item) for item in value if isinstance(item, _PLAIN)))
    elif isinstance(value, dict):
        yield "length", len(value)
        yield "keys", " ".join(repr(key) for key in value if isinstance(key, _PLAIN))
        yield from ((f"{index}", item) for index, item in enumerate(value.values()))
    elif isinstance(value, types.FunctionType):
        yield "code", value.__code__
        if value.__module__ == own:
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
    elif isinstance(value, collections.abc.Iterator) and type(value).__module__ in ("builtins", "itertools"):
        # how an iterator would be copied says where it stands
        yield from ((f"left.{index}", part) for index, part in enumerate(_copy(value)))
    elif isinstance(value, functools.partial):
        yield from (("function", value.func), ("arguments", value.args), ("keywords", value.keywords))
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
    else:
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            yield from ((name, part) for name, part in list(held.items()) if isinstance(part, _PLAIN))


def _copy(iterator: Iterator[Any]) -> tuple[Any, ...]:
    try:
        made = iterator.__reduce__()
    except TypeError:  # not every one can be copied
        return (operator.length_hint(iterator),)
    return made[1:] if isinstance(made, tuple) else ()


def _slots(kind: type) -> tuple[str, ...]:
    slots = getattr(kind, "__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
