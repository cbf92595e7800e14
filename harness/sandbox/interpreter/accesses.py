"""Accesses: a kernel's loads, stores, atomics and barriers are checked, poisoned and watched in the interpreter.

Left alone, the interpreter reads and writes any address. Here each access is checked before it happens (`buffers`). And
those who watch a launch are told of each access: what programs write (`coverage`), and whether they race (`races`).

Lanes that a mask excludes are 0 where a load has no `other=`, as in the interpreter left alone. Triton's manual leaves
them undefined, but what it compiles for sm_90 does not: the PTX sets the register to 0 before a predicated load of any
width, and an asynchronous copy of no bytes fills with zeros (decision 0016).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter

from . import buffers
from .semantics.patches import BUILDER, Patch, around
from .semantics.run_state import current_run


class Access:
    """One access of a block's lanes to memory; those that the mask excludes do not take part.

    `addresses` are those of the other lanes, in their order, and `lanes` tells which they are. `value` is what a store
    is about to leave there. What its program stored before is published by an atomic that `releases`, and what others
    published may be read after one that `acquires`. Of one that `is_narrow`, programs of other blocks are not told.
    """

    __slots__ = ("acquires", "addresses", "builder", "is_narrow", "lanes", "pointers", "releases", "value")

    def __init__(
        self,
        builder: Any,
        pointers: Any,
        mask: NDArray[np.bool_] | None,
        value: Any = None,
        order: str = "RELAXED",
        scope: str = "GPU",
    ) -> None:
        shape = pointers.data.shape
        self.is_narrow = scope == "CTA"
        self.acquires, self.releases = "ACQUIRE" in order, "RELEASE" in order
        self.builder, self.pointers, self.value = builder, pointers, value
        self.lanes: NDArray[np.bool_] = np.broadcast_to(np.asarray(True if mask is None else mask, dtype=bool), shape)
        self.addresses: NDArray[np.uint64] = pointers.data[self.lanes]

    @property
    def program(self) -> tuple[int, int, int]:
        """Return the place in the grid of the program that the interpreter runs."""
        place: tuple[int, int, int] = self.builder.grid_idx
        return place

    @property
    def element(self) -> Any:
        """Return the Triton type of what lies at each address."""
        return self.pointers.get_element_ty()

    def find_elements(self, start: int, shift: int = 0) -> NDArray[np.int64]:
        """Return the accessed elements of 2^`shift` bytes, by their distance from an address."""
        return (self.addresses.astype(np.int64) - start) >> shift

    def new_values(self) -> NDArray[Any]:
        """Return what a store leaves at each of the addresses, in the type of the value that is stored."""
        return np.broadcast_to(self.value.data, self.lanes.shape)[self.lanes]

    def held_values(self) -> NDArray[Any]:
        """Return what memory holds at each of the addresses; nobody is told of this look."""
        mask = interpreter.TensorHandle(self.lanes, tl.int1)
        held: NDArray[Any] = self.builder.load_unwatched(self.pointers, mask, None, None, None, False).data
        return held[self.lanes]


class Watcher:
    """Is told of the accesses of a launch, whose addresses have been checked; what it raises ends the program."""

    def load(self, access: Access) -> None:
        """Note a load that has happened."""

    def prepare_store(self, access: Access) -> Any:
        """Note a store that is about to happen; what is returned is given to `store`."""

    def store(self, access: Access, prepared: Any) -> None:
        """Note a store that has happened."""

    def combine(self, access: Access) -> None:
        """Note an atomic operation that has happened."""

    def wait(self) -> None:
        """Note a barrier, at which the lanes of the program have waited for each other."""

    def collect(self) -> None:
        """Note a collective operation of a block, whose results hang on values of other lanes."""

    def begin_loop(self) -> None:
        """Note the beginning of a loop that the compiler may pipeline."""

    def end_loop(self) -> None:
        """Note the end of the innermost such loop."""


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Tell a watcher of all accesses while the context lasts; of several, the last to come is told first."""
    watchers = current_run().watchers
    watchers.insert(0, watcher)
    try:
        yield
    finally:
        watchers.pop(0)


def _as_handle(mask: Any) -> Any:
    # a descriptor's mask is an array
    return mask if isinstance(mask, interpreter.TensorHandle) else interpreter.TensorHandle(mask, tl.int1)


def _load(self: Any, pointers: Any, mask: Any, other: Any, *options: Any, original: Any, **named: Any) -> Any:
    mask = _as_handle(mask)
    access = Access(self, pointers, mask.data)
    buffers.check_access(access.addresses, access.element)
    result = original(self, pointers, mask, other, *options, **named)
    for watcher in current_run().watchers:
        watcher.load(access)
    return result


def _store(self: Any, pointers: Any, value: Any, mask: Any, *options: Any, original: Any, **named: Any) -> Any:
    mask = _as_handle(mask)
    access = Access(self, pointers, mask.data, value)
    buffers.check_access(access.addresses, access.element)
    watchers = current_run().watchers
    prepared = [watcher.prepare_store(access) for watcher in watchers]
    result = original(self, pointers, value, mask, *options, **named)
    for watcher, own in zip(watchers, prepared, strict=True):
        watcher.store(access, own)
    return result


def _combine(self: Any, *operands: Any, original: Any, has_mask: bool) -> Any:
    # (operation, pointers, value, mask, order, scope), or (pointers, expected, value, order, scope)
    pointers, mask = (operands[1], operands[3].data) if has_mask else (operands[0], None)
    access = Access(self, pointers, mask, order=operands[-2].name, scope=operands[-1].name)
    buffers.check_access(access.addresses, access.element)
    result = original(self, *operands)
    for watcher in current_run().watchers:
        watcher.combine(access)
    return result


def _wait(self: Any, *, original: Any) -> Any:
    for watcher in current_run().watchers:
        watcher.wait()
    return original(self)


def _collect(self: Any, *operands: Any, original: Any) -> Any:
    for watcher in current_run().watchers:
        watcher.collect()
    return original(self, *operands)


PATCHES = (
    Patch(BUILDER, "load_unwatched", lambda _: BUILDER.create_masked_load),
    around(BUILDER, "create_masked_load", _load),
    around(BUILDER, "create_masked_store", _store),
    around(BUILDER, "create_atomic_rmw", _combine, has_mask=True),
    around(BUILDER, "create_atomic_cas", _combine, has_mask=False),
    around(BUILDER, "create_barrier", _wait),
    around(BUILDER, "create_dot", _collect),
    around(BUILDER, "create_histogram", _collect),
    around(interpreter.ReduceOps, "apply_impl", _collect),
    around(interpreter.ScanOps, "apply_impl", _collect),
)
