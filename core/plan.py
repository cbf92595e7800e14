"""Launch plans: a forward pass as data (docs/decisions/0001-launch-plans.md).

A plan says which buffers exist, which kernels are launched on which views of them, and what is returned. It is
recorded from the candidate's host code with no values present, so it can be audited, compiled, timed and executed
without running that host code again. Everything here is plain data that round-trips through JSON; compiled code
travels beside the plan as blobs, named by their SHA-256.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Literal

from attrs import frozen

Purity = Literal["strict", "lenient"]
"""Whether PyTorch operators may compute beside the kernels: never, or as steps of the plan that are counted."""


class BufferKind(StrEnum):
    INPUT = "input"
    """A tensor of `get_inputs()`; `name` is its position."""
    PARAMETER = "parameter"
    """A parameter or registered buffer of `ModelNew`; `name` is its state-dict key."""
    CONSTANT = "constant"
    """Another tensor with real values that the host code made in `__init__`; its values travel as a blob."""
    TEMPORARY = "temporary"
    """Allocated in `forward`, outputs included; holds NaN until something writes it."""


@frozen(kw_only=True)
class Buffer:
    """One storage. `num_elements` counts elements of `dtype` (a torch dtype's name, such as "float32")."""

    kind: BufferKind
    name: str
    dtype: str
    num_elements: int
    blob: str | None = None
    """SHA-256 of the initial values' raw bytes (constants, and parameters that the reference does not name)."""

    @property
    def title(self) -> str:
        """Return what a person reads."""
        kind = "parameter or registered buffer" if self.kind is BufferKind.PARAMETER else self.kind
        return f"{kind} {self.name}".strip()


@frozen(kw_only=True)
class View:
    """A strided window onto the buffer with index `buffer`; `offset` and `stride` count elements of `dtype`."""

    buffer: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str


class ArgumentKind(StrEnum):
    VIEW = "view"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    STR = "str"
    NONE = "none"
    DTYPE = "dtype"
    """A `triton.language` dtype; `text` holds its name, such as "float32"."""
    FUNCTION = "function"
    """Another `@triton.jit` function passed as a constexpr; `text` holds its qualified name."""
    LIST = "list"
    """A list of the other kinds, for operators; a kernel's constexpr tuple of numbers, `text` holding them as JSON."""


@frozen(kw_only=True)
class Argument:
    """One argument of a launch, by the kernel's parameter name; exactly the field that `kind` names is set."""

    name: str
    kind: ArgumentKind
    constexpr: bool = False
    view: View | None = None
    number: int | float | None = None
    text: str | None = None


@frozen(kw_only=True)
class CompiledAccess:
    """An access of compiled code to a pointer parameter: "load", "load ahead" (in a loop that is pipelined) or "store".

    `layout` says how a block is spread over threads, in the compiler's words and after its sizes, and is empty for a
    single element; `loop` numbers the innermost loop around it, and is -1 outside of loops.
    """

    parameter: str
    kind: str
    layout: str
    loop: int


@frozen(kw_only=True)
class Kernel:
    """A `@triton.jit` function as the plan uses it, with what compilation for the target found.

    `qualname` and `source_sha256` identify the function; the fields after them are null where the plan was recorded
    without compiling. `options` are what the launch set beside the kernel's parameters (num_warps, ...), by name.
    `signature` has the run-time parameters with Triton's names of their types, in order, and
    `scratch_bytes` is the global memory that each block of a launch needs. `reads` and `writes` name the pointer
    parameters that the optimised Triton IR loads from and stores to; `has_dot` says whether it uses matrix units,
    `dot_precision` is "tf32", "tf32x3" or "ieee", and `dot_operands` are the element types that it multiplies, in the
    compiler's spelling ("f16", "f32").
    """

    qualname: str
    source_sha256: str
    binary: str | None = None
    """SHA-256 of the compiled code's blob; of its PTX where nobody wants to load it."""
    options: tuple[tuple[str, int | float | str | bool | None], ...] = ()
    entry_point: str | None = None
    num_warps: int | None = None
    shared_bytes: int | None = None
    signature: tuple[tuple[str, str], ...] = ()
    num_ctas: int = 1
    is_cooperative: bool = False
    scratch_bytes: int = 0
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    has_dot: bool = False
    dot_precision: str | None = None
    dot_operands: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()
    """The floating-point types that it converts wider ones to, in the compiler's spelling."""
    places_by_floats: bool = False
    """Whether a position goes through a floating-point number on its way to an address or mask."""
    accesses: tuple[CompiledAccess, ...] = ()
    """What the Triton GPU IR says of layouts and of the order of loads and stores."""


@frozen(kw_only=True)
class Launch:
    """Launch the kernel with index `kernel` on a grid of programs."""

    kernel: int
    grid: tuple[int, int, int]
    arguments: tuple[Argument, ...]

    @property
    def views(self) -> dict[str, View]:
        """Return the tensors among its arguments, by the parameters' names."""
        given = ((each.name, each.view) for each in self.arguments if each.kind is ArgumentKind.VIEW)
        return {name: view for name, view in given if view is not None}


@frozen(kw_only=True)
class Fill:
    """Set every element of `target` to `value` (zeros, ones, full).

    JSON has no infinity: where the value is not finite, `value` is 0 and `nonfinite` is "inf", "-inf" or "nan".
    """

    target: View
    value: float
    nonfinite: str | None = None


@frozen(kw_only=True)
class Copy:
    """Copy `source` to `target`, converting the dtype where they differ (contiguous, clone, copy_, to)."""

    source: View
    target: View


@frozen(kw_only=True)
class Operand:
    """One argument of an operator, positional where `keyword` is empty; exactly the field that `kind` names is set."""

    kind: ArgumentKind
    keyword: str = ""
    view: View | None = None
    number: int | float | None = None
    text: str | None = None
    items: tuple[Operand, ...] = ()


def plain_value(given: Argument | Operand) -> bool | int | float | str | tuple[bool | int | float, ...] | None:
    """Return the value of an argument that is nothing, a truth value, a number, several, or a text; else its `text`."""
    match given.kind:
        case ArgumentKind.NONE:
            return None
        case ArgumentKind.BOOL:
            return bool(given.number)
        case ArgumentKind.INT:
            return given.number
        case ArgumentKind.FLOAT:
            # JSON has no form for what is not finite, so that is kept as text
            return float(given.text if given.number is None else given.number)  # type: ignore[arg-type]
        case ArgumentKind.LIST:
            return tuple(json.loads(given.text or "[]"))
    return given.text


@frozen(kw_only=True)
class Operator:
    """Compute a functional ATen operator, such as "add.Tensor", and store its results in `outputs`."""

    name: str
    operands: tuple[Operand, ...]
    outputs: tuple[View, ...]

    @property
    def inputs(self) -> tuple[View, ...]:
        """Return the views that it reads."""
        operands = [item for operand in self.operands for item in (operand, *operand.items)]
        return tuple(operand.view for operand in operands if operand.view is not None)


Step = Launch | Fill | Copy | Operator


def views_of(step: Step) -> tuple[View, ...]:
    """Return all views that a step names."""
    match step:
        case Launch():
            return tuple(argument.view for argument in step.arguments if argument.view is not None)
        case Fill():
            return (step.target,)
        case Copy():
            return step.source, step.target
    return *step.inputs, *step.outputs


@frozen(kw_only=True)
class LaunchPlan:
    """A recorded forward pass.

    `outputs` are the returned tensors in order. `arithmetic` names each call of a PyTorch operator that computes
    (anything but views, allocation, fills and copies), in order; where a plan can hold the call it is an `Operator`
    step too. The audit refuses such a plan at purity "strict", and at "lenient" one with a call that is no step.
    `target` is the architecture that the kernels were compiled for, null where they were not compiled.
    """

    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    outputs: tuple[View, ...]
    arithmetic: tuple[str, ...] = ()
    target: str | None = None

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Return the kernel launches, in order."""
        return tuple(step for step in self.steps if isinstance(step, Launch))

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Return the steps that PyTorch computes, in order."""
        return tuple(step for step in self.steps if isinstance(step, Operator))
