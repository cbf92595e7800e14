"""Specifies a kernel to write: a reference program, and the contract that "correct" promises.

A task is one module of Python source in KernelBench's form: `Model` (an `nn.Module`), `get_inputs()`,
`get_init_inputs()`, and module-level integer constants that size everything. The contract is that a kernel
works for other values of those constants and for every dtype that the task lists.
"""

from __future__ import annotations

import re
from enum import StrEnum

from attrs import field, frozen, validators

Constants = tuple[tuple[str, int], ...]
"""Values for module-level constants, as (name, value) pairs in the order of the source."""

DTYPES = ("float32", "float16", "bfloat16")

TASK_ID = re.compile(r"l([1-3])-([a-z0-9_]+)-([0-9a-f]{16})")
"""An id of the corpus: level, family and seed."""
NAMED: dict[str, str] = {
    "gemm-bias-relu": "l2-matmul_chain-1f7dccd9dae75348",
    "conv-bn-relu": "l2-conv_norm_chain-5a9569b7c19e2233",
}
"""Tasks for training that go by a name: the two that the study ran reinforcement learning on."""

SUITES = ("core13", "full", "extended", "field", "dialects", "open", "long")
"""The corpus' suites by name; `corpus.registry` says what they have."""
NOVEL = ("full:unseen", "field:unseen")
"""The suites of held-out tasks that no training task equals up to names and constants: docs/decisions/0007."""


class Split(StrEnum):
    """Which tasks a model may see: 90%, 5% and 5% of them."""

    TRAIN = "train"
    VALIDATION = "validation"
    HELDOUT = "heldout"


def splits_of(suite: str) -> tuple[Split, ...]:
    """Return the splits that a suite of the corpus has; the dialects that are held out have none to train on."""
    return tuple(split for split in Split if (suite, split) != ("dialects", Split.TRAIN))


OUR_SUITES = (*(f"{suite}:{split}" for suite in SUITES for split in splits_of(suite)), *NOVEL)


class Profile(StrEnum):
    """Which sizes a run uses; each but `DECLARED` is a rewrite of the task's module-level constants."""

    DECLARED = "declared"
    """The sizes in the source: what is compiled for the target, and what a GPU runs."""
    TINY = "tiny"
    """A few elements a dimension, no multiple of a block: the first check of values."""
    SMALL = "small"
    """What the interpreter runs in place of the declared sizes."""
    LARGER = "larger"
    """Larger than `SMALL` in every dimension: the input variant "larger dimensions" on the interpreter."""
    REMAINDER = "remainder"
    """One element more than whole blocks, and no size of another profile: a hidden variant's, derived by a rule."""
    NUMBERS = "numbers"
    """`SMALL` with other plain numbers among the arguments or, where there are none, a batch of one beside a size past
    a block: a hidden variant's, found by trying the reference."""
    INNER_ONE = "inner_one"
    """`SMALL` with one for a size that is no batch, and another past a block: a hidden variant's, which the judge's
    seed chooses."""
    ONE_SIZE = "one_size"
    """The declared sizes but for one, which is smaller: a hidden variant's, chosen and drawn by the judge's seed."""
    OTHER_SIZE = "other_size"
    """The same for another one."""
    TWICE = "twice"
    """The declared sizes but for one, which is more than twice as large: a hidden variant's, which the judge's seed
    chooses."""
    BETWEEN = "between"
    """Drawn between `LARGER` and the declared sizes: a hidden variant's, which the judge's seed decides."""
    BEYOND = "beyond"
    """Beyond the declared sizes and no multiple of anything: a hidden variant's, found by trying the reference."""
    WHOLE_BLOCKS = "whole_blocks"
    """Powers of two up to those that hold the declared sizes: a hidden variant's, found by trying the reference."""

    @property
    def is_large(self) -> bool:
        """Whether sizes are of the order of the declared ones: plans leave the reference's parameters to the judge."""
        return self in (
            *(Profile.DECLARED, Profile.BETWEEN, Profile.BEYOND, Profile.TWICE, Profile.WHOLE_BLOCKS),
            *SINGLE_SIZES,
        )


SINGLE_SIZES = (Profile.ONE_SIZE, Profile.OTHER_SIZE)


@frozen(kw_only=True)
class Task:
    """One kernel to write.

    `source` is the reference program; `dtypes` lists the input dtypes that the contract covers, the dtype that
    `get_inputs()` returns first. `tiny`, `small` and `larger` are the constants' values in those profiles; a
    constant that a profile leaves out keeps its declared value.
    """

    task_id: str = field(validator=validators.min_len(1))
    level: int = field(validator=validators.in_((1, 2, 3)))
    family: str
    description: str
    source: str
    dtypes: tuple[str, ...] = field(
        default=("float32",),
        validator=validators.and_(validators.min_len(1), validators.deep_iterable(validators.in_(DTYPES))),
    )
    tiny: Constants = ()
    small: Constants = ()
    larger: Constants = ()

    def constants(self, profile: Profile) -> Constants:
        """Return the constants that `profile` rewrites; raises ValueError for profiles that the oracle finds."""
        match profile:
            case Profile.DECLARED:
                return ()
            case Profile.TINY:
                return self.tiny
            case Profile.SMALL | Profile.NUMBERS | Profile.INNER_ONE:
                return self.small
            case Profile.LARGER:
                return self.larger
            case Profile.REMAINDER:
                return self._remainders()
            case _:
                raise ValueError(f"sizes of the profile {profile} are for the oracle to find")

    def _remainders(self) -> Constants:
        """For each constant that `small` rewrites, the next size that is one more than whole blocks of a power of two.

        What the reference accepts of them is for the oracle to find out.
        """
        taken = {*self.tiny, *self.small, *self.larger}
        return tuple(
            (name, _one_past_blocks(value, {size for other, size in taken if other == name}))
            for name, value in self.small
        )


def _one_past_blocks(value: int, taken: set[int]) -> int:
    block = 1 << max(0, value.bit_length() - 1)
    size = value // block * block + 1
    while size <= value or size in taken:
        size += block
    return size


@frozen(kw_only=True)
class Example:
    """A task with a solution known to be right: what SFT trains on and what `tasks validate` proves."""

    task: Task
    solution: str
    """Source of a module that defines `ModelNew` and its Triton kernels."""
    style: str
    """The teacher's style, for coverage counts."""
