"""What earlier children have made of a kernel's GPU IR, so that the next one need not have it made once more.

From the GPU IR on, LLVM and `ptxas` take five sixths of a compilation, and what they make is a function of that text,
the options and the environment. Answers to one task differ in their words and their host code, and often come to the
same IR. Only children that run no host code write or read this (`recompile`): what another one says of its code is a
candidate's word. Places in the source are no part of the IR that is compared, and an assertion has its own in its code,
so a kernel with one is not known again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from ..wire import decode, encode

_OF_THE_TEXT = "hash"
"""Triton's name for the source, which no later stage reads."""
_HAS_PLACES = "tt.assert"


class KnownCode:
    """Finds code by the GPU IR that it is made of, with what its making adds to Triton's metadata."""

    def __init__(self) -> None:
        self._is_used = False
        self._known: dict[str, bytes] = {}
        self._new: dict[str, bytes] = {}
        self._making: tuple[str, dict[str, Any]] | None = None

    def begin(self, frames: Sequence[bytes]) -> None:
        """Use what earlier children have made, from now on in this process; before, nothing is used or kept."""
        self._is_used = True
        self._known = {str(decode(frame)[0]["key"]): bytes(frame) for frame in frames}

    def find(self, text: str, metadata: dict[str, Any]) -> bytes | None:
        """Return the code of GPU IR without places and complete its metadata; None where it has to be made."""
        self._making = None
        if not self._is_used or _HAS_PLACES in text:
            return None
        options = {name: value for name, value in metadata.items() if name != _OF_THE_TEXT}
        described = json.dumps(options, default=vars, sort_keys=True)
        key = hashlib.sha256(f"{described}\n{text}".encode()).hexdigest()
        frame = self._known.get(key) or self._new.get(key)
        if frame is None:
            self._making = key, dict(metadata)
            return None
        header, (code,) = decode(frame)
        metadata.update(header["found"])
        return code

    def keep(self, metadata: dict[str, Any], code: bytes) -> None:
        """Keep what was made of the module that was last looked for."""
        if self._making is not None:
            key, before = self._making
            found = {name: value for name, value in metadata.items() if name not in before or before[name] != value}
            self._new[key] = encode({"key": key, "found": found}, [code])

    def new(self) -> list[bytes]:
        """Return what has been made here."""
        return list(self._new.values())
