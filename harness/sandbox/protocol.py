"""Requests to a sandboxed child and its replies: records and raw bytes, never a pickle; runs are in `core.run`.

A message on the wire is a JSON header followed by blobs (`harness.sandbox.wire`). The child's answer is data from an
untrusted process: its size is bounded, and it is structured strictly (`core.serialisation`) before anyone reads it.
"""

from __future__ import annotations

from attrs import field, frozen

from ...core.candidate import Failure, Recording
from ...core.plan import Kernel
from ...core.run import InitArgument, TensorSpec
from ...core.task import Profile


@frozen(kw_only=True)
class RecordRequest:
    """Record `ModelNew(*init_args, **init_kwargs).forward(*inputs)` once.

    `init_json` is the JSON text of {"args": [...], "kwargs": {...}} (numbers, booleans, strings, null, nested lists).
    With `compile` the kernels are compiled for the sandbox's target and the answer has their binaries' blobs.
    A plan at the declared sizes carries no parameters' values, which would cost what building the model costs, unless
    `with_values` asks for them. An autotuner takes its first configuration that can be launched, or the one at the
    position that `choice` has for it, tuners in the order of their first use. With `measured` the first pass is
    recorded as a process's first call, in which tuners measure: besides what they choose, they launch what they have at
    these positions (`autotuning`). Where a `decisive` one fails, the requests after it are left out of the answer.
    """

    profile: Profile
    dtype: str
    init_json: str
    seed: int
    inputs: tuple[TensorSpec | InitArgument, ...]
    compile: bool = False
    with_values: bool = False
    decisive: bool = False
    choice: tuple[int, ...] = ()
    measured: tuple[int, ...] | None = None


@frozen(kw_only=True)
class RecordReply:
    """Recordings in the order of the requests, or the failure of the child as a whole; `blobs` by SHA-256.

    After a decisive request that failed there are none.
    """

    recordings: tuple[Recording, ...] = ()
    blobs: dict[str, bytes] = field(factory=dict)
    failure: Failure | None = None
    seconds: float = 0.0


@frozen(kw_only=True)
class RecompileReply:
    """Kernels of the launches as compiled from the source's text alone, or the failure."""

    kernels: tuple[Kernel, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0


@frozen(kw_only=True)
class TraceReply:
    """Hash of a program's operation graph, or what keeps it from having one."""

    graph: str = ""
    problem: str = ""
