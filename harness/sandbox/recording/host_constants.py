"""Tensors that host code makes of numbers: as constants of a plan, their values beside it.

`torch.tensor` and `torch.arange` in a forward compute nothing from any input, and a kernel may need what they give (a
table of positions, a coefficient). What one pass made and kept is known again in the next, also at other sizes.
"""

from __future__ import annotations

import ctypes
import hashlib

import torch

MAX_ELEMENTS = 1 << 16
MAKERS = frozenset({"arange", "lift_fresh", "scalar_tensor"})
"""ATen's names of what makes them; `torch.tensor` and `torch.as_tensor` end in `lift_fresh`."""


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of the tensor's whole storage span, in the order that its strides give."""
    flat = torch.zeros(1, dtype=tensor.dtype).new_empty_strided(tensor.shape, tensor.stride())
    flat.copy_(tensor.detach())
    storage = flat.untyped_storage()
    return ctypes.string_at(storage.data_ptr(), storage.nbytes()) if storage.nbytes() else b""


class HostConstants:
    """Collects the constants that the passes of a candidate made; `blobs` takes their values by SHA-256."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        self._blobs = blobs
        self._sha256_of: dict[int, str] = {}
        self._kept: list[torch.UntypedStorage] = []  # so that an identity is never used twice

    def keep(self, values: torch.Tensor, stand_in: torch.Tensor) -> None:
        """Let a tensor without values stand for a contiguous one that has some."""
        data = raw_bytes(values)
        sha256 = hashlib.sha256(data).hexdigest()
        self._blobs[sha256] = data
        self._note(stand_in, sha256)

    def share(self, tensor: torch.Tensor, moved: torch.Tensor) -> str | None:
        """Let a copy on another device stand for the same values; None where the tensor is no whole constant."""
        sha256 = self.find(tensor)
        is_whole = tensor.is_contiguous() and tensor.nbytes == tensor.untyped_storage().nbytes()
        if sha256 is None or not is_whole or tensor.dtype != moved.dtype:
            return None
        self._note(moved, sha256)
        return sha256

    def _note(self, stand_in: torch.Tensor, sha256: str) -> None:
        storage = stand_in.untyped_storage()
        self._kept.append(storage)
        self._sha256_of[storage._cdata] = sha256

    def find(self, tensor: torch.Tensor) -> str | None:
        """Return the SHA-256 of the values that a tensor's storage stands for, or None."""
        return self._sha256_of.get(tensor.untyped_storage()._cdata)
