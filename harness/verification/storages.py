"""Values between the judge and a plan: raw bytes in, arrays out.

A plan comes from an untrusted process, so everything it claims about its buffers is checked against what the judge
knows before any value is handed over; a disagreement is the candidate's failure, never an exception.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from ...core.candidate import Failure
from ...core.outcome import Outcome
from ...core.plan import Buffer, BufferKind, LaunchPlan, View
from ...stages.roofline import ITEM_BYTES
from ..gpu.device.memory import bytes_of
from ..reference.expected_run import ExpectedRun
from ..reference.reference import count_stored, dtype_name, torch_dtype


def from_bytes(data: bytes, view: View) -> NDArray[np.generic] | None:
    """The contiguous array that a returned view's bytes hold, or None where their number does not fit."""
    if view.dtype not in ITEM_BYTES or len(data) != math.prod(view.shape) * ITEM_BYTES[view.dtype]:
        return None
    if view.dtype == "bfloat16":
        widened = np.frombuffer(data, dtype=np.uint16).astype(np.uint32) << 16
        return widened.view(np.float32).reshape(view.shape)
    return np.frombuffer(data, dtype=np.dtype(view.dtype)).reshape(view.shape)


def read_bits(bits: bytes, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """One bit for each element as booleans of this shape, or None where there are not so many."""
    size = math.prod(shape)
    if len(bits) != -(-size // 8):
        return None
    return np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=size).astype(bool).reshape(shape)


def read_writers(data: bytes, shape: tuple[int, ...]) -> NDArray[np.int32] | None:
    """The program that wrote each element as numbers of this shape, or None where there are not so many."""
    return np.frombuffer(data, np.int32).reshape(shape) if len(data) == 4 * math.prod(shape) else None


def fill_storages(
    plan: LaunchPlan, expected: ExpectedRun, get_blob: Callable[[str], bytes | None]
) -> dict[int, bytes] | Failure:
    """Initial bytes of every buffer that is not a temporary, by index, or why the plan's claims do not hold."""
    values = find_values(plan, expected, get_blob)
    if isinstance(values, Failure):
        return values
    return {index: value if isinstance(value, bytes) else bytes_of(value) for index, value in values.items()}


def find_values(
    plan: LaunchPlan,
    expected: ExpectedRun,
    get_blob: Callable[[str], bytes | None],
    leave_out: BufferKind = BufferKind.TEMPORARY,
) -> dict[int, torch.Tensor | bytes] | Failure:
    """Initial values of every buffer that is not a temporary, flat and where they lie, or why the claims do not hold.

    Those of one kind more may be left to who fills them.
    """
    found: dict[int, torch.Tensor | bytes] = {}
    for index, buffer in enumerate(plan.buffers):
        if buffer.kind in (BufferKind.TEMPORARY, leave_out):
            continue
        value = _find_value(buffer, expected, get_blob)
        num_bytes = -1 if value is None else len(value) if isinstance(value, bytes) else value.nbytes
        if value is None or num_bytes != buffer.num_elements * ITEM_BYTES.get(buffer.dtype, 0):
            return Failure(Outcome.BROKEN_PROTOCOL, f"no values fit {buffer.kind} {buffer.name!r} of the plan")
        found[index] = value
    return found


def _find_value(
    buffer: Buffer, expected: ExpectedRun, get_blob: Callable[[str], bytes | None]
) -> torch.Tensor | bytes | None:
    if buffer.kind is BufferKind.INPUT:
        position = int(buffer.name) if buffer.name.isascii() and buffer.name.isdigit() else -1
        tensor = expected.inputs[position] if 0 <= position < len(expected.inputs) else None
        if tensor is None or dtype_name(tensor) != buffer.dtype:
            return None
        return tensor.as_strided((count_stored(tensor),), (1,), 0)  # with what lies around it in its storage
    if buffer.kind is BufferKind.PARAMETER:
        parameter = expected.parameters.get(buffer.name)
        if parameter is not None and parameter.numel() == buffer.num_elements:
            return parameter.to(torch_dtype(buffer.dtype)).reshape(-1) if buffer.dtype in ITEM_BYTES else None
    return get_blob(buffer.blob) if buffer.blob is not None else None
