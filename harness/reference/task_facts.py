"""Facts about tasks that verifiers ask for again and again, found out once and kept while they fit.

Which operators a reference has, what sizes and numbers it accepts beside its own, how much memory it takes. Most of it
is found with fake tensors, the rest at tiny sizes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import torch
from attrs import evolve

from ...core.candidate import ReferenceSignature
from ...core.seeds import derive
from ...core.serialisation import fingerprint
from ...core.task import SINGLE_SIZES, Constants, Profile, Task
from ...stages.operator_traits import OperatorTraits
from ...stages.roofline import EagerOperator
from .experiments import find_numbers, find_used_inputs
from .operators import trace_operators
from .reference import call_model, dtype_name, fake_reference
from .sizes.declared_sizes import (
    PAST_BLOCK,
    PAST_BLOCK_OF_A_PRODUCT,
    PAST_ROWS,
    accepted_remainders,
    find_batch_of_one,
    find_between,
    find_beyond,
    find_inner_axes,
    find_inner_one,
    find_past_block,
    find_single_sizes,
    find_twice,
    find_whole_blocks,
    is_quick,
    is_within_reach,
    measure_peak,
    with_declared,
)
from .sizes.past_bounds import find_past_bounds

T = TypeVar("T")
P = ParamSpec("P")
Owner = TypeVar("Owner", bound="TaskFacts")
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


_FLOATING = ("float64", "float32", "float16", "bfloat16")
MAX_CACHED_BYTES = 256 << 20
_Method = Callable[Concatenate[Owner, Task, P], T]


def keep(
    measure: Callable[[Any], int] | None = None, at_any_larger: bool = False
) -> Callable[[_Method[Owner, P, T]], _Method[Owner, P, T]]:
    """Keep what a method of `TaskFacts` returns, by its arguments; what has a `measure` in bytes, while it fits.

    `at_any_larger`: it is the same for a task that differs in its larger sizes alone.
    """

    def decorate(find: _Method[Owner, P, T]) -> _Method[Owner, P, T]:
        def find_once(self: Owner, task: Task, /, *args: P.args, **kwargs: P.kwargs) -> T:
            identity = fingerprint(evolve(task, larger=()) if at_any_larger else task)
            key = (find.__name__, identity, *args, *kwargs.values())
            found: T = self._kept.once(key, lambda: find(self, task, *args, **kwargs), measure)
            return found

        update_wrapper(find_once, find)
        return find_once

    return decorate


class TaskFacts:
    """Facts about tasks under one seed; safe to use from several threads."""

    def __init__(self, seed: int, max_cached_bytes: int = MAX_CACHED_BYTES) -> None:
        self.seed = seed
        self._kept = KeptResults(max_cached_bytes)

    def init_seed(self, task: Task) -> int:
        """The seed under which both models are built."""
        return derive(self.seed, fingerprint(task), "init")

    @keep(at_any_larger=True)
    def signature(self, task: Task) -> ReferenceSignature:
        """What the reference returns at the declared sizes, and which inputs and parameters it has."""
        with fake_reference(task, Profile.DECLARED, task.dtypes[0]) as (model, inputs):
            outputs = call_model(task, model, inputs)
            shapes = tuple(tuple(output.shape) for output in outputs)
            dtypes = tuple(dtype_name(output) for output in outputs)
            parameters = tuple(model.state_dict().keys())
            num_bytes = count_bytes((*inputs, *model.state_dict().values(), *outputs))
        return ReferenceSignature(
            shapes=shapes,
            dtypes=dtypes,
            used_inputs=find_used_inputs(task, self.seed, self.init_seed(task)),
            parameters=parameters,
            num_bytes=num_bytes,
        )

    @keep(at_any_larger=True)
    def operators(self, task: Task) -> tuple[EagerOperator, ...]:
        """The operators that eager PyTorch would run at the declared sizes."""
        return trace_operators(task)

    def traits(self, task: Task) -> OperatorTraits:
        """What those operators say of the inputs that may be asked for."""
        return OperatorTraits(self.operators(task))

    def resolves_ties(self, task: Task) -> bool:
        """Whether PyTorch says which of several equal values an integer result stands for: the first of them."""
        is_floating = all(dtype in _FLOATING for dtype in self.signature(task).dtypes)
        return is_floating or not self.traits(task).is_unordered

    @keep()
    def remainder(self, task: Task) -> Constants:
        """The sizes of the variant "remainder" that the reference accepts; empty where it accepts none."""
        return accepted_remainders(task)

    @keep()
    def beyond(self, task: Task) -> Constants:
        """The sizes of the variant "beyond" that the reference accepts; empty where there are none within reach."""
        return find_beyond(task, self.remainder(task))

    @keep()
    def between(self, task: Task) -> Constants:
        """The sizes of the variant "between", which this seed draws; empty where there is no room for any."""
        return find_between(task, self.remainder(task), derive(self.seed, fingerprint(task), "between"))

    @keep()
    def whole_blocks(self, task: Task) -> Constants:
        """The sizes of the variant "whole_blocks" that the reference accepts; empty where there are none."""
        return find_whole_blocks(task, self.remainder(task))

    @keep()
    def batch_of_one(self, task: Task) -> Constants:
        """The size of the variant "numbers" that is one: where there are no numbers, as few rows would show them less.

        Beside it another lies past a block, and alone where the reference accepts no batch of one.
        """
        if self.numbers(task):
            return ()
        ones = find_batch_of_one(task, self.remainder(task))
        is_product = bool(ones) and self.traits(task).num_products > 0
        return (*ones, *self._past_block(task, ones, PAST_BLOCK_OF_A_PRODUCT if is_product else PAST_BLOCK, "numbers"))

    @keep()
    def inner_one(self, task: Task) -> Constants:
        """The size of the variant "inner_one" that is one: another than a batch of one, beside one past a block.

        Empty where there is neither.
        """
        batch = [name for name, size in self.batch_of_one(task) if size == 1]
        others = tuple(pair for pair in self.remainder(task) if pair[0] not in batch)
        ones = find_inner_one(task, others, derive(self.seed, fingerprint(task), "inner_one"))
        # where nothing may be one, no batch of one has met a block of elements
        return (*ones, *self._past_block(task, ones, PAST_ROWS if ones else PAST_BLOCK, "inner_one"))

    def _past_block(self, task: Task, ones: Constants, size: int, variant: str) -> Constants:
        seed = derive(self.seed, fingerprint(task), "past_block", variant)
        return find_past_block(task, self.remainder(task), ones, size, seed)

    @keep()
    def single_sizes(self, task: Task) -> tuple[Constants, ...]:
        """The sizes of the variants "one_size" and "other_size", as many as there are; all but one are as declared."""
        seed = derive(self.seed, fingerprint(task), "single_sizes")
        return find_single_sizes(task, self.remainder(task), seed, len(SINGLE_SIZES))

    @keep()
    def twice(self, task: Task) -> Constants:
        """The size of the variant "twice" that is more than that, all others as declared; empty where there is none."""
        return find_twice(task, self.remainder(task), derive(self.seed, fingerprint(task), "twice"))

    @keep()
    def past_bounds(self, task: Task, bounds: tuple[int, ...]) -> tuple[Constants, ...]:
        """Sizes past these integers of a candidate's text, each with the dimension first that is moved so."""
        seed = derive(self.seed, fingerprint(task), "past_bounds")
        return find_past_bounds(task, bounds, seed)

    @keep()
    def inner_axes(self, task: Task) -> tuple[tuple[str, int], ...]:
        """The two axes that the reference's product adds over, of inputs by position and of parameters by name."""
        return find_inner_axes(task, self.remainder(task))

    @keep()
    def numbers(self, task: Task) -> tuple[tuple[int, Any], ...]:
        """The plain numbers of the variant "numbers", by position; those that the reference accepts, one by one."""
        return find_numbers(task, self.init_seed(task))

    def has_numbers(self, task: Task) -> bool:
        """Whether the variant "numbers" differs from the original."""
        return bool(self.numbers(task) or self.batch_of_one(task))

    @keep()
    def is_within_reach(self, task: Task) -> bool:
        """Whether the declared sizes can be computed here in about a second."""
        return is_within_reach(task)

    @keep()
    def is_quick(self, task: Task) -> bool:
        """Whether every variant can be run at the declared sizes where there is a GPU."""
        return is_quick(task)

    @keep()
    def measure_parameters(self, task: Task) -> int:
        """Bytes of the reference's parameters at the declared sizes."""
        with fake_reference(task, Profile.DECLARED, task.dtypes[0]) as (model, _):
            return count_bytes(model.state_dict().values())

    @keep()
    def measure_bytes(self, task: Task, profile: Profile) -> float:
        """Bytes at one profile's sizes: of the reference's inputs, parameters and results, or of more on the way."""
        sized, kind = self._sized(task, profile)
        constants = () if kind is Profile.DECLARED else sized.constants(kind)
        return measure_peak(with_declared(sized, constants) if constants else sized)[0]

    def _sized(self, task: Task, profile: Profile) -> tuple[Task, Profile]:
        """The task with a derived profile's sizes in the place of `LARGER`, and the profile to load it with."""
        if profile is Profile.BEYOND:
            return with_declared(task, self.beyond(task)), Profile.DECLARED
        if profile in SINGLE_SIZES:
            return with_declared(task, self.single_sizes(task)[SINGLE_SIZES.index(profile)]), Profile.DECLARED
        if profile is Profile.TWICE:
            return with_declared(task, self.twice(task)), Profile.DECLARED
        if profile is Profile.WHOLE_BLOCKS:
            return with_declared(task, self.whole_blocks(task)), Profile.DECLARED
        if profile is Profile.BETWEEN:
            sizes = self.between(task)
            return (with_declared(task, sizes), Profile.DECLARED) if sizes else (task, Profile.SMALL)
        find = {
            Profile.REMAINDER: self.remainder,
            Profile.NUMBERS: self.batch_of_one,
            Profile.INNER_ONE: self.inner_one,
        }.get(profile)
        if find is None:
            return task, profile
        own = find(task)
        small = {**dict(task.small), **dict(own)}
        return evolve(task, larger=tuple(small.items())), Profile.LARGER


def count_bytes(values: Iterable[Any]) -> int:
    """Return the memory of those values that are tensors."""
    return sum(value.nbytes for value in values if isinstance(value, torch.Tensor))
