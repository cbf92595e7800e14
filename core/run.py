"""Runs of a launch plan: what is asked of a backend, and what one execution leaves behind.

Records alone. The sandbox's interpreter and the process that holds a GPU answer the same requests.
"""

from __future__ import annotations

from attrs import frozen

from .candidate import Failure, Variant
from .plan import LaunchPlan

InitArgument = int | float | bool | str | None


@frozen(kw_only=True)
class TensorSpec:
    """An input of `forward` that is a tensor: what recording needs to know of it (no values).

    A `stride` of null is that of a contiguous tensor which begins where its storage does and fills it. Otherwise the
    tensor begins at `offset` in a storage of `storage_size` elements.
    """

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...] | None = None
    offset: int = 0
    storage_size: int = 0


@frozen(kw_only=True)
class RunRequest:
    """Execute `plan` under Triton's interpreter.

    `storages` gives the raw bytes of each buffer of the plan that is not a temporary, by index, exactly `num_elements`
    long; temporaries hold what memory holds that nothing has written. Where buffers lie is drawn from `seed`. With
    `num_programs`, each launch runs at most so many of its programs, drawn from `seed` too; 0 = all. With `reverse`,
    each launch runs its programs from the last to the first, and what else is chance on a GPU comes out otherwise
    (`sandbox.interpreter.buffers.place`). `programs` are further ones that run, by their numbers. With `num_lanes`
    nothing but a scan is made (`sandbox.interpreter.vectorized_scan`), which may cost as many; it also says which
    programs had to do with the element that `watched` names, by an output's number and a position in it. With both,
    launches before the last run whole, all programs at once, and of the last one `num_programs` one by one.
    `float_digits` are the binary digits that whole numbers in float32 have there; 0 for its own.
    """

    variant: Variant
    plan: LaunchPlan
    storages: dict[int, bytes]
    num_programs: int = 0
    seed: int = 0
    reverse: bool = False
    programs: tuple[int, ...] = ()
    num_lanes: int = 0
    watched: tuple[int, int] | None = None
    float_digits: int = 0


@frozen(kw_only=True)
class LaunchSample:
    """Counts of the elements of returned buffers that the drawn programs of a launch wrote.

    `written_by_program` counts, for each program, the elements that no program had written before. It leaves out
    `num_unknown` programs, which depend on results of programs that did not run. `overlaps` says that one of them
    stored to such an element that another one had written. Where not all programs were drawn, `stored_by_program`
    counts the elements that each stored to, whoever had written them, and `new_along` has, for each axis of the grid,
    the shares of a program's elements that the one before it along the axis did not store to.
    """

    written_by_program: tuple[int, ...]
    num_unknown: int = 0
    overlaps: bool = False
    stored_by_program: tuple[int, ...] = ()
    new_along: tuple[tuple[float, ...], ...] = ()


@frozen(kw_only=True)
class RunResult:
    """Outputs and side effects of one execution.

    `outputs` are the raw bytes of the returned views, contiguous, in the plan's order. `mutated` are indices of
    input, parameter and constant buffers whose bytes changed; `out_of_bounds` are indices of buffers beside which
    something was written (on a GPU alone: the interpreter refuses such an access). Where programs were sampled,
    `written` has a bit for each element of each output, in NumPy's order of bits: whether a kernel's store reached it.
    Of a scan it has four bytes for each: the number of the program that wrote it last, from 1 on, or 0; and `sample`
    says of how many programs nothing else is known, and, in the place of counts, which had to do with what is watched.
    `work` counts what the interpreter computed (`sandbox.interpreter.semantics.patches`): unlike `seconds`, it is the
    same on every machine, so that decisions may rest on it.
    """

    variant: Variant
    outputs: tuple[bytes, ...] = ()
    written: tuple[bytes, ...] = ()
    tainted: tuple[bytes, ...] = ()
    sample: tuple[LaunchSample, ...] | None = None
    """Of each launch, in order."""
    mutated: tuple[int, ...] = ()
    out_of_bounds: tuple[int, ...] = ()
    failure: Failure | None = None
    work: int = 0
    seconds: float = 0.0


@frozen(kw_only=True)
class RunReply:
    """Results in the order of the requests, or the failure of the child as a whole."""

    results: tuple[RunResult, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0
