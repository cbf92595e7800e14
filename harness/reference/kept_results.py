"""A cache of what references returned, for several threads: large results while they fit, small facts for good."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")
_MOST_FACTS = 1 << 17
_MOST_KEPT_BYTES = 1 << 30
"""What takes more than this and all of the cache is not kept: memory that was asked for is given back after its run."""


class KeptResults:
    """Keeps what was made by key; safe to use from several threads.

    Results of known size are held up to `max_bytes`, the least recently used going first. What has no size is a fact
    about a task, asked for by every candidate and small: it stays.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._results: OrderedDict[tuple[Any, ...], tuple[Any, int]] = OrderedDict()
        self._facts: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[tuple[Any, ...], threading.Lock] = {}

    def once(self, key: tuple[Any, ...], make: Callable[[], T], measure: Callable[[T], int] | None = None) -> T:
        """Return what `make` returns, made once: threads that need it meanwhile wait, others do not.

        What is made may need other cached values, as long as none of them needs it in turn.
        """
        with self._lock:
            if self._has(key):
                return cast(T, self._get(key))
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                if self._has(key):
                    return cast(T, self._get(key))
            made = make()
            with self._lock:
                self._making.pop(key, None)
                self._put(key, made, None if measure is None else measure(made))
            return made

    def _has(self, key: tuple[Any, ...]) -> bool:
        return key in self._facts or key in self._results

    def _get(self, key: tuple[Any, ...]) -> Any:
        if key in self._facts:
            return self._facts[key]
        self._results.move_to_end(key)
        return self._results[key][0]

    def _put(self, key: tuple[Any, ...], made: Any, num_bytes: int | None) -> None:
        if num_bytes is None:
            self._facts[key] = made
            while len(self._facts) > _MOST_FACTS:
                self._facts.popitem(last=False)
            return
        if num_bytes > max(self._max_bytes, _MOST_KEPT_BYTES):
            return
        self._results[key] = (made, num_bytes)
        self._held_bytes += num_bytes
        while self._held_bytes > self._max_bytes and len(self._results) > 1:
            _, (_, released) = self._results.popitem(last=False)
            self._held_bytes -= released
