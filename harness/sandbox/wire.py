"""Messages between judge, zygote and child: their records, and the frames in which they travel.

A frame is a JSON object followed by raw byte strings, each with its length in front. The reader bounds every length
before it allocates, and what it reads is data: no pickle, no code. A frame that breaks a rule raises `FrameError`.
A child's answer is structured strictly (`core.serialisation`) before anyone reads it. Records of runs are in
`core.run`.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from attrs import evolve, field, frozen

from ...core.candidate import Failure, Recording
from ...core.plan import Kernel, LaunchPlan
from ...core.run import InitArgument, RunResult, TensorSpec
from ...core.serialisation import from_plain, to_plain
from ...core.task import Profile


class Depth(StrEnum):
    """How far kernels are compiled: to the GPU IR with its layouts, to PTX, or to code that a GPU can load."""

    LAYOUTS = "layouts"
    PTX = "ptx"
    CODE = "code"


@frozen(kw_only=True)
class RecordRequest:
    """Record `ModelNew(*init_args, **init_kwargs).forward(*inputs)` once.

    `init_json` is what `core.serialisation.write_arguments` makes of them.
    With `compile` the kernels are compiled for the sandbox's target and the answer has their binaries' blobs: at
    the declared sizes as Triton does, which tells the compiler what 16 divides, at others for any numbers, so that
    one compilation serves many sizes. A plan at large sizes carries no parameters' values, which would cost what
    building the model costs, unless `with_values` asks for them. An autotuner takes its first configuration that
    can be launched, or the one at the position that `choice` has for it, tuners in the order of their first use.
    With `measured` the first pass is recorded as a process's first call, in which tuners measure: besides what they
    choose, they launch what they have at these positions (`autotuning`). `is_same_in_evaluation`: the mode of
    training or evaluation must not matter. `is_built_twice`: a second model of the process must do the same, after
    calls with each of `neighbours`, inputs of which one size is another. `is_called_once`: one pass is all, as
    where others have been looked at. `is_on_smaller_card`: the device has fewer multiprocessors than the target's,
    in all recordings of a child or in none. Where a `decisive` one fails, the requests after it are left out of the
    answer.
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
    is_same_in_evaluation: bool = False
    is_built_twice: bool = False
    neighbours: tuple[tuple[TensorSpec | InitArgument, ...], ...] = ()
    is_called_once: bool = False
    is_on_smaller_card: bool = False


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
class RecompileRequest:
    """Compile a plan's launches from the text alone, as recorded: for the numbers' divisibility, or without it."""

    plan: LaunchPlan
    is_specialised: bool = True


@frozen(kw_only=True)
class Recompiled:
    """A plan's kernels, launch by launch, as compiled from the source's text alone, or the failure.

    At `Depth.CODE` `gpu_ir` has what `Kernel.binary` is at lesser depths: the hash of the GPU IR that code is made of.
    """

    kernels: tuple[Kernel, ...] = ()
    gpu_ir: tuple[str, ...] = ()
    failure: Failure | None = None


@frozen(kw_only=True)
class RecompileReply:
    """What came of each request, or the failure of the child as a whole; `blobs` by SHA-256, code alone.

    `compiled` is for later children of this kind, whatever their source.
    """

    made: tuple[Recompiled, ...] = ()
    blobs: dict[str, bytes] = field(factory=dict)
    compiled: tuple[bytes, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0


@frozen(kw_only=True)
class TraceReply:
    """Hash of a program's operation graph; empty where it has none."""

    graph: str = ""
    failure: Failure | None = None
    seconds: float = 0.0


Answer = tuple[dict[str, Any], list[bytes]]
"""A frame's header and blobs."""
Perform = Callable[[dict[str, Any], list[bytes], str], Answer]
"""What a child does: a request in, in a scratch folder, and the answer out."""

_HEAD = struct.Struct("<4sII")  # magic, length of the JSON text, number of blobs
_LENGTH = struct.Struct("<Q")
_MAGIC = b"trl1"
MAX_JSON_BYTES = 64 << 20
MAX_BLOBS = 4096
_FEW_BYTES = 1 << 20


class FrameError(ValueError):
    """The bytes are no frame, or a frame that is larger than agreed."""


def encode(header: dict[str, Any], blobs: Sequence[bytes | bytearray] = ()) -> bytes:
    """Return the frame's bytes."""
    return b"".join((_begin(header, blobs), *blobs))


def send(connection: socket.socket, header: dict[str, Any], blobs: Sequence[bytes | bytearray] = ()) -> None:
    """Send the frame, for which blobs that are large are not copied."""
    if sum(map(len, blobs)) < _FEW_BYTES:
        connection.sendall(encode(header, blobs))
        return
    connection.sendall(_begin(header, blobs))
    for blob in blobs:
        connection.sendall(blob)


def _begin(header: dict[str, Any], blobs: Sequence[bytes | bytearray]) -> bytes:
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    lengths = b"".join(_LENGTH.pack(len(blob)) for blob in blobs)
    return b"".join((_HEAD.pack(_MAGIC, len(text), len(blobs)), lengths, text))


def read(receive: Callable[[int], bytes | memoryview], max_bytes: int) -> Answer:
    """Read one frame through `receive(n)`, which returns at most n bytes and b"" at the end of the stream."""
    magic, text_length, num_blobs = _HEAD.unpack(_exactly(receive, _HEAD.size))
    if magic != _MAGIC or text_length > min(max_bytes, MAX_JSON_BYTES) or num_blobs > MAX_BLOBS:
        raise FrameError("not a frame")
    lengths = [length for (length,) in _LENGTH.iter_unpack(_exactly(receive, _LENGTH.size * num_blobs))]
    if text_length + sum(lengths) > max_bytes:
        raise FrameError("the frame is larger than agreed")
    try:
        header = json.loads(_exactly(receive, text_length), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise FrameError("the header is no object")
    return header, [_exactly(receive, length) for length in lengths]


def decode(data: bytes | memoryview) -> Answer:
    """Return the one frame that `data` is; anything after it is an error."""
    position = 0

    def receive(count: int) -> bytes | memoryview:
        nonlocal position
        piece = data[position : position + count]
        position += len(piece)
        return piece

    frame = read(receive, len(data))
    if position != len(data):
        raise FrameError("there is something after the frame")
    return frame


def _exactly(receive: Callable[[int], bytes | memoryview], count: int) -> bytes:
    pieces = []
    while count:
        piece = receive(min(count, 1 << 20))
        if not piece:
            raise FrameError("the stream ended inside a frame")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def read_request(plain: dict[str, Any]) -> RecordRequest:
    """Return one recording that is asked for, from plain values."""

    def read_inputs(items: Sequence[Any]) -> tuple[TensorSpec | InitArgument, ...]:
        return tuple(from_plain(item, TensorSpec) if isinstance(item, dict) else item for item in items)

    return RecordRequest(
        **{
            **plain,
            "profile": Profile(plain["profile"]),
            "inputs": read_inputs(plain["inputs"]),
            "neighbours": tuple(map(read_inputs, plain.get("neighbours", ()))),
            "choice": tuple(plain.get("choice", ())),
            "measured": None if plain.get("measured") is None else tuple(plain["measured"]),
        }
    )


_HELD = ("outputs", "written", "tainted")
"""Fields of a result that travel as numbers of blobs."""


def write_run_result(result: RunResult, blobs: list[bytes]) -> dict[str, Any]:
    """Return one run's result as plain values, its bytes appended to the blobs."""
    plain: dict[str, Any] = to_plain(evolve(result, outputs=(), written=(), tainted=()))
    for name in _HELD:
        first = len(blobs)
        blobs += getattr(result, name)
        plain[name] = list(range(first, len(blobs)))
    return plain


def read_run_result(plain: Any, blobs: list[bytes]) -> RunResult:
    """Return one run's result from a reply, structured strictly; raises ValueError and the like."""
    numbers = {name: list(plain.pop(name)) for name in _HELD}
    for indices in numbers.values():
        if not all(type(index) is int and 0 <= index < len(blobs) for index in indices):
            raise ValueError("not blob numbers")
    result = from_plain(plain | dict.fromkeys(numbers, ()), RunResult)
    held: dict[str, Any] = {name: tuple(blobs[index] for index in indices) for name, indices in numbers.items()}
    return evolve(result, **held)
