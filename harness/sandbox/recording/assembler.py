"""Leave out what makes code fast, and `ptxas`, where nobody will load the code: together half of compiling.

The interpreter's judge wants to know whether a kernel compiles, and Triton and LLVM still say so; only LLVM's optimiser
is left out, which refuses nothing. The PTX takes the place of the loadable code, and its hash that of the code's. All
is done where `ptxas` is the first to read what the candidate wrote (inline assembly, options of its own), and where
somebody asks for registers. What remains unknown is an error of `ptxas` in PTX that LLVM wrote, and how long it takes.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from triton.backends.nvidia import compiler

from .target import find_registers

_ASM_OPERATION = "tt.elementwise_inline_asm"
_WITHOUT_OPTIMISER = "DISABLE_LLVM_OPT"
_KEPT = "device_caches"
"""What a kernel keeps of its compilations."""


class Assembler:
    """Stands before Triton's, and says how far code is compiled."""

    def __init__(self) -> None:
        self._is_left_out = False
        self._checked: set[str] = set()

    def install(self) -> None:
        """Interpose for the rest of this process."""
        assembler, assemble = self, compiler.CUDABackend.make_cubin

        def make_cubin(backend: Any, src: str, metadata: Any, opt: Any, capability: Any) -> bytes:
            if assembler._is_left_out:
                return src.encode()
            code: bytes = assemble(backend, src, metadata, opt, capability)
            return code

        compiler.CUDABackend.make_cubin = make_cubin

    def begin(self, is_left_out: bool) -> None:
        """Leave both out from now on, or do it all."""
        self._is_left_out = is_left_out
        os.environ.pop(_WITHOUT_OPTIMISER, None)
        if is_left_out:
            os.environ[_WITHOUT_OPTIMISER] = "1"

    def check(self, kernel: Any, made: Any, make: Callable[[], Any]) -> None:
        """Do it all where only `ptxas` may object to what was made so far; raises its error."""
        is_own = getattr(made.metadata, "ptx_options", None) or _ASM_OPERATION in made.asm["ttir"]
        if self._is_left_out and is_own and made.hash not in self._checked:
            with self._fully(kernel):
                make()
            self._checked.add(made.hash)

    def find_registers(self, kernel: Any, make: Callable[[], Any], binary: str) -> int:
        """Return how many registers a thread takes of what `make` compiles, which is loadable then."""
        with self._fully(kernel):
            return find_registers(make().asm[binary])

    @contextmanager
    def _fully(self, kernel: Any) -> Iterator[None]:
        if not self._is_left_out:
            yield
            return
        kept = kernel.__dict__[_KEPT]
        kernel.__dict__[_KEPT] = defaultdict(kernel.create_binder)
        self.begin(False)
        try:
            yield
        finally:
            self.begin(True)
            kernel.__dict__[_KEPT] = kept
