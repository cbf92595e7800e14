"""Patches of Triton's interpreter: which of its attributes are replaced, and by what.

A patch makes a replacement of what it finds, so the order of patches matters where several replace one attribute.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import frozen
from triton.runtime import interpreter

INTERPRETER: Any = interpreter
BUILDER: Any = interpreter.InterpreterBuilder

Make = Callable[[Any], Any]


@frozen
class Patch:
    """Replaces the attribute `name` of `owner` by what `make` makes of it, or of None where there is none."""

    owner: Any
    name: str
    make: Make

    def apply(self) -> None:
        """Replace the attribute in this process."""
        setattr(self.owner, self.name, self.make(getattr(self.owner, self.name, None)))


def replace(owner: Any, name: str, value: Any) -> Patch:
    """Return a patch that does not look at what it replaces."""
    return Patch(owner, name, lambda _: value)


def replace_in_language(functions: Mapping[str, Make]) -> Patch:
    """Return a patch of functions of `triton.language`, which the interpreter itself replaces for every call."""

    def make(original: Any) -> Any:
        def patch_language(language: Any, scope: Any = None) -> None:
            original(*(value for value in (language, scope) if value is not None))
            put = setattr if scope is None else scope.set_attr
            for name, make_function in functions.items():
                put(language, name, make_function(getattr(language, name)))

        return patch_language

    return Patch(INTERPRETER, "_patch_lang_core", make)


@contextlib.contextmanager
def patched(patches: Iterable[Patch]) -> Iterator[None]:
    """Apply patches while the context lasts; those of attributes that this version of Triton has not are left out."""
    saved: list[tuple[Any, str, Any]] = []
    try:
        for patch in patches:
            if hasattr(patch.owner, patch.name):
                saved.append((patch.owner, patch.name, getattr(patch.owner, patch.name)))
                patch.apply()
        yield
    finally:
        for owner, name, value in reversed(saved):
            setattr(owner, name, value)
