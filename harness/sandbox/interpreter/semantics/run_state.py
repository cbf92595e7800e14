"""The state of a run of the interpreter: its draws where a GPU leaves something to chance, its spans and watchers.

A process makes one run at a time, and the interpreter's operations have no argument for it, so there is one current
state. `begin_run` replaces it whole: nothing of one run is left for the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import define, field, frozen

_LANES_OF_A_WARP = 32


@frozen
class Layout:
    """A layout of a block: how many neighbouring elements a thread holds, and how many warps there are.

    Compiled, a thread holds some elements beside each other, the threads of a warp come one after another, then the
    warps, then the next such stretch. How many lie beside each other follows from the loads and stores around, so it is
    not known here: by default one, and runs that say so draw it. A function that may combine is right with any number.
    """

    beside: int = 1
    warps: int = 4

    def split(self, size: int) -> tuple[int, int, int, int]:
        """Split so many elements (a power of two) into the numbers of stretches, warps, lanes and neighbours."""
        beside = min(self.beside, size)
        lanes = min(_LANES_OF_A_WARP, size // beside)
        warps = min(self.warps, size // (beside * lanes))
        return size // (beside * lanes * warps), warps, lanes, beside


def draw_layout(seed: int) -> Layout:
    """Draw a layout in which a thread holds several neighbours."""
    draw = np.random.default_rng((seed, 1))
    return Layout(beside=int(draw.choice((2, 4, 8))), warps=int(draw.choice((1, 2, 4, 8))))


@define
class RunState:
    """Holds what one run draws, confines and watches.

    `error_seed` draws the errors of approximate functions, None for none. Accesses must lie in the spans of memory that
    begin at `starts` and end at `stops`, both ascending. `watchers` (`accesses.Watcher`) are told of accesses and
    loops, and `hints` (`hints.HintCheck`) of hints.
    """

    seed: int = 0
    layout: Layout = Layout()
    error_seed: int | None = None
    holds_zeros: bool = False
    float_digits: int = 0
    """The binary digits that whole numbers in float32 have; 0 for its own."""
    num_poisoned: int = 0
    """Operations that have had lanes filled with poison."""
    num_atomics: int = 0
    """Atomic operations that have had their lanes ordered."""
    work: int = 0
    """The elements of all values that were computed, each value counted as `patches.WORK_OF_A_VALUE` more."""
    starts: list[int] = field(factory=list)
    stops: list[int] = field(factory=list)
    watchers: list[Any] = field(factory=list)
    hints: Any = None


_current = [RunState()]


def current_run() -> RunState:
    """Return the state of the run that is being made."""
    return _current[0]


def begin_run(
    seed: int,
    *,
    layout: Layout = Layout(),
    error_seed: int | None = None,
    holds_zeros: bool = False,
    float_digits: int = 0,
) -> RunState:
    """Begin a run and return its state.

    From `seed` come the orders of atomic operations and of blocks that may be reordered, and results that are not
    defined. With `holds_zeros`, memory that nothing has written and undefined lanes are zero.
    """
    _current[0] = RunState(
        seed=seed, layout=layout, error_seed=error_seed, holds_zeros=holds_zeros, float_digits=float_digits
    )
    return _current[0]
